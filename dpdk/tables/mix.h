/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash of tables that only the configuration and verified clients fill: nobody gains by collisions there.
 */
#ifndef TG_DPDK_MIX_H
#define TG_DPDK_MIX_H

#include "../../core/packet.h"

/* An address and what stands beside it in a key. Its highest bits are the best. */
static inline uint64_t tg_addr_mix(const union tg_addr *a, uint64_t beside)
{
	uint64_t v = (a->d[0] ^ beside) * TG_MIX1;

	return (v ^ v >> 29 ^ a->d[1]) * TG_MIX2;
}

#endif
