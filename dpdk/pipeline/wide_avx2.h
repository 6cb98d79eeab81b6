/* SPDX-License-Identifier: Apache-2.0
 *
 * What wide.h is made of, in AVX2: a register has a number of each of four frames; 64 bytes of a frame are two
 * registers. wide_avx512.h has the same for eight frames, and says what each of these does.
 */
#ifndef TG_DPDK_WIDE_AVX2_H
#define TG_DPDK_WIDE_AVX2_H

#include "broadcast_avx2.h"
#include "siphash_avx2.h"

#define TG_WIDE 4 /* frames */

/* ---- a number of each frame ---- */

typedef __m256i tg_wide;
typedef tg_u64x4 tg_wide_words;
typedef int8_t tg_i8x16 __attribute__((vector_size(16)));
typedef uint8_t tg_wide_lanes;
#define TG_WIDE_LANES ((tg_wide_lanes)0xf)

/* A literal is loaded (broadcast_avx2.h). */
#define TG_WIDE_ALL(x)                                                                             \
	__builtin_choose_expr(__builtin_constant_p(x), TG_WIDE_LOADED(x),                          \
			      _mm256_set1_epi64x((long long)(x)))
#define TG_WIDE_LOADED(x)                                                                          \
	({                                                                                         \
		static const uint64_t tg_one = __builtin_constant_p(x) ? (uint64_t)(x) : 0;        \
		TG_BROADCAST_8(tg_one);                                                            \
	})
/* 16 bytes, in both halves. */
#define TG_WIDE_SHUFFLE(...)                                                                       \
	({                                                                                         \
		static const tg_i8x16 tg_row = {__VA_ARGS__};                                      \
		TG_BROADCAST_16(tg_row);                                                           \
	})
#define tg_wide_and(a, b) _mm256_and_si256(a, b)
#define tg_wide_or(a, b) _mm256_or_si256(a, b)
#define tg_wide_andnot(a, b) _mm256_andnot_si256(a, b)
#define tg_wide_or_andnot(a, b, c) _mm256_or_si256(a, _mm256_andnot_si256(b, c))
#define tg_wide_add(a, b) _mm256_add_epi64(a, b)
#define tg_wide_sub(a, b) _mm256_sub_epi64(a, b)
#define tg_wide_shl(a, n) _mm256_slli_epi64(a, n)
#define tg_wide_shr(a, n) _mm256_srli_epi64(a, n)
#define tg_wide_load(from) _mm256_load_si256((const __m256i *)(from))
#define tg_wide_store(to, x) _mm256_store_si256((__m256i *)(to), x)
#define tg_wide_loadu(from) _mm256_loadu_si256((const __m256i *)(from))
#define tg_wide_storeu(to, x) _mm256_storeu_si256((__m256i *)(to), x)

/* The lanes of which a comparison left all bits set. */
TG_INLINE tg_wide_lanes tg_wide_lanes_of(tg_wide x)
{
	return (tg_wide_lanes)_mm256_movemask_pd(_mm256_castsi256_pd(x));
}

#define tg_wide_equal(a, b) tg_wide_lanes_of(_mm256_cmpeq_epi64(a, b))
#define tg_wide_less(a, b) tg_wide_lanes_of(_mm256_cmpgt_epi64(b, a)) /* both below 2^63 */

TG_INLINE tg_wide_lanes tg_wide_test(tg_wide a, tg_wide b)
{
	return TG_WIDE_LANES ^ tg_wide_equal(_mm256_and_si256(a, b), _mm256_setzero_si256());
}

TG_INLINE tg_wide tg_wide_min(tg_wide a, tg_wide b)
{
	return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
}

#define tg_wide_blend(low, high) _mm256_blend_epi32(low, high, 0xaa)

TG_INLINE tg_wide tg_wide_swap32(tg_wide x)
{
	return _mm256_shuffle_epi8(
		x, TG_WIDE_SHUFFLE(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
}

/* tg_swap32 of each lane's high half, in the low one. */
TG_INLINE tg_wide tg_wide_swap32_high(tg_wide x)
{
	return _mm256_shuffle_epi8(
		x, TG_WIDE_SHUFFLE(7, 6, 5, 4, -1, -1, -1, -1, 15, 14, 13, 12, -1, -1, -1, -1));
}

TG_INLINE tg_wide tg_wide_client_to(tg_wide x)
{
	return _mm256_shuffle_epi8(
		x, TG_WIDE_SHUFFLE(4, 5, 6, 7, -1, -1, 0, 1, 12, 13, 14, 15, -1, -1, 8, 9));
}

TG_INLINE tg_wide tg_wide_choose(tg_wide_lanes lanes, tg_wide a, tg_wide b)
{
	const __m256i bit = _mm256_setr_epi64x(1, 2, 4, 8);
	__m256i is = _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(lanes), bit), bit);

	return _mm256_blendv_epi8(a, b, is);
}

TG_INLINE tg_wide tg_wide_select(tg_wide mask, tg_wide a, tg_wide b)
{
	return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b));
}

#define tg_wide_add32(a, b) _mm256_add_epi32(a, b)
#define tg_wide_sub32(a, b) _mm256_sub_epi32(a, b)
#define tg_wide_shr32(a, n) _mm256_srli_epi32(a, n)
#define tg_wide_swap_shorts(x) _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(x, 0xb1), 0xb1)
#define tg_wide_swap_halves(x) _mm256_shuffle_epi32(x, 0xb1)
#define tg_wide_shlv(x, n) _mm256_sllv_epi64(x, n)
#define tg_wide_bit_of(n) _mm256_sllv_epi64(TG_WIDE_ALL(1), tg_wide_and(n, TG_WIDE_ALL(63)))
#define tg_wide_shrv(x, n) _mm256_srlv_epi64(x, n)

TG_INLINE bool tg_wide_are_equal32(tg_wide a, tg_wide b)
{
	tg_wide differ = _mm256_xor_si256(a, b);

	return _mm256_testz_si256(differ, differ);
}

TG_INLINE tg_wide tg_wide_top_byte(tg_wide x)
{
	return _mm256_blend_epi32(_mm256_shuffle_epi32(_mm256_srai_epi32(x, 24), 0xf5),
				  _mm256_srai_epi32(x, 31), 0xaa);
}

TG_INLINE tg_wide tg_wide_positive(tg_wide x)
{
	return _mm256_and_si256(x, _mm256_cmpgt_epi64(x, _mm256_setzero_si256()));
}

/* True if the first byte of a lane is 0, 127, or at least 224, or its halves are equal. */
TG_INLINE bool tg_wide_any_addr_odd(tg_wide x)
{
	__m256i less = _mm256_sub_epi8(x, TG_WIDE_ALL(1));
	__m256i odd = _mm256_or_si256(
		_mm256_cmpeq_epi8(less, TG_WIDE_ALL(126)),
		_mm256_cmpeq_epi8(_mm256_max_epu8(less, TG_WIDE_ALL(223)), less));

	odd = _mm256_or_si256(odd, _mm256_cmpeq_epi64(x, tg_wide_swap_halves(x)));
	return !_mm256_testz_si256(odd, TG_WIDE_ALL(0xff));
}

/* Four loads: cheaper than the instruction that gathers, where that is guarded against speculation. */
TG_INLINE tg_wide tg_wide_gather(const uint64_t *from, tg_wide place)
{
	__m128i low = _mm256_castsi256_si128(place), high = _mm256_extracti128_si256(place, 1);

	return _mm256_setr_epi64x((long long)from[_mm_cvtsi128_si64(low)],
				  (long long)from[_mm_extract_epi64(low, 1)],
				  (long long)from[_mm_cvtsi128_si64(high)],
				  (long long)from[_mm_extract_epi64(high, 1)]);
}

TG_INLINE tg_wide tg_wide_pick(const uint64_t from[8], tg_wide place)
{
	return tg_wide_gather(from, tg_wide_and(place, TG_WIDE_ALL(7)));
}

#define tg_wide_first(x) ((uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(x)))
#define tg_wide_set(v)                                                                             \
	_mm256_setr_epi64x((long long)(v)[0], (long long)(v)[1], (long long)(v)[2],                \
			   (long long)(v)[3])

struct tg_wide_fours {
	tg_wide row[4];
};

TG_INLINE struct tg_wide_fours tg_wide_fours_of(const tg_wide even[2], const tg_wide odd[2])
{
	return (struct tg_wide_fours){{_mm256_permute2x128_si256(even[0], even[1], 0x20),
				       _mm256_permute2x128_si256(odd[0], odd[1], 0x20),
				       _mm256_permute2x128_si256(even[0], even[1], 0x31),
				       _mm256_permute2x128_si256(odd[0], odd[1], 0x31)}};
}

TG_INLINE __m128i tg_wide_row16(tg_wide even, tg_wide odd, const uint32_t row)
{
	tg_wide x = row % 2 ? odd : even;

	return row / 2 ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x);
}

TG_INLINE __m256i tg_wide_row32(const struct tg_wide_fours *f, const uint32_t row)
{
	return f->row[row];
}

TG_INLINE void tg_wide_pair(const tg_wide *columns, uint32_t n, tg_wide *even, tg_wide *odd)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		even[i] = _mm256_unpacklo_epi64(columns[2 * i], columns[2 * i + 1]);
		odd[i] = _mm256_unpackhi_epi64(columns[2 * i], columns[2 * i + 1]);
	}
}

/* ---- 64 bytes of a frame ---- */

typedef struct {
	__m256i low, high;
} tg_wide_row;

TG_INLINE tg_wide_row tg_wide_row_load(const void *from)
{
	return (tg_wide_row){_mm256_loadu_si256(from), _mm256_loadu_si256((const __m256i *)from + 1)};
}

TG_INLINE tg_wide_row tg_wide_row_none(void)
{
	return (tg_wide_row){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

TG_INLINE tg_wide_row tg_wide_row_of(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
				     uint64_t f, uint64_t g, uint64_t h)
{
	return (tg_wide_row){
		_mm256_setr_epi64x((long long)a, (long long)b, (long long)c, (long long)d),
		_mm256_setr_epi64x((long long)e, (long long)f, (long long)g, (long long)h)};
}

struct tg_wide_rows {
	tg_wide_row first, differ;
};

TG_INLINE struct tg_wide_rows tg_wide_rows_of(tg_wide_row first)
{
	return (struct tg_wide_rows){first, tg_wide_row_none()};
}

TG_INLINE void tg_wide_rows_add(struct tg_wide_rows *r, tg_wide_row row)
{
	r->differ.low = _mm256_or_si256(r->differ.low, _mm256_xor_si256(row.low, r->first.low));
	r->differ.high = _mm256_or_si256(r->differ.high, _mm256_xor_si256(row.high, r->first.high));
}

/* The bits in which a half of tg_wide_are's rows is wrong. */
TG_INLINE __m256i tg_wide_wrong(__m256i first, __m256i differ, __m256i want, __m256i mask,
				__m256i same)
{
	return _mm256_or_si256(_mm256_and_si256(_mm256_xor_si256(first, want), mask),
			       _mm256_and_si256(differ, _mm256_or_si256(mask, same)));
}

TG_INLINE bool tg_wide_are(const struct tg_wide_rows *r, tg_wide_row want, tg_wide_row mask,
			   tg_wide_row same)
{
	__m256i odd = _mm256_or_si256(
		tg_wide_wrong(r->first.low, r->differ.low, want.low, mask.low, same.low),
		tg_wide_wrong(r->first.high, r->differ.high, want.high, mask.high, same.high));

	return _mm256_testz_si256(odd, odd);
}

/* True if two rows have a bit in common. What of a mask is zero costs nothing. */
TG_INLINE bool tg_wide_row_test(__m256i low, __m256i high, tg_wide_row mask)
{
	__m256i both = _mm256_or_si256(_mm256_and_si256(low, mask.low),
				       _mm256_and_si256(high, mask.high));

	return !_mm256_testz_si256(both, both);
}

TG_INLINE bool tg_wide_rows_any(const struct tg_wide_rows *r, tg_wide_row mask)
{
	return tg_wide_row_test(_mm256_or_si256(r->first.low, r->differ.low),
				_mm256_or_si256(r->first.high, r->differ.high), mask);
}

TG_INLINE bool tg_wide_rows_all(const struct tg_wide_rows *r, tg_wide_row mask)
{
	const __m256i ones = TG_WIDE_ALL(~0ULL);

	return !tg_wide_row_test(
		_mm256_or_si256(_mm256_xor_si256(r->first.low, ones), r->differ.low),
		_mm256_or_si256(_mm256_xor_si256(r->first.high, ones), r->differ.high), mask);
}

TG_INLINE bool tg_wide_rows_differ(const struct tg_wide_rows *r, tg_wide_row mask)
{
	return tg_wide_row_test(r->differ.low, r->differ.high, mask);
}

struct tg_wide_columns {
	tg_wide_row even[TG_WIDE / 2], odd[TG_WIDE / 2];
};

TG_INLINE struct tg_wide_columns tg_wide_turn(const tg_wide_row row[TG_WIDE])
{
	struct tg_wide_columns c;
	uint32_t i;

	for (i = 0; i < TG_WIDE / 2; i++) {
		const tg_wide_row *a = &row[2 * i], *b = a + 1;

		c.even[i] = (tg_wide_row){_mm256_unpacklo_epi64(a->low, b->low),
					  _mm256_unpacklo_epi64(a->high, b->high)};
		c.odd[i] = (tg_wide_row){_mm256_unpackhi_epi64(a->low, b->low),
					 _mm256_unpackhi_epi64(a->high, b->high)};
	}
	return c;
}

/* Columns 2 and 6 of `even`, 3 and 7 of `odd` if `high`, else 0 and 4, 1 and 5. */
TG_INLINE void tg_wide_columns(const tg_wide_row pairs[2], const bool high, tg_wide *first,
			       tg_wide *second)
{
	*first = high ? _mm256_permute2x128_si256(pairs[0].low, pairs[1].low, 0x31)
		      : _mm256_permute2x128_si256(pairs[0].low, pairs[1].low, 0x20);
	*second = high ? _mm256_permute2x128_si256(pairs[0].high, pairs[1].high, 0x31)
		       : _mm256_permute2x128_si256(pairs[0].high, pairs[1].high, 0x20);
}

#endif
