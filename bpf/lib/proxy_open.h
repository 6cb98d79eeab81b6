/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP: the server's SYN-ACK opens its flow, without a socket buffer. The client gets the window that it waits for, and the server the
 * ACK that it waits for: by a twin of the same frame (proxy_twin.h), or, of a service with `defer_accept`, in the client's first
 * segment:
 *
 *   client                box                          server
 *                         tg_open_flow <───── SYN-ACK
 *          <── its window
 *   data   ────────────── translated ──────────────>   completes the handshake
 *
 * While the client is silent, the server repeats its SYN-ACK, which the TC program answers with both packets.
 */
#ifndef TG_BPF_PROXY_OPEN_H
#define TG_BPF_PROXY_OPEN_H

#include "proxy_answer_common.h"
#include "proxy_synack.h"
#include "proxy_twin.h"

/* The route of what is made of the SYN-ACK in hand, and the ports of the twins; NULL: no twins can be sent there. */
static __always_inline void *tg_open_twins(struct xdp_md *ctx, const struct tg_packet *pkt,
					   __u32 ingress, struct tg_route *r)
{
	struct tg_twin_key key = {.server = ingress};

	if (tg_route_find(ctx, pkt, r) || r->forwarding < TG_FORWARD_ROUTE)
		return 0;
	key.client = r->ifindex;
	return bpf_map_lookup_elem(&tg_twins, &key);
}

/* Keeps what the twin of the client's window `s` becomes. */
static __always_inline bool tg_open_keep(const struct xdp_md *ctx, const struct tg_packet *synack,
					 const struct tg_flow *ready,
					 const struct tg_tcp_options *o, const struct tg_segment *s)
{
	const __u8 *data = (void *)(long)ctx->data;
	struct tg_twin_ring *ring = tg_twin_ring_get();
	struct tg_twin *t;

	if (!ring || data + TG_ETH_HDR_LEN > (const __u8 *)(long)ctx->data_end)
		return false;
	t = &ring->of[ring->next++ & (TG_TWINS_WAIT - 1)];
	t->ack = tg_flow_ack(synack, ready, o);
	t->ports = s->ports;
	t->seq = tg_swap32(s->seq);
	__builtin_memcpy(t->macs, data + TG_ETH_SRC, 6);
	__builtin_memcpy(t->macs + 6, data, 6);
	t->waits = 1;
	return true;
}

/* The SYN-ACK in hand answers the SYN of its flow in set-up. `both`: the server's ACK is sent, too, else the flow defers
 * (tg_setup_defers). XDP_PASS, with nothing done, if the flow does not become ready by it, or not both can be sent: then
 * proxy_tc.bpf.c does what is to be done. */
static __always_inline int tg_open_flow(struct xdp_md *ctx, struct tg_packet *pkt, bool both)
{
	struct tg_flow *f = pkt ? tg_flow_find_in_setup(pkt, TG_TO_CLIENT) : 0;
	__u32 ingress = tg_ingress(ctx);
	const struct tg_proxy_service *proxy_cfg;
	struct tg_tcp_options o = {};
	struct tg_route r = {};
	struct tg_flow ready;
	struct tg_segment s;
	void *twins = 0;
	const __u8 *tcp;
	__u16 window;
	__u32 id;

	if (!f || f->state != TG_FLOW_SETUP)
		return XDP_DROP;
	id = f->service;
	proxy_cfg = tg_strategy_at(id);
	if (tg_noflow_options(ctx, pkt, &o))
		return XDP_DROP;
	if (tg_setup_next(f, pkt, &o, proxy_cfg->fixed) != TG_SETUP_ACCEPT)
		return XDP_PASS;
	if (both) {
		twins = tg_setup_twins(f, &o) ? tg_open_twins(ctx, pkt, ingress, &r) : 0;
		if (!twins)
			return XDP_PASS;
	}
	tcp = (void *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX);
	if (tcp + TG_TCP_HDR_LEN > (const __u8 *)(long)ctx->data_end)
		return XDP_DROP;
	window = tg_swap16(tg_load16(tcp + TG_TCP_WINDOW));
	tg_setup_learn(pkt, &o, false);
	tg_setup_ready(f, &ready, pkt, &o, (__u16)ingress, tg_counter_row_get(id));
	s = tg_flow_window(pkt, &ready, &o, window);
	if (!both)
		return tg_segment_send(ctx, pkt, &s, tg_proxy_get());
	if (!tg_open_keep(ctx, pkt, &ready, &o, &s) || tg_segment_put(ctx, &s) ||
	    !tg_route_write(ctx, pkt->family, &r))
		return XDP_DROP;
	return (int)bpf_redirect_map(twins, 0, BPF_F_BROADCAST);
}

/* Two functions, for what one of them need not do. */
TG_GLOBAL int tg_open_deferred(struct xdp_md *ctx, struct tg_packet *pkt)
{
	return tg_open_flow(ctx, pkt, false);
}

TG_GLOBAL int tg_open_both(struct xdp_md *ctx, struct tg_packet *pkt)
{
	return tg_open_flow(ctx, pkt, true);
}

#endif
