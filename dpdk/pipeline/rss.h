/* SPDX-License-Identifier: Apache-2.0
 *
 * The key by which NICs spread frames over cores (Toeplitz hash of both addresses).
 *
 * Both directions of a connection, and all connections between two addresses, are one core's. So the
 * hash of (a, b) has to be that of (b, a), and of a frame nothing counts but its addresses. A key
 * does that if it repeats every 16 bits; the hash is then a linear function of one number of 16 bits,
 * the exclusive or of all halves of both addresses, whatever the key: who chooses source addresses can
 * load one core, by a single one. docs/dpdk.md says what that costs. No key is more than a means of
 * dealing such numbers to queues; what it has to be is even, and not known before it is drawn.
 *
 * Must never: choose a key that leaves queues empty.
 */
#ifndef TG_DPDK_RSS_H
#define TG_DPDK_RSS_H

#include <stdbool.h>
#include <stdint.h>

#define TG_RSS_KEY_MAX 52
#define TG_RSS_INDEX_BITS 7 /* of the hash choose a queue: most tables have 128 entries, or more */

/* The pattern's hash of one bit of the number above, counted from the highest; both halves of
 * a hash are equal. */
static inline uint16_t tg_rss_image(uint16_t pattern, uint32_t bit)
{
	return (uint16_t)((uint32_t)pattern << bit | (uint32_t)pattern >> (16 - bit));
}

/* Rank, within `mask`, of the hashes of bits `from` to `to` - 1 of the number:
 * Gaussian elimination. */
static inline uint32_t tg_rss_rank(uint16_t pattern, uint32_t from, uint32_t to, uint16_t mask)
{
	uint16_t basis[16] = {0};
	uint32_t rank = 0, i, bit;

	for (i = from; i < to; i++) {
		uint16_t image = tg_rss_image(pattern, i) & mask;

		for (bit = 16; bit-- > 0 && image;) {
			if (!(image >> bit & 1))
				continue;
			if (!basis[bit]) {
				basis[bit] = image;
				rank++;
				break;
			}
			image ^= basis[bit];
		}
	}
	return rank;
}

/* True if 65,536 numbers have as many hashes, and each octet of an address alone spreads evenly
 * over a table of queues, and with it the clients of one /24. */
static inline bool tg_rss_is_even(uint16_t pattern)
{
	const uint16_t index = (1U << TG_RSS_INDEX_BITS) - 1;

	return tg_rss_rank(pattern, 0, 16, 0xffff) == 16 &&
	       tg_rss_rank(pattern, 0, 8, index) == TG_RSS_INDEX_BITS &&
	       tg_rss_rank(pattern, 8, 16, index) == TG_RSS_INDEX_BITS;
}

static inline void tg_rss_fill(uint8_t key[TG_RSS_KEY_MAX], uint16_t pattern)
{
	uint32_t i;

	for (i = 0; i < TG_RSS_KEY_MAX; i++)
		key[i] = (uint8_t)(i & 1 ? pattern : pattern >> 8);
}

#endif
