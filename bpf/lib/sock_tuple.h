/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What sock_ops programs know of a socket.
 *
 * Must never: change one.
 */
#ifndef TG_BPF_SOCK_TUPLE_H
#define TG_BPF_SOCK_TUPLE_H

#include "gate.h"

/* Fills addresses and ports of `pkt` from the peer's side, as its packets show
 * them. False if the socket is not of the gate's namespace and ports. */
static __always_inline bool tg_sock_tuple(struct bpf_sock_ops *ctx,
					  const struct tg_host_settings *settings,
					  struct tg_packet *pkt)
{
	__u32 local_port = ctx->local_port;

	if (!(tg_port_at(local_port) & TG_PORT_WATCHED) ||
	    bpf_get_netns_cookie(ctx) != settings->netns_cookie)
		return false;
	/* remote_port is in network order, in the upper half of a host-order word */
	pkt->ports = ctx->remote_port >> 16 | (__u32)tg_swap16(local_port) << 16;
	if (ctx->family == TG_AF_INET) {
		pkt->family = 4;
		pkt->src.w[0] = ctx->remote_ip4;
		pkt->dst.w[0] = ctx->local_ip4;
		return true;
	}
	if (ctx->family != TG_AF_INET6)
		return false;
	pkt->family = 6;
	pkt->src.w[0] = ctx->remote_ip6[0];
	pkt->src.w[1] = ctx->remote_ip6[1];
	pkt->src.w[2] = ctx->remote_ip6[2];
	pkt->src.w[3] = ctx->remote_ip6[3];
	pkt->dst.w[0] = ctx->local_ip6[0];
	pkt->dst.w[1] = ctx->local_ip6[1];
	pkt->dst.w[2] = ctx->local_ip6[2];
	pkt->dst.w[3] = ctx->local_ip6[3];
	tg_packet_unmap(pkt);
	return true;
}

#endif
