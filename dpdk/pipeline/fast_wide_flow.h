/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of several segments of connections at once (wide.h): ACKs of IPv4, with
 * no options or with timestamps where nearly all senders put them, each of any flow
 * that is ready, in either direction. core/translate.h, lane by lane: tg_translate_header,
 * tg_translate_timestamps, tg_translate_checksum, tg_window_shift.
 *
 * The burst waits for memory twice, for all together: buckets, then entries.
 *
 * Must never: change a frame before it is sure that all are translated; those that are not
 * are handled one by one (tg_wide_segments_part), in their order.
 */
#ifndef TG_DPDK_FAST_WIDE_FLOW_H
#define TG_DPDK_FAST_WIDE_FLOW_H

#include "fast_wide.h"

#if TG_HAS_WIDE
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
TG_INLINE tg_wide_lanes tg_wide_segments_odd(const tg_wide q[8], tg_wide lens, tg_wide_lanes *ts)
{
	tg_wide flags = tg_wide_and(q[4], TG_WIDE_ALL(0x170000000000)); /* FIN, SYN, RST, ACK */
	tg_wide hdr = tg_wide_and(q[4], TG_WIDE_ALL(0xf000000000));
	tg_wide total = tg_wide_swap16(tg_wide_shr(q[0], 48));
	tg_wide_lanes bare = tg_wide_equal(hdr, TG_WIDE_ALL(0x5000000000)), whole;
	tg_wide least;

	*ts = tg_wide_equal(hdr, TG_WIDE_ALL(0x8000000000)) &
	      tg_wide_equal(tg_wide_shr(q[5], 32), TG_WIDE_ALL(TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP,
									 TG_TCPOPT_TIMESTAMP, 10)));
	least = tg_wide_choose(*ts, TG_WIDE_ALL(TG_IPV4_HDR_LEN + TG_TCP_HDR_LEN),
			       TG_WIDE_ALL(TG_IPV4_HDR_LEN + TG_TCP_HDR_TS));
	whole = (bare | *ts) & tg_wide_equal(flags, TG_WIDE_ALL(0x100000000000));
	return (tg_wide_lanes)(whole ^ TG_WIDE_LANES) | tg_wide_less(total, least) |
	       tg_wide_less(tg_wide_data_len(lens), tg_wide_add(total, TG_WIDE_ALL(TG_ETH_HDR_LEN)));
}

/* The frames, the first of which is number `at` of the burst. False: process them one by one. */
TG_INLINE bool tg_wide_segments_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				     const struct tg_wide_frames *f)
{
	struct tg_wide_segments *g = &w->fast.segments8[at / TG_WIDE];
	struct tg_siphash_batch *b = &w->fast.wide_flows;
	tg_wide lens = tg_wide_lens(m), q[8], ports;
	tg_wide_lanes ts, to, from;

	if (!w->config->flows || tg_wide_is_partial(f, m[0]))
		return false;
	tg_wide_columns(f->columns.even, false, &q[0], &q[4]);
	tg_wide_columns(f->columns.even, true, &q[2], &q[6]);
	tg_wide_columns(f->columns.odd, false, &q[1], &q[5]);
	tg_wide_columns(f->columns.odd, true, &q[3], &q[7]);
	if (tg_wide_segments_odd(q, lens, &ts))
		return false;
	ports = tg_wide_and(q[3], TG_WIDE_LOW);
	to = tg_wide_protected(w->config, tg_wide_shr(ports, 16));
	from = tg_wide_protected(w->config, ports);
	if ((to ^ from) != TG_WIDE_LANES)
		return false;
	/* the flow's key, in the order of its client's segments */
	ports = tg_wide_choose(to, tg_wide_swap_shorts(ports), ports);
	tg_wide_store(&b->m[0][at], tg_wide_choose(to, tg_wide_swap_halves(q[2]), q[2]));
	tg_wide_store(&b->m[1][at], tg_wide_or(ports, TG_WIDE_ALL(TG_TUPLE_TAIL(4, 0))));
	b->n = at + TG_WIDE;
	tg_wide_store(g->q3, q[3]);
	tg_wide_store(g->q4, q[4]);
	tg_wide_store(g->q5, q[5]);
	tg_wide_store(g->q6, q[6]);
	tg_wide_store(g->lens, lens);
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

/* Splits a group into single frames. */
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
			.slot = (uint32_t)g->slot[i],
			.lane = (int16_t)b->n,
			.l3_off = TG_ETH_HDR_LEN,
			.dir = g->to >> i & 1 ? TG_TO_SERVER : TG_TO_CLIENT,
		};
		b->out[b->n++] = w->fast.wide_flows.out[at + i]; /* hashed already */
	}
}

/* ---- last stage ---- */

/* A column of the flows: the word at `offset` of each entry. */
TG_INLINE tg_wide tg_wide_entries(const struct tg_worker *w, tg_wide slot, size_t offset)
{
	const uint8_t *entries = (const uint8_t *)tg_flow_entries(&w->flows, w->flows.swap.active);

	_Static_assert(sizeof(struct tg_flow_entry) == 128, "a slot is 2^4 words");
	return tg_wide_gather((const uint64_t *)(const void *)(entries + offset),
			      tg_wide_shl(slot, 4));
}

/* Rescales windows; returns what that adds to the checksums' sums. */
TG_INLINE tg_wide tg_wide_windows(tg_wide *q4, tg_wide shift)
{
	const tg_wide zero = TG_WIDE_ALL(0), most = TG_WIDE_ALL(15);
	tg_wide was = tg_wide_shr(*q4, 48), is;
	tg_wide_lanes moves = tg_wide_test(shift, shift);
	tg_wide up = tg_wide_and(tg_wide_positive(shift), most);
	tg_wide down = tg_wide_and(tg_wide_positive(tg_wide_sub(zero, shift)), most);

	is = tg_wide_min(tg_wide_shlv(tg_wide_swap16(was), up), TG_WIDE_ALL(0xffff));
	is = tg_wide_swap16(tg_wide_shrv(is, down));
	*q4 = tg_wide_choose(
		moves, *q4,
		tg_wide_or(tg_wide_and(*q4, TG_WIDE_ALL(0xffffffffffff)), tg_wide_shl(is, 48)));
	was = tg_wide_andnot(was, TG_WIDE_ALL(0xffff));
	return tg_wide_choose(moves, zero, tg_wide_add(was, is));
}

/* Writes 32 bytes of each frame, from the start of the TCP header on. */
TG_INLINE void tg_wide_segments_write(struct rte_mbuf *const *m, tg_wide q3, tg_wide q4, tg_wide q5,
				      tg_wide q6)
{
	const tg_wide columns[4] = {q3, q4, q5, q6};
	uint32_t to = m[0]->data_off + TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN, i;
	struct tg_wide_lines lines = tg_wide_lines_of(columns, 2);

#pragma GCC unroll 8 /* TG_WIDE, or more */
	for (i = 0; i < TG_WIDE; i++)
		tg_wide_write(tg_wide_data(m[i], to), &lines, 2, i);
}

/* tg_flow_note_acked for the segments, of which those not in `to` are servers'. `acks`:
 * their acknowledgements, as on the wire, in the low halves. */
TG_INLINE void tg_wide_note_acked(struct tg_worker *w, const uint64_t *slot, tg_wide word,
				  tg_wide_lanes to, tg_wide acks, uint16_t port)
{
	struct tg_flow_entry *entries = tg_flow_entries(&w->flows, w->flows.swap.active);
	tg_wide ack = tg_wide_and(tg_wide_swap32(acks), TG_WIDE_LOW);
	tg_wide_lanes stays = tg_wide_equal(tg_wide_and(word, TG_WIDE_LOW), ack);
	tg_wide_lanes moves = tg_wide_equal(tg_wide_shr(word, 48), TG_WIDE_ALL(port)) &
			      (tg_wide_lanes) ~(to | stays);
	uint64_t each[TG_WIDE] __attribute__((aligned(64)));

	if (TG_LIKELY(!moves))
		return;
	tg_wide_store(each, ack);
	for (; moves;
	     moves &= (tg_wide_lanes)(moves - 1)) { /* of two for one flow the later one counts */
		uint32_t i = (uint32_t)__builtin_ctz(moves);

		entries[slot[i]].flow.server_acked = (uint32_t)each[i];
	}
}

/* Translates the segments. False, with nothing changed: some flow is not ready, or waits,
 * or is ending, or is another one. */
TG_INLINE bool tg_wide_segments_translate(struct tg_worker *w, struct rte_mbuf *const *m,
					  uint32_t at, uint16_t port)
{
	const struct tg_wide_segments *g = &w->fast.segments8[at / TG_WIDE];
	const tg_wide_lanes to = (tg_wide_lanes)g->to;
	tg_wide slot = tg_wide_load(g->slot);
	tg_wide key = tg_wide_and(tg_wide_load(&w->fast.wide_flows.m[1][at]), TG_WIDE_LOW);
	tg_wide addrs = tg_wide_load(&w->fast.wide_flows.m[0][at]);
	tg_wide tail = tg_wide_entries(w, slot, offsetof(struct tg_flow_entry, flow.service));
	tg_wide delta = tg_wide_entries(w, slot, 0);
	tg_wide q3 = tg_wide_load(g->q3), q4 = tg_wide_load(g->q4), q5 = tg_wide_load(g->q5);
	tg_wide q6 = tg_wide_load(g->q6), was, is, turned, sum, change, shift;
	tg_wide_lanes alike, ts;

	key = tg_wide_or(key, TG_WIDE_ALL(4ULL << 32));
	alike = tg_wide_equal(tg_wide_entries(w, slot, offsetof(struct tg_flow_entry, key)), key);
	alike &= tg_wide_equal(tg_wide_entries(w, slot, offsetof(struct tg_flow_entry, key.a)),
			       addrs);
	alike &= tg_wide_equal(
		tg_wide_and(tail,
			    TG_WIDE_ALL(0xffULL << 56 | (0xffULL & ~TG_FLOW_TS) << 24 | 0xff << 16)),
		TG_WIDE_ALL(TG_FLOW_READY << 16));
	if (TG_UNLIKELY(alike != TG_WIDE_LANES))
		return false;
	if (to != TG_WIDE_LANES)
		tg_wide_note_acked(
			w, g->slot,
			tg_wide_entries(w, slot, offsetof(struct tg_flow_entry, flow.server_acked)),
			to, q4, port);
	ts = (tg_wide_lanes)g->ts & tg_wide_test(tail, TG_WIDE_ALL((uint64_t)TG_FLOW_TS << 24));
	/* To the server: ACK number and TSecr grow; to the client: number and TSval shrink. */
	was = tg_wide_choose(to, tg_wide_blend(tg_wide_shr(q3, 32), tg_wide_shl(q6, 32)),
			     tg_wide_blend(q4, q6));
	turned = tg_wide_swap32(was);
	is = tg_wide_swap32(
		tg_wide_choose(to, tg_wide_sub32(turned, delta), tg_wide_add32(turned, delta)));
	/* only the number, where there are no timestamps */
	change = tg_wide_choose(ts, TG_WIDE_LOW, TG_WIDE_ALL(~0ULL));
	is = tg_wide_select(change, is, was);
	sum = tg_wide_andnot(was, change);
	was = tg_wide_and(is, change);
	sum = tg_wide_add(tg_wide_add(tg_wide_and(sum, TG_WIDE_LOW), tg_wide_shr(sum, 32)),
			  tg_wide_add(tg_wide_and(was, TG_WIDE_LOW), tg_wide_shr(was, 32)));
	/* numbers back to their places */
	q3 = tg_wide_choose(to, tg_wide_blend(q3, tg_wide_shl(is, 32)), q3);
	q4 = tg_wide_choose(to, q4, tg_wide_blend(is, q4));
	q6 = tg_wide_choose(to, tg_wide_blend(tg_wide_shr(is, 32), q6), tg_wide_blend(q6, is));
	/* The number to the server has no sign. */
	shift = tg_wide_choose(to, tg_wide_top_byte(tg_wide_shl(tail, 16)),
			       tg_wide_and(tg_wide_shr(tail, 48), TG_WIDE_ALL(0xff)));
	if (tg_wide_test(shift, shift))
		sum = tg_wide_add(sum, tg_wide_windows(&q4, shift));
	sum = tg_wide_add(sum, tg_wide_andnot(q5, TG_WIDE_ALL(0xffff)));
	q5 = tg_wide_select(TG_WIDE_ALL(0xffff), tg_wide_csum_finish(sum), q5);
	tg_wide_segments_write(m, q3, q4, q5, q6);
	return true;
}

/* Where a router sends the segments. False: one cannot leave, and its sender gets an ICMP error. */
static bool __attribute__((noinline)) tg_wide_segments_outputs(const struct tg_worker *w,
							       struct rte_mbuf *const *m,
							       struct tg_output *output)
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

/* Translates the segments and sends them. False, with nothing changed: process them one by one. */
TG_INLINE bool tg_wide_segments_send(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				     uint16_t port)
{
	uint16_t to = port ^ 1, i;
	tg_wide lens = tg_wide_and(tg_wide_load(w->fast.segments8[at / TG_WIDE].lens), TG_WIDE_LOW);
	struct tg_output output[TG_WIDE];

	if (TG_UNLIKELY(w->config->router)
		    ? !tg_wide_segments_outputs(w, m, output)
		    : to >= w->ports_n || tg_wide_less(TG_WIDE_ALL(w->ports[to].max_frame), lens))
		return false;
	if (TG_UNLIKELY(!tg_wide_segments_translate(w, m, at, port)))
		return false;
	if (TG_LIKELY(!w->config->router))
		tg_wide_send(w, to, m, TG_WIDE);
	else
		for (i = 0; i < TG_WIDE; i++)
			tg_output_send(w, m[i], TG_ETH_HDR_LEN, 4, &output[i]);
	w->fast.segments += TG_WIDE;
	w->fast.wide_segments += TG_WIDE;
	return true;
}
#endif

#endif
