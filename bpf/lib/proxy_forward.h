/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the proxy's XDP program does with a segment of a flow that is ready:
 * translate it by core/translate.h and send it on; see when the flow ends.
 */
#ifndef TG_BPF_PROXY_FORWARD_H
#define TG_BPF_PROXY_FORWARD_H

#include "proxy_send.h"
#include "proxy_tables.h"

#define TG_L4_OFF_MAX 1023

/* What a translation works on; a flow's copy, because map values cannot be
 * handed to a function that is verified by itself. */
struct tg_work {
	struct tg_flow flow;
	uint64_t sum;
	__u32 off; /* of the options */
	__u32 len;
	__u32 dir;
	__u32 ack;
};

/* Options in any order and number. */
__attribute__((noinline)) int tg_translate_slow(struct xdp_md *ctx, struct tg_work *w)
{
	struct tg_options_cursor c;
	__u32 len;

	if (!w)
		return -TG_EINVAL;
	tg_options_clear(&c);
	len = w->len;
	if (len == 0 || len > TG_TCP_OPTIONS_MAX_LEN || w->off > TG_L4_OFF_MAX + TG_TCP_HDR_LEN)
		return -TG_EINVAL;
	c.len = len;
	if (bpf_xdp_load_bytes(ctx, w->off, c.bytes, len))
		return -TG_EINVAL;
	tg_translate_options(&c, &w->flow, w->ack, w->dir, &w->sum);
	/* The verifier has lost sight of the length over writes at unknown places. */
	len = w->len;
	asm volatile("" : "+r"(len));
	if (len == 0 || len > TG_TCP_OPTIONS_MAX_LEN)
		return -TG_EINVAL;
	return (int)bpf_xdp_store_bytes(ctx, w->off, c.bytes, len);
}

/* Translates the segment in hand. Negative if it is not whole. */
static __always_inline int tg_translate(struct xdp_md *ctx, const struct tg_packet *pkt,
					const struct tg_flow *f, enum tg_direction dir)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *tcp = data + (pkt->l4_off & TG_L4_OFF_MAX);
	bool ack = pkt->flags & TG_TCP_ACK;
	uint64_t sum = 0;

	if (tcp + TG_TCP_HDR_LEN > end)
		return -TG_EINVAL;
	tg_translate_header(tcp, f, dir, &sum);
	if (pkt->tcp_hdr_len == TG_TCP_HDR_LEN + 12 && tcp + TG_TCP_HDR_LEN + 12 <= end &&
	    tg_translate_is_aligned(tcp + TG_TCP_HDR_LEN)) {
		if (f->flags & TG_FLOW_TS)
			tg_translate_timestamps(tcp + TG_TCP_HDR_LEN + 4, f, ack, dir, &sum);
	} else if (pkt->tcp_hdr_len > TG_TCP_HDR_LEN) {
		struct tg_work w = {
			.flow = *f,
			.sum = sum,
			.off = pkt->l4_off + TG_TCP_HDR_LEN,
			.len = (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN,
			.dir = dir,
			.ack = ack,
		};

		if (tg_translate_slow(ctx, &w))
			return -TG_EINVAL;
		sum = w.sum;
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		tcp = data + (pkt->l4_off & TG_L4_OFF_MAX);
		if (tcp + TG_TCP_HDR_LEN > end)
			return -TG_EINVAL;
	}
	tg_store16(tcp + 16, tg_translate_checksum(tg_load16(tcp + 16), sum));
	return 0;
}

/* Moves a flow that has ended, or has not after all, to where it belongs. */
__attribute__((noinline)) int tg_flow_move(const struct tg_packet *pkt, __u32 dir, __u32 turn)
{
	struct tg_counter_row *row;
	struct tg_flow *f, copy;

	f = pkt ? tg_flow_find(pkt, dir) : 0;
	if (!f)
		return -TG_ENOENT;
	copy = *f;
	if (turn == TG_FLOW_REVIVES)
		return tg_flow_insert(pkt, dir, &copy) ? 0 : -TG_ENOENT;
	tg_flow_retire(pkt, dir, &copy);
	row = tg_counter_row_get(copy.service);
	if (row)
		tg_count(row, TG_COUNT_flow_closed);
	return 0;
}

/* A segment of a flow that is ready: which way, translate, send. */
static __always_inline int tg_flow_forward(struct xdp_md *ctx, const struct tg_packet *pkt,
					   struct tg_flow *f, enum tg_direction dir)
{
	struct tg_route r = {};
	enum tg_flow_turn turn;

	if (tg_route_find(ctx, pkt, &r))
		return XDP_PASS;
	if (r.way == TG_WAY_KERNEL_AS_IS)
		return XDP_PASS;
	if (tg_translate(ctx, pkt, f, dir))
		return XDP_DROP;
	turn = tg_flow_track(f, pkt, dir);
	if (TG_UNLIKELY(turn != TG_FLOW_STAYS))
		tg_flow_move(pkt, dir, turn);
	return tg_route_send(ctx, pkt, &r);
}

#endif
