/* SPDX-License-Identifier: Apache-2.0
 *
 * What wide.h is made of, in AVX-512: a register has a number of each of eight frames, or 64 bytes of one.
 * wide_avx2.h has the same for four frames.
 */
#ifndef TG_DPDK_WIDE_AVX512_H
#define TG_DPDK_WIDE_AVX512_H

#include "siphash_avx512.h"

#define TG_WIDE 8 /* frames */

/* ---- a number of each frame ---- */

typedef __m512i tg_wide;
typedef tg_u64x8 tg_wide_words; /* the same, for the operators of C and core's formulas */
typedef __mmask8 tg_wide_lanes; /* a bit for each frame */
#define TG_WIDE_LANES ((tg_wide_lanes)0xff)

#define TG_WIDE_ALL(x) _mm512_set1_epi64((long long)(x))
#define tg_wide_and(a, b) _mm512_and_si512(a, b)
#define tg_wide_or(a, b) _mm512_or_si512(a, b)
#define tg_wide_andnot(a, b) _mm512_andnot_si512(a, b) /* ~a & b */
#define tg_wide_or_andnot(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0xf2) /* a | ~b & c */
#define tg_wide_add(a, b) _mm512_add_epi64(a, b)
#define tg_wide_sub(a, b) _mm512_sub_epi64(a, b)
#define tg_wide_shl(a, n) _mm512_slli_epi64(a, n)
#define tg_wide_shr(a, n) _mm512_srli_epi64(a, n)
#define tg_wide_load(from) _mm512_load_si512(from) /* aligned */
#define tg_wide_store(to, x) _mm512_store_si512(to, x)
#define tg_wide_loadu(from) _mm512_loadu_si512(from)
#define tg_wide_storeu(to, x) _mm512_storeu_si512(to, x)

/* The lanes in which two numbers are equal; the first is less; they have a bit in common. */
#define tg_wide_equal(a, b) _mm512_cmpeq_epi64_mask(a, b)
#define tg_wide_less(a, b) _mm512_cmplt_epu64_mask(a, b)
#define tg_wide_test(a, b) _mm512_test_epi64_mask(a, b)

/* The lesser; both below 2^63. */
#define tg_wide_min(a, b) _mm512_min_epu64(a, b)

/* The low halves of `low`, the high ones of `high`. */
#define tg_wide_blend(low, high) _mm512_mask_blend_epi32(0xaaaa, low, high)

/* tg_swap32 of both halves of each lane. */
TG_INLINE tg_wide tg_wide_swap32(tg_wide x)
{
	return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(_mm_set_epi8(
					      12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)));
}

/* tg_swap32 of each lane's high half, in the low one. */
TG_INLINE tg_wide tg_wide_swap32_high(tg_wide x)
{
	return _mm512_shuffle_epi8(
		x, _mm512_broadcast_i32x4(_mm_set_epi8(-1, -1, -1, -1, 12, 13, 14, 15, -1, -1, -1,
						       -1, 4, 5, 6, 7)));
}

/* Of a lane that has a client's port, another, and its address, what an answer to it has of that: address, 16 bits of
 * zero, port. */
TG_INLINE tg_wide tg_wide_client_to(tg_wide x)
{
	return _mm512_shuffle_epi8(x,
				   _mm512_broadcast_i32x4(_mm_set_epi8(9, 8, -1, -1, 15, 14, 13, 12,
								       1, 0, -1, -1, 7, 6, 5, 4)));
}

/* Of each lane the second number where `lanes` says so, else the first. */
#define tg_wide_choose(lanes, a, b) _mm512_mask_blend_epi64(lanes, a, b)

/* Of each bit the first number's where the mask has a one, else the second's. */
#define tg_wide_select(mask, a, b) _mm512_ternarylogic_epi64(mask, a, b, 0xca)

/* Of both halves of each lane. */
#define tg_wide_add32(a, b) _mm512_add_epi32(a, b)
#define tg_wide_sub32(a, b) _mm512_sub_epi32(a, b)
#define tg_wide_shr32(a, n) _mm512_srli_epi32(a, n)
#define tg_wide_swap_shorts(x) _mm512_rol_epi32(x, 16) /* the 16 bits' places */

#define tg_wide_swap_halves(x) _mm512_rol_epi64(x, 32)
#define tg_wide_shlv(x, n) _mm512_sllv_epi64(x, n)
#define tg_wide_bit_of(n) _mm512_rolv_epi64(TG_WIDE_ALL(1), n) /* 1 << n % 64 */
#define tg_wide_shrv(x, n) _mm512_srlv_epi64(x, n)

/* The highest byte, with its sign; a number with a sign, or 0 if it is negative. */
#define tg_wide_top_byte(x) _mm512_srai_epi64(x, 56)
#define tg_wide_positive(x) _mm512_max_epi64(x, _mm512_setzero_si512())

/* True if the first byte of a lane is 0, 127, or at least 224, or its halves are equal. */
TG_INLINE bool tg_wide_any_addr_odd(tg_wide x)
{
	const __mmask64 first = 0x0101010101010101;
	tg_wide less = _mm512_sub_epi8(x, _mm512_set1_epi8(1));
	bool odd = ((_mm512_cmpgt_epu8_mask(less, _mm512_set1_epi8((char)222)) |
		     _mm512_cmpeq_epi8_mask(less, _mm512_set1_epi8(126))) &
		    first) != 0;

	return odd | tg_wide_equal(x, tg_wide_swap_halves(x));
}

/* True if all sums, none of which is 0, are multiples of 2^16 - 1, as those of words with their right checksum are: the
 * product with its inverse modulo 2^64 is not above the largest quotient. */
TG_INLINE bool tg_wide_csums_are_right(tg_wide a, tg_wide b)
{
	const tg_wide inverse = TG_WIDE_ALL(0xfffefffefffeffff), most = TG_WIDE_ALL(0x1000100010001);

	return (tg_wide_less(most, _mm512_mullo_epi64(a, inverse)) |
		tg_wide_less(most, _mm512_mullo_epi64(b, inverse))) == 0;
}

/* The words that stand at these places. */
TG_INLINE tg_wide tg_wide_gather(const uint64_t *from, tg_wide place)
{
	return _mm512_i64gather_epi64(place, from, 8);
}

/* The word of eight that each place, modulo eight, says. */
TG_INLINE tg_wide tg_wide_pick(const uint64_t from[8], tg_wide place)
{
	return _mm512_permutexvar_epi64(place, _mm512_loadu_si512(from));
}

/* The first lane; all lanes from an array. */
#define tg_wide_first(x) ((uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(x)))
#define tg_wide_set(v)                                                                             \
	_mm512_setr_epi64((long long)(v)[0], (long long)(v)[1], (long long)(v)[2],                 \
			  (long long)(v)[3], (long long)(v)[4], (long long)(v)[5],                 \
			  (long long)(v)[6], (long long)(v)[7])

/* Two pairs of columns taken together: 32 bytes of each row, in tg_wide_row32. */
struct tg_wide_fours {
	tg_wide even[2], odd[2];
};

TG_INLINE struct tg_wide_fours tg_wide_fours_of(const tg_wide even[2], const tg_wide odd[2])
{
	const tg_wide low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
	const tg_wide high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);

	return (struct tg_wide_fours){{_mm512_permutex2var_epi64(even[0], low, even[1]),
				       _mm512_permutex2var_epi64(even[0], high, even[1])},
				      {_mm512_permutex2var_epi64(odd[0], low, odd[1]),
				       _mm512_permutex2var_epi64(odd[0], high, odd[1])}};
}

/* Sixteen bytes of a pair of columns; 32 of two. `row` is known at compile time. */
TG_INLINE __m128i tg_wide_row16(tg_wide even, tg_wide odd, const uint32_t row)
{
	tg_wide x = row % 2 ? odd : even;

	switch (row / 2) {
	case 0:
		return _mm512_castsi512_si128(x);
	case 1:
		return _mm512_extracti64x2_epi64(x, 1);
	case 2:
		return _mm512_extracti64x2_epi64(x, 2);
	default:
		return _mm512_extracti64x2_epi64(x, 3);
	}
}

TG_INLINE __m256i tg_wide_row32(const struct tg_wide_fours *f, const uint32_t row)
{
	tg_wide x = (row % 2 ? f->odd : f->even)[row / 4];

	return row & 2 ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x);
}

/* Columns taken together in pairs: 16 bytes of each even row, and of each odd one. */
TG_INLINE void tg_wide_pair(const tg_wide *columns, uint32_t n, tg_wide *even, tg_wide *odd)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		even[i] = _mm512_unpacklo_epi64(columns[2 * i], columns[2 * i + 1]);
		odd[i] = _mm512_unpackhi_epi64(columns[2 * i], columns[2 * i + 1]);
	}
}

/* ---- 64 bytes of a frame ---- */

typedef __m512i tg_wide_row;

#define tg_wide_row_load(from) _mm512_loadu_si512(from)
#define tg_wide_row_none() _mm512_setzero_si512()

/* A register of words in this order. */
TG_INLINE tg_wide_row tg_wide_row_of(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
				     uint64_t f, uint64_t g, uint64_t h)
{
	return _mm512_setr_epi64((long long)a, (long long)b, (long long)c, (long long)d,
				 (long long)e, (long long)f, (long long)g, (long long)h);
}

/* Rows: the first, and the bits in which another differs from it. */
struct tg_wide_rows {
	__m512i first, differ;
};

TG_INLINE struct tg_wide_rows tg_wide_rows_of(tg_wide_row first)
{
	return (struct tg_wide_rows){first, _mm512_setzero_si512()};
}

TG_INLINE void tg_wide_rows_add(struct tg_wide_rows *r, tg_wide_row row)
{
	r->differ = _mm512_ternarylogic_epi64(r->differ, row, r->first, 0xf6);
}

/* True if all equal `want` where `mask` has ones, and each other where `same` has. */
TG_INLINE bool tg_wide_are(const struct tg_wide_rows *r, tg_wide_row want, tg_wide_row mask,
			   tg_wide_row same)
{
	__m512i odd = _mm512_ternarylogic_epi64(r->first, want, mask, 0x28);

	odd = _mm512_ternarylogic_epi64(odd, r->differ, _mm512_or_si512(mask, same), 0xf8);
	return !_mm512_test_epi64_mask(odd, odd);
}

/* True if one has a bit of `mask`; if all have all of them; if not all are equal there. */
#define tg_wide_rows_any(r, mask)                                                                  \
	(_mm512_test_epi64_mask(_mm512_or_si512((r)->first, (r)->differ), mask) != 0)
#define tg_wide_rows_all(r, mask)                                                                  \
	(_mm512_cmpeq_epi64_mask(                                                                  \
		 _mm512_and_si512(_mm512_andnot_si512((r)->differ, (r)->first), mask), mask) == 0xff)
#define tg_wide_rows_differ(r, mask) (_mm512_test_epi64_mask((r)->differ, mask) != 0)

/* What is read of the frames: columns in pairs of rows. */
struct tg_wide_columns {
	__m512i even[TG_WIDE / 2], odd[TG_WIDE / 2];
};

TG_INLINE struct tg_wide_columns tg_wide_turn(const tg_wide_row row[TG_WIDE])
{
	struct tg_wide_columns c;

	tg_wide_pair(row, TG_WIDE / 2, c.even, c.odd);
	return c;
}

/* Two columns of eight rows: 2 and 6 of `even`, 3 and 7 of `odd` if `high`, else 0 and 4, 1 and 5. */
TG_INLINE void tg_wide_columns(const __m512i pairs[4], const bool high, tg_wide *first,
			       tg_wide *second)
{
	__m512i a = high ? _mm512_shuffle_i64x2(pairs[0], pairs[1], 0xdd)
			 : _mm512_shuffle_i64x2(pairs[0], pairs[1], 0x88);
	__m512i b = high ? _mm512_shuffle_i64x2(pairs[2], pairs[3], 0xdd)
			 : _mm512_shuffle_i64x2(pairs[2], pairs[3], 0x88);

	*first = _mm512_shuffle_i64x2(a, b, 0x88);
	*second = _mm512_shuffle_i64x2(a, b, 0xdd);
}

#endif
