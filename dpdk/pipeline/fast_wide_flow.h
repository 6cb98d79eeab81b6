/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of eight segments of connections at once (wide.h): ACKs of IPv4, with
 * no options or with timestamps where nearly all senders put them, each of any flow
 * that is ready, in either direction. core/translate.h, lane by lane: tg_translate_header,
 * tg_translate_timestamps, tg_translate_checksum, tg_window_shift.
 *
 * The burst waits for memory twice, for all together: buckets, then entries.
 *
 * Must never: change a frame before it is sure that all eight are translated; those that are not
 * are handled one by one (tg_wide_segments_part), in their order.
 */
#ifndef TG_DPDK_FAST_WIDE_FLOW_H
#define TG_DPDK_FAST_WIDE_FLOW_H

#include "fast_wide.h"

#if TG_HAS_WIDE_FLOW
_Static_assert(offsetof(struct tg_flow, ts_delta) == 4 && offsetof(struct tg_flow, service) == 24 &&
		       offsetof(struct tg_flow, state) == 26 &&
		       offsetof(struct tg_flow, flags) == 27 &&
		       offsetof(struct tg_flow, window_down) == 29 &&
		       offsetof(struct tg_flow, window_up) == 30 &&
		       offsetof(struct tg_flow, waits) == 31 &&
		       offsetof(struct tg_flow, server_acked) == 16 &&
		       offsetof(struct tg_flow, server_port) == 22,
	       "where things stand in the first and the last two words of a flow");
_Static_assert(offsetof(struct tg_flow_key, ports) == 0 && offsetof(struct tg_flow_key, family) == 4 &&
		       offsetof(struct tg_flow_key, a) == 8,
	       "an IPv4 flow's key is two words");

/* ---- first stage ---- */

/* Lanes that are not whole ACKs; which of the others have timestamps. */
TG_INLINE __mmask8 tg_wide_segments_odd(const __m512i q[8], __m512i lens, __mmask8 *ts)
{
	__m512i flags = _mm512_and_si512(q[4], TG_WIDE_ALL(0x170000000000)); /* FIN, SYN, RST, ACK */
	__m512i hdr = _mm512_and_si512(q[4], TG_WIDE_ALL(0xf000000000));
	__m512i total = tg_wide_swap16(_mm512_srli_epi64(q[0], 48));
	__m512i len = _mm512_and_si512(_mm512_srli_epi64(lens, 32), TG_WIDE_ALL(0xffff));
	__mmask8 bare = _mm512_cmpeq_epi64_mask(hdr, TG_WIDE_ALL(0x5000000000)), odd;
	__m512i least;

	*ts = _mm512_cmpeq_epi64_mask(hdr, TG_WIDE_ALL(0x8000000000)) &
	      _mm512_cmpeq_epi64_mask(
		      _mm512_srli_epi64(q[5], 32),
		      TG_WIDE_ALL(TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_TIMESTAMP, 10)));
	least = _mm512_mask_blend_epi64(*ts, TG_WIDE_ALL(TG_IPV4_HDR_LEN + TG_TCP_HDR_LEN),
					TG_WIDE_ALL(TG_IPV4_HDR_LEN + TG_TCP_HDR_TS));
	odd = (__mmask8) ~(bare | *ts);
	odd |= _mm512_cmpneq_epi64_mask(flags, TG_WIDE_ALL(0x100000000000));
	odd |= _mm512_cmplt_epi64_mask(total, least);
	return odd |
	       _mm512_cmpgt_epi64_mask(_mm512_add_epi64(total, TG_WIDE_ALL(TG_ETH_HDR_LEN)), len);
}

/* Eight frames, the first of which is number `at` of the burst. False: process them one by one. */
TG_INLINE bool tg_wide_segments_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				     const struct tg_wide_frames *f)
{
	struct tg_wide_segments *g = &w->fast.segments8[at / TG_WIDE];
	struct tg_siphash_batch *b = &w->fast.wide_flows;
	const __m512i first = TG_WIDE_ALL((uintptr_t)m[0]),
		      none = TG_WIDE_ALL(RTE_MBUF_F_RX_L4_CKSUM_NONE);
	/* pkt_len, data_len, vlan_tci */
	__m512i lens = _mm512_i64gather_epi64(
		_mm512_sub_epi64(_mm512_loadu_si512(m), first),
		(const uint8_t *)m[0] + offsetof(struct rte_mbuf, pkt_len), 1);
	__mmask8 ts, to, from, flags_word = 1 << offsetof(struct rte_mbuf, ol_flags) / 8;
	__m512i q[8], ports;

	/* Partial checksums; eight frames of which some have one flag bit and some the other look like them, too. */
	if (!w->config->flows ||
	    _mm512_mask_cmpeq_epi64_mask(flags_word, _mm512_and_si512(f->mbuf_any, none), none))
		return false;
	tg_wide_columns(f->columns.even, false, &q[0], &q[4]);
	tg_wide_columns(f->columns.even, true, &q[2], &q[6]);
	tg_wide_columns(f->columns.odd, false, &q[1], &q[5]);
	tg_wide_columns(f->columns.odd, true, &q[3], &q[7]);
	if (tg_wide_segments_odd(q, lens, &ts))
		return false;
	ports = _mm512_and_si512(q[3], TG_WIDE_LOW);
	to = tg_wide_protected(w->config, _mm512_srli_epi64(ports, 16));
	from = tg_wide_protected(w->config, _mm512_and_si512(ports, TG_WIDE_ALL(0xffff)));
	if ((to ^ from) != 0xff)
		return false;
	/* the flow's key, in the order of its client's segments */
	ports = _mm512_mask_blend_epi64(to, _mm512_rol_epi32(ports, 16), ports);
	_mm512_store_si512(&b->m[0][at], _mm512_mask_rol_epi64(q[2], from, q[2], 32));
	_mm512_store_si512(&b->m[1][at], _mm512_or_si512(ports, TG_WIDE_ALL(TG_TUPLE_TAIL(4, 0))));
	b->n = at + TG_WIDE;
	_mm512_store_si512(g->q3, q[3]);
	_mm512_store_si512(g->q4, q[4]);
	_mm512_store_si512(g->q5, q[5]);
	_mm512_store_si512(g->q6, q[6]);
	_mm512_store_si512(g->lens, lens);
	g->to = to;
	g->ts = ts;
	return true;
}

/* ---- second stage ---- */

/* The buckets have been fetched; fetches the entries. False: some flow is not in its most likely
 * place, if it exists. */
TG_INLINE bool tg_wide_segments_fetch(struct tg_worker *w, uint32_t at)
{
	const struct tg_bucket *buckets = tg_flow_buckets(w->flows.swap.active);
	const struct tg_flow_entry *entries = tg_flow_entries(&w->flows, w->flows.swap.active);
	const uint64_t *hash = &w->fast.wide_flows.out[at];
	struct tg_wide_segments *g = &w->fast.segments8[at / TG_WIDE];
	uint32_t missing = 0, i;

	for (i = 0; i < TG_WIDE; i++) {
		uint32_t bucket = tg_flow_first(&w->flows, hash[i]);
		uint32_t bits = tg_bucket_match(&buckets[bucket], tg_flow_sig(hash[i]));

		missing |= bits == 0;
		g->slot[i] = bucket * TG_BUCKET_SLOTS +
			     (uint32_t)__builtin_ctz(bits | 1U << (TG_BUCKET_SLOTS - 1));
		__builtin_prefetch(&entries[g->slot[i]], 1);
	}
	return !missing;
}

/* Splits a group of eight into single frames. */
static void __attribute__((noinline)) tg_wide_segments_part(struct tg_worker *w,
							    struct rte_mbuf *const *m, uint32_t at)
{
	const struct tg_wide_segments *g = &w->fast.segments8[at / TG_WIDE];
	struct tg_siphash_batch *b = &w->fast.flows4;
	uint32_t i;

	for (i = 0; i < TG_WIDE; i++) {
		w->fast.path[at + i] = TG_FAST_SEGMENT;
		w->fast.frame[at + i] = (struct tg_fast_frame){
			.m = m[i],
			.ip = TG_DATA(m[i]) + TG_ETH_HDR_LEN,
			.slot = g->slot[i],
			.lane = (int16_t)b->n,
			.l3_off = TG_ETH_HDR_LEN,
			.dir = g->to >> i & 1 ? TG_TO_SERVER : TG_TO_CLIENT,
		};
		b->out[b->n++] = w->fast.wide_flows.out[at + i]; /* hashed already */
	}
}

/* ---- last stage ---- */

/* A column of the eight flows: the word at `offset` of each entry. */
TG_INLINE __m512i tg_wide_entries(const struct tg_worker *w, __m512i slot, size_t offset)
{
	const uint8_t *entries = (const uint8_t *)tg_flow_entries(&w->flows, w->flows.swap.active);

	_Static_assert(sizeof(struct tg_flow_entry) == 128, "a slot is 2^7 bytes");
	return _mm512_i64gather_epi64(_mm512_slli_epi64(slot, 7), entries + offset, 1);
}

/* Rescales windows; returns what that adds to the checksums' sums. */
TG_INLINE __m512i tg_wide_windows(__m512i *q4, __m512i shift)
{
	__m512i was = _mm512_srli_epi64(*q4, 48), zero = _mm512_setzero_si512(), is;
	__mmask8 moves = _mm512_test_epi64_mask(shift, shift);
	__m512i up = _mm512_and_si512(_mm512_max_epi64(shift, zero), TG_WIDE_ALL(15));
	__m512i down = _mm512_and_si512(_mm512_max_epi64(_mm512_sub_epi64(zero, shift), zero),
					TG_WIDE_ALL(15));

	is = _mm512_min_epu64(_mm512_sllv_epi64(tg_wide_swap16(was), up), TG_WIDE_ALL(0xffff));
	is = tg_wide_swap16(_mm512_srlv_epi64(is, down));
	*q4 = _mm512_mask_blend_epi64(
		moves, *q4,
		_mm512_or_si512(_mm512_and_si512(*q4, TG_WIDE_ALL(0xffffffffffff)),
				_mm512_slli_epi64(is, 48)));
	return _mm512_maskz_add_epi64(moves, _mm512_xor_si512(was, TG_WIDE_ALL(0xffff)), is);
}

/* Writes 32 bytes of each frame, from the start of the TCP header on. */
TG_INLINE void tg_wide_segments_write(struct rte_mbuf *const *m, __m512i q3, __m512i q4, __m512i q5,
				      __m512i q6)
{
	const __m512i columns[4] = {q3, q4, q5, q6};
	__m512i even[2], odd[2];
	uint32_t i;

	tg_wide_pair(columns, 2, even, odd);
#pragma GCC unroll 8
	for (i = 0; i < TG_WIDE; i++)
		tg_wide_write(TG_DATA(m[i]) + TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN, even, odd, 2, i);
}

/* tg_flow_note_acked for eight segments, of which those not in `to` are servers'. `acks`:
 * their acknowledgements, as on the wire, in the low halves. */
TG_INLINE void tg_wide_note_acked(struct tg_worker *w, __m512i slot, __mmask8 to, __m512i acks,
				  uint16_t port)
{
	uint8_t *entries = (uint8_t *)tg_flow_entries(&w->flows, w->flows.swap.active) +
			   offsetof(struct tg_flow_entry, flow.server_acked);
	__m512i word = tg_wide_entries(w, slot, offsetof(struct tg_flow_entry, flow.server_acked));
	__m512i ack = _mm512_and_si512(tg_wide_swap32(acks), TG_WIDE_LOW);
	__mmask8 moves = _mm512_mask_cmpneq_epi64_mask((__mmask8)~to,
						       _mm512_and_si512(word, TG_WIDE_LOW), ack);

	moves &= _mm512_cmpeq_epi64_mask(_mm512_srli_epi64(word, 48), TG_WIDE_ALL(port));
	if (TG_UNLIKELY(moves)) /* in order of lanes: of two for one flow the later one counts */
		_mm512_mask_i64scatter_epi32(entries, moves, _mm512_slli_epi64(slot, 7),
					     _mm512_cvtepi64_epi32(ack), 1);
}

/* Translates eight segments. False, with nothing changed: some flow is not ready, or waits,
 * or is ending, or is another one. */
TG_INLINE bool tg_wide_segments_translate(struct tg_worker *w, struct rte_mbuf *const *m,
					  uint32_t at, uint16_t port)
{
	const struct tg_wide_segments *g = &w->fast.segments8[at / TG_WIDE];
	const __mmask8 to = g->to;
	__m512i slot = _mm512_cvtepu32_epi64(_mm256_load_si256((const __m256i *)g->slot));
	__m512i key = _mm512_and_si512(_mm512_load_si512(&w->fast.wide_flows.m[1][at]), TG_WIDE_LOW);
	__m512i addrs = _mm512_load_si512(&w->fast.wide_flows.m[0][at]);
	__m512i tail = tg_wide_entries(w, slot, offsetof(struct tg_flow_entry, flow.service));
	__m512i delta = tg_wide_entries(w, slot, 0);
	__m512i q3 = _mm512_load_si512(g->q3), q4 = _mm512_load_si512(g->q4),
		q5 = _mm512_load_si512(g->q5);
	__m512i q6 = _mm512_load_si512(g->q6), was, is, turned, sum, change, shift;
	__mmask8 odd, ts;

	key = _mm512_or_si512(key, TG_WIDE_ALL(4ULL << 32));
	odd = _mm512_cmpneq_epi64_mask(tg_wide_entries(w, slot, offsetof(struct tg_flow_entry, key)),
				       key);
	odd |= _mm512_cmpneq_epi64_mask(
		tg_wide_entries(w, slot, offsetof(struct tg_flow_entry, key.a)), addrs);
	odd |= _mm512_cmpneq_epi64_mask(
		_mm512_and_si512(tail, TG_WIDE_ALL(0xffULL << 56 | (0xffULL & ~TG_FLOW_TS) << 24 |
						   0xff << 16)),
		TG_WIDE_ALL(TG_FLOW_READY << 16));
	if (TG_UNLIKELY(odd))
		return false;
	tg_wide_note_acked(w, slot, to, q4, port);
	ts = g->ts & _mm512_test_epi64_mask(tail, TG_WIDE_ALL((uint64_t)TG_FLOW_TS << 24));
	/* To the server: ACK number and TSecr grow; to the client: number and TSval shrink. */
	was = _mm512_mask_blend_epi64(to,
				      _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(q3, 32),
							      _mm512_slli_epi64(q6, 32)),
				      _mm512_mask_blend_epi32(0xaaaa, q4, q6));
	turned = tg_wide_swap32(was);
	is = tg_wide_swap32(_mm512_mask_add_epi32(_mm512_sub_epi32(turned, delta),
						  (__mmask16)_pdep_u32(to, 0x5555) * 3, turned,
						  delta));
	/* only the number, where there are no timestamps */
	change = _mm512_mask_blend_epi64(ts, TG_WIDE_LOW, TG_WIDE_ALL(~0ULL));
	is = _mm512_ternarylogic_epi64(change, is, was, 0xca);
	sum = _mm512_and_si512(_mm512_xor_si512(was, TG_WIDE_ALL(~0ULL)), change);
	was = _mm512_and_si512(is, change);
	sum = _mm512_add_epi64(
		_mm512_add_epi64(_mm512_and_si512(sum, TG_WIDE_LOW), _mm512_srli_epi64(sum, 32)),
		_mm512_add_epi64(_mm512_and_si512(was, TG_WIDE_LOW), _mm512_srli_epi64(was, 32)));
	/* numbers back to their places */
	q3 = _mm512_mask_blend_epi64(
		to, _mm512_mask_blend_epi32(0xaaaa, q3, _mm512_slli_epi64(is, 32)), q3);
	q4 = _mm512_mask_blend_epi32((__mmask16)_pdep_u32(to, 0x5555), q4, is);
	q6 = _mm512_mask_blend_epi64(to,
				     _mm512_mask_blend_epi32(0x5555, q6, _mm512_srli_epi64(is, 32)),
				     _mm512_mask_blend_epi32(0xaaaa, q6, is));
	shift = _mm512_srai_epi64(
		_mm512_sllv_epi64(tail, _mm512_mask_blend_epi64(to, TG_WIDE_ALL(16), TG_WIDE_ALL(8))),
		56);
	shift = _mm512_mask_and_epi64(shift, to, shift,
				      TG_WIDE_ALL(0xff)); /* the number to the server has no sign */
	if (_mm512_test_epi64_mask(shift, shift))
		sum = _mm512_add_epi64(sum, tg_wide_windows(&q4, shift));
	sum = _mm512_add_epi64(sum, _mm512_andnot_si512(q5, TG_WIDE_ALL(0xffff)));
	q5 = _mm512_ternarylogic_epi64(TG_WIDE_ALL(0xffff), tg_wide_csum_finish(sum), q5, 0xca);
	tg_wide_segments_write(m, q3, q4, q5, q6);
	return true;
}

/* Where a router sends eight segments. False: one cannot leave, and its sender gets an ICMP error. */
static bool __attribute__((noinline)) tg_wide_segments_outputs(const struct tg_worker *w,
							       struct rte_mbuf *const *m,
							       struct tg_output output[8])
{
	bool open = true;
	int i;

	for (i = 0; i < TG_WIDE; i++) {
		struct tg_fast_frame f = {
			.m = m[i], .ip = TG_DATA(m[i]) + TG_ETH_HDR_LEN, .l3_off = TG_ETH_HDR_LEN};

		open = open && tg_fast_segment_output(w, &f, &output[i]);
	}
	return open;
}

/* Translates eight segments and sends them. False, with nothing changed: process them one by one. */
TG_INLINE bool tg_wide_segments_send(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				     uint16_t port)
{
	uint16_t to = port ^ 1, i;
	__m512i lens = _mm512_and_si512(_mm512_load_si512(w->fast.segments8[at / TG_WIDE].lens),
					TG_WIDE_LOW);
	struct tg_output output[TG_WIDE];

	if (TG_UNLIKELY(w->config->router)
		    ? !tg_wide_segments_outputs(w, m, output)
		    : to >= w->ports_n ||
			      _mm512_cmpgt_epi64_mask(lens, TG_WIDE_ALL(w->ports[to].max_frame)))
		return false;
	if (TG_UNLIKELY(!tg_wide_segments_translate(w, m, at, port)))
		return false;
	if (TG_LIKELY(!w->config->router))
		tg_wide_send(w, to, m);
	else
		for (i = 0; i < TG_WIDE; i++)
			tg_output_send(w, m[i], TG_ETH_HDR_LEN, 4, &output[i]);
	w->fast.segments += TG_WIDE;
	w->fast.wide_segments += TG_WIDE;
	return true;
}
#endif

#endif
