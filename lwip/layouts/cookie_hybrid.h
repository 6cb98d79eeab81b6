/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The `hybrid` cookie layout (Echevarria et al., equations 16-22): Linux' arithmetic,
 * FreeBSD's hash, seconds in place of minutes.
 *
 *    31                    18 17                    0
 *   +------------------------+-----------------------+
 *   | seconds mod 2^14       | (H2 + MSS) mod 2^18   |  + H1 + client ISN
 *   +------------------------+-----------------------+
 *
 * The counter comes round after 16,384 s (4 h 33 min). A cookie lives for one
 * to two seconds with the paper's maximal age of 2. Restored: the MSS (2 bits).
 */
#ifndef TG_COOKIE_HYBRID_H
#define TG_COOKIE_HYBRID_H

#include "cookie_counter.h"

#define TG_HYBRID_LOW_BITS 18
#define TG_HYBRID_COUNT_BITS 14
#define TG_HYBRID_PERIOD_S 1
_Static_assert(TG_HYBRID_COUNT_BITS + TG_HYBRID_LOW_BITS == 32, "ISN");

/* The cookie for a SYN, `count` seconds after some fixed instant. */
TG_INLINE uint32_t tg_hybrid_make(const struct tg_packet *syn, uint32_t mss_index, uint32_t count,
				  const struct tg_key_pair *keys)
{
	return tg_counter_make(tg_tuple_siphash(syn, &keys->k[0]),
			       tg_tuple_siphash_u32(syn, count, &keys->k[1]), syn->seq, count,
			       mss_index, TG_HYBRID_LOW_BITS);
}

/* True if the ACK returns a cookie younger than `max_age` counts. */
TG_INLINE bool tg_hybrid_verify(const struct tg_packet *ack, uint32_t count, uint32_t max_age,
				const struct tg_key_pair *keys, struct tg_agreed *agreed)
{
	struct tg_counter_claim claim = tg_counter_claimed(ack->ack - 1,
							   tg_tuple_siphash(ack, &keys->k[0]),
							   ack->seq - 1, count, TG_HYBRID_LOW_BITS);
	uint32_t mss_index;

	if (claim.age >= max_age)
		return false;
	mss_index = tg_counter_mss_claimed(
		claim, tg_tuple_siphash_u32(ack, count - claim.age, &keys->k[1]), TG_HYBRID_LOW_BITS);
	if (mss_index >= TG_COUNTER_MSS_COUNT)
		return false;
	*agreed = tg_counter_agreed(ack->family, mss_index);
	return true;
}

#endif
