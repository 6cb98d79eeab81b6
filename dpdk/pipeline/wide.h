/* SPDX-License-Identifier: Apache-2.0
 *
 * What the paths of eight frames at once share, in AVX-512: reading eight frames and
 * turning rows into columns, so that each number of all eight stands in one register.
 *
 * From its tenth byte on, the headers of a frame of IPv4 without options, untagged,
 * with a TCP header, stand at multiples of eight bytes:
 *
 *   byte  10     18       26       34         42           50        58          66
 *         type,  flags,   source,  ports,     ack, offset, checksum, SYN: SACK,  TSecr,
 *         IHL,   proto    destin.  number     flags,       MSS or    TS, TSval   WS
 *         length                              window       NOP, TS   else TSval, TSecr
 *
 * fast_wide.h answers SYNs so, fast_wide_flow.h translates segments. If any of eight is
 * something else, all go one by one: fast_syn.h, fast_flow.h. test/test_fast.c holds
 * them together.
 *
 * Must never: write to a frame; decide what a frame is by more than one of the eight.
 */
#ifndef TG_DPDK_WIDE_H
#define TG_DPDK_WIDE_H

#include "fast_flow.h"

#define TG_WIDE 8 /* frames */

#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define TG_HAS_WIDE 1
#include <immintrin.h>

#define TG_WIDE_FROM 10
#define TG_WIDE_ALL(x) _mm512_set1_epi64((long long)(x))
#define TG_WIDE_LOW TG_WIDE_ALL(0xffffffff)

_Static_assert(offsetof(struct rte_mbuf, rearm_data) == 16 &&
		       offsetof(struct rte_mbuf, refcnt) == 18 &&
		       offsetof(struct rte_mbuf, nb_segs) == 20 &&
		       offsetof(struct rte_mbuf, ol_flags) == 24 &&
		       offsetof(struct rte_mbuf, pkt_len) == 36 &&
		       offsetof(struct rte_mbuf, data_len) == 40 &&
		       offsetof(struct rte_mbuf, buf_len) == 54,
	       "where things stand in the first cache line of an mbuf");

/* Eight frames. */
struct tg_wide_frames {
	__m512i even[4], odd[4]; /* columns in pairs of rows, for tg_wide_columns */
	__m512i any, all;  /* bits that some rows have, and that all have */
	__m512i mbuf_any, mbuf_all; /* the same of the mbufs' first lines */
};

/* Columns taken together in pairs: 16 bytes of each even row, and of each odd one. */
TG_INLINE void tg_wide_pair(const __m512i *columns, uint32_t n, __m512i *even, __m512i *odd)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		even[i] = _mm512_unpacklo_epi64(columns[2 * i], columns[2 * i + 1]);
		odd[i] = _mm512_unpackhi_epi64(columns[2 * i], columns[2 * i + 1]);
	}
}

TG_INLINE __m128i tg_wide_quarter(__m512i x, uint32_t which)
{
	switch (which) {
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

/* Writes a row of `n` pairs: cheaper than transposing columns to rows, as it only adds
 * stores. `row` is known at compile time. */
TG_INLINE void tg_wide_write(uint8_t *to, const __m512i *even, const __m512i *odd, uint32_t n,
			     uint32_t row)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		_mm_storeu_si128((__m128i *)(to + 16 * i),
				 tg_wide_quarter((row % 2 ? odd : even)[i], row / 2));
}

/* Two columns of eight rows: 2 and 6 of f->even, 3 and 7 of f->odd if `high`, else 0 and 4, 1 and 5. */
TG_INLINE void tg_wide_columns(const __m512i pairs[4], const bool high, __m512i *first,
			       __m512i *second)
{
	__m512i a = high ? _mm512_shuffle_i64x2(pairs[0], pairs[1], 0xdd)
			 : _mm512_shuffle_i64x2(pairs[0], pairs[1], 0x88);
	__m512i b = high ? _mm512_shuffle_i64x2(pairs[2], pairs[3], 0xdd)
			 : _mm512_shuffle_i64x2(pairs[2], pairs[3], 0x88);

	*first = _mm512_shuffle_i64x2(a, b, 0x88);
	*second = _mm512_shuffle_i64x2(a, b, 0xdd);
}

/* A register of words in this order. */
TG_INLINE __m512i tg_wide_row(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
			      uint64_t f, uint64_t g, uint64_t h)
{
	return _mm512_setr_epi64((long long)a, (long long)b, (long long)c, (long long)d,
				 (long long)e, (long long)f, (long long)g, (long long)h);
}

/* True if all rows equal `want` where `mask` has ones, and each other where `same` has. */
TG_INLINE bool tg_wide_are(__m512i any, __m512i all, __m512i want, __m512i mask, __m512i same)
{
	__m512i odd = _mm512_and_si512(_mm512_ternarylogic_epi64(any, all, want, 0x7e), mask);

	odd = _mm512_ternarylogic_epi64(odd, _mm512_xor_si512(any, all), same, 0xf8);
	return !_mm512_test_epi64_mask(odd, odd);
}

/* tg_swap32 of both halves of each lane. */
TG_INLINE __m512i tg_wide_swap32(__m512i x)
{
	return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(_mm_set_epi8(
					      12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)));
}

/* tg_csum_fold, of sums below 2^48; then complemented. */
TG_INLINE __m512i tg_wide_csum_finish(__m512i sum)
{
	const __m512i ffff = TG_WIDE_ALL(0xffff);

	sum = _mm512_add_epi64(_mm512_and_si512(sum, TG_WIDE_ALL(0xffffffff)),
			       _mm512_srli_epi64(sum, 32));
	sum = _mm512_add_epi64(_mm512_and_si512(sum, ffff), _mm512_srli_epi64(sum, 16));
	sum = _mm512_add_epi64(_mm512_and_si512(sum, ffff), _mm512_srli_epi64(sum, 16));
	sum = _mm512_add_epi64(_mm512_and_si512(sum, ffff), _mm512_srli_epi64(sum, 16));
	return _mm512_andnot_si512(sum, ffff);
}

/* tg_swap16 of a number of 16 bits in each lane. */
TG_INLINE __m512i tg_wide_swap16(__m512i x)
{
	return _mm512_or_si512(_mm512_slli_epi64(_mm512_and_si512(x, TG_WIDE_ALL(0xff)), 8),
			       _mm512_srli_epi64(x, 8));
}

/* Lanes whose port, in network order, belongs to a service. Most do not, which a fold
 * of the table that fits into a register shows. */
TG_INLINE __mmask8 tg_wide_protected(const struct tg_config *config, __m512i port_be)
{
	__m512i port = tg_wide_swap16(port_be), word = _mm512_srli_epi64(port, 6);
	__m512i bit = _mm512_sllv_epi64(TG_WIDE_ALL(1), _mm512_and_si512(port, TG_WIDE_ALL(63)));
	__mmask8 some = _mm512_test_epi64_mask(
		_mm512_permutexvar_epi64(word, _mm512_loadu_si512(config->is_protected_fold)), bit);

	if (!some)
		return 0;
	return _mm512_mask_test_epi64_mask(some,
					   _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), some,
								       word, config->is_protected, 8),
					   bit);
}

/* Checks the mbufs of eight frames. False: they are not all single unshared buffers with
 * enough room, and their frames at the same offset. */
TG_INLINE bool tg_wide_are_plain(struct rte_mbuf *const *m, struct tg_wide_frames *f)
{
	/* refcnt 1, nb_segs 1, no external buffer */
	const __m512i want = tg_wide_row(0, 0, 0x100010000, 0, 0, 0, 0, 0);
	const __m512i mask = tg_wide_row(0, 0, 0xffffffff0000,
					 RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL, 0, 0, 0, 0);
	const __m512i same = tg_wide_row(0, 0, 0xffff, 0, 0, 0, 0xffffULL << 48,
					 0); /* data_off, buf_len */
	__m512i any = _mm512_setzero_si512(), all = TG_WIDE_ALL(~0ULL);
	int i;

	for (i = 0; i < TG_WIDE; i++) {
		__m512i row = _mm512_loadu_si512(m[i]);

		any = _mm512_or_si512(any, row);
		all = _mm512_and_si512(all, row);
	}
	f->mbuf_any = any;
	f->mbuf_all = all;
	return tg_wide_are(any, all, want, mask, same) &&
	       m[0]->buf_len >= m[0]->data_off + TG_FAST_ROOM;
}

/* Reads eight frames. False: they are not all untagged IPv4 without options, unfragmented,
 * TCP, to `mac` as far as `mask` says. Bytes beyond a frame's end are arbitrary:
 * the caller must still check its length. */
TG_INLINE bool tg_wide_read(struct rte_mbuf *const *m, uint64_t mac, uint64_t mask,
			    struct tg_wide_frames *f)
{
	uint64_t others = 0; /* MAC addresses that do not match */
	__m512i row[8], any = _mm512_setzero_si512(), all = TG_WIDE_ALL(~0ULL);
	uint32_t off, i;

	if (!tg_wide_are_plain(m, f))
		return false;
	off = m[0]->data_off;
	for (i = 0; i < TG_WIDE; i++) {
		const uint8_t *data = (const uint8_t *)m[i]->buf_addr + off;

		others |= tg_load64(data) ^ mac;
		row[i] = _mm512_loadu_si512(data + TG_WIDE_FROM);
		any = _mm512_or_si512(any, row[i]);
		all = _mm512_and_si512(all, row[i]);
	}
	if (others & mask)
		return false;
	tg_wide_pair(row, 4, f->even, f->odd);
	f->any = any;
	f->all = all;
	return tg_wide_are(any, all, tg_wide_row(0x4500080000, 0x060000000000, 0, 0, 0, 0, 0, 0),
			   tg_wide_row(0xffffff0000, 0xff00ff3f0000, 0, 0, 0, 0, 0, 0),
			   _mm512_setzero_si512());
}

/* Sends eight frames by one port. */
TG_INLINE void tg_wide_send(struct tg_worker *w, uint16_t port, struct rte_mbuf *const *m)
{
	struct tg_out *out = &w->out[port];

	if (TG_UNLIKELY(out->n + TG_WIDE > TG_OUT_MAX))
		tg_flush(w, port);
	_mm512_storeu_si512(&out->m[out->n], _mm512_loadu_si512(m));
	out->n += TG_WIDE;
}
#else
#define TG_HAS_WIDE 0
#endif

#endif
