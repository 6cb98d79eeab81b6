/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of several frames at once (RFC 1071), a frame in each lane: summing columns, finishing sums, checking them, and
 * what the network card has said of them.
 */
#ifndef TG_DPDK_WIDE_CHECKSUM_H
#define TG_DPDK_WIDE_CHECKSUM_H

#include "intact.h"
#include "wide.h"

#if TG_HAS_WIDE
/* Sums of the halves of columns: all words as they are, and what stands above the low halves once more. */
struct tg_wide_halves_sum {
	tg_wide words, high;
};

TG_INLINE struct tg_wide_halves_sum tg_wide_sum_of(tg_wide column)
{
	return (struct tg_wide_halves_sum){column, tg_wide_shr(column, 32)};
}

/* Adds a column. Of less than 2^32 of them the sum of the low halves fits in a word. */
TG_INLINE struct tg_wide_halves_sum tg_wide_sum_in(struct tg_wide_halves_sum s, tg_wide column)
{
	s.words = tg_wide_add(s.words, column);
	s.high = tg_wide_add(s.high, tg_wide_shr(column, 32));
	return s;
}

/* Adds numbers that have no high halves. */
TG_INLINE struct tg_wide_halves_sum tg_wide_sum_low(struct tg_wide_halves_sum s, tg_wide low)
{
	s.words = tg_wide_add(s.words, low);
	return s;
}

/* The sum of all halves: `words` modulo 2^64 less the high halves in their place is the sum of the low ones. */
TG_INLINE tg_wide tg_wide_sum_end(struct tg_wide_halves_sum s)
{
	return tg_wide_add(tg_wide_sub(s.words, tg_wide_shl(s.high, 32)), s.high);
}

enum tg_wide_sums {
	TG_WIDE_SUMS_OPEN, /* compute them */
	TG_WIDE_SUMS_GOOD,
	TG_WIDE_SUMS_BAD, /* some are; or it does not say the same of all */
};

/* What the NIC says of the frames' checksums; `first` is one of them, and all are of one family. */
TG_INLINE enum tg_wide_sums tg_wide_nic_says(const struct tg_wide_frames *f,
					     const struct rte_mbuf *first, bool v6)
{
	const uint64_t says = first->ol_flags & TG_NIC_SAYS;

	if (TG_UNLIKELY(tg_wide_rows_differ(&f->mbufs,
					    tg_wide_row_of(0, 0, 0, TG_NIC_SAYS, 0, 0, 0, 0))))
		return TG_WIDE_SUMS_BAD;
	return tg_nic_says_good(says, v6) ? TG_WIDE_SUMS_GOOD
	       : says & TG_NIC_SAYS_BAD   ? TG_WIDE_SUMS_BAD
					  : TG_WIDE_SUMS_OPEN;
}

/* tg_csum_fold, of sums below 2^48; then complemented. */
TG_INLINE tg_wide tg_wide_csum_finish(tg_wide sum)
{
	const tg_wide ffff = TG_WIDE_ALL(0xffff);

	sum = tg_wide_add(tg_wide_and(sum, TG_WIDE_LOW), tg_wide_shr(sum, 32));
	sum = tg_wide_add(tg_wide_and(sum, ffff), tg_wide_shr(sum, 16));
	sum = tg_wide_add(tg_wide_and(sum, ffff), tg_wide_shr(sum, 16));
	sum = tg_wide_add(tg_wide_and(sum, ffff), tg_wide_shr(sum, 16));
	return tg_wide_andnot(sum, ffff);
}

/* Two sums, folded to 16 bits, but not complemented: `low`'s stands in the upper 16 bits of each lane's low half, `high`'s
 * in those of the high one. What is below them is arbitrary. A sum and itself with its halves swapped, added, have the
 * folded sum in their upper half, with its carry. */
TG_INLINE tg_wide tg_wide_csums_fold16(tg_wide low, tg_wide high)
{
	tg_wide sums;

	low = tg_wide_add(low, tg_wide_swap_halves(low));
	high = tg_wide_add(high, tg_wide_swap_halves(high));
	sums = tg_wide_blend(tg_wide_shr(low, 32), high);
	return tg_wide_add32(sums, tg_wide_swap_shorts(sums));
}

#if TG_WIDE == 4 /* AVX2 does not multiply numbers of 64 bits */
/* Two sums of words of 32 bits, below 2^48, in the halves of each lane, folded to less than 2^18: `low`, and `high`. */
TG_INLINE tg_wide tg_wide_csums_fold(tg_wide low, tg_wide high)
{
	const tg_wide shorts = TG_WIDE_ALL(0x0000ffff0000ffff);

	low = tg_wide_add(tg_wide_and(low, shorts), tg_wide_and(tg_wide_shr(low, 16), shorts));
	high = tg_wide_add(tg_wide_and(high, shorts), tg_wide_and(tg_wide_shr(high, 16), shorts));
	return tg_wide_add(tg_wide_blend(low, tg_wide_shl(high, 32)),
			   tg_wide_blend(tg_wide_shr(low, 32), high));
}

/* True if both sums of all lanes, none of which is 0, are those of words with their right checksum. */
TG_INLINE bool tg_wide_csums_are_right(tg_wide low, tg_wide high)
{
	const tg_wide shorts = TG_WIDE_ALL(0x0000ffff0000ffff);
	tg_wide sums = tg_wide_csums_fold(low, high);

	/* Below 2^18: folded once, it is a multiple of 2^16 - 1 only if it is that. */
	sums = tg_wide_add(tg_wide_and(sums, shorts), tg_wide_shr32(sums, 16));
	return tg_wide_are_equal32(sums, shorts);
}
#endif
#endif

#endif
