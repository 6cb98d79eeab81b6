/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP: the server's SYN-ACK of a service with `defer_accept`. One packet is made of it, the window that the
 * client waits for; the ACK that the server waits for is the client's first segment. So neither a socket
 * buffer nor proxy_tc.bpf.c is needed.
 *
 *   client                box                          server
 *                         tg_defer_accept <── SYN-ACK
 *          <── its window
 *   data   ────────────── translated ──────────────>   completes the handshake
 *
 * While the client is silent, the server repeats its SYN-ACK, which the TC program answers with both packets.
 */
#ifndef TG_BPF_PROXY_DEFER_H
#define TG_BPF_PROXY_DEFER_H

#include "proxy_answer_common.h"
#include "proxy_synack.h"

/* The SYN-ACK in hand answers the SYN of its flow in set-up, which defers (tg_setup_defers). XDP_PASS, with
 * nothing done, if the flow does not become ready by it: then two packets are needed. */
TG_GLOBAL int tg_defer_accept(struct xdp_md *ctx, struct tg_packet *pkt)
{
	struct tg_flow *f = pkt ? tg_flow_find_in_setup(pkt, TG_TO_CLIENT) : 0;
	const struct tg_proxy_service *proxy_cfg;
	struct tg_tcp_options o = {};
	struct tg_flow ready;
	struct tg_segment s;
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
	tcp = (void *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX);
	if (tcp + TG_TCP_HDR_LEN > (const __u8 *)(long)ctx->data_end)
		return XDP_DROP;
	window = tg_swap16(tg_load16(tcp + TG_TCP_WINDOW));
	tg_setup_learn(pkt, &o, false);
	tg_setup_ready(f, &ready, pkt, &o, (__u16)ctx->ingress_ifindex, tg_counter_row_get(id));
	s = tg_flow_window(pkt, &ready, &o, window);
	return tg_segment_send(ctx, pkt, &s, tg_proxy_get());
}

#endif
