/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the proxy's XDP program does with a segment of a flow that is ready:
 * translate it (translate.h) and send it on; see when the flow ends.
 */
#ifndef TG_BPF_PROXY_FORWARD_H
#define TG_BPF_PROXY_FORWARD_H

#include "proxy_near.h"
#include "proxy_send.h"
#include "proxy_flow_tables.h"
#include "translate.h"

/* Moves the flow, which has ended or turned out not to have, to its place. */
static __always_inline void tg_flow_move(const struct tg_packet *pkt, __u32 dir,
					 const struct tg_flow *f, enum tg_flow_turn turn)
{
	struct tg_flow *copy = tg_next_flow_get();
	struct tg_counter_row *row;

	if (!copy)
		return;
	*copy = *f;
	if (turn == TG_FLOW_REVIVES) {
		tg_flow_place(pkt, dir, copy);
		return;
	}
	tg_flow_retire(pkt, dir, copy);
	row = tg_counter_row_get(copy->service);
	if (row)
		tg_count(row, TG_COUNT_flow_closed);
}

/* The client's segment of a flow that waits: whether it gets a place of its own now. */
TG_GLOBAL int tg_flow_settle(const struct tg_packet *pkt, struct tg_flow *f)
{
	struct tg_flow *copy = tg_next_flow_get();
	struct tg_counter_row *row;
	__u32 tick = tg_tick_now();

	if (!pkt || !f || !copy || tg_flow_wish(f, pkt, tick) != TG_FLOW_SETTLES)
		return 0;
	*copy = *f;
	copy->waits = TG_FLOW_SETTLED;
	if (tg_share_is_due(pkt) && tg_flow_place(pkt, TG_TO_SERVER, copy))
		return 0;
	f->waits = tg_flow_tick_mark(tick);
	row = tg_counter_row_get(f->service);
	if (row)
		tg_count(row, TG_COUNT_flow_waits);
	return 0;
}

/* A segment of a flow that is ready: find where it leaves, translate, send. */
static __always_inline int tg_flow_forward(struct xdp_md *ctx, const struct tg_packet *pkt,
					   struct tg_flow *f, enum tg_direction dir,
					   const struct tg_proxy_settings *proxy)
{
	__u32 across = tg_bridge_to(proxy, tg_ingress(ctx));
	struct tg_route r;
	__u16 port = (__u16)tg_ingress(ctx);
	enum tg_flow_turn turn;

	if (!across) {
		__builtin_memset(&r, 0, sizeof(r));
		if (tg_route_find(ctx, pkt, &r) || r.forwarding == TG_FORWARD_KERNEL_AS_IS)
			return XDP_PASS;
	}
	if (tg_translate(ctx, pkt, f, dir))
		return XDP_DROP;
	tg_flow_note_acked(f, pkt, dir, port);
	turn = tg_flow_track(f, pkt, dir, tg_flow_is_reset(f, pkt, dir, port), port);
	if (TG_UNLIKELY(turn != TG_FLOW_STAYS))
		tg_flow_move(pkt, dir, f, turn);
	else if (TG_UNLIKELY(f->waits) && dir == TG_TO_SERVER)
		tg_flow_settle(pkt, f);
	if (across) {
		tg_near_note(proxy, pkt, f, dir);
		return (int)bpf_redirect_map(&tg_devices, across, 0);
	}
	return tg_route_send(ctx, pkt, &r);
}

#endif
