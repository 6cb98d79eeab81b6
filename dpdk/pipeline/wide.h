/* SPDX-License-Identifier: Apache-2.0
 *
 * What the paths of several frames at once share: reading frames, eight with AVX-512 and four with
 * AVX2, and turning rows into columns, so that each number of all of them stands in one register.
 * wide_avx512.h and wide_avx2.h have the instructions.
 *
 * From its tenth byte on, the headers of a frame of IPv4 without options, untagged,
 * with a TCP header, stand at multiples of eight bytes:
 *
 *   byte  10     18       26       34         42           50        58          66
 *         type,  flags,   source,  ports,     ack, offset, checksum, SYN: SACK,  TSecr,
 *         IHL,   proto    destin.  number     flags,       MSS or    TS, TSval   WS
 *         length                              window       NOP, TS   else TSval, TSecr
 *
 * fast_wide.h answers SYNs so, fast_wide_flow.h translates segments, and fast_wide_forward.h sends
 * them on. If any of them is something else, all go one by one: fast_syn.h, fast_flow.h, fast_forward.h. test/test_fast.c holds
 * them together.
 *
 * Must never: write to a frame; decide what a frame is by another of them.
 */
#ifndef TG_DPDK_WIDE_H
#define TG_DPDK_WIDE_H

#include "fast_flow.h"

#if (defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)) ||                   \
	defined(TG_AVX512_EMULATED)
#include "wide_avx512.h"
#define TG_HAS_WIDE 1
#elif defined(__AVX2__)
#include "wide_avx2.h"
#define TG_HAS_WIDE 1
#else
#define TG_WIDE 8
#define TG_HAS_WIDE 0
#endif

#if TG_HAS_WIDE
#define TG_WIDE_FROM 10
#define TG_WIDE_LOW TG_WIDE_ALL(0xffffffff)
/* Of an mbuf's flags those for the driver that sends it, and those that say whose its buffer is. */
#define TG_WIDE_SEND_FLAGS (~0ULL << 41)
/* Where a row has the destination's address and port. */
#define TG_WIDE_TO tg_wide_row_of(0, 0, 0xffffffffULL << 32, 0xffff0000, 0, 0, 0, 0)

_Static_assert(TG_WIDE_SEND_FLAGS == -(RTE_MBUF_F_LAST_FREE << 1),
	       "behind the flags of receiving drivers, and those that are free");
_Static_assert(offsetof(struct rte_mbuf, rearm_data) == 16 &&
		       offsetof(struct rte_mbuf, refcnt) == 18 &&
		       offsetof(struct rte_mbuf, nb_segs) == 20 &&
		       offsetof(struct rte_mbuf, ol_flags) == 24 &&
		       offsetof(struct rte_mbuf, pkt_len) == 36 &&
		       offsetof(struct rte_mbuf, data_len) == 40 &&
		       offsetof(struct rte_mbuf, buf_len) == 54,
	       "where things stand in the first cache line of an mbuf");

/* The frames. */
struct tg_wide_frames {
	__m128i ether; /* the first one's first 16 bytes, and the bits in which others differ */
	__m128i ether_differ;
	struct tg_wide_columns columns; /* for tg_wide_columns */
	struct tg_wide_rows rows;
	struct tg_wide_rows mbufs; /* their first lines */
};

/* The compiler must not compute all frames' addresses first, and keep them in vector registers: it has fewer others. */
#define TG_WIDE_READ_AGAIN rte_compiler_barrier()

/* Where a frame begins of which another one's mbuf says at which offset. */
TG_INLINE uint8_t *tg_wide_data(const struct rte_mbuf *m, uint32_t off)
{
	return (uint8_t *)m->buf_addr + off;
}

/* Fetches a frame, which most likely begins at this offset. */
TG_INLINE void tg_wide_fetch_one(const struct rte_mbuf *m, uint32_t off)
{
	const uint8_t *data = tg_wide_data(m, off);

	__builtin_prefetch(data);
	__builtin_prefetch(data + 64);
}

/* The same of a group. */
TG_INLINE void tg_wide_fetch(struct rte_mbuf *const *m, uint32_t off)
{
	uint32_t i;

#pragma GCC unroll 8 /* TG_WIDE, or more */
	for (i = 0; i < TG_WIDE; i++)
		tg_wide_fetch_one(m[i], off);
}

#define TG_WIDE_PAIRS 5 /* of columns: 80 bytes of each row */

/* What is written to the frames: columns turned into pieces of rows, mostly of 32 bytes. To turn them into whole rows takes
 * longer, as does writing 16 bytes at a time. */
struct tg_wide_lines {
	struct tg_wide_fours fours[TG_WIDE_PAIRS / 2];
	tg_wide even, odd; /* the last pair, of an odd number of them */
};

/* Of `n` pairs. */
TG_INLINE struct tg_wide_lines tg_wide_lines_of(const tg_wide *columns, const uint32_t n)
{
	tg_wide even[TG_WIDE_PAIRS], odd[TG_WIDE_PAIRS];
	struct tg_wide_lines l;
	uint32_t i;

	tg_wide_pair(columns, n, even, odd);
	for (i = 0; i < n / 2; i++)
		l.fours[i] = tg_wide_fours_of(even + 2 * i, odd + 2 * i);
	if (n % 2) {
		l.even = even[n - 1];
		l.odd = odd[n - 1];
	}
	return l;
}

/* Writes a row of `n` pairs; both are known at compile time. */
TG_INLINE void tg_wide_write(uint8_t *to, const struct tg_wide_lines *l, const uint32_t n,
			     const uint32_t row)
{
	uint32_t i;

	for (i = 0; i < n / 2; i++)
		_mm256_storeu_si256((__m256i *)(to + 32 * i), tg_wide_row32(&l->fours[i], row));
	if (n % 2)
		_mm_storeu_si128((__m128i *)(to + 32 * i), tg_wide_row16(l->even, l->odd, row));
}

/* tg_swap16 of a number of 16 bits in each lane. */
TG_INLINE tg_wide tg_wide_swap16(tg_wide x)
{
	return tg_wide_or(tg_wide_shl(tg_wide_and(x, TG_WIDE_ALL(0xff)), 8), tg_wide_shr(x, 8));
}

/* False if no port, in network order in the low 16 bits of its lane, belongs to a service: most do not. */
#if TG_WIDE ==                                                                                     \
	4 /* both bytes' bits are looked up in a register; AVX2 has none in which to look up eight words */
TG_INLINE bool tg_wide_maybe_protected(const struct tg_config *config, tg_wide ports)
{
	const __m256i nibble = TG_WIDE_ALL(0x0f0f0f0f0f0f0f0f);
	const __m256i powers = TG_WIDE_ALL(0x8040201008040201);
	const __m256i bytes = _mm256_broadcastsi128_si256(
		_mm_loadu_si128((const __m128i *)config->is_protected_bytes));
	__m256i row = _mm256_shuffle_epi8(bytes, _mm256_and_si256(ports, nibble));
	__m256i bit = _mm256_shuffle_epi8(powers, _mm256_and_si256(tg_wide_shr(ports, 4), nibble));
	__m256i no = _mm256_cmpeq_epi8(_mm256_and_si256(row, bit), _mm256_setzero_si256());

	return !_mm256_testz_si256(_mm256_cmpeq_epi16(no, _mm256_setzero_si256()),
				   TG_WIDE_ALL(0xffff));
}
#else
TG_INLINE bool tg_wide_maybe_protected(const struct tg_config *config, tg_wide ports)
{
	return tg_wide_test(tg_wide_pick(config->is_protected_fold, tg_wide_shr(ports, 6)),
			    tg_wide_bit_of(ports));
}
#endif

/* Lanes whose port, so, belongs to a service. */
TG_INLINE tg_wide_lanes tg_wide_protected(const struct tg_config *config, tg_wide ports)
{
	if (TG_LIKELY(!tg_wide_maybe_protected(config, ports)))
		return 0;
	return tg_wide_test(tg_wide_gather(config->is_protected,
					   tg_wide_shr(tg_wide_and(ports, TG_WIDE_ALL(0xffff)), 6)),
			    tg_wide_bit_of(ports));
}

/* What rows must be: `want` where `mask` has ones. */
struct tg_wide_layout {
	tg_wide_row want, mask;
};

/* Untagged IPv4 without options, unfragmented, TCP. */
TG_INLINE struct tg_wide_layout tg_wide_layout_v4(void)
{
	return (struct tg_wide_layout){
		tg_wide_row_of(0x4500080000, 0x060000000000, 0, 0, 0, 0, 0, 0),
		tg_wide_row_of(0xffffff0000, 0xff00ff3f0000, 0, 0, 0, 0, 0, 0)};
}

/* Checks the mbufs of `n` frames. False: they are not all single unshared buffers with
 * enough room, and their frames at the same offset and, unless `len` is 0, of this length. */
TG_INLINE bool tg_wide_are_plain(struct rte_mbuf *const *m, uint32_t n, const uint32_t len,
				 struct tg_wide_frames *f)
{
	/* refcnt 1, nb_segs 1, no external buffer; nothing is asked of the driver that sends them */
	const tg_wide_row want = tg_wide_row_of(0, 0, 0x100010000, 0, 0, len, 0, 0);
	const tg_wide_row mask = tg_wide_row_of(0, 0, 0xffffffff0000, TG_WIDE_SEND_FLAGS, 0,
						len ? 0xffff : 0 /* data_len */, 0, 0);
	const tg_wide_row same = tg_wide_row_of(0, 0, 0xffff, 0, 0, 0, 0xffffULL << 48,
						0); /* data_off, buf_len */
	uint32_t i;

	f->mbufs = tg_wide_rows_of(tg_wide_row_load(m[0]));
	for (i = 1; i < n; i++) {
		tg_wide_rows_add(&f->mbufs, tg_wide_row_load(m[i]));
		TG_WIDE_READ_AGAIN;
	}
	return tg_wide_are(&f->mbufs, want, mask, same) &&
	       m[0]->buf_len >= m[0]->data_off + TG_FAST_ROOM;
}

/* The first frame's Ethernet header and row, and those of others. */
TG_INLINE void tg_wide_frames_begin(struct tg_wide_frames *f, __m128i ether, tg_wide_row row)
{
	f->ether = ether;
	f->ether_differ = _mm_setzero_si128();
	f->rows = tg_wide_rows_of(row);
}

TG_INLINE void tg_wide_frames_add(struct tg_wide_frames *f, __m128i ether, tg_wide_row row)
{
	f->ether_differ = _mm_or_si128(f->ether_differ, _mm_xor_si128(ether, f->ether));
	tg_wide_rows_add(&f->rows, row);
}

/* True if all are to `mac` as far as `mask` says. */
TG_INLINE bool tg_wide_are_to(const struct tg_wide_frames *f, uint64_t mac, uint64_t mask)
{
	const __m128i to = _mm_cvtsi64_si128((long long)mac);
	const __m128i wrong = _mm_or_si128(_mm_xor_si128(f->ether, to), f->ether_differ);

	return !((uint64_t)_mm_cvtsi128_si64(wrong) & mask);
}

/* Reads the frames. False: they have not all this layout and, unless it is 0, this length, or are not to `mac` as far as
 * `mask` says. Without a length, bytes beyond a frame's end are arbitrary: the caller must still check it. */
TG_INLINE bool tg_wide_read(struct rte_mbuf *const *m, uint64_t mac, uint64_t mask,
			    struct tg_wide_layout layout, const uint32_t len,
			    struct tg_wide_frames *f)
{
	tg_wide_row row[TG_WIDE];
	uint32_t off, i;

	if (!tg_wide_are_plain(m, TG_WIDE, len, f))
		return false;
	off = m[0]->data_off;
	for (i = 0; i < TG_WIDE; i++) {
		const uint8_t *data = tg_wide_data(m[i], off);
		__m128i ether = _mm_loadu_si128((const __m128i *)data);

		row[i] = tg_wide_row_load(data + TG_WIDE_FROM);
		if (i == 0)
			tg_wide_frames_begin(f, ether, row[i]);
		else
			tg_wide_frames_add(f, ether, row[i]);
		TG_WIDE_READ_AGAIN;
	}
	if (!tg_wide_are_to(f, mac, mask))
		return false;
	f->columns = tg_wide_turn(row);
	return tg_wide_are(&f->rows, layout.want, layout.mask, tg_wide_row_none());
}

/* True if all have one Ethernet header. */
TG_INLINE bool tg_wide_one_ether(const struct tg_wide_frames *f)
{
	return _mm_testz_si128(f->ether_differ, _mm_set_epi64x(0xffffffffffff, -1)) != 0;
}

/* True if a TCP checksum is to be completed. Frames of which some have one bit of that, and some the other, look as if
 * it were. `first` is one of them. */
TG_INLINE bool tg_wide_is_partial(const struct tg_wide_frames *f, const struct rte_mbuf *first)
{
	const tg_wide_row both = tg_wide_row_of(0, 0, 0, RTE_MBUF_F_RX_L4_CKSUM_NONE, 0, 0, 0, 0);
	const tg_wide_row good = tg_wide_row_of(0, 0, 0, RTE_MBUF_F_RX_L4_CKSUM_GOOD, 0, 0, 0, 0);
	const tg_wide_row bad = tg_wide_row_of(0, 0, 0, RTE_MBUF_F_RX_L4_CKSUM_BAD, 0, 0, 0, 0);

	if (TG_LIKELY(!tg_wide_rows_differ(&f->mbufs, both)))
		return (first->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_NONE;
	return tg_wide_rows_any(&f->mbufs, good) && tg_wide_rows_any(&f->mbufs, bad);
}

/* Of each mbuf the word that begins with pkt_len; data_len is its upper half's low one. */
TG_INLINE tg_wide tg_wide_lens(struct rte_mbuf *const *m)
{
	uint64_t each[TG_WIDE];
	uint32_t i;

	for (i = 0; i < TG_WIDE; i++)
		each[i] = tg_load64((const uint8_t *)m[i] + offsetof(struct rte_mbuf, pkt_len));
	return tg_wide_set(each);
}

/* The same's data_len. */
TG_INLINE tg_wide tg_wide_data_len(tg_wide lens)
{
	return tg_wide_and(tg_wide_shr(lens, 32), TG_WIDE_ALL(0xffff));
}

/* Sends `n` frames by one port, a multiple of TG_WIDE, at most a burst. */
TG_INLINE void tg_wide_send(struct tg_worker *w, uint16_t port, struct rte_mbuf *const *m, uint32_t n)
{
	struct tg_out *out = &w->out[port];
	uint32_t i;

	if (TG_UNLIKELY(out->n + n > TG_OUT_MAX))
		tg_flush(w, port);
	for (i = 0; i < n; i += TG_WIDE)
		tg_wide_storeu(&out->m[out->n + i], tg_wide_loadu(m + i));
	out->n += n;
}
#endif

#endif
