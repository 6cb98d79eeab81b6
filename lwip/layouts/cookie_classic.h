/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The `classic` cookie layout (Me Love (SYN-)Cookies, section II.A):
 *
 *    31      27 26   24 23                                0
 *   +----------+-------+-----------------------------------+
 *   | time 5   | MSS 3 | SipHash 24                        |  ISN
 *   +----------+-------+-----------------------------------+
 *
 * The time counts 64 s and comes round after 2,048 s. The hash covers
 * addresses, ports and time; neither the MSS nor the client's ISN, as in the
 * paper. A cookie of the current or the previous count is good, so it lives for
 * 64 to 128 s. Restored: the MSS.
 */
#ifndef TG_COOKIE_CLASSIC_H
#define TG_COOKIE_CLASSIC_H

#include "cookie.h"
#include "cookie_tuple.h"

#define TG_CLASSIC_PERIOD_S 64
#define TG_CLASSIC_TIME_BITS 5
#define TG_CLASSIC_MSS_BITS 3
#define TG_CLASSIC_HASH_BITS 24
#define TG_CLASSIC_MAX_AGE 2
_Static_assert(TG_CLASSIC_TIME_BITS + TG_CLASSIC_MSS_BITS + TG_CLASSIC_HASH_BITS == 32, "ISN");

#define TG_CLASSIC_TIME_MASK ((1U << TG_CLASSIC_TIME_BITS) - 1)
#define TG_CLASSIC_HASH_MASK ((1U << TG_CLASSIC_HASH_BITS) - 1)

/* The cookie for a SYN; the MSS table is that of cookie.h. */
TG_INLINE uint32_t tg_classic_make(const struct tg_packet *syn, uint32_t mss_index, uint32_t count,
				   const struct tg_siphash_key *key)
{
	uint32_t hash = tg_tuple_siphash_u32(syn, count, key);

	return (count & TG_CLASSIC_TIME_MASK) << (TG_CLASSIC_MSS_BITS + TG_CLASSIC_HASH_BITS) |
	       (mss_index & 7) << TG_CLASSIC_HASH_BITS | (hash & TG_CLASSIC_HASH_MASK);
}

TG_INLINE bool tg_classic_verify(const struct tg_packet *ack, uint32_t count,
				 const struct tg_siphash_key *key, struct tg_agreed *agreed)
{
	uint32_t isn = ack->ack - 1;
	uint32_t age = (count - (isn >> (TG_CLASSIC_MSS_BITS + TG_CLASSIC_HASH_BITS))) &
		       TG_CLASSIC_TIME_MASK;
	uint32_t hash;

	if (age >= TG_CLASSIC_MAX_AGE)
		return false;
	hash = tg_tuple_siphash_u32(ack, count - age, key);
	if ((hash ^ isn) & TG_CLASSIC_HASH_MASK)
		return false;
	*agreed = (struct tg_agreed){
		.mss = tg_mss_value(ack->family, isn >> TG_CLASSIC_HASH_BITS),
		.wscale = TG_WSCALE_NONE,
	};
	return true;
}

#endif
