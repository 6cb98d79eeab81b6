/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The fast path of common SYNs (fast_syn.h) under the proxy's strategies. It leaves to the slow
 * path: whitelisted sources, tuples that may have a connection or a place in the cache, servers
 * that are not known to agree to every option.
 */
#ifndef TG_BPF_PROXY_FAST_SYN_H
#define TG_BPF_PROXY_FAST_SYN_H

#include "denied.h"
#include "syn_forms.h"
#include "proxy_cache.h"

/* A router takes only what is addressed to it: a port may be promiscuous. */
static __always_inline bool tg_frame_is_mine(struct xdp_md *ctx)
{
	const __u8 *data = (void *)(long)ctx->data;
	__u32 ifindex = tg_ingress(ctx);
	__u64 *mac = bpf_map_lookup_elem(&tg_macs, &ifindex);

	if (data + TG_ETH_HDR_LEN > (const __u8 *)(long)ctx->data_end || !mac || !*mac)
		return false;
	return tg_load32(data) == (__u32)*mac && tg_load16(data + TG_MAC_LO) == (__u16)(*mac >> 32);
}

/* A challenge without a cookie, in the place of the SYN. */
static __always_inline int tg_fast_challenge(struct xdp_md *ctx, __u8 *frame, __u8 family, bool ts,
					     const struct tg_packet *syn,
					     const struct tg_service *svc, __u32 strategy,
					     const struct tg_siphash_key *key,
					     struct tg_counter_row *row)
{
	__u8 ttl = family == 4 ? frame[TG_ETH_HDR_LEN + TG_IPV4_TTL]
			       : frame[TG_ETH_HDR_LEN + TG_IPV6_HOPS];
	struct tg_segment s = tg_challenge(syn, svc, strategy == TG_STRATEGY_AUTH_TTL ? ttl : 0,
					   key, strategy == TG_STRATEGY_AUTH_WRONG);
	int shorter = (int)(TG_ETH_HDR_LEN + tg_segment_len(&s)) - (int)tg_fast_syn_len(family, ts);

	tg_count(row, TG_COUNT_syn);
	if (tg_segment_write(
		    (struct tg_writer){frame + TG_ETH_HDR_LEN, frame + tg_fast_syn_len(family, ts)},
		    &s)) {
		tg_ethernet_reflect(frame);
		if (bpf_xdp_adjust_tail(ctx, shorter) == 0) {
			tg_count(row, TG_COUNT_challenge_sent);
			return XDP_TX;
		}
	}
	tg_count(row, TG_COUNT_drop_tx);
	return XDP_DROP;
}

/* A newcomer under `cache`: takes a place for it and answers. XDP_ABORTED, with nothing done, if it
 * has one already or there is none; XDP_PASS if the bucket is full, so that it is to get a cookie. */
static __always_inline int tg_fast_cache(struct xdp_md *ctx, __u8 *frame, __u8 family, bool ts,
					 const struct tg_proxy_settings *proxy,
					 const struct tg_packet *syn,
					 const struct tg_service *advertised,
					 const struct tg_tcp_options *offered, __u64 addrs,
					 __u32 id, const struct tg_host_settings *settings,
					 struct tg_counter_row *row)
{
	struct tg_synack a = tg_synack_agree(syn, offered, advertised);
	__u64 now_ns = tg_clock_ns(settings);
	__u32 tick = TG_HALFOPEN_TICK(now_ns), slot;
	struct tg_cache_at at = tg_cache_at(proxy, syn);
	struct tg_halfopen_bucket *b = tg_halfopen_bucket_of(&at);
	struct tg_halfopen *half;
	struct tg_cookie isn;
	uint64_t head = 0;
	__u64 epoch;

	if (!b || tg_halfopen_find(b, at.hash, syn, &head) < TG_HALFOPEN_WAYS)
		return XDP_ABORTED;
	slot = tg_halfopen_victim(b, tick, &head);
	if (slot >= TG_HALFOPEN_WAYS)
		return XDP_ABORTED;
	if (tg_halfopen_lives(head, tick)) {
		epoch = tg_epoch_now(settings);
		tg_halfopen_gives_cookie(b, epoch);
		tg_cache_note_full(&at, head, epoch);
		return XDP_PASS;
	}
	if (!tg_halfopen_swap(&b->heads[slot], head, TG_HALFOPEN_BUSY))
		return XDP_ABORTED;
	tg_cache_note_taken(&at, slot);
	half = &b->halfopens[slot];
	isn.isn = isn.tsval = tg_halfopen_isn(at.hash, now_ns);
	tg_halfopen_fill(half, syn, offered, &a, isn.isn, frame);
	half->service = (__u16)id;
	half->ifindex = tg_ingress(ctx);
	tg_halfopen_publish(&b->heads[slot], tg_halfopen_head(at.hash, tick, 1));
	tg_fast_syn_answer(frame, family, ts, syn, addrs, advertised, isn);
	tg_count(row, TG_COUNT_syn);
	tg_count(row, TG_COUNT_cache_kept);
	return XDP_TX;
}

/* True if a SYN to the service is answered here, as far as the service tells. */
static __always_inline bool tg_fast_service_answers(const struct tg_service *svc)
{
	return svc && svc->mode == TG_MODE_ALWAYS && !svc->closed;
}

/* Under `cookie` and `cache`. XDP_ABORTED, with nothing done and nothing counted: it takes the slow path; TG_FAST_OTHER, likewise:
 * its server does not agree to every option. */
static __always_inline int tg_proxy_fast_syn(struct xdp_md *ctx,
					     const struct tg_host_settings *settings,
					     const struct tg_proxy_settings *proxy,
					     const struct tg_proxy_service *proxy_cfg, __u32 id,
					     __u8 family, bool ts)
{
	__u8 *frame = (void *)(long)ctx->data;
	struct tg_tcp_options offered;
	struct tg_service advertised;
	struct tg_counter_row *row;
	struct tg_destination *d;
	struct tg_service *svc;
	struct tg_packet syn;
	uint64_t addrs;

	if (frame + tg_fast_syn_len(family, ts) > (__u8 *)(long)ctx->data_end ||
	    !tg_fast_syn_read(frame, family, ts, &syn, &offered, &addrs))
		return XDP_ABORTED;
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	/* A SYN takes from its prefix's allowance where it is answered, after all that leaves it to the
	 * slow path, which would take again. */
	if (!row || !tg_fast_service_answers(svc) || !tg_strategy_translates(proxy_cfg->strategy) ||
	    tg_presence_has(tg_presence_flow(&syn, proxy->presence_salt), TG_PRESENCE_FLOWS))
		return XDP_ABORTED;
	if (!tg_proxy_advertised_fast(svc, proxy_cfg, tg_server_known(proxy, &syn, false), family,
				      ts, &advertised))
		return TG_FAST_OTHER;
	if (tg_source_is_special(settings, family, &syn.src))
		return XDP_ABORTED;
	if (proxy_cfg->strategy == TG_STRATEGY_CACHE) {
		int action = tg_fast_cache(ctx, frame, family, ts, proxy, &syn, &advertised,
					   &offered, addrs, id, settings, row);

		if (action != XDP_PASS)
			return action;
	}
	d = tg_destination_of(&syn);
	if (!d ||
	    !tg_fast_syn_send(frame, family, ts, settings, d, &advertised, &syn, &offered, addrs))
		return XDP_ABORTED;
	tg_count(row, TG_COUNT_syn);
	tg_count(row, TG_COUNT_cookie_sent);
	return XDP_TX;
}

/* Under `auth-*`, likewise; within the program itself, without a call. */
static __always_inline int tg_proxy_fast_auth(struct xdp_md *ctx, __u8 *frame,
					      const struct tg_proxy_settings *proxy, __u32 strategy,
					      struct tg_destination *d, __u32 id, __u8 family,
					      bool ts)
{
	const struct tg_host_settings *settings;
	struct tg_tcp_options offered;
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_packet syn;
	uint64_t addrs;
	__u64 source;

	if (!tg_fast_syn_read(frame, family, ts, &syn, &offered, &addrs))
		return XDP_ABORTED;
	source = tg_white_key(&syn.src, family, proxy->white_v4_mask, proxy->white_v6_mask);
	if (tg_presence_has(tg_presence_source(source, proxy->presence_salt), TG_PRESENCE_SOURCES) ||
	    (proxy->flows &&
	     tg_presence_has(tg_presence_flow(&syn, proxy->presence_salt), TG_PRESENCE_FLOWS)))
		return XDP_ABORTED;
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	settings = tg_settings_get();
	if (!row || !tg_fast_service_answers(svc) ||
	    (strategy == TG_STRATEGY_AUTH_COOKIE && !tg_fast_syn_agrees(svc, ts)) ||
	    tg_source_is_special(settings, family, &syn.src))
		return XDP_ABORTED;
	if (strategy != TG_STRATEGY_AUTH_COOKIE)
		return tg_fast_challenge(ctx, frame, family, ts, &syn, svc, strategy,
					 &proxy->challenge_key, row);
	if (!d)
		d = tg_destination_of(&syn);
	if (!d)
		return XDP_ABORTED;
	if (!tg_fast_syn_send(frame, family, ts, settings, d, svc, &syn, &offered, addrs))
		return XDP_ABORTED;
	tg_count(row, TG_COUNT_syn);
	tg_count(row, TG_COUNT_cookie_sent);
	return XDP_TX;
}

/* As tg_fast_syn_kind; but what follows is inlined here, and clang would take the comparison of lengths for
 * that with `end`, which the verifier wants to see. */
static __always_inline enum tg_fast_syn_kind tg_proxy_fast_syn_kind(const __u8 *frame, const __u8 *end)
{
	__u64 len = (__u64)(end - frame);

	TG_HIDE(len);
	if (len == tg_fast_syn_len(4, true) && tg_fast_syn_may_be(frame, end, 4, true))
		return TG_FAST_V4_TS;
	if (len == tg_fast_syn_len(4, false) && tg_fast_syn_may_be(frame, end, 4, false))
		return TG_FAST_V4;
	if (len == tg_fast_syn_len(6, true) && tg_fast_syn_may_be(frame, end, 6, true))
		return TG_FAST_V6_TS;
	if (len == tg_fast_syn_len(6, false) && tg_fast_syn_may_be(frame, end, 6, false))
		return TG_FAST_V6;
	return TG_FAST_NONE;
}

/* The service that a common SYN's frame is for, if it is one, and what is remembered of the destination; `*d` is NULL where the
 * port alone tells the service. */
static __always_inline __u32 tg_fast_syn_service(const __u8 *frame, __u8 family,
						 struct tg_destination **d)
{
	const __u8 *dst = frame + TG_ETH_HDR_LEN + (family == 4 ? TG_IPV4_DST : TG_IPV6_DST);
	__u16 port_be = tg_load16(frame + tg_fast_syn_l4(family) + 2);
	__u32 entry = tg_port_entry(port_be);

	*d = 0;
	if (!(entry & TG_PORT_HAS_PREFIXES))
		return TG_PORT_SERVICE(entry);
	*d = family == 4 ? tg_destination_find(tg_load32(dst), 0, port_be, 4)
			 : tg_destination_find(tg_load64(dst), tg_load64(dst + 8), port_be, 6);
	return *d ? (*d)->id : 0;
}

/* One function for each family: their stacks do not add up. */
TG_GLOBAL int tg_proxy_fast_v4(struct xdp_md *ctx, const struct tg_proxy_settings *proxy,
			       const struct tg_proxy_service *proxy_cfg, __u32 id, __u32 ts)
{
	const struct tg_host_settings *settings = tg_settings_get();

	if (!proxy || !proxy_cfg)
		return XDP_ABORTED;
	return ts ? tg_proxy_fast_syn(ctx, settings, proxy, proxy_cfg, id, 4, true)
		  : tg_proxy_fast_syn(ctx, settings, proxy, proxy_cfg, id, 4, false);
}

TG_GLOBAL int tg_proxy_fast_v6(struct xdp_md *ctx, const struct tg_proxy_settings *proxy,
			       const struct tg_proxy_service *proxy_cfg, __u32 id, __u32 ts)
{
	const struct tg_host_settings *settings = tg_settings_get();

	if (!proxy || !proxy_cfg)
		return XDP_ABORTED;
	return ts ? tg_proxy_fast_syn(ctx, settings, proxy, proxy_cfg, id, 6, true)
		  : tg_proxy_fast_syn(ctx, settings, proxy, proxy_cfg, id, 6, false);
}

/* A common SYN to a service under `cookie`, or under `cache` whose bucket is full, whose server is near, within
 * the program itself: without a call. XDP_PASS, with nothing done: one of the functions above decides. */
static __always_inline int tg_proxy_fast_cookie(__u8 *frame, const struct tg_proxy_settings *proxy,
						const struct tg_proxy_service *proxy_cfg,
						struct tg_destination *d, __u32 id, __u8 family,
						bool ts)
{
	const struct tg_host_settings *settings;
	struct tg_tcp_options offered;
	struct tg_service advertised;
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_packet syn;
	uint64_t addrs, gives;

	if (!tg_fast_syn_read(frame, family, ts, &syn, &offered, &addrs) ||
	    tg_presence_has(tg_presence_flow(&syn, proxy->presence_salt), TG_PRESENCE_FLOWS))
		return XDP_ABORTED;
	gives = tg_server_recall(proxy, &syn);
	svc = tg_service_at(id);
	if (!tg_fast_service_answers(svc) ||
	    !tg_proxy_advertised_fast(svc, proxy_cfg, gives, family, ts, &advertised))
		return XDP_PASS;
	row = tg_counter_row_get(id);
	settings = tg_settings_get();
	if (!d)
		d = tg_destination_of(&syn);
	if (!d)
		return XDP_ABORTED;
	if (!row || tg_source_is_special(settings, family, &syn.src) ||
	    !tg_fast_syn_send(frame, family, ts, settings, d, &advertised, &syn, &offered, addrs))
		return XDP_ABORTED;
	tg_count(row, TG_COUNT_syn);
	tg_count(row, TG_COUNT_cookie_sent);
	return XDP_TX;
}

/* True if the SYN in the frame gets a cookie under `cache`. */
static __always_inline bool tg_fast_cache_is_full(const __u8 *frame, __u8 family,
						  const struct tg_proxy_settings *proxy)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const __u8 *ip = frame + TG_ETH_HDR_LEN;
	struct tg_packet syn;

	syn.family = family;
	syn.ports = tg_load32(frame + tg_fast_syn_l4(family));
	if (family == 4) {
		syn.src.d[0] = tg_load32(ip + TG_IPV4_SRC);
		syn.dst.d[0] = tg_load32(ip + TG_IPV4_DST);
	} else {
		syn.src.d[0] = tg_load64(ip + TG_IPV6_SRC);
		syn.src.d[1] = tg_load64(ip + TG_IPV6_SRC + 8);
		syn.dst.d[0] = tg_load64(ip + TG_IPV6_DST);
		syn.dst.d[1] = tg_load64(ip + TG_IPV6_DST + 8);
	}
	return tg_cache_looks_full(proxy, settings, &syn);
}

TG_GLOBAL int tg_proxy_any(struct xdp_md *ctx, const struct tg_proxy_settings *proxy,
			   __u32 seen); /* proxy_any_syn.h */

/* A frame that may be a common SYN of this kind. XDP_ABORTED, with nothing done: it takes the slow path. */
static __always_inline int tg_proxy_fast_kind(struct xdp_md *ctx, __u8 *frame,
					      const struct tg_proxy_settings *proxy, __u8 family,
					      bool ts)
{
	const struct tg_proxy_service *proxy_cfg;
	struct tg_destination *d;
	__u32 id = tg_fast_syn_service(frame, family, &d);
	int action;

	proxy_cfg = tg_strategy_at(id);
	if (!id)
		return XDP_ABORTED;
	if (TG_LIKELY(proxy_cfg->strategy == TG_STRATEGY_COOKIE) ||
	    (proxy_cfg->strategy == TG_STRATEGY_CACHE && tg_fast_cache_is_full(frame, family, proxy))) {
		action = tg_proxy_fast_cookie(frame, proxy, proxy_cfg, d, id, family, ts);
		if (action != XDP_PASS)
			return action;
	} else if (!tg_strategy_translates(proxy_cfg->strategy)) {
		return tg_proxy_fast_auth(ctx, frame, proxy, proxy_cfg->strategy, d, id, family, ts);
	}
	action = family == 4 ? tg_proxy_fast_v4(ctx, proxy, proxy_cfg, id, ts)
			     : tg_proxy_fast_v6(ctx, proxy, proxy_cfg, id, ts);
	if (TG_UNLIKELY(action == TG_FAST_OTHER))
		action = tg_proxy_any(ctx, proxy, true);
	return tg_fast_decided(action) ? action : XDP_ABORTED;
}

#endif
