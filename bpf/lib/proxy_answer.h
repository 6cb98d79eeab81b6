/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the proxy's XDP program does with a packet to a service that belongs to no flow: SYNs are
 * answered or forwarded, ACKs and RSTs whitelist or connect a client. Anything else goes to the
 * server unchanged: it may belong to a connection that is older than this proxy.
 */
#ifndef TG_BPF_PROXY_ANSWER_H
#define TG_BPF_PROXY_ANSWER_H

#include "automatic.h"
#include "cookie_call.h"
#include "cookie_check.h"
#include "proxy_answer_common.h"
#include "proxy_closed.h"
#include "proxy_whitelist.h"
#include "signed.h"

/* Turns the SYN into a SYN-ACK with a cookie and sends it back: under `cookie`, under
 * `cache` where there is no room, or under
 * `auth-cookie`, where the options matter little, because the connection is reset. */
TG_GLOBAL int tg_cookie_syn(struct xdp_md *ctx, const struct tg_packet *syn, __u32 id)
{
	const struct tg_proxy_service *proxy_cfg = tg_strategy_at(id);
	const struct tg_service *svc = tg_service_at(id);
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_service advertised;
	struct tg_tcp_options offered = {};
	const struct tg_siphash_key *key;
	struct tg_synack answer = {};
	struct tg_cookie cookie;
	struct tg_decision d;
	__u8 *data, *end;
	__u64 epoch;

	if (!syn || !row)
		return XDP_DROP;
	advertised = *svc;
	if (tg_strategy_translates(proxy_cfg->strategy) && tg_advertised(syn, id, &advertised))
		return XDP_DROP;
	epoch = tg_epoch_now(settings);
	key = tg_key_find(settings, epoch);
	if (TG_UNLIKELY(!key)) {
		d = tg_host_judge_no_key(settings->stale_keys);
		tg_count(row, d.counter);
		return d.verdict == TG_DROP ? XDP_DROP : tg_forward(ctx, syn);
	}
	if (tg_noflow_options(ctx, syn, &offered)) {
		tg_count(row, TG_COUNT_drop_malformed);
		return XDP_DROP;
	}
	if (TG_UNLIKELY(offered.auth)) {
		int verdict = tg_signed_syn(offered.auth, id);

		if (verdict != TG_REPLY)
			return verdict == TG_DROP ? XDP_DROP : tg_forward(ctx, syn);
	}
	tg_synack_agreed(syn, &offered, &advertised, &answer);
	cookie = tg_cookie_make_by_call(syn, answer.option_bits, answer.options.ts_ok, epoch);
	if (!tg_frame_resize(ctx, syn->l3_off + tg_synack_len(syn, &answer)))
		goto lost;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + TG_ETH_HDR_LEN > end ||
	    !tg_synack_write((struct tg_writer){data + (syn->l3_off & 31), end}, syn, &answer, cookie))
		goto lost;
	tg_ethernet_reflect(data);
	tg_count(row, TG_COUNT_cookie_sent);
	return XDP_TX;
lost:
	tg_count(row, TG_COUNT_drop_tx);
	return XDP_DROP;
}

/* A SYN under an auth strategy: forwarded if its source is verified. */
TG_GLOBAL int tg_auth_syn(struct xdp_md *ctx, const struct tg_packet *syn, __u32 id)
{
	const struct tg_proxy_service *proxy_cfg = tg_strategy_at(id);
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_tcp_options offered = {};
	__u64 source;
	int verdict;

	if (!syn || !row)
		return XDP_DROP;
	source = tg_white_key(&syn->src, syn->family, proxy->white_v4_mask, proxy->white_v6_mask);
	if (tg_white_has(source)) {
		tg_count(row, TG_COUNT_forward_white);
		tg_auto_done(syn, 1);
		return tg_forward(ctx, syn);
	}
	if (proxy_cfg->strategy == TG_STRATEGY_AUTH_COOKIE)
		return TG_NEXT_OF(TG_NEXT_COOKIE_SYN, id);
	if (tg_noflow_options(ctx, syn, &offered)) {
		tg_count(row, TG_COUNT_drop_malformed);
		return XDP_DROP;
	}
	if (TG_UNLIKELY(offered.auth)) {
		verdict = tg_signed_syn(offered.auth, id);
		if (verdict != TG_REPLY)
			return verdict == TG_DROP ? XDP_DROP : tg_forward(ctx, syn);
	}
	return TG_NEXT_OF(TG_NEXT_CHALLENGE, id);
}

/* Challenges it, under a strategy without a cookie. */
TG_GLOBAL int tg_challenge_syn(struct xdp_md *ctx, const struct tg_packet *syn, __u32 id)
{
	const struct tg_proxy_service *proxy_cfg = tg_strategy_at(id);
	const struct tg_service *svc = tg_service_at(id);
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_segment challenge;
	int verdict;

	if (!syn || !row)
		return XDP_DROP;
	challenge = tg_challenge(
		syn, svc, proxy_cfg->strategy == TG_STRATEGY_AUTH_TTL ? tg_packet_ttl(ctx, syn) : 0,
		&proxy->challenge_key, proxy_cfg->strategy == TG_STRATEGY_AUTH_WRONG);
	verdict = tg_segment_put(ctx, &challenge);
	tg_count(row, verdict ? TG_COUNT_drop_tx : TG_COUNT_challenge_sent);
	return verdict ? XDP_DROP : XDP_TX;
}

/* Verifies the cookie that the ACK may carry. */
static __always_inline bool tg_noflow_verify(struct xdp_md *ctx, const struct tg_packet *ack,
					     struct tg_ack *ack_info, __u16 *window)
{
	return tg_noflow_read_ack(ctx, ack, ack_info, window) && tg_cookie_check(ack, ack_info);
}

/* Whitelists the client and resets what it considers a connection, so that it retries. */
static __always_inline int tg_auth_accept(struct xdp_md *ctx, const struct tg_proxy_settings *proxy,
					  const struct tg_packet *ack, __u64 source, bool reset,
					  struct tg_counter_row *row)
{
	struct tg_segment rst;

	if (!tg_noflow_intact(ctx, ack, row))
		return XDP_DROP;
	tg_count(row, tg_white_put(proxy, source) ? TG_COUNT_white_added : TG_COUNT_white_full);
	tg_auto_done(ack, 1);
	if (!reset)
		return tg_forward(ctx, ack);
	rst = tg_reset_for(ack);
	if (tg_segment_put(ctx, &rst))
		return XDP_DROP;
	tg_count(row, TG_COUNT_white_reset);
	return XDP_TX;
}

/* An ACK or a RST under an auth strategy. */
static __always_inline int tg_auth_other(struct xdp_md *ctx, const struct tg_packet *pkt,
					 __u32 strategy, struct tg_counter_row *row)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_ack ack_info = {};
	enum tg_proof proof;
	__u64 source;
	__u16 window;

	if (!tg_proxy_may_prove(strategy, pkt, (__u32)bpf_xdp_get_buff_len(ctx)))
		return tg_forward(ctx, pkt);
	source = tg_white_key(&pkt->src, pkt->family, proxy->white_v4_mask, proxy->white_v6_mask);
	proof = tg_proxy_proof(strategy, pkt,
			       strategy == TG_STRATEGY_AUTH_TTL ? tg_packet_ttl(ctx, pkt) : 0,
			       &proxy->challenge_key);
	if (proof == TG_PROOF_COOKIE) {
		if (!tg_noflow_verify(ctx, pkt, &ack_info, &window)) {
			tg_count(row, TG_COUNT_cookie_invalid);
			return tg_forward(ctx, pkt);
		}
		tg_count(row, TG_COUNT_cookie_valid);
		proof = TG_PROOF_RESET;
	}
	if (proof == TG_PROOF_NONE)
		return tg_forward(ctx, pkt);
	return tg_auth_accept(ctx, proxy, pkt, source, proof == TG_PROOF_RESET, row);
}

/* An ACK or a RST under `cookie`. `f` is a flow that has ended, or is being set up
 * with other numbers, or NULL: the port may have been taken for a new connection. */
static __always_inline int tg_cookie_other(struct xdp_md *ctx, struct tg_packet *pkt,
					   const struct tg_service *svc, __u32 id,
					   struct tg_flow *f, struct tg_counter_row *row)
{
	struct tg_ack ack_info = {};
	struct tg_service advertised = {};
	struct tg_flow *flow;
	bool may_prove = tg_proxy_may_prove(TG_STRATEGY_COOKIE, pkt,
					    (__u32)bpf_xdp_get_buff_len(ctx));
	__u16 window;

	if (may_prove && tg_noflow_verify(ctx, pkt, &ack_info, &window)) {
		if (!tg_noflow_intact(ctx, pkt, row))
			return XDP_DROP;
		tg_count(row, TG_COUNT_cookie_valid);
		flow = tg_next_flow_get();
		if (tg_advertised(pkt, id, &advertised) || !flow)
			return XDP_DROP;
		*flow = tg_flow_open(
			pkt, &ack_info, tg_cookie_claimed_bits(ack_info.cookie, ack_info.ts_ok),
			tg_proxy_flow_wscale(svc, &advertised), window, (__u16)id, tg_now_ms());
		return TG_NEXT_BEGIN;
	}
	if (tg_proxy_asks_probe(pkt, f, may_prove))
		return TG_NEXT_OF(TG_NEXT_PROBE, id);
	return tg_unknown_other(ctx, pkt, f, may_prove ? TG_COUNT_cookie_invalid : TG_COUNT_NOTHING,
				row);
}

/* A SYN to a service. `live`: its tuple has a flow that has not ended, so that
 * the server judges it (RFC 5961). */
static __always_inline int tg_noflow_syn(struct xdp_md *ctx, const struct tg_packet *syn,
					 __u32 parse, bool live, const struct tg_service *svc,
					 __u32 strategy, __u32 id, struct tg_counter_row *row)
{
	struct tg_syn_rule rule;
	struct tg_decision d;

	tg_count(row, TG_COUNT_syn);
	d = tg_proxy_judge_syn(syn, parse, (__u32)bpf_xdp_get_buff_len(ctx));
	if (d.verdict == TG_REPLY)
		d = tg_host_judge_intact(tg_intact(ctx, syn));
	rule = tg_proxy_syn(svc->mode, strategy, d, live);
	tg_count(row, rule.counter);
	if (TG_UNLIKELY(svc->closed) && tg_syn_connects(rule.act) &&
	    tg_refused_syn(syn, id) == TG_PASS)
		return tg_forward(ctx, syn);
	switch (rule.act) {
	case TG_SYN_FORWARD:
		return tg_forward(ctx, syn);
	case TG_SYN_DROP:
		return XDP_DROP;
	case TG_SYN_COOKIE:
		return TG_NEXT_OF(TG_NEXT_COOKIE_SYN, id);
	case TG_SYN_CACHE:
		return TG_NEXT_OF(TG_NEXT_CACHE_SYN, id);
	default:
		return TG_NEXT_OF(TG_NEXT_AUTH_SYN, id);
	}
}

#endif
