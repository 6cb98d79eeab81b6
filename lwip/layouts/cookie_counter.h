/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The arithmetic that the `linux` and `hybrid` layouts share (Echevarria et al.,
 * equations 1-7 and 16-22); they differ in L, the width of the low field, in
 * what the counter counts, and in the hash:
 *
 *    31               L  L-1                  0
 *   +------------------+----------------------+
 *   |   count mod 2^   |   (H2 + MSS) mod 2^L |   + H1 + client ISN (mod 2^32)
 *   |     (32 - L)     |                      |
 *   +------------------+----------------------+
 *
 *   H1 = hash(K1, addresses, ports)       H2 = hash(K2, count, addresses, ports)
 *
 * A cookie is good if its count is one of the last `max_age` and its low field,
 * less H2, is one of the four MSS indices: of 2^32 numbers, 4 * max_age are.
 */
#ifndef TG_COOKIE_COUNTER_H
#define TG_COOKIE_COUNTER_H

#include "cookie.h"
#include "cookie_tuple.h"

#define TG_COUNTER_MSS_COUNT 4
#define TG_COUNTER_MAX_AGE 2 /* the paper's MAX_SYNCOOKIE_AGE */

/* The client's MSS, rounded down to an entry of the table (or the smallest). */
TG_INLINE uint32_t tg_counter_mss_index(uint8_t family, uint16_t mss)
{
	if (family == 4)
		return (mss >= 1300) + (mss >= 1440) + (mss >= 1460);
	return (mss >= 1280) + (mss >= 1420) + (mss >= 1440);
}

TG_INLINE uint16_t tg_counter_mss_value(uint8_t family, uint32_t index)
{
	switch (index & 3) {
	case 0:
		return family == 4 ? 536 : 1220;
	case 1:
		return family == 4 ? 1300 : 1280;
	case 2:
		return family == 4 ? 1440 : 1420;
	default:
		return family == 4 ? 1460 : 1440;
	}
}

/* Equations 3 and 18. */
TG_INLINE uint32_t tg_counter_make(uint32_t h1, uint32_t h2, uint32_t client_isn, uint32_t count,
				   uint32_t mss_index, uint32_t low_bits)
{
	uint32_t low_mask = (1U << low_bits) - 1;

	return h1 + client_isn + (count << low_bits) + ((h2 + mss_index) & low_mask);
}

/* What remains of a cookie after subtracting H1 and the client's ISN, as
 * equations 6 and 21 do: the counter's bits and the low field. */
struct tg_counter_claim {
	uint32_t age; /* counts since it was made, mod 2^(32 - L) */
	uint32_t low;
};

TG_INLINE struct tg_counter_claim tg_counter_claimed(uint32_t isn, uint32_t h1, uint32_t client_isn,
						     uint32_t count, uint32_t low_bits)
{
	uint32_t rest = isn - h1 - client_isn;
	uint32_t count_mask = (1U << (32 - low_bits)) - 1;

	return (struct tg_counter_claim){
		.age = (count - (rest >> low_bits)) & count_mask,
		.low = rest & ((1U << low_bits) - 1),
	};
}

/* Equations 7 and 22: the MSS index, or a number above 3 if the cookie is not
 * ours. H2 is that of the count that the cookie claims. */
TG_INLINE uint32_t tg_counter_mss_claimed(struct tg_counter_claim claim, uint32_t h2,
					  uint32_t low_bits)
{
	return (claim.low - h2) & ((1U << low_bits) - 1);
}

/* The four-entry layouts restore the MSS, nothing else. */
TG_INLINE struct tg_agreed tg_counter_agreed(uint8_t family, uint32_t mss_index)
{
	return (struct tg_agreed){
		.mss = tg_counter_mss_value(family, mss_index),
		.wscale = TG_WSCALE_NONE,
	};
}

#endif
