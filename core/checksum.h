/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
 *
 * Sums are taken over words as they stand in memory; one's-complement addition
 * does not care about byte order, so the folded result is stored as it is.
 */
#ifndef TG_CHECKSUM_H
#define TG_CHECKSUM_H

#include "base.h"

/* Folds a sum of 16-bit or 32-bit words to 16 bits, not complemented. */
TG_INLINE uint16_t tg_csum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffffU) + (sum >> 32);
	sum = (sum & 0xffffU) + (sum >> 16);
	sum = (sum & 0xffffU) + (sum >> 16);
	sum = (sum & 0xffffU) + (sum >> 16);
	return (uint16_t)sum;
}

/* The same of at most 65,535 words, as every packet has. Their sum is below 2^48: at most 2^32 +
 * 65,533 after the first step and 0x1fffe after the second, so that the third leaves no carry. */
TG_INLINE uint16_t tg_csum_fold_words(uint64_t sum)
{
	sum = (sum & 0xffffffffU) + (sum >> 32);
	sum = (sum & 0xffffU) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

/* The checksum field for a header whose other words add up to `sum`. */
TG_INLINE uint16_t tg_csum_finish(uint64_t sum)
{
	return (uint16_t)~tg_csum_fold(sum);
}

TG_INLINE uint16_t tg_csum_finish_words(uint64_t sum)
{
	return (uint16_t)~tg_csum_fold_words(sum);
}

/* Sum of `len` bytes in memory order; an odd last byte counts as if followed
 * by zero. For tests and slow paths. */
TG_INLINE uint64_t tg_csum_add(uint64_t sum, const uint8_t *data, size_t len)
{
	size_t i;

	for (i = 0; i + 2 <= len; i += 2)
		sum += tg_load16(data + i);
	if (i < len)
		sum += data[i];
	return sum;
}

/* RFC 1624 equation 3, HC' = ~(~HC + ~m + m'): the new checksum field when a
 * covered 16-bit word changes from `from` to `to`. Equation 2 is wrong for the
 * residue 0xffff; this one is right for all 65,536. */
TG_INLINE uint16_t tg_csum_update16(uint16_t field, uint16_t from, uint16_t to)
{
	return tg_csum_finish((uint64_t)(uint16_t)~field + (uint16_t)~from + to);
}

/* The same for a covered 32-bit word. */
TG_INLINE uint16_t tg_csum_update32(uint16_t field, uint32_t from, uint32_t to)
{
	return tg_csum_finish((uint64_t)(uint16_t)~field + (uint32_t)~from + to);
}

#endif
