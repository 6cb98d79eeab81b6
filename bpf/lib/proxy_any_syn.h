/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The fast path of every other SYN (form TG_SYN_ANY, syn_forms.h) under the proxy's strategies: what
 * proxy_fast_syn.h does with common ones. It leaves to the slow path what that does, and of `cache`
 * the SYNs that do not get a cookie.
 */
#ifndef TG_BPF_PROXY_ANY_SYN_H
#define TG_BPF_PROXY_ANY_SYN_H

#include "proxy_answer_common.h"
#include "proxy_fast_syn.h"
#include "syn_forms.h"

/* What tg_proxy_any returns of a SYN that is to be challenged: this, and its service. */
#define TG_FAST_CHALLENGE 0x10000

/* What is offered to clients, a CPU's own: there is no room for it on the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_service);
} tg_offer_rooms SEC(".maps");

/* A SYN under a strategy that gives it a cookie. */
static __always_inline int tg_any_syn_cookie(struct xdp_md *ctx, __u8 *frame, __u8 family,
					     const struct tg_host_settings *settings,
					     const struct tg_proxy_settings *proxy,
					     const struct tg_proxy_service *proxy_cfg,
					     const struct tg_service *svc,
					     const struct tg_packet *syn, struct tg_counter_row *row)
{
	struct tg_service *advertised;
	__u64 gives = TG_SERVER_GIVES;
	struct tg_learned l;
	__u32 zero = 0;
	int action;

	advertised = bpf_map_lookup_elem(&tg_offer_rooms, &zero);
	if (!advertised)
		return TG_FAST_SLOW;
	if (tg_strategy_translates(proxy_cfg->strategy)) {
		gives = tg_server_known(proxy, syn, true);
		if (!gives)
			return TG_FAST_SLOW;
		l = tg_learned_of(gives);
		*advertised = tg_proxy_advertised(svc, proxy_cfg, &l, family);
	} else {
		*advertised = *svc;
	}
	action = tg_form_rest(ctx, frame, family, TG_SYN_ANY, syn, 0, 0);
	if (action != XDP_TX)
		return action;
	if (tg_source_is_special(settings, family, &syn->src))
		return TG_FAST_SLOW;
	return tg_form_send(ctx, frame, family, TG_SYN_ANY, settings, 0, advertised, syn, 0, 0, row);
}

/* A SYN under a strategy that challenges it without one, which the program itself does, for the stack: TG_FAST_CHALLENGE. */
static __always_inline int tg_any_syn_challenge(struct xdp_md *ctx, __u8 *frame, __u8 family,
						const struct tg_host_settings *settings,
						const struct tg_packet *syn, __u32 id,
						struct tg_counter_row *row)
{
	int action = tg_form_rest(ctx, frame, family, TG_SYN_ANY, syn, 0, 0);

	if (action != XDP_TX)
		return action;
	if (tg_source_is_special(settings, family, &syn->src))
		return TG_FAST_SLOW;
	tg_count(row, TG_COUNT_syn);
	return TG_FAST_CHALLENGE | (int)(id & 0xffff);
}

static __always_inline int tg_any_syn_decide(struct xdp_md *ctx,
					     const struct tg_proxy_settings *proxy, __u8 family,
					     __u32 seen)
{
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_packet *syn = tg_form_syn(TG_SYN_ANY, 0);
	const struct tg_proxy_service *proxy_cfg;
	struct tg_counter_row *row;
	struct tg_service *svc;
	__u64 source;
	__u32 id;

	if (!syn || !tg_form_head(frame, end, family, TG_SYN_ANY, syn) ||
	    (!seen && tg_any_syn_is_common(frame, end, family, syn)))
		return TG_FAST_SLOW;
	id = tg_service_find(syn);
	proxy_cfg = tg_strategy_at(id);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || !tg_fast_service_answers(svc) ||
	    ((proxy->flows || tg_strategy_translates(proxy_cfg->strategy)) &&
	     tg_presence_has(tg_presence_flow(syn, proxy->presence_salt), TG_PRESENCE_FLOWS)))
		return TG_FAST_SLOW;
	if (!tg_strategy_translates(proxy_cfg->strategy)) {
		source = tg_white_key(&syn->src, family, proxy->white_v4_mask, proxy->white_v6_mask);
		if (tg_presence_has(tg_presence_source(source, proxy->presence_salt),
				    TG_PRESENCE_SOURCES))
			return TG_FAST_SLOW;
		if (proxy_cfg->strategy != TG_STRATEGY_AUTH_COOKIE)
			return tg_any_syn_challenge(ctx, frame, family, settings, syn, id, row);
	} else if (proxy_cfg->strategy == TG_STRATEGY_CACHE &&
		   !tg_cache_looks_full(proxy, settings, syn)) {
		return TG_FAST_SLOW;
	}
	return tg_any_syn_cookie(ctx, frame, family, settings, proxy, proxy_cfg, svc, syn, row);
}

/* Such a SYN. TG_FAST_CHALLENGE, counted; TG_FAST_SLOW and TG_FAST_OTHER, with nothing done and nothing counted. `seen`: a
 * common SYN, whose server does not agree to every option; else those are what fast paths have looked at. */
int tg_proxy_any(struct xdp_md *ctx, const struct tg_proxy_settings *proxy, __u32 seen)
{
	const __u8 *frame, *end;

	if (!proxy || (!proxy->bridge[0] && !tg_frame_is_mine(ctx)))
		return TG_FAST_SLOW;
	TG_BARRIER(); /* else its bounds are merged with those tested there */
	frame = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	TG_HIDE(frame);
	if (frame + tg_any_syn_len(4) > end)
		return TG_FAST_SLOW;
	if (tg_any_syn_may_be(frame, 4))
		return tg_any_syn_decide(ctx, proxy, 4, seen);
	if (frame + tg_any_syn_len(6) > end || !tg_any_syn_may_be(frame, 6))
		return TG_FAST_SLOW;
	return tg_any_syn_decide(ctx, proxy, 6, seen);
}

#endif
