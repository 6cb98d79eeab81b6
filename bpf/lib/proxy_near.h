/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The fast path of a bridge's translated segments (core/near_flow.h): what changes nothing of its flow
 * is translated without a look-up in the flow table, and without a call.
 *
 * A router takes the long way: it has to ask for a route, which costs more than the flow table.
 */
#ifndef TG_BPF_PROXY_NEAR_H
#define TG_BPF_PROXY_NEAR_H

#include "proxy_maps.h"
#include "proxy_send.h"
#include "../../core/near_flow.h"

/* Never pinned: a new process begins with none. Mapped into the daemon, which counts the entries: each
 * begins where a cache line does. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_FLOWS_NEAR);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct tg_near_flow);
} tg_flows_near SEC(".maps");

static __always_inline struct tg_near_flow *tg_near_entry(const struct tg_near_key *k, __u8 family,
							  __u64 salt)
{
	__u32 at = tg_near_place(k, family, salt);

	return bpf_map_lookup_elem(&tg_flows_near, &at);
}

/* Forgets both directions of the segment's flow. */
TG_GLOBAL int tg_near_forget_both(const struct tg_packet *pkt)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_near_flow *e;
	struct tg_near_key k;

	if (!pkt)
		return 0;
	k = tg_near_key(pkt, 0);
	e = tg_near_entry(&k, pkt->family, proxy->presence_salt);
	if (e)
		tg_near_forget(e, &k);
	k = tg_near_key_back(&k, pkt->family);
	e = tg_near_entry(&k, pkt->family, proxy->presence_salt);
	if (e)
		tg_near_forget(e, &k);
	return 0;
}

/* A segment has been translated by its flow, in the table: from now on by the entry, or no longer. */
static __always_inline void tg_near_note(const struct tg_proxy_settings *proxy,
					 const struct tg_packet *pkt, const struct tg_flow *f,
					 enum tg_direction dir)
{
	struct tg_near_flow *e;
	struct tg_near_key k;
	__u32 at;

	if (TG_UNLIKELY(tg_near_ends(pkt->flags))) {
		tg_near_forget_both(pkt);
		return;
	}
	if (!proxy->near || !tg_near_may_hold(f) || !tg_near_asks(pkt))
		return;
	k = tg_near_key(pkt, proxy->flows_turn);
	at = tg_near_place(&k, pkt->family, proxy->presence_salt);
	e = bpf_map_lookup_elem(&tg_flows_near, &at);
	if (!e || !tg_near_yields(e, &k, at, (__u32)bpf_jiffies64()))
		return;
	tg_near_keep(e, &k, pkt->family, f, dir);
	/* Another CPU may have seen a FIN meanwhile, and have forgotten the entry before it was there. */
	if (TG_UNLIKELY(*(const volatile __u8 *)&f->flags & ~TG_FLOW_TS))
		tg_near_forget(e, &k);
}

static __always_inline struct tg_flow *tg_near_table_find(const struct tg_packet *pkt)
{
	__u32 slot = TG_SLOT_ACTIVE;
	void *active;

	if (pkt->family == 4) {
		struct tg_flow_key4 key = tg_flow_key4(pkt, TG_TO_CLIENT);

		active = bpf_map_lookup_elem(&tg_flows4, &slot);
		return active ? bpf_map_lookup_elem(active, &key) : 0;
	}
	struct tg_flow_key6 key = tg_flow_key6(pkt, TG_TO_CLIENT);

	active = bpf_map_lookup_elem(&tg_flows6, &slot);
	return active ? bpf_map_lookup_elem(active, &key) : 0;
}

/* The server's segment in hand, which has the entry at `at` and is a common one, says what the server
 * wants next: notes that in its flow and in the entry. 0 if the flow is not in the active table. A
 * function of its own, for the stack. */
TG_GLOBAL int tg_near_acked(struct xdp_md *ctx, __u32 family, __u32 at)
{
	const __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct tg_near_flow *e = bpf_map_lookup_elem(&tg_flows_near, &at);
	struct tg_packet pkt;
	struct tg_flow *f;
	__u64 was, is;

	if (!e)
		return 0;
	if (family == 4 && frame + tg_fast_segment_len(4) <= end)
		tg_fast_segment_read(frame, 4, &pkt);
	else if (family == 6 && frame + tg_fast_segment_len(6) <= end)
		tg_fast_segment_read(frame, 6, &pkt);
	else
		return 0;
	f = tg_near_table_find(&pkt);
	if (!f)
		return 0;
	f->server_acked = pkt.ack;
	was = e->rest;
	is = (was >> 32 << 32) | pkt.ack;
	e->rest = is;
	e->check ^= was ^ is;
	return 1;
}

/* The common segment of that family at `frame`; XDP_ABORTED: the flow table has to be asked. */
static __always_inline int tg_near_segment(struct xdp_md *ctx,
					   const struct tg_proxy_settings *proxy, __u8 *frame,
					   const __u8 *end, __u32 across, __u16 port, __u8 family)
{
	__u8 *tcp = frame + tg_fast_segment_len(family) - TG_TCP_HDR_LEN;
	struct tg_near_found found;
	struct tg_near_flow *e;
	struct tg_near_key k;
	__u32 at;
	bool ts;

	k = tg_near_key_read(frame, family, proxy->flows_turn);
	at = tg_near_place(&k, family, proxy->presence_salt);
	e = bpf_map_lookup_elem(&tg_flows_near, &at);
	if (!e)
		return XDP_ABORTED;
	found = tg_near_find(e, &k, family);
	if (!found.rest)
		return XDP_ABORTED;
	if (!tg_near_form(tcp, end, &ts))
		return XDP_ABORTED;
	switch (tg_near_judge(found.rest, tcp[TG_TCP_FLAGS],
			      tg_swap32(tg_load32(tcp + TG_TCP_ACKED)), port)) {
	case TG_NEAR_TRANSLATE:
		break;
	case TG_NEAR_ACKED:
		if (tg_near_acked(ctx, family, at))
			break;
		return XDP_ABORTED;
	default:
		return XDP_ABORTED;
	}
	tg_near_translate_header(tcp, found, ts);
	return (int)bpf_redirect_map(&tg_devices, across, 0);
}

/* XDP_ABORTED: not near. */
static __always_inline int tg_near_translate(struct xdp_md *ctx, const struct tg_proxy_settings *proxy)
{
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 ingress = tg_ingress(ctx), across = tg_bridge_to(proxy, ingress);

	if (!across)
		return XDP_ABORTED;
	if (frame + tg_fast_segment_len(4) <= end && tg_fast_segment_is(frame, 4))
		return tg_near_segment(ctx, proxy, frame, end, across, (__u16)ingress, 4);
	if (frame + tg_fast_segment_len(6) <= end && tg_fast_segment_is(frame, 6))
		return tg_near_segment(ctx, proxy, frame, end, across, (__u16)ingress, 6);
	return XDP_ABORTED;
}

#endif
