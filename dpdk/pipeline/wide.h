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
/* Where a row has the destination's address and port. */
#define TG_WIDE_TO tg_wide_row_of(0, 0, 0xffffffffULL << 32, 0xffff0000, 0, 0, 0, 0)

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
	struct tg_wide_columns columns; /* for tg_wide_columns */
	tg_wide_row any, all; /* bits that some rows have, and that all have */
	tg_wide_row mbuf_any, mbuf_all; /* the same of the mbufs' first lines */
};

/* Writes a row of `n` pairs: cheaper than transposing columns to rows, as it only adds
 * stores. `row` is known at compile time. */
TG_INLINE void tg_wide_write(uint8_t *to, const tg_wide *even, const tg_wide *odd, uint32_t n,
			     uint32_t row)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		_mm_storeu_si128((__m128i *)(to + 16 * i),
				 tg_wide_quarter((row % 2 ? odd : even)[i], row / 2));
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

/* tg_swap16 of a number of 16 bits in each lane. */
TG_INLINE tg_wide tg_wide_swap16(tg_wide x)
{
	return tg_wide_or(tg_wide_shl(tg_wide_and(x, TG_WIDE_ALL(0xff)), 8), tg_wide_shr(x, 8));
}

/* Lanes whose port, in network order, belongs to a service. Most do not, which a fold
 * of the table into eight words shows. */
TG_INLINE tg_wide_lanes tg_wide_protected(const struct tg_config *config, tg_wide port_be)
{
	tg_wide port = tg_wide_swap16(port_be), word = tg_wide_shr(port, 6);
	tg_wide bit = tg_wide_shlv(TG_WIDE_ALL(1), tg_wide_and(port, TG_WIDE_ALL(63)));

	if (!tg_wide_test(tg_wide_pick(config->is_protected_fold, word), bit))
		return 0;
	return tg_wide_test(tg_wide_gather(config->is_protected, word), bit);
}

/* Checks the frames' mbufs. False: they are not all single unshared buffers with
 * enough room, and their frames at the same offset. */
TG_INLINE bool tg_wide_are_plain(struct rte_mbuf *const *m, struct tg_wide_frames *f)
{
	/* refcnt 1, nb_segs 1, no external buffer */
	const tg_wide_row want = tg_wide_row_of(0, 0, 0x100010000, 0, 0, 0, 0, 0);
	const tg_wide_row mask = tg_wide_row_of(
		0, 0, 0xffffffff0000, RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL, 0, 0, 0, 0);
	const tg_wide_row same = tg_wide_row_of(0, 0, 0xffff, 0, 0, 0, 0xffffULL << 48,
						0); /* data_off, buf_len */
	tg_wide_row any = tg_wide_row_none(), all = tg_wide_row_full();
	int i;

	for (i = 0; i < TG_WIDE; i++) {
		tg_wide_row row = tg_wide_row_load(m[i]);

		any = tg_wide_row_or(any, row);
		all = tg_wide_row_and(all, row);
	}
	f->mbuf_any = any;
	f->mbuf_all = all;
	return tg_wide_are(any, all, want, mask, same) &&
	       m[0]->buf_len >= m[0]->data_off + TG_FAST_ROOM;
}

/* Reads the frames. False: they are not all untagged IPv4 without options, unfragmented,
 * TCP, to `mac` as far as `mask` says. Bytes beyond a frame's end are arbitrary:
 * the caller must still check its length. */
TG_INLINE bool tg_wide_read(struct rte_mbuf *const *m, uint64_t mac, uint64_t mask,
			    struct tg_wide_frames *f)
{
	uint64_t others = 0; /* MAC addresses that do not match */
	tg_wide_row row[TG_WIDE], any = tg_wide_row_none(), all = tg_wide_row_full();
	uint32_t off, i;

	if (!tg_wide_are_plain(m, f))
		return false;
	off = m[0]->data_off;
	for (i = 0; i < TG_WIDE; i++) {
		const uint8_t *data = (const uint8_t *)m[i]->buf_addr + off;

		others |= tg_load64(data) ^ mac;
		row[i] = tg_wide_row_load(data + TG_WIDE_FROM);
		any = tg_wide_row_or(any, row[i]);
		all = tg_wide_row_and(all, row[i]);
	}
	if (others & mask)
		return false;
	f->columns = tg_wide_turn(row);
	f->any = any;
	f->all = all;
	return tg_wide_are(any, all, tg_wide_row_of(0x4500080000, 0x060000000000, 0, 0, 0, 0, 0, 0),
			   tg_wide_row_of(0xffffff0000, 0xff00ff3f0000, 0, 0, 0, 0, 0, 0),
			   tg_wide_row_none());
}

/* True if a TCP checksum is to be completed. Frames of which some have one bit of that, and some the other, look as if
 * it were. */
TG_INLINE bool tg_wide_is_partial(const struct tg_wide_frames *f)
{
	return tg_wide_row_has(f->mbuf_any,
			       tg_wide_row_of(0, 0, 0, RTE_MBUF_F_RX_L4_CKSUM_NONE, 0, 0, 0, 0));
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

/* Sends the frames by one port. */
TG_INLINE void tg_wide_send(struct tg_worker *w, uint16_t port, struct rte_mbuf *const *m)
{
	struct tg_out *out = &w->out[port];

	if (TG_UNLIKELY(out->n + TG_WIDE > TG_OUT_MAX))
		tg_flush(w, port);
	tg_wide_storeu(&out->m[out->n], tg_wide_loadu(m));
	out->n += TG_WIDE;
}
#endif

#endif
