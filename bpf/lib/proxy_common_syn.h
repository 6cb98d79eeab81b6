/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The short way of common SYNs (common_syn.h) under the proxy's strategies. What it
 * leaves to the long way: the cache, sources that are on the whitelist, tuples that
 * may have a connection, servers that are not known to agree to every option.
 */
#ifndef TG_BPF_PROXY_COMMON_SYN_H
#define TG_BPF_PROXY_COMMON_SYN_H

#include "common_syn.h"
#include "proxy_answer_common.h"

/* What clients of the SYN's server are told; tg_told says the same. */
static __always_inline struct tg_service tg_common_told(const struct tg_packet *syn,
							const struct tg_service *svc,
							const struct tg_proxy_service *how)
{
	struct tg_server_key key = tg_server_key(syn, false);
	struct tg_service told = tg_service_told(svc, how->fixed,
						 bpf_map_lookup_elem(&tg_servers, &key), syn->family);

	if (how->first_data == TG_FIRST_DATA_ZERO_WINDOW)
		told.window = 0;
	return told;
}

/* A challenge without a cookie, in the place of the SYN. */
static __always_inline int tg_common_challenge(struct xdp_md *ctx, __u8 *frame, __u8 family, bool ts,
					       const struct tg_packet *syn,
					       const struct tg_service *svc, __u32 strategy,
					       __u64 salt, struct tg_counter_row *row)
{
	__u8 ttl = family == 4 ? frame[TG_ETH_HDR_LEN + 8] : frame[TG_ETH_HDR_LEN + 7];
	struct tg_segment s = tg_challenge(syn, svc, strategy == TG_STRATEGY_AUTH_TTL ? ttl : 0, salt,
					   strategy == TG_STRATEGY_AUTH_WRONG);
	int shorter = (int)(TG_ETH_HDR_LEN + tg_segment_len(&s)) - (int)tg_common_syn_len(family, ts);

	tg_count(row, TG_COUNT_syn);
	if (tg_segment_write((struct tg_writer){frame + TG_ETH_HDR_LEN,
						frame + tg_common_syn_len(family, ts)}, &s)) {
		tg_ethernet_reflect(frame);
		if (bpf_xdp_adjust_tail(ctx, shorter) == 0) {
			tg_count(row, TG_COUNT_challenge_sent);
			return XDP_TX;
		}
	}
	tg_count(row, TG_COUNT_drop_tx);
	return XDP_DROP;
}

/* XDP_ABORTED, with nothing done and nothing counted: not this way. */
static __always_inline int tg_proxy_common_syn(struct xdp_md *ctx, __u8 family, bool ts)
{
	__u8 *frame = (void *)(long)ctx->data;
	const struct tg_host_settings *settings;
	const struct tg_proxy_settings *proxy;
	const struct tg_proxy_service *how;
	struct tg_tcp_options offered;
	struct tg_counter_row *row;
	struct tg_service *svc, told;
	struct tg_packet syn;
	__u32 id;

	if (frame + tg_common_syn_len(family, ts) > (__u8 *)(long)ctx->data_end ||
	    !tg_common_syn_read(frame, family, ts, &syn, &offered))
		return XDP_ABORTED;
	settings = tg_settings_get();
	proxy = tg_proxy_get();
	if (!settings || !proxy)
		return XDP_ABORTED;
	id = tg_service_find(settings, &syn);
	svc = bpf_map_lookup_elem(&tg_services, &id);
	how = bpf_map_lookup_elem(&tg_strategies, &id);
	row = tg_counter_row_get(id);
	if (!id || !svc || !how || !row || svc->mode != TG_MODE_ALWAYS ||
	    how->strategy == TG_STRATEGY_CACHE ||
	    (proxy->flows && tg_presence_has(tg_presence_flow(&syn, proxy->salt), TG_PRESENCE_FLOWS)))
		return XDP_ABORTED;
	if (how->strategy == TG_STRATEGY_COOKIE) {
		told = tg_common_told(&syn, svc, how);
	} else {
		__u64 source = tg_white_key(&syn.src, family, proxy->white_v4_mask,
					    proxy->white_v6_mask);

		if (tg_presence_has(tg_presence_source(source, proxy->salt), TG_PRESENCE_SOURCES))
			return XDP_ABORTED;
		if (how->strategy != TG_STRATEGY_AUTH_COOKIE)
			return tg_common_challenge(ctx, frame, family, ts, &syn, svc, how->strategy,
						   proxy->salt, row);
		told = *svc;
	}
	if (!tg_common_syn_agrees(&told, ts) ||
	    !tg_common_syn_send(frame, family, ts, settings, &told, &syn, &offered))
		return XDP_ABORTED;
	tg_count(row, TG_COUNT_syn);
	tg_count(row, TG_COUNT_cookie_sent);
	return XDP_TX;
}

/* One function for each family: their stacks do not add up. */
__attribute__((noinline)) int tg_proxy_common_v4(struct xdp_md *ctx, __u32 ts)
{
	return ts ? tg_proxy_common_syn(ctx, 4, true) : tg_proxy_common_syn(ctx, 4, false);
}

__attribute__((noinline)) int tg_proxy_common_v6(struct xdp_md *ctx, __u32 ts)
{
	return ts ? tg_proxy_common_syn(ctx, 6, true) : tg_proxy_common_syn(ctx, 6, false);
}

#endif
