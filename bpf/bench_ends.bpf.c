/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Clients and a server without state, for `tidegate-lab bench --role proxy`: at both ends of a
 * middlebox they complete the handshake of every SYN, as fast as frames arrive, and end each
 * connection at once. Never loaded by `run`.
 *
 *   generator  SYN ───────────> box
 *   client     <─────── SYN-ACK       a SYN-ACK is answered with an ACK
 *              ACK ───────────> box ─ SYN ──────> server
 *                               box <──── SYN-ACK        a SYN is answered with a SYN-ACK
 *   client     <──────── window box ─ ACK ──────>        nothing else is answered
 *              RST ───────────> box ─ RST ──────>        a bare ACK is answered with a RST
 *
 * Clients offer no timestamps: then a segment of theirs has no options to read.
 */
#include "lib/kernel.h"
#include "../core/segment.h"
#include "../core/synack.h"

/* How far connections get, so that each step's cost is a difference. */
enum tg_ends_depth {
	TG_ENDS_SYN,    /* nobody answers the box */
	TG_ENDS_ACK,    /* clients complete the handshake */
	TG_ENDS_SYNACK, /* the server does so, too */
	TG_ENDS_RST,    /* and clients end the connection */
};

volatile __u32 ends_depth = TG_ENDS_SYN; /* set by userspace between bursts */
volatile __u64 ends_acks; /* bare ACKs that servers have got; likewise */

/* The segment in the place of the frame in hand, back by the port it came from. */
static __always_inline int tg_ends_answer(struct xdp_md *ctx, const struct tg_segment *s)
{
	int resize = (int)(s->l3_off + tg_segment_len(s)) - (int)(ctx->data_end - ctx->data);
	__u8 *data, *end;

	if (resize && bpf_xdp_adjust_tail(ctx, resize))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + TG_ETH_HDR_LEN > end ||
	    !tg_segment_write((struct tg_writer){data + TG_ETH_HDR_LEN, end}, s))
		return XDP_DROP;
	tg_ethernet_reflect(data);
	return XDP_TX;
}

/* An answer to `pkt` with everything that all answers have in common. */
static __always_inline struct tg_segment tg_ends_segment(const struct tg_packet *pkt)
{
	return (struct tg_segment){
		.src = pkt->dst,
		.dst = pkt->src,
		.ports = pkt->ports << 16 | pkt->ports >> 16,
		.seq = pkt->ack,
		.l3_off = TG_ETH_HDR_LEN,
		.window = 64240,
		.kind = TG_SEGMENT_PLAIN,
		.family = pkt->family,
		.ttl = 64,
	};
}

static __always_inline bool tg_ends_parse(struct xdp_md *ctx, struct tg_packet *pkt)
{
	return tg_packet_parse(pkt, (void *)(long)ctx->data, (void *)(long)ctx->data_end) ==
		       TG_PARSE_TCP &&
	       pkt->l3_off == TG_ETH_HDR_LEN;
}

SEC("xdp")
int tg_ends_client(struct xdp_md *ctx)
{
	struct tg_packet pkt = {};
	struct tg_segment s;

	if (!tg_ends_parse(ctx, &pkt))
		return XDP_DROP;
	s = tg_ends_segment(&pkt);
	if (pkt.flags == (TG_TCP_SYN | TG_TCP_ACK) && ends_depth >= TG_ENDS_ACK) {
		s.flags = TG_TCP_ACK;
		s.ack = pkt.seq + 1;
	} else if (pkt.flags == TG_TCP_ACK && ends_depth >= TG_ENDS_RST) {
		s.flags = TG_TCP_RST;
	} else {
		return XDP_DROP;
	}
	return tg_ends_answer(ctx, &s);
}

SEC("xdp")
int tg_ends_server(struct xdp_md *ctx)
{
	struct tg_packet pkt = {};
	struct tg_segment s;

	if (!tg_ends_parse(ctx, &pkt))
		return XDP_DROP;
	if (pkt.flags == TG_TCP_ACK)
		__sync_fetch_and_add(&ends_acks, 1);
	if ((pkt.flags & (TG_TCP_SYN | TG_TCP_ACK)) != TG_TCP_SYN || ends_depth < TG_ENDS_SYNACK)
		return XDP_DROP;
	s = tg_ends_segment(&pkt);
	s.seq = pkt.seq * 0x9e3779b1U; /* any ISN that is not the box's */
	s.ack = pkt.seq + 1;
	s.flags = TG_TCP_SYN | TG_TCP_ACK;
	s.kind = TG_SEGMENT_HANDSHAKE;
	s.options = (struct tg_tcp_options){.mss = 1460, .wscale = 7, .sack_ok = true};
	return tg_ends_answer(ctx, &s);
}

char LICENSE[] SEC("license") = "GPL";
