/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a packet to a service that belongs to no flow: SYNs are answered or forwarded,
 * ACKs and RSTs whitelist or connect a client. As bpf/lib/proxy_answer.h; anything else goes to the
 * server unchanged.
 */
#ifndef TG_DPDK_ANSWER_H
#define TG_DPDK_ANSWER_H

#include "advertised.h"
#include "automatic.h"
#include "cache.h"
#include "closed_port.h"

/* ---- first stage ---- */

static inline int16_t tg_lane_cookie(struct tg_worker *w, const struct tg_packet *pkt,
				     uint32_t client_isn, uint32_t option_bits, bool ts_ok,
				     uint64_t epoch, const struct tg_siphash_key *key)
{
	struct tg_cookie_message msg = tg_cookie_message(
		pkt, client_isn, option_bits, ts_ok ? TG_COOKIE_TS : TG_COOKIE_PLAIN, epoch);
	struct tg_siphash_batch *b = pkt->family == 4 ? &w->cookies4 : &w->cookies6;
	struct tg_siphash s = tg_siphash_begin(key);
	uint32_t lane = b->n++, i;

	tg_siphash_lane_begin(b, lane, &s);
	for (i = 0; i < TG_COOKIE_WORDS(pkt->family); i++)
		b->m[i][lane] = msg.word[i];
	return (int16_t)lane;
}

/* The key 0, that of ::/64, marks an empty place in the table: such sources share the key of 100::/64,
 * which no host uses as a source (RFC 6666). */
TG_INLINE uint64_t tg_white_key_of(const struct tg_worker *w, const struct tg_packet *pkt)
{
	uint64_t key = tg_white_key(&pkt->src, pkt->family, w->config->white_v4_mask,
				    w->config->white_v6_mask);

	return key ? key : 1;
}

TG_INLINE bool tg_strategy_has_cookie(uint8_t strategy)
{
	return strategy == TG_STRATEGY_COOKIE || strategy == TG_STRATEGY_AUTH_COOKIE;
}

/* A SYN to a service whose mode is not off: everything that depends on no table. */
static inline void tg_foresee_syn(struct tg_worker *w, struct tg_item *it)
{
	const struct tg_service *svc = &w->config->services[it->id];
	uint8_t strategy = w->config->proxy_cfg[it->id].strategy;
	struct tg_tcp_options offered;

	it->d = tg_list_judge(tg_config_denies(w->config, it->pkt.family, &it->pkt.src)
				      ? TG_LISTED_DENY
				      : TG_LISTED_NONE);
	if (it->d.verdict == TG_REPLY)
		it->d = tg_proxy_judge_syn(&it->pkt, it->parse, it->m->pkt_len);
	if (it->d.verdict == TG_REPLY)
		it->d = tg_host_judge_intact(tg_item_intact(it));
	if (it->d.verdict != TG_REPLY || svc->mode == TG_MODE_MONITOR)
		return;
	if (strategy == TG_STRATEGY_CACHE)
		tg_foresee_halfopen(w, it);
	if (!w->key_now || !tg_strategy_has_cookie(strategy))
		return;
	if (!tg_item_options(it, &offered) || offered.auth)
		return; /* signed SYNs use an allowance: in the last stage */
	if (strategy == TG_STRATEGY_COOKIE)
		svc = tg_advertised(w, &it->pkt, it->id);
	it->answer = tg_synack_agree(&it->pkt, &offered, svc);
	it->cookie_lane = tg_lane_cookie(w, &it->pkt, it->pkt.seq, it->answer.option_bits,
					 it->answer.options.ts_ok, w->epoch, w->key_now);
}

/* The key of the epoch that an ACK's cookie names, and that epoch. */
static inline const struct tg_siphash_key *tg_ack_key(const struct tg_worker *w, uint32_t isn,
						      uint64_t *epoch)
{
	*epoch = tg_cookie_epoch(isn, w->verify_epoch);
	return *epoch == w->verify_epoch ? w->verify_now : w->verify_before;
}

/* An ACK without a known flow, which may carry a cookie. */
static inline void tg_foresee_ack(struct tg_worker *w, struct tg_item *it)
{
	uint8_t strategy = w->config->proxy_cfg[it->id].strategy;
	const struct tg_siphash_key *key;
	struct tg_tcp_options o;
	uint64_t epoch;

	if (strategy == TG_STRATEGY_CACHE)
		tg_foresee_halfopen(w, it);
	if (!tg_strategy_has_cookie(strategy))
		return;
	if (strategy == TG_STRATEGY_AUTH_COOKIE &&
	    tg_whitelist_maybe(&w->white, tg_white_key_of(w, &it->pkt)))
		return;
	it->options_ok = tg_item_options(it, &o);
	if (!it->options_ok)
		return;
	it->ack_info = tg_host_read_ack(&it->pkt, &o);
	key = tg_ack_key(w, it->ack_info.cookie.isn, &epoch);
	if (key)
		it->cookie_lane = tg_lane_cookie(
			w, &it->pkt, it->pkt.seq - 1,
			tg_cookie_claimed_bits(it->ack_info.cookie, it->ack_info.ts_ok),
			it->ack_info.ts_ok, epoch, key);
}

static inline uint64_t tg_lane_mac(const struct tg_worker *w, const struct tg_item *it)
{
	return it->pkt.family == 4 ? w->cookies4.out[it->cookie_lane]
				   : w->cookies6.out[it->cookie_lane];
}

/* ---- last stage ---- */

/* Computes what the SYN's answer needs if the first stage did not. False: the frame has
 * been handled. */
static inline bool tg_cookie_prepare(struct tg_worker *w, struct tg_item *it, struct tg_cookie *cookie)
{
	struct tg_tcp_options offered;
	const struct tg_service *advertised = &w->config->services[it->id];
	struct tg_decision d;

	if (TG_UNLIKELY(!w->key_now))
		d = tg_host_judge_no_key(w->config->stale_keys);
	else if (!tg_item_options(it, &offered))
		d = TG_DECIDE(TG_DROP, TG_COUNT_drop_malformed);
	else
		d = tg_item_signed(w, it, &offered);
	tg_count(w, it->id, d.counter);
	if (d.verdict != TG_REPLY) {
		if (d.verdict == TG_DROP)
			tg_drop(w, it->m);
		else
			tg_forward(w, it);
		return false;
	}
	if (tg_strategy_translates(w->config->proxy_cfg[it->id].strategy))
		advertised = tg_advertised(w, &it->pkt, it->id);
	it->answer = tg_synack_agree(&it->pkt, &offered, advertised);
	*cookie = tg_cookie_make(&it->pkt, it->answer.option_bits, it->answer.options.ts_ok,
				 w->epoch, w->key_now);
	return true;
}

/* Writes the answer. Nearly all SYNs agree on SACK and a window scale, with timestamps or without:
 * for these the compiler generates code without further branches. */
static inline void tg_answer_write(struct rte_mbuf *m, uint32_t len, const struct tg_item *it,
				   struct tg_cookie cookie)
{
	uint8_t *at = TG_DATA(m) + it->pkt.l3_off;
	struct tg_writer room = {at, TG_DATA(m) + len};
	struct tg_synack a = it->answer;

	if (TG_LIKELY(it->pkt.family == 4 && a.options.sack_ok && a.options.wscale != TG_WSCALE_NONE)) {
		struct tg_packet syn = it->pkt;

		syn.family = 4;
		a.options.sack_ok = true;
		if (a.options.ts_ok) {
			a.options.ts_ok = true;
			room.end = at + TG_IPV4_HDR_LEN + TG_TCP_HDR_LEN + 20;
		} else {
			a.options.ts_ok = false;
			room.end = at + TG_IPV4_HDR_LEN + TG_TCP_HDR_LEN + 12;
		}
		(void)tg_synack_write(room, &syn, &a, cookie);
		return;
	}
	(void)tg_synack_write(room, &it->pkt, &a, cookie);
}

/* Turns the SYN into a SYN-ACK with a cookie and sends it back. */
static inline void tg_cookie_answer(struct tg_worker *w, struct tg_item *it)
{
	struct tg_cookie cookie;
	struct rte_mbuf *m;
	uint32_t len;
	uint8_t *data;

	if (TG_LIKELY(it->cookie_lane >= 0))
		cookie = tg_cookie_of_mac(tg_lane_mac(w, it), it->answer.option_bits,
					  it->answer.options.ts_ok, w->epoch);
	else if (!tg_cookie_prepare(w, it, &cookie))
		return;
	len = it->pkt.l3_off + tg_synack_len(&it->pkt, &it->answer);
	m = tg_frame_resize(w, it->m, len, it->pkt.l3_off);
	if (TG_UNLIKELY(!m)) {
		tg_count(w, it->id, TG_COUNT_drop_tx);
		return;
	}
	data = TG_DATA(m);
	m->ol_flags &= TG_FLAGS_KEPT;
	tg_answer_write(m, len, it, cookie);
	tg_ethernet_reflect(data);
	tg_count(w, it->id, TG_COUNT_cookie_sent);
	tg_send(w, it->port, m);
}

/* A SYN under an auth strategy: forwarded if its source is verified. */
static inline void tg_auth_syn(struct tg_worker *w, struct tg_item *it, uint8_t strategy)
{
	struct tg_tcp_options offered;
	struct tg_segment challenge;
	struct tg_decision d;

	if (tg_whitelist_find(&w->white, tg_white_key_of(w, &it->pkt))) {
		tg_count(w, it->id, TG_COUNT_forward_white);
		tg_auto_done(w, &it->pkt, it->id, 1);
		tg_forward(w, it);
		return;
	}
	if (strategy == TG_STRATEGY_AUTH_COOKIE) {
		tg_cookie_answer(w, it);
		return;
	}
	d = tg_item_options(it, &offered) ? tg_item_signed(w, it, &offered)
					  : TG_DECIDE(TG_DROP, TG_COUNT_drop_malformed);
	tg_count(w, it->id, d.counter);
	if (d.verdict != TG_REPLY) {
		if (d.verdict == TG_DROP)
			tg_drop(w, it->m);
		else
			tg_forward(w, it);
		return;
	}
	challenge = tg_challenge(&it->pkt, &w->config->services[it->id],
				 strategy == TG_STRATEGY_AUTH_TTL ? tg_item_ttl(it) : 0,
				 &w->challenge_key, strategy == TG_STRATEGY_AUTH_WRONG);
	tg_count(w, it->id,
		 tg_segment_send(w, it->m, it->port, &challenge) ? TG_COUNT_challenge_sent
								 : TG_COUNT_drop_tx);
}

/* A SYN to a service. `live`: its tuple has a flow that has not ended, so the
 * server judges it (RFC 5961). */
static inline void tg_noflow_syn(struct tg_worker *w, struct tg_item *it, bool live)
{
	uint8_t strategy = w->config->proxy_cfg[it->id].strategy;
	struct tg_syn_rule rule = tg_proxy_syn(w->config->services[it->id].mode, strategy, it->d,
					       live);

	tg_count(w, it->id, TG_COUNT_syn);
	tg_count(w, it->id, rule.counter);
	if (TG_UNLIKELY(tg_closed_any(w)) && tg_syn_connects(rule.act) && tg_closed_passes(w, it))
		rule.act = TG_SYN_FORWARD;
	switch (rule.act) {
	case TG_SYN_FORWARD:
		tg_forward(w, it);
		break;
	case TG_SYN_DROP:
		tg_drop(w, it->m);
		break;
	case TG_SYN_COOKIE:
		tg_cookie_answer(w, it);
		break;
	case TG_SYN_CACHE:
		if (!tg_cache_syn(w, it))
			tg_cookie_answer(w, it);
		break;
	default:
		tg_auth_syn(w, it, strategy);
	}
}

/* Verifies the cookie that the ACK may carry. */
static inline bool tg_noflow_verify(struct tg_worker *w, struct tg_item *it)
{
	const struct tg_siphash_key *key;
	struct tg_tcp_options o;
	uint64_t epoch;

	if (TG_LIKELY(it->cookie_lane >= 0)) {
		(void)tg_ack_key(w, it->ack_info.cookie.isn, &epoch);
		return tg_cookie_has_mac(it->ack_info.cookie, it->ack_info.ts_ok, epoch,
					 tg_lane_mac(w, it));
	}
	if (!tg_item_options(it, &o))
		return false;
	it->ack_info = tg_host_read_ack(&it->pkt, &o);
	key = tg_ack_key(w, it->ack_info.cookie.isn, &epoch);
	return key && tg_cookie_verify(&it->pkt, it->ack_info.cookie, it->ack_info.ts_ok, epoch, key);
}

/* Whitelists the client and resets its half-made connection, so that it retries. */
static inline void tg_auth_accept(struct tg_worker *w, struct tg_item *it, uint64_t source, bool reset)
{
	struct tg_segment rst;

	if (!tg_noflow_intact(w, it))
		return;
	tg_count(w, it->id,
		 tg_whitelist_put(&w->white, source) ? TG_COUNT_white_added : TG_COUNT_white_full);
	tg_auto_done(w, &it->pkt, it->id, 1);
	if (!reset) {
		tg_forward(w, it);
		return;
	}
	rst = tg_reset_for(&it->pkt);
	if (tg_segment_send(w, it->m, it->port, &rst))
		tg_count(w, it->id, TG_COUNT_white_reset);
}

/* An ACK or a RST under an auth strategy. */
static inline void tg_auth_other(struct tg_worker *w, struct tg_item *it, uint8_t strategy)
{
	uint64_t source = tg_white_key_of(w, &it->pkt);
	enum tg_proof proof;

	if (!tg_item_may_prove(w, it) || TG_LIKELY(tg_whitelist_find(&w->white, source))) {
		tg_forward(w, it);
		return;
	}
	proof = tg_proxy_proof(strategy, &it->pkt, tg_item_ttl(it), &w->challenge_key);
	if (proof == TG_PROOF_COOKIE) {
		proof = tg_noflow_verify(w, it) ? TG_PROOF_RESET : TG_PROOF_NONE;
		tg_count(w, it->id,
			 proof == TG_PROOF_RESET ? TG_COUNT_cookie_valid : TG_COUNT_cookie_invalid);
	}
	if (proof == TG_PROOF_NONE)
		tg_forward(w, it);
	else
		tg_auth_accept(w, it, source, proof == TG_PROOF_RESET);
}

/* An ACK or a RST under `cookie`. `e` is a flow that has ended, or is being set up
 * with other numbers, or NULL: the port may have been reused for a new connection. */
static inline void tg_cookie_other(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	bool may_prove = tg_item_may_prove(w, it);

	if (may_prove && tg_noflow_verify(w, it)) {
		struct tg_flow flow = tg_flow_open(
			&it->pkt, &it->ack_info,
			tg_cookie_claimed_bits(it->ack_info.cookie, it->ack_info.ts_ok),
			tg_proxy_flow_wscale(&w->config->services[it->id],
					     tg_advertised(w, &it->pkt, it->id)),
			tg_item_window(it), it->id, w->now_ms);

		if (!tg_noflow_intact(w, it))
			return;
		tg_count(w, it->id, TG_COUNT_cookie_valid);
		(void)tg_flow_begin(w, it, &flow);
		return;
	}
	if (tg_proxy_asks_probe(&it->pkt, e ? &e->flow : NULL, may_prove)) {
		it->pkt.as_probe = true; /* retransmit it, as a client's probe of a closed window */
		it->pkt.seq++;
		it->cookie_lane = -1;
		tg_cookie_other(w, it, e);
		return;
	}
	tg_unknown_other(w, it, e, TG_COUNT_cookie_invalid);
}

#endif
