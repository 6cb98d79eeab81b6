/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Who may have how many places in the flow tables: of those of their own, and of those that wait.
 */
#ifndef TG_BPF_PROXY_SHARES_H
#define TG_BPF_PROXY_SHARES_H

#include "proxy_held.h"

/* Who is counted for the packet's flow, as tg_share_of wants it. */
#define TG_CLIENT_OF(pkt, dir) ((dir) == TG_TO_SERVER ? (pkt)->src.d[0] : (pkt)->dst.d[0])

/* The cells of a family's active generation begin there. */
static __always_inline __u32 tg_share_base(const struct tg_proxy_settings *proxy, __u8 family)
{
	return ((family == 6) * 2 + (proxy->flows_gen & 1)) * TG_SHARE_CELLS;
}

static __always_inline void tg_share_add(__u32 at, __u32 n)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_shares, &at);

	if (cell)
		__sync_fetch_and_add(cell, n);
}

static __always_inline __u32 tg_share_read(__u32 at)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_shares, &at);

	return cell ? *(volatile __u32 *)cell : 0;
}

/* A flow has come to the active table, or has left it (n is then -1). `first`: as in tg_share_of. */
TG_GLOBAL int tg_share_count_flow(__u64 first, __u32 family, __u32 n)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_share s;
	__u32 base;

	base = tg_share_base(proxy, (__u8)family);
	s = tg_share_of(first, (__u8)family, &proxy->share_key);
	tg_share_add(base + TG_SHARE_ALL, n);
	tg_share_add(base + tg_share_cell(s.level[0], 0), n);
	tg_share_add(base + tg_share_cell(s.level[0], 1), n);
	if (s.level[1]) {
		tg_share_add(base + tg_share_cell(s.level[1], 0), n);
		tg_share_add(base + tg_share_cell(s.level[1], 1), n);
	}
	return 0;
}

/* The same for both accounts of it. One after the other: the stack has no room for nested calls. */
static __always_inline void tg_flow_came(__u64 first, __u32 family, int by)
{
	tg_share_count_flow(first, family, (__u32)by);
	tg_held_flow(first, family, 0, by);
}

/* 1 if the client whose packet that is may have one more place of its own. */
TG_GLOBAL int tg_share_is_due(const struct tg_packet *pkt)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_share s;
	__u32 base, all, max;

	if (!pkt)
		return 0;
	base = tg_share_base(proxy, pkt->family);
	max = tg_share_newcomers(proxy->max_flows);
	s = tg_share_of(pkt->src.d[0], pkt->family, &proxy->share_key);
	all = tg_share_read(base + TG_SHARE_ALL);
	if (!tg_share_admits(0, tg_share_read(base + tg_share_cell(s.level[0], 0)),
			     tg_share_read(base + tg_share_cell(s.level[0], 1)), all, max))
		return 0;
	return !s.level[1] ||
	       tg_share_admits(1, tg_share_read(base + tg_share_cell(s.level[1], 0)),
			       tg_share_read(base + tg_share_cell(s.level[1], 1)), all, max);
}

static __always_inline __u32 tg_tick_now(void)
{
	return tg_flow_tick(bpf_ktime_get_coarse_ns());
}

static __always_inline void tg_lately_note(__u32 at, __u32 tick, int by)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_lately_cells, &at);

	if (cell)
		*cell = tg_lately_add(*cell, tick, by);
}

/* A flow of a client (`first`: as in tg_share_of) no longer waits. */
TG_GLOBAL int tg_lately_uncount(__u64 first, __u32 family)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u32 base = (family == 6) * TG_SHARE_CELLS, tick = tg_tick_now();
	struct tg_share s;

	s = tg_share_of(first, (__u8)family, &proxy->share_key);
	tg_lately_note(base + TG_SHARE_ALL, tick, -1);
	tg_lately_note(base + tg_share_cell(s.level[0], 0), tick, -1);
	tg_lately_note(base + tg_share_cell(s.level[0], 1), tick, -1);
	if (s.level[1]) {
		tg_lately_note(base + tg_share_cell(s.level[1], 0), tick, -1);
		tg_lately_note(base + tg_share_cell(s.level[1], 1), tick, -1);
	}
	return 0;
}

static __always_inline __u32 *tg_lately_cell(__u32 at)
{
	return bpf_map_lookup_elem(&tg_lately_cells, &at);
}

/* 1 if the client whose packet that is may open one more flow. `opens`: it does, and that is counted. */
TG_GLOBAL int tg_lately_admitted(const struct tg_packet *pkt, __u32 opens)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u32 base, tick, of_all;
	__u32 *all, *near[2], *far[2] = {};
	struct tg_share s;

	if (!pkt)
		return 0;
	tick = tg_flow_tick(tg_clock_ns(settings));
	base = (pkt->family == 6) * TG_SHARE_CELLS;
	s = tg_share_of(pkt->src.d[0], pkt->family, &proxy->share_key);
	all = tg_lately_cell(base + TG_SHARE_ALL);
	near[0] = tg_lately_cell(base + tg_share_cell(s.level[0], 0));
	near[1] = tg_lately_cell(base + tg_share_cell(s.level[0], 1));
	if (!all || !near[0] || !near[1])
		return 0;
	of_all = *(volatile __u32 *)all;
	if (!tg_lately_admits(0, *(volatile __u32 *)near[0], *(volatile __u32 *)near[1], of_all,
			      proxy->max_waiting, tick))
		return 0;
	if (s.level[1]) {
		far[0] = tg_lately_cell(base + tg_share_cell(s.level[1], 0));
		far[1] = tg_lately_cell(base + tg_share_cell(s.level[1], 1));
		if (!far[0] || !far[1] ||
		    !tg_lately_admits(1, *(volatile __u32 *)far[0], *(volatile __u32 *)far[1],
				      of_all, proxy->max_waiting, tick))
			return 0;
	}
	if (!opens)
		return 1;
	*all = tg_lately_add(*all, tick, 1);
	*near[0] = tg_lately_add(*near[0], tick, 1);
	*near[1] = tg_lately_add(*near[1], tick, 1);
	if (far[0] && far[1]) {
		*far[0] = tg_lately_add(*far[0], tick, 1);
		*far[1] = tg_lately_add(*far[1], tick, 1);
	}
	return 1;
}

#endif
