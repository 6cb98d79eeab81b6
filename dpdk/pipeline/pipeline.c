/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of pipeline.h. Compiled three times: for any CPU that DPDK runs on, for
 * those with AVX2 and what came with it (x86-64-v3), and for those with AVX-512
 * (x86-64-v4), as TG_PIPELINE.
 */
#include "pipeline.h"

#include "answer.h"
#include "classify.h"
#include "fast_flow.h"
#include "fast_forward.h"
#include "fast_syn.h"
#include "flood.h"
#include "flow_setup.h"
#include "hash.h"
#include "icmp.h"
#include "wide_take.h"

#ifndef TG_PIPELINE
#define TG_PIPELINE tg_pipeline_burst_any
#endif

#define PREFETCH_AHEAD 6 /* frames whose first line is fetched before its turn */

/* ---- act ---- */

/* A client's packet to a service, without a flow, or with one that it does not
 * belong to. */
static inline void act_case(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	uint8_t strategy = w->config->proxy_cfg[it->id].strategy;

	if (!it->id) {
		tg_forward(w, it);
		return;
	}
	if (TG_UNLIKELY(w->config->services[it->id].automatic) &&
	    tg_auto_goes_by(w, &it->pkt, it->id)) {
		tg_forward(w, it);
		return;
	}
	if (tg_host_is_syn(&it->pkt)) {
		if (w->config->flows)
			e = tg_flow_find(w, it, TG_TO_SERVER);
		tg_noflow_syn(w, it, e && tg_flow_is_live(&e->flow));
	} else if (tg_proxy_unasked(&w->config->services[it->id], it->parse)) {
		tg_forward(w, it);
	} else if (strategy == TG_STRATEGY_COOKIE) {
		tg_cookie_other(w, it, e);
	} else if (strategy == TG_STRATEGY_CACHE) {
		if (!tg_cache_other(w, it, e))
			tg_cookie_other(w, it, e);
	} else {
		tg_auth_other(w, it, strategy);
	}
}

static inline void act_tcp(struct tg_worker *w, struct tg_item *it)
{
	struct tg_flow_entry *e = NULL, *back;

	if (w->config->flows && it->to_service && !tg_host_is_syn(&it->pkt)) {
		e = tg_flow_find(w, it, TG_TO_SERVER);
		if (e && tg_from_client(w, it, e))
			return;
	}
	if (!e && w->config->flows && it->from_service) {
		back = tg_flow_find(w, it, TG_TO_CLIENT);
		if (back) {
			tg_from_server(w, it, back);
			return;
		}
		if (TG_UNLIKELY(it->pkt.flags & (TG_TCP_SYN | TG_TCP_RST)) && tg_closed_any(w))
			tg_closed_listen(w, it);
	}
	if (it->to_service) {
		act_case(w, it, e);
		return;
	}
	if (TG_UNLIKELY(w->config->automatic &&
			(it->pkt.flags & (TG_TCP_SYN | TG_TCP_ACK)) == (TG_TCP_SYN | TG_TCP_ACK)))
		tg_auto_synack(w, &it->pkt);
	tg_forward(w, it);
}

/* Not TCP, or a later fragment, or a packet that no stack sends (RFC 1858). */
static void act_other(struct tg_worker *w, struct tg_item *it)
{
	const uint8_t *data = TG_DATA(it->m);
	struct tg_decision d = tg_host_judge_parse(it->parse);
	tg_ethertype type;
	union tg_addr dst = {{0, 0}};

	if (d.verdict == TG_DROP) {
		tg_count(w, 0, w->config->enforce ? d.counter : TG_COUNT_would_drop);
		if (w->config->enforce) {
			tg_drop(w, it->m);
			return;
		}
	} else if (w->config->flows && it->pkt.l3_off) {
		tg_icmp_translate(w, it);
	}
	if (!w->config->router) {
		tg_forward_ip(w, it->m, it->port, 0, 0, &dst, true);
		return;
	}
	type = tg_packet_ethernet(&it->pkt, data, data + it->m->data_len);
	if (type == TG_ETHERTYPE_IPV4 && it->m->data_len >= it->pkt.l3_off + TG_IPV4_HDR_LEN) {
		dst.w[0] = tg_load32(data + it->pkt.l3_off + 16);
		tg_forward_ip(w, it->m, it->port, it->pkt.l3_off, 4, &dst, true);
	} else if (type == TG_ETHERTYPE_IPV6 && it->m->data_len >= it->pkt.l3_off + TG_IPV6_HDR_LEN) {
		memcpy(&dst, data + it->pkt.l3_off + 24, 16);
		tg_forward_ip(w, it->m, it->port, it->pkt.l3_off, 6, &dst, true);
	} else {
		tg_count(w, 0, TG_COUNT_drop_no_route);
		tg_drop(w, it->m);
	}
}

static inline void act(struct tg_worker *w, struct tg_item *it)
{
	if (TG_LIKELY(it->todo == TG_TODO_TCP))
		act_tcp(w, it);
	else if (it->todo != TG_TODO_GONE)
		act_other(w, it);
}

/* ---- a burst ---- */

/* TG_WIDE frames from this one on, if they are all alike. False: they are processed one by one. */
static inline bool take_wide(struct tg_worker *w, struct rte_mbuf **m, uint32_t at, uint32_t n,
			     uint64_t mac, uint64_t mask)
{
#if TG_HAS_WIDE
	enum tg_wide_kind kind;
	uint8_t path;

	if (at % TG_WIDE != 0 || at + TG_WIDE > n || w->fast.off)
		return false;
	kind = tg_wide_may(w, m[at]);
	if (kind == TG_WIDE_NONE)
		return false;
	if (at + 2 * TG_WIDE <= n)
		tg_wide_fetch(m + at + TG_WIDE, m[at]->data_off);
	path = tg_wide_take(w, m + at, at, mac, mask, kind);
	if (path == TG_SLOW_PATH)
		return false;
	memset(&w->fast.path[at], path, TG_WIDE);
	return true;
#else
	(void)w, (void)m, (void)at, (void)n, (void)mac, (void)mask;
	return false;
#endif
}

static inline void fetch_first(struct rte_mbuf *const *m, uint32_t n)
{
	uint32_t i;

#pragma GCC unroll 6 /* PREFETCH_AHEAD */
	for (i = 0; i < n; i++)
		__builtin_prefetch(TG_DATA(m[i]));
}

static inline struct tg_fast_bits bits_of(const struct tg_swap *s)
{
	return (struct tg_fast_bits){{s->active->presence, s->history->presence}, tg_swap_front(s)};
}

/* A bridge answers no frame to a group address; a router accepts only frames to itself. No source is a group. */
static inline struct tg_macs macs_of(const struct tg_worker *w, uint16_t port)
{
	struct tg_macs macs = {0, (w->config->router ? 0xffffffffffffULL : 1) | 1ULL << 48};

	if (w->config->router)
		memcpy(&macs.want, w->ports[port].mac, 6);
	return macs;
}

/* Before the first stage. */
static inline void begin(struct tg_worker *w)
{
	w->fast.flow_bits = bits_of(&w->flows.swap);
	w->fast.white_bits = bits_of(&w->white.hash);
	w->fast.burst_no += w->fast.burst_no == UINT32_MAX ? 2 : 1;
	w->fast.wide_last = NULL;
	w->fast.options.form = NULL;
	w->fast.apart -= w->fast.apart != 0;
	w->fast.apart6 -= w->fast.apart6 != 0;
	w->fast.no_flood -= w->fast.no_flood != 0;
	w->fast.no_block -= w->fast.no_block != 0;
}

/* First stage: chooses each frame's path; `single` frames are no group, as has been found already. Returns how many take
 * the slow path. */
static inline uint32_t take(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port,
			    struct tg_macs macs, uint32_t single)
{
	const uint64_t mac = macs.want, mask = macs.mask;
	uint32_t i, many = 0;

	for (i = 0; i < n; i++) {
		if (i >= single && take_wide(w, m, i, n, mac, mask)) {
			i += TG_WIDE - 1;
			continue;
		}
		if (i + PREFETCH_AHEAD < n)
			__builtin_prefetch(TG_DATA(m[i + PREFETCH_AHEAD]));
		w->fast.path[i] = TG_UNLIKELY(w->fast.off)
					  ? TG_SLOW_PATH
					  : tg_fast_take(w, &w->fast.frame[i], m[i], mac, mask);
		if (w->fast.path[i] == TG_SLOW_PATH) {
			classify(w, &w->items[i], m[i], port);
			many++;
		}
	}
	return many;
}

/* Second stage of frames whose path is one of several at once: their entries are being fetched, or their sources may
 * send them. False: they are single frames now. */
static inline bool foresee_together(struct tg_worker *w, struct rte_mbuf **m, uint32_t at)
{
#if TG_HAS_WIDE
	switch (w->fast.path[at]) {
	case TG_FAST_WIDE_SEGMENT:
		if (TG_LIKELY(tg_wide_segments_fetch(w, at)))
			return true;
		tg_wide_segments_part(w, m, at);
		return false;
	case TG_FAST_WIDE_FORWARD:
		if (TG_LIKELY(tg_wide_forwards_may(w, at)))
			return true;
		tg_wide_forwards_part(w, m, at);
		return false;
	default: /* SYNs */
		return true;
	}
#else
	(void)w, (void)m, (void)at;
	return false;
#endif
}

/* Second stage, for frames other than a flood's SYNs. */
TG_INLINE void foresee_all(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (w->fast.path[i] >= TG_FAST_WIDE && foresee_together(w, m + i, i)) {
			i += TG_WIDE - 1;
			continue;
		}
		if ((w->fast.path[i] == TG_FAST_SEGMENT &&
		     !tg_fast_segment_fetch(w, &w->fast.frame[i])) ||
		    (w->fast.path[i] == TG_FAST_FORWARD &&
		     !tg_fast_forward_may(w, &w->fast.frame[i]))) {
			w->fast.path[i] = TG_SLOW_PATH;
			classify(w, &w->items[i], w->fast.frame[i].m, port);
		}
		if (w->fast.path[i] == TG_SLOW_PATH && w->items[i].todo == TG_TODO_TCP)
			foresee(w, &w->items[i]);
	}
}

/* The slow path for a frame that the last stage finds to need it. The first stage has
 * prepared nothing: its hash lanes belong to other frames, whose hashes are done. */
static void __attribute__((noinline)) act_alone(struct tg_worker *w, struct rte_mbuf *m, uint32_t i,
						uint16_t port)
{
	uint32_t n[4] = {w->cookies4.n, w->cookies6.n, w->halves4.n, w->halves6.n};
	struct tg_item *it = &w->items[i];

	w->cookies4.n = w->cookies6.n = w->halves4.n = w->halves6.n = 0;
	classify(w, it, m, port);
	it->cookie_lane = it->half_lane = -1;
	w->cookies4.n = n[0], w->cookies6.n = n[1], w->halves4.n = n[2], w->halves6.n = n[3];
	act(w, it);
}

#if TG_HAS_WIDE
/* Sends TG_WIDE SYNs, which are answered but for those in `known`. True if one of them took another path, so that the
 * tables may have changed. */
TG_INLINE bool act_wide_group(struct tg_worker *w, struct rte_mbuf **m, uint32_t at, uint16_t port,
			      uint32_t known, struct tg_fast_tally *tally)
{
	uint32_t i;

	tg_wide_tally(w, &w->fast.group[at / TG_WIDE], known, tally);
	if (TG_LIKELY(!known))
		tg_wide_send(w, port, m, TG_WIDE);
	for (i = 0; TG_UNLIKELY(known) && i < TG_WIDE; i++) {
		if (TG_UNLIKELY(known >> i & 1)) {
			if (!tg_wide_cache_answer(w, m[i], at, i, port))
				act_alone(w, m[i], at + i, port);
		} else
			tg_send(w, port, m[i]);
	}
	w->fast.wides += TG_WIDE - (uint32_t)__builtin_popcount(known);
	return known != 0;
}

/* Answers and sends the group that stopped tg_wide_answer_groups, or SYNs to more than one server. */
static bool __attribute__((noinline)) act_wide_some(struct tg_worker *w, struct rte_mbuf **m,
						    uint32_t at, uint16_t port, uint32_t known,
						    struct tg_fast_tally *tally)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];

	if (!g->alike)
		known = tg_wide_known(w, g, at);
	if (known != TG_WIDE_LANES)
		tg_wide_answer_some(w, m, at, known);
	return act_wide_group(w, m, at, port, known, tally);
}

/* Answers and sends SYNs of one group or more, of a burst of `n` frames. Returns how many frames these are. */
TG_INLINE uint32_t act_wide(struct tg_worker *w, struct rte_mbuf **m, uint32_t at, uint32_t n,
			    uint16_t port, bool *changed, struct tg_fast_tally *tally)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	uint32_t known = 0, done = g->alike ? tg_wide_answer_groups(w, m, at, n, &known) : 0;

	if (TG_LIKELY(done)) {
		tg_fast_tally_turn(w, tally, g->server[0]);
		tally->n += done;
		w->fast.wides += done;
		tg_wide_send(w, port, m, done);
		if (TG_LIKELY(!known))
			return done;
	}
	*changed |= act_wide_some(w, m + done, at + done, port, known, tally);
	return done + TG_WIDE;
}

static bool __attribute__((noinline)) act_wide_v6(struct tg_worker *w, struct rte_mbuf **m,
						  uint32_t at, uint16_t port,
						  struct tg_fast_tally *tally)
{
	return act_wide_group(w, m, at, port, tg_wide_v6_answer(w, m, at), tally);
}
#endif

/* Answers a SYN. False: the slow path. */
static inline bool act_syn(struct tg_worker *w, const struct tg_fast_frame *f, uint32_t i,
			   uint16_t port, struct tg_fast_tally *tally)
{
	if (TG_UNLIKELY(tg_fast_syn_is_known(w, f)))
		return false;
	if (TG_UNLIKELY(f->server->strategy == TG_STRATEGY_CACHE) &&
	    !tg_fast_cache_is_full(w, tg_fast_half(w, f)))
		return tg_fast_cache_answer(w, &w->items[i], f, tg_fast_half(w, f), port);
	tg_fast_answer(w, f, port, tally);
	return true;
}

/* Translates segments together; otherwise they are single frames now. */
static inline bool act_wide_segments(struct tg_worker *w, struct rte_mbuf **m, uint32_t at,
				     uint16_t port)
{
#if TG_HAS_WIDE
	if (TG_LIKELY(tg_wide_segments_send(w, m, at, port)))
		return true;
	tg_wide_segments_part(w, m, at);
#else
	(void)w, (void)m, (void)at, (void)port;
#endif
	return false;
}

/* Forwards segments together; otherwise they are single frames now. */
static inline bool act_wide_forwards(struct tg_worker *w, struct rte_mbuf **m, uint32_t at,
				     uint16_t port, bool changed)
{
#if TG_HAS_WIDE
	if (TG_LIKELY(!changed || tg_wide_forwards_may(w, at))) {
		tg_wide_forwards_send(w, m, port);
		return true;
	}
	tg_wide_forwards_part(w, m, at);
#else
	(void)w, (void)m, (void)at, (void)port, (void)changed;
#endif
	return false;
}

/* The frames from this one on, of a burst of `n`, if their path is one of several at once. `changed`: since the second
 * stage the tables may have. Returns how many these are; 0: a single frame. */
static inline uint32_t act_together(struct tg_worker *w, struct rte_mbuf **m, uint32_t at, uint32_t n,
				    uint16_t port, bool *changed, struct tg_fast_tally *tally)
{
	(void)n, (void)tally; /* where nothing is wide */
	switch (w->fast.path[at]) {
#if TG_HAS_WIDE
	case TG_FAST_WIDE:
		return act_wide(w, m, at, n, port, changed, tally);
	case TG_FAST_WIDE_V6:
		*changed |= act_wide_v6(w, m, at, port, tally);
		return TG_WIDE;
#endif
	case TG_FAST_WIDE_SEGMENT:
		return act_wide_segments(w, m, at, port) ? TG_WIDE : 0;
	case TG_FAST_WIDE_FORWARD:
		return act_wide_forwards(w, m, at, port, *changed) ? TG_WIDE : 0;
	default:
		return 0;
	}
}

/* All frames from this one on, in stages. */
TG_INLINE void stages(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port,
		      struct tg_macs macs, uint32_t single, struct tg_fast_tally *tally)
{
	bool changed = false; /* what the tables have, by an earlier frame of this burst */
	uint32_t i, many, together;

	w->cookies4.n = w->cookies6.n = w->flows4.n = w->flows6.n = w->halves4.n = w->halves6.n = 0;
	w->fast.cookies4.batch.n = w->fast.cookies6.batch.n = w->fast.wide_halves6.n = 0;
	w->fast.flows4.n = w->fast.flows6.n = 0;
	w->fast.wide_flows.n = w->fast.halves4.n = w->fast.halves6.n = w->fast.wide_halves.n = 0;
	w->fast.forwards = 0;
	many = take(w, m, n, port, macs, single);
	tg_hash_fast(w);
	if (many || (w->fast.flows4.n | w->fast.flows6.n | w->fast.wide_flows.n | w->fast.forwards)) {
		foresee_all(w, m, n, port);
		tg_hash_all(w, n);
	}
	for (i = 0; i < n; i++) {
		struct tg_fast_frame *f = &w->fast.frame[i];
		uint8_t path;

		together = act_together(w, m + i, i, n, port, &changed, tally);
		if (together) {
			i += together - 1;
			continue;
		}
		path = w->fast.path[i];
		if (TG_LIKELY(path == TG_FAST_SYN && act_syn(w, f, i, port, tally)))
			continue;
		if (path == TG_FAST_FORWARD && tg_fast_forward_may(w, f)) {
			tg_fast_forward_send(w, f, port);
			continue;
		}
		changed = true;
		if (path == TG_SLOW_PATH)
			act(w, &w->items[i]);
		else if (path != TG_FAST_SEGMENT || !tg_fast_segment_send(w, f, port))
			act_alone(w, m[i], i, port);
	}
}

static void burst(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port)
{
	const struct tg_macs macs = macs_of(w, port);
	struct tg_fast_tally tally = {0};
	uint32_t done, single = 0;

	begin(w);
	fetch_first(m, n < PREFETCH_AHEAD ? n : PREFETCH_AHEAD);
	done = tg_flood_act(w, m, n, port, macs, &tally, &single);
	if (TG_UNLIKELY(done != n))
		stages(w, m + done, n - done, port, macs, single, &tally);
	tg_fast_tally_flush(w, &tally);
}

void TG_PIPELINE(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port)
{
	uint32_t at, p;

	for (at = 0; at < n; at += TG_BURST_MAX)
		burst(w, m + at, n - at < TG_BURST_MAX ? n - at : TG_BURST_MAX, port);
	for (p = 0; p < w->ports_n; p++)
		tg_flush(w, (uint16_t)p);
}
