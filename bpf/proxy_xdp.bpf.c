/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP, proxy role: on every port of a router or of a bridge with two ports. Answers SYNs to
 * protected services, opens connections to their servers for clients that have verified, translates
 * these connections, forwards the rest. Where one packet becomes two (a server's answer to a
 * connection that is being set up), proxy_tc.bpf.c takes over.
 *
 * Must never: change a packet that is not of a protected service's TCP; decide
 * anything that is not in core/.
 */
#define TG_AUTO_SAMPLES
#include "lib/automatic.h"
#include "lib/proxy_answer.h"
#include "lib/proxy_cache.h"
#include "lib/proxy_closed.h"
#define TG_ANY_SYN_HASH_BY_CALL /* what the verifier looks at for a hash is much of a start */
#include "lib/proxy_any_syn.h"
#include "lib/proxy_icmp.h"
#include "lib/proxy_setup_segments.h"
#include "lib/proxy_verified.h"
#include "lib/proven.h"
#include "lib/source_limit.h"
#include "../core/fast_segment.h"

static __always_inline int tg_from_server(struct xdp_md *ctx, const struct tg_packet *pkt,
					  struct tg_flow *f, const struct tg_proxy_settings *proxy)
{
	enum tg_server_segment what = tg_flow_from_server(f, pkt, (__u16)tg_ingress(ctx));

	if (TG_UNLIKELY(what == TG_FROM_SERVER_SETUP || what == TG_FROM_SERVER_REACK))
		return tg_setup_awaited(ctx, pkt, f, proxy);
	if (TG_UNLIKELY(what == TG_FROM_SERVER_RESTART))
		tg_flow_restart(f, pkt);
	return tg_flow_forward(ctx, pkt, f, TG_TO_CLIENT, proxy);
}

/* A segment of a flow, from the client. */
static __always_inline int tg_from_client(struct xdp_md *ctx, const struct tg_packet *pkt,
					  struct tg_flow *f, const struct tg_proxy_settings *proxy)
{
	enum tg_client_segment what = tg_flow_from_client(f, pkt);

	if (TG_LIKELY(what == TG_FROM_CLIENT_TRANSLATE))
		return tg_flow_forward(ctx, pkt, f, TG_TO_SERVER, proxy);
	return what == TG_FROM_CLIENT_SETUP ? TG_NEXT_SETUP_CLIENT : TG_NEXT_CASE;
}

/* What goes by under AUTO. */
static __always_inline bool tg_proxy_goes_by(const struct tg_packet *pkt,
					     const struct tg_service *svc, __u32 id,
					     struct tg_counter_row *row)
{
	if (!tg_host_is_syn(pkt)) {
		if (tg_auto_ack(pkt))
			tg_auto_done(pkt, TG_SAMPLE);
		return svc->mode == TG_MODE_AUTO && !svc->verify;
	}
	if (svc->mode != TG_MODE_AUTO || tg_auto_syn(pkt, id))
		return false;
	tg_count(row, TG_COUNT_syn);
	return true;
}

static __always_inline __u64 tg_source_key(const struct tg_packet *pkt,
					   const struct tg_proxy_settings *proxy)
{
	return tg_white_key(&pkt->src, pkt->family, proxy->white_v4_mask, proxy->white_v6_mask);
}

/* A client's packet to a service, without a flow, or with one that it does not
 * belong to. `known`: TG_NEXT_CASE, TG_NEXT_UNVERIFIED or TG_NEXT_FLOWLESS. */
TG_GLOBAL int tg_noflow_handle(struct xdp_md *ctx, struct tg_packet *pkt, __u32 parse,
			       const struct tg_proxy_settings *proxy, __u32 known)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_proxy_service *proxy_cfg;
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_flow *f = 0;
	__u32 id;

	if (!pkt || !proxy)
		return XDP_PASS;
	id = tg_service_find_fast(pkt);
	svc = tg_service_at(id);
	proxy_cfg = tg_strategy_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || (svc->mode == TG_MODE_OFF && (!svc->verify || tg_host_is_syn(pkt))))
		return tg_forward_by(ctx, pkt, proxy);
	if (TG_UNLIKELY(settings->lists) && tg_host_is_syn(pkt)) {
		int denied = tg_denied_syn(pkt, svc->mode, id);

		if (denied != TG_DENIED_NOT)
			return denied == TG_DENIED_DROP ? XDP_DROP : tg_forward_by(ctx, pkt, proxy);
	}
	if (TG_UNLIKELY(svc->automatic) && tg_proxy_goes_by(pkt, svc, id, row))
		return tg_forward_by(ctx, pkt, proxy);
	if (proxy->flows && tg_host_is_syn(pkt) &&
	    tg_presence_has(tg_presence_flow(pkt, proxy->presence_salt), TG_PRESENCE_FLOWS))
		f = tg_flow_find(pkt, TG_TO_SERVER);
	if (tg_host_is_syn(pkt))
		return tg_noflow_syn(ctx, pkt, parse, tg_flow_is_live(f), svc, proxy_cfg->strategy,
				     id, row);
	if (tg_proxy_unasked(svc, parse))
		return tg_forward_by(ctx, pkt, proxy);
	if (proxy_cfg->strategy == TG_STRATEGY_CACHE)
		return TG_NEXT_OF(TG_NEXT_CACHE_OTHER, id);
	if (!tg_strategy_translates(proxy_cfg->strategy) && known != TG_NEXT_UNVERIFIED &&
	    tg_white_has(tg_source_key(pkt, proxy)))
		return tg_forward_by(ctx, pkt, proxy); /* nothing more to prove */
	return TG_NEXT_OF(known == TG_NEXT_FLOWLESS ? TG_NEXT_OTHER_FLOWLESS : TG_NEXT_OTHER, id);
}

/* Anything but a SYN, under strategies other than `cache`: here, and not in the function above,
 * because both need the stack. `flowless`: no table has a flow of its tuple. */
TG_GLOBAL int tg_noflow_other(struct xdp_md *ctx, struct tg_packet *pkt, __u32 id, __u32 flowless)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	const struct tg_proxy_service *proxy_cfg = tg_strategy_at(id);
	const struct tg_service *svc = tg_service_at(id);

	if (!pkt || !row)
		return XDP_PASS;
	if (!tg_strategy_translates(proxy_cfg->strategy))
		return tg_auth_other(ctx, pkt, proxy_cfg->strategy, row);
	return tg_cookie_other(ctx, pkt, svc, id,
			       proxy->flows && !flowless ? tg_flow_find(pkt, TG_TO_SERVER) : 0, row);
}

/* Not TCP, or a later fragment. A bridge forwards it; a router's kernel does. */
static __always_inline int tg_proxy_other(const struct tg_proxy_settings *proxy, __u32 ingress)
{
	if (!proxy->bridge[0])
		return XDP_PASS;
	if (ingress == proxy->bridge[0])
		return bpf_redirect_map(&tg_devices, proxy->bridge[1], 0);
	if (ingress == proxy->bridge[1])
		return bpf_redirect_map(&tg_devices, proxy->bridge[0], 0);
	return XDP_PASS;
}

/* Anything but a SYN to a port with that entry, on a box that translates nothing. What comes from a
 * verified source goes on, as tg_noflow_handle has it, whatever the service's mode. */
static __always_inline int tg_proxy_plain(struct xdp_md *ctx, const struct tg_packet *pkt,
					  const struct tg_proxy_settings *proxy, __u32 entry)
{
	__u32 id = tg_service_of_entry(pkt, entry);
	const struct tg_service *svc = tg_service_at(id);
	const struct tg_proxy_service *proxy_cfg = tg_strategy_at(id);

	if (!id || TG_UNLIKELY(svc->automatic) ||
	    TG_UNLIKELY(tg_strategy_translates(proxy_cfg->strategy)))
		return TG_NEXT_CASE;
	return tg_white_find(proxy, tg_source_key(pkt, proxy)) ? tg_forward_by(ctx, pkt, proxy)
							       : TG_NEXT_UNVERIFIED;
}

/* TCP with a header that is there. To the verifier, the header's offset is one unknown number here,
 * not one of many known ones. */
TG_GLOBAL int tg_proxy_tcp(struct xdp_md *ctx, struct tg_packet *pkt,
			   const struct tg_proxy_settings *proxy)
{
	struct tg_flow *f;
	__u32 to_service;

	if (!pkt || !proxy)
		return XDP_PASS;
	tg_frame_measure(ctx, pkt);
	if (pkt->l4_off > TG_L4_OFF_MAX)
		return tg_proxy_other(proxy, tg_ingress(ctx));
	to_service = tg_port_entry(TG_DST_PORT_BE(pkt));
	if (!proxy->flows && to_service && !tg_host_is_syn(pkt))
		return tg_proxy_plain(ctx, pkt, proxy, to_service);
	if (proxy->flows && to_service && !tg_host_is_syn(pkt)) {
		f = tg_flow_find(pkt, TG_TO_SERVER);
		if (f)
			return tg_from_client(ctx, pkt, f, proxy);
	}
	if (proxy->flows && tg_port_is_protected(TG_SRC_PORT_BE(pkt))) {
		f = tg_flow_find_of_server(pkt);
		if (f)
			return tg_from_server(ctx, pkt, f, proxy);
		if (TG_UNLIKELY(pkt->flags & (TG_TCP_SYN | TG_TCP_RST)))
			tg_refused_listen(ctx, pkt);
	}
	if (to_service)
		return proxy->flows && !tg_host_is_syn(pkt) ? TG_NEXT_FLOWLESS : TG_NEXT_CASE;
	if ((pkt->flags & (TG_TCP_SYN | TG_TCP_ACK)) == (TG_TCP_SYN | TG_TCP_ACK))
		tg_auto_synack(pkt);
	/* Nothing else forwards for a bridge. */
	return proxy->bridge[0] || proxy->forward_all || tg_port_is_protected(TG_SRC_PORT_BE(pkt))
		       ? tg_forward_by(ctx, pkt, proxy)
		       : XDP_PASS;
}

/* Reads a segment as nearly all are; false, with nothing read, of any other. */
static __always_inline bool tg_proxy_common(const struct xdp_md *ctx, struct tg_packet *pkt,
					    __u8 family)
{
	const __u8 *frame = (void *)(long)ctx->data;

	if (frame + tg_fast_segment_len(family) > (const __u8 *)(long)ctx->data_end ||
	    !tg_fast_segment_is(frame, family))
		return false;
	tg_fast_segment_read(frame, family, pkt);
	return true;
}

/* A common SYN; XDP_ABORTED if it is not, or has to take the slow path. */
static __always_inline int tg_proxy_fast(struct xdp_md *ctx, const struct tg_proxy_settings *proxy)
{
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	enum tg_fast_syn_kind kind = tg_proxy_fast_syn_kind(frame, end);

	if (kind == TG_FAST_NONE || (!proxy->bridge[0] && !tg_frame_is_mine(ctx)))
		return XDP_ABORTED;
	switch (kind) {
	case TG_FAST_V4_TS:
		if (frame + tg_fast_syn_len(4, true) <= end)
			return tg_proxy_fast_kind(ctx, frame, proxy, 4, true);
		break;
	case TG_FAST_V4:
		if (frame + tg_fast_syn_len(4, false) <= end)
			return tg_proxy_fast_kind(ctx, frame, proxy, 4, false);
		break;
	case TG_FAST_V6_TS:
		if (frame + tg_fast_syn_len(6, true) <= end)
			return tg_proxy_fast_kind(ctx, frame, proxy, 6, true);
		break;
	default:
		if (frame + tg_fast_syn_len(6, false) <= end)
			return tg_proxy_fast_kind(ctx, frame, proxy, 6, false);
		break;
	}
	return XDP_ABORTED;
}

/* 1 if a SYN that would be answered is to be dropped, because its prefix gets enough answers
 * already. A separate function, for the stack. */
TG_GLOBAL int tg_proxy_reflects(const struct tg_packet *syn, __u32 id)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row = tg_counter_row_get(id);

	if (!syn || !row || !tg_reflect_limits(settings, syn->family, &syn->src))
		return 0;
	tg_count(row, TG_COUNT_drop_reflected);
	return 1;
}

/* The flow in tg_next_flow is about to be opened: TG_NEXT_BEGIN, unless its source is above its limit.
 * What the table has no room for does not count: it is asked again with the client's next segment. */
TG_GLOBAL int tg_proxy_limited(struct xdp_md *ctx, const struct tg_packet *ack)
{
	const struct tg_flow *flow = tg_next_flow_get();
	struct tg_counter_row *row;
	struct tg_segment rst;

	if (!ack || !flow)
		return XDP_DROP;
	row = tg_counter_row_get(flow->service);
	if (!row)
		return XDP_DROP;
	if (!tg_lately_admitted(ack, false))
		return TG_NEXT_BEGIN; /* where it is counted, and dropped */
	switch (tg_source_limited(ack, row)) {
	case TG_LIMIT_REPORT:
		return TG_NEXT_BEGIN;
	case TG_LIMIT_RESET:
		rst = tg_reset_for(ack);
		return tg_segment_put(ctx, &rst) ? XDP_DROP : XDP_TX;
	default:
		return XDP_DROP;
	}
}

/* True if the service of the flow in tg_next_flow counts its handshakes. */
static __always_inline bool tg_next_flow_is_automatic(void)
{
	const struct tg_flow *flow = tg_next_flow_get();
	const struct tg_service *svc;
	__u32 id;

	if (!flow)
		return false;
	id = flow->service;
	svc = tg_service_at(id);
	return svc && svc->automatic;
}

/* Whatever is no common SYN. `unverified`: its source is known to be on no whitelist. */
static __always_inline int tg_proxy_slow(struct xdp_md *ctx, const struct tg_proxy_settings *proxy,
					 bool unverified)
{
	struct tg_in_hand *hand = tg_in_hand_get();
	const struct tg_host_settings *settings;
	struct tg_packet *pkt;
	enum tg_parse_result result;
	struct tg_counter_row *row;
	struct tg_decision d;

	if (!hand)
		return XDP_PASS;
	pkt = &hand->pkt;
	if (TG_LIKELY(tg_proxy_common(ctx, pkt, 4) || tg_proxy_common(ctx, pkt, 6))) {
		result = TG_PARSE_TCP;
	} else {
		if (tg_any_syn_is_here((void *)(long)ctx->data, (void *)(long)ctx->data_end)) {
			int action = tg_proxy_any(ctx, proxy, false);

			if (tg_fast_decided(action))
				return action;
			if (action >= TG_FAST_CHALLENGE)
				return tg_challenge_syn(ctx, tg_form_syn(TG_SYN_ANY, 0),
							(__u32)action & 0xffff);
		}
		*pkt = (struct tg_packet){};
		result = tg_packet_parse(pkt, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	}
	if (result == TG_PARSE_OTHER) {
		if (proxy->flows && pkt->l3_off)
			tg_proxy_icmp(ctx, pkt->l3_off);
		return tg_proxy_other(proxy, tg_ingress(ctx));
	}
	if (!proxy->bridge[0] && !tg_frame_is_mine(ctx))
		return XDP_PASS;
	if (TG_LIKELY(result == TG_PARSE_TCP || result == TG_PARSE_FRAGMENT)) {
		int verdict = TG_UNLIKELY(unverified) && tg_port_is_protected(TG_DST_PORT_BE(pkt))
				      ? TG_NEXT_UNVERIFIED
				      : tg_proxy_tcp(ctx, pkt, proxy);

		if (TG_LIKELY((__u32)verdict <= XDP_REDIRECT))
			return verdict;
		if (verdict >= TG_NEXT_CASE && verdict <= TG_NEXT_FLOWLESS)
			verdict = tg_noflow_handle(ctx, pkt, result, proxy, (__u32)verdict);
		if (TG_LIKELY(verdict >= XDP_ABORTED && verdict <= XDP_REDIRECT))
			return verdict;
		if (TG_NEXT_WHAT(verdict) == TG_NEXT_CACHE_OTHER)
			verdict = tg_cache_other(ctx, pkt, TG_NEXT_SERVICE(verdict));
		if (TG_NEXT_WHAT(verdict) == TG_NEXT_OTHER ||
		    TG_NEXT_WHAT(verdict) == TG_NEXT_OTHER_FLOWLESS)
			verdict = tg_noflow_other(ctx, pkt, TG_NEXT_SERVICE(verdict),
						  TG_NEXT_WHAT(verdict) == TG_NEXT_OTHER_FLOWLESS);
		if (TG_UNLIKELY(TG_NEXT_WHAT(verdict) == TG_NEXT_PROBE)) {
			pkt->as_probe = true;
			pkt->seq++;
			verdict = tg_noflow_other(ctx, pkt, TG_NEXT_SERVICE(verdict), false);
		}
		if (TG_NEXT_WHAT(verdict) == TG_NEXT_AUTH_SYN)
			verdict = tg_auth_syn(ctx, pkt, TG_NEXT_SERVICE(verdict));
		if (TG_NEXT_WHAT(verdict) == TG_NEXT_CHALLENGE)
			return tg_proxy_reflects(pkt, TG_NEXT_SERVICE(verdict))
				       ? XDP_DROP
				       : tg_challenge_syn(ctx, pkt, TG_NEXT_SERVICE(verdict));
		if ((TG_NEXT_WHAT(verdict) == TG_NEXT_COOKIE_SYN ||
		     TG_NEXT_WHAT(verdict) == TG_NEXT_CACHE_SYN) &&
		    tg_proxy_reflects(pkt, TG_NEXT_SERVICE(verdict)))
			return XDP_DROP;
		if (TG_NEXT_WHAT(verdict) == TG_NEXT_CACHE_SYN) {
			__u64 kept = tg_cache_syn(ctx, pkt, TG_NEXT_SERVICE(verdict));

			verdict = (int)kept;
			if (TG_NEXT_WHAT(verdict) == TG_NEXT_CACHE_ANSWER)
				return tg_cache_answer(ctx, pkt, TG_NEXT_SERVICE(verdict),
						       (__u32)(kept >> 32));
		}
		if (TG_NEXT_WHAT(verdict) == TG_NEXT_COOKIE_SYN)
			return tg_cookie_syn(ctx, pkt, TG_NEXT_SERVICE(verdict));
		if (verdict == TG_NEXT_BEGIN) {
			settings = tg_settings_get();
			if (settings->report)
				tg_proven_note(pkt, 0);
			if (TG_UNLIKELY(tg_next_flow_is_automatic()))
				tg_auto_done(pkt, 1);
			if (TG_UNLIKELY(settings->source_limited)) {
				verdict = tg_proxy_limited(ctx, pkt);
				if (verdict != TG_NEXT_BEGIN)
					return verdict;
			}
			return tg_flow_begin(ctx, pkt);
		}
		if (TG_UNLIKELY(verdict == TG_NEXT_SETUP_CLIENT || verdict == TG_NEXT_SETUP_SERVER))
			verdict = tg_flow_setup(ctx, pkt,
						verdict == TG_NEXT_SETUP_CLIENT ? TG_TO_SERVER
										: TG_TO_CLIENT);
		if (verdict == TG_NEXT_OPEN_BOTH)
			return tg_open_both(ctx, pkt);
		if (verdict == TG_NEXT_OPEN)
			return tg_open_deferred(ctx, pkt);
		return verdict == TG_NEXT_LATE ? tg_flow_late(ctx, pkt) : verdict;
	}
	settings = tg_settings_get();
	d = tg_host_judge_parse(result);
	row = tg_counter_row_get(0);
	if (d.verdict == TG_DROP && row)
		tg_count(row, settings->enforce ? d.counter : TG_COUNT_would_drop);
	if (d.verdict == TG_DROP && settings->enforce)
		return XDP_DROP;
	return tg_proxy_other(proxy, tg_ingress(ctx));
}

SEC("xdp.frags")
int tg_proxy_xdp(struct xdp_md *ctx)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u32 to = 0;
	int action;

	action = tg_proxy_fast(ctx, proxy);
	if (action != XDP_ABORTED)
		return action;
	if (proxy->plain) {
		to = tg_verified_to(ctx, proxy);
		if (to && to != TG_UNVERIFIED)
			return (int)bpf_redirect_map(&tg_devices, to, 0);
	} else if (proxy->near) {
		action = tg_near_translate(ctx, proxy);
		if (action != XDP_ABORTED)
			return action;
	}
	return tg_proxy_slow(ctx, proxy, to == TG_UNVERIFIED);
}

char LICENSE[] SEC("license") = "GPL";
