/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Segments of a proxy's flow that is being set up, or has ended: what its client sends while the server has
 * not answered, and what the server answers. Where one packet becomes two, proxy_tc.bpf.c takes over.
 */
#ifndef TG_BPF_PROXY_SETUP_SEGMENTS_H
#define TG_BPF_PROXY_SETUP_SEGMENTS_H

#include "proxy_answer.h"
#include "proxy_closed.h"
#include "proxy_open.h"

/* The client's segment while its server has not answered yet. */
static __always_inline int tg_setup_client(struct xdp_md *ctx, struct tg_packet *pkt,
					   struct tg_flow *f)
{
	struct tg_counter_row *row = tg_counter_row_get(f->service);
	struct tg_segment s;
	__u32 now;

	if (!row)
		return XDP_DROP;
	now = tg_now_ms();
	switch (tg_flow_retry(f, pkt, now)) {
	case TG_RETRY_DROP:
		return XDP_DROP;
	case TG_RETRY_GIVES_UP:
		s = tg_flow_give_up(pkt, f, tg_flow_isn(f));
		tg_flow_remove(pkt, TG_TO_SERVER);
		tg_count(row, TG_COUNT_flow_closed);
		return tg_segment_send(ctx, pkt, &s, tg_proxy_get());
	case TG_RETRY_EARLY:
		tg_count(row, TG_COUNT_flow_early);
		return XDP_DROP;
	default:
		f->syn.ms = (__u16)now;
		tg_count(row, TG_COUNT_flow_retransmit);
		s = tg_flow_syn(pkt, f, tg_flow_isn(f), false);
		return tg_segment_send(ctx, pkt, &s, tg_proxy_get());
	}
}

static __always_inline bool tg_setup_is_forged(struct xdp_md *ctx, const struct tg_packet *pkt,
					       const struct tg_flow *f)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	enum tg_origin origin;
	__u32 server;

	origin = tg_setup_origin(f, tg_port_tag(proxy, tg_ingress(ctx)), proxy->bridge[0]);
	if (origin != TG_ORIGIN_ROUTE)
		return origin == TG_ORIGIN_CLIENT;
	server = tg_route_back(ctx, pkt);
	return server && server != tg_ingress(ctx);
}

/* The SYN-ACK that a flow waits for. It opens the flow here (proxy_open.h) if the service defers, or two ports can send twins; else,
 * and where more is to be sent, proxy_tc.bpf.c does it. */
static __always_inline int tg_setup_opens(const struct tg_flow *f)
{
	__u32 id = f->service;
	const struct tg_proxy_service *proxy_cfg = tg_strategy_at(id);
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	if (tg_setup_defers(f, proxy_cfg))
		return TG_NEXT_OPEN;
	return proxy->twins && tg_setup_is_simple(f, proxy_cfg) ? TG_NEXT_OPEN_BOTH : XDP_PASS;
}

/* The same of a server's segment whose flow is in hand, if it is that SYN-ACK and the port tells that nobody has forged it.
 * TG_NEXT_SETUP_SERVER: tg_flow_setup decides. */
static __always_inline int tg_setup_awaited(const struct xdp_md *ctx, const struct tg_packet *pkt,
					    const struct tg_flow *f,
					    const struct tg_proxy_settings *proxy)
{
	if (f->state == TG_FLOW_SETUP && tg_setup_judge(pkt, tg_flow_isn(f)) == TG_SETUP_READY &&
	    tg_setup_origin(f, tg_port_tag(proxy, tg_ingress(ctx)), proxy->bridge[0]) ==
		    TG_ORIGIN_SERVER)
		return tg_setup_opens(f);
	return TG_NEXT_SETUP_SERVER;
}

/* The server's segment while the flow is being set up. */
static __always_inline int tg_setup_server(struct xdp_md *ctx, struct tg_packet *pkt,
					   struct tg_flow *f)
{
	struct tg_counter_row *row;
	__u32 id = f->service;
	struct tg_segment s;

	if (tg_setup_is_forged(ctx, pkt, f)) {
		row = tg_counter_row_get(id);
		if (row)
			tg_count(row, TG_COUNT_flow_forged);
		return XDP_DROP;
	}
	switch (tg_setup_judge(pkt, tg_flow_isn(f))) {
	case TG_SETUP_READY:
		return tg_setup_opens(f);
	case TG_SETUP_OTHER:
		return XDP_PASS; /* two packets, likewise */
	case TG_SETUP_REFUSED:
		s = tg_flow_refusal(pkt, f);
		tg_flow_remove(pkt, TG_TO_CLIENT);
		row = tg_counter_row_get(id);
		if (row)
			tg_count(row, TG_COUNT_flow_refused);
		tg_refused_learn(pkt, id);
		return tg_segment_send(ctx, pkt, &s, tg_proxy_get());
	default:
		return XDP_DROP;
	}
}

/* A SYN-ACK that a server retransmits: its handshake is completed again. */
static __always_inline int tg_ready_reack(struct xdp_md *ctx, const struct tg_packet *pkt,
					  struct tg_flow *f)
{
	const struct tg_proxy_service *proxy_cfg;
	struct tg_tcp_options o = {};
	struct tg_counter_row *row;
	__u32 id = f->service;
	struct tg_segment s;

	if (pkt->seq != f->server_isn || tg_noflow_options(ctx, pkt, &o))
		return XDP_DROP;
	proxy_cfg = tg_strategy_at(id);
	if (tg_ready_opens_again(f, proxy_cfg, (__u16)tg_ingress(ctx)))
		return XDP_PASS; /* two packets: proxy_tc.bpf.c */
	s = tg_flow_ack(pkt, f, &o);
	if (tg_segment_put(ctx, &s))
		return XDP_DROP;
	row = tg_counter_row_get(id);
	if (row)
		tg_count(row, TG_COUNT_flow_reack);
	return XDP_TX;
}

/* A segment of a flow that is being set up, or has ended. */
TG_GLOBAL int tg_flow_setup(struct xdp_md *ctx, struct tg_packet *pkt, __u32 dir)
{
	struct tg_flow *f = pkt ? tg_flow_find_again(pkt, dir) : 0;

	if (!f)
		return XDP_DROP;
	if (f->state == TG_FLOW_READY)
		return dir == TG_TO_CLIENT ? tg_ready_reack(ctx, pkt, f) : TG_NEXT_LATE;
	return dir == TG_TO_SERVER ? tg_setup_client(ctx, pkt, f) : tg_setup_server(ctx, pkt, f);
}

/* tg_flow_forward of such a segment. A function of its own: the verifier goes through it once, not for each table. */
TG_GLOBAL int tg_flow_forward_late(struct xdp_md *ctx, const struct tg_packet *pkt, struct tg_flow *f)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	return pkt && f && proxy ? tg_flow_forward(ctx, pkt, f, TG_TO_SERVER, proxy) : XDP_DROP;
}

/* The client's segment of a flow that was taken for one in set-up, or one that has ended. */
TG_GLOBAL int tg_flow_late(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	struct tg_flow *f = pkt ? tg_flow_find_again(pkt, TG_TO_SERVER) : 0;

	return f ? tg_flow_forward_late(ctx, pkt, f) : XDP_DROP;
}

#endif
