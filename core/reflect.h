/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * An answer to a forged SYN goes to an uninvolved host. So each source prefix, a /24 or a /48, has
 * an allowance of answers. The table has a fixed size: prefixes that share a place share it.
 *
 * Must never: let an attacker choose which prefixes share a place; the hash is keyed.
 */
#ifndef TG_REFLECT_H
#define TG_REFLECT_H

#include "allowance.h"
#include "packet.h"

#define TG_REFLECT_PLACES 8192U

/* The first 24 or 48 bits of an address, as they stand in the packet. */
TG_INLINE uint64_t tg_reflect_prefix(uint8_t family, const union tg_addr *src)
{
	return family == 4 ? src->w[0] & 0xffffffU : src->d[0] & 0xffffffffffffULL;
}

TG_INLINE uint32_t tg_reflect_at(uint64_t prefix, uint64_t key)
{
	uint64_t h = (prefix ^ key) * 0x9e3779b97f4a7c15ULL;

	h = (h ^ h >> 32 ^ key << 1) * 0xff51afd7ed558ccdULL;
	return (uint32_t)(h >> 51);
}
_Static_assert(TG_REFLECT_PLACES == 1U << (64 - 51), "tg_reflect_at");

#endif
