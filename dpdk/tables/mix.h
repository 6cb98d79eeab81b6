/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash of tables that only the configuration and verified clients fill: nobody gains by collisions there.
 */
#ifndef TG_DPDK_MIX_H
#define TG_DPDK_MIX_H

#include "../../core/packet.h"

/* Mixes an address with the rest of its key. The highest bits of the result are the best. */
static inline uint64_t tg_addr_mix(const union tg_addr *a, uint64_t beside)
{
	uint64_t v = (a->d[0] ^ beside) * TG_MIX1;

	return (v ^ v >> 29 ^ a->d[1]) * TG_MIX2;
}

#endif
