/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The edge's fast path for what looks like nearly every packet: common SYNs (core/fast_syn.h) and
 * common segments (core/fast_segment.h) from outside. Decides nothing that the slow path
 * (edge_xdp.bpf.c) would decide differently; it leaves everything but the most common case to that.
 */
#ifndef TG_BPF_EDGE_FAST_H
#define TG_BPF_EDGE_FAST_H

#include "edge_steps.h"
#include "../../core/fast_segment.h"

/* A router takes only what is addressed to it: a port may be promiscuous. */
static __always_inline bool tg_edge_is_mine(struct xdp_md *ctx, const struct tg_edge_port *port)
{
	const __u8 *data = (void *)(long)ctx->data;

	if (port->flags & TG_EDGE_PORT_BRIDGED)
		return true;
	if (data + TG_ETH_HDR_LEN > (const __u8 *)(long)ctx->data_end)
		return false;
	return tg_load32(data) == (__u32)port->mac &&
	       tg_load16(data + TG_MAC_LO) == (__u16)(port->mac >> 32);
}

#ifdef TG_EDGE_FAST_SYN
/* A common SYN, the fast path. XDP_ABORTED, with nothing done and nothing counted, for what has to
 * take the slow path. */
static __always_inline int tg_edge_fast_syn(struct xdp_md *ctx, __u8 family, bool ts, bool look_up)
{
	__u8 *frame = (void *)(long)ctx->data;
	const struct tg_host_settings *settings;
	struct tg_tcp_options offered;
	struct tg_counter_row *row;
	struct tg_destination *d;
	struct tg_service *svc;
	struct tg_packet syn;
	uint64_t addrs;
	__u32 id;

	if (frame + tg_fast_syn_len(family, ts) > (__u8 *)(long)ctx->data_end ||
	    !tg_fast_syn_head(frame, family, ts, &syn))
		return XDP_ABORTED;
	settings = tg_settings_get();
	d = tg_destination_served(&syn);
	if (!d)
		return XDP_ABORTED;
	id = d->id;
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!tg_fast_syn_rest(frame, family, ts, &syn, &offered, &addrs))
		return XDP_ABORTED;
	if (!id || !row || svc->mode != TG_MODE_ALWAYS || svc->closed ||
	    !tg_fast_syn_agrees(svc, ts) || (look_up && TG_UNLIKELY(tg_edge_syn_looks_known(&syn))) ||
	    tg_source_is_special(settings, family, &syn.src) ||
	    !tg_fast_syn_send(frame, family, ts, settings, d, svc, &syn, &offered, addrs))
		return XDP_ABORTED;
	tg_count(row, TG_COUNT_syn);
	tg_count(row, TG_COUNT_cookie_sent);
	return XDP_TX;
}

/* Functions of their own: their stacks do not add to those of the slow path. */
TG_GLOBAL int tg_edge_fast_v4(struct xdp_md *ctx, __u32 ts)
{
	return ts ? tg_edge_fast_syn(ctx, 4, true, false) : tg_edge_fast_syn(ctx, 4, false, true);
}

TG_GLOBAL int tg_edge_fast_v6(struct xdp_md *ctx, __u32 ts)
{
	return ts ? tg_edge_fast_syn(ctx, 6, true, false) : tg_edge_fast_syn(ctx, 6, false, true);
}

/* With timestamps, looked up in the filter: TG_EDGE_PORT_CHALLENGE. */
TG_GLOBAL int tg_edge_fast_known_v4(struct xdp_md *ctx)
{
	return tg_edge_fast_syn(ctx, 4, true, true);
}

TG_GLOBAL int tg_edge_fast_known_v6(struct xdp_md *ctx)
{
	return tg_edge_fast_syn(ctx, 6, true, true);
}

/* Any other SYN, likewise. */
static __always_inline int tg_edge_any_syn(struct xdp_md *ctx, __u8 family, bool known)
{
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct tg_packet *syn = tg_form_syn(TG_SYN_ANY, 0);
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row;
	struct tg_destination *d;
	struct tg_service *svc;
	int action;
	__u32 id;

	if (!syn || !tg_form_head(frame, end, family, TG_SYN_ANY, syn))
		return TG_FAST_SLOW;
	d = tg_destination_served(syn);
	if (!d)
		return TG_FAST_SLOW;
	id = d->id;
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || svc->mode != TG_MODE_ALWAYS || svc->closed ||
	    tg_any_syn_was_seen(frame, end, family, syn, svc))
		return TG_FAST_SLOW;
	action = tg_form_rest(ctx, frame, family, TG_SYN_ANY, syn, 0, 0);
	if (action != XDP_TX)
		return action;
	if (((known || !tg_form_stamps(svc, TG_SYN_ANY)) && TG_UNLIKELY(tg_edge_syn_looks_known(syn))) ||
	    tg_source_is_special(settings, family, &syn->src))
		return TG_FAST_SLOW;
	return tg_form_send(ctx, frame, family, TG_SYN_ANY, settings, d, svc, syn, 0, 0, row);
}

TG_GLOBAL int tg_edge_any(struct xdp_md *ctx, __u64 known)
{
	const __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	int action = TG_FAST_SLOW;

	if (frame + tg_any_syn_len(4) <= end && tg_any_syn_may_be(frame, 4))
		action = tg_edge_any_syn(ctx, 4, known);
	else if (frame + tg_any_syn_len(6) <= end && tg_any_syn_may_be(frame, 6))
		action = tg_edge_any_syn(ctx, 6, known);
	return tg_fast_decided(action) ? action : XDP_ABORTED;
}

/* XDP_ABORTED if the frame is no SYN that is answered here, or has to take the slow path. `known`:
 * TG_EDGE_PORT_CHALLENGE or 0. */
static __always_inline int tg_edge_fast_any_syn(struct xdp_md *ctx, __u64 known)
{
	int action = XDP_ABORTED;

	switch (tg_fast_syn_kind((void *)(long)ctx->data, (void *)(long)ctx->data_end)) {
	case TG_FAST_V4_TS:
		action = known ? tg_edge_fast_known_v4(ctx) : tg_edge_fast_v4(ctx, true);
		break;
	case TG_FAST_V4:
		action = tg_edge_fast_v4(ctx, false);
		break;
	case TG_FAST_V6_TS:
		action = known ? tg_edge_fast_known_v6(ctx) : tg_edge_fast_v6(ctx, true);
		break;
	case TG_FAST_V6:
		action = tg_edge_fast_v6(ctx, false);
		break;
	default:
		if (!tg_any_syn_is_here((void *)(long)ctx->data, (void *)(long)ctx->data_end))
			return XDP_ABORTED;
		break;
	}
	return TG_LIKELY(action != XDP_ABORTED) ? action : tg_edge_any(ctx, known);
}
#else
#define tg_edge_fast_any_syn(ctx, known) XDP_ABORTED
#endif

/* A common segment (core/fast_segment.h) to a service whose mode is `always`, the fast path: what
 * tg_edge_segment does with it, in protocol `plain`, without reports of offenders. TG_NEXT_FORWARD
 * for what goes on; TG_NEXT_OLDER as there; XDP_ABORTED, with nothing done and nothing counted, for
 * what has to take the slow path. Fields are read from the frame each time: that costs less than
 * spilling them. */
static __always_inline int tg_edge_fast_segment(struct xdp_md *ctx, __u8 family, __u64 back)
{
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct tg_host_settings *settings;
	enum tg_edge_finding found = TG_EDGE_KNOWN;
	const struct tg_edge_settings *edge;
	struct tg_counter_row *row;
	struct tg_destination *to;
	struct tg_service *svc;
	struct tg_bloom_at at;
	struct tg_packet pkt;
	struct tg_decision d;
	__u32 id, generations;
	struct tg_ack ack;
	__u64 hash;

	if (frame + tg_fast_segment_len(family) > end || !tg_fast_segment_is(frame, family))
		return XDP_ABORTED;
	settings = tg_settings_get();
	edge = tg_edge_get();
	if (settings->report)
		return XDP_ABORTED;
	tg_fast_segment_read(frame, family, &pkt);
	to = tg_destination_served(&pkt);
	if (!to)
		return XDP_ABORTED;
	id = to->id;
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || svc->mode != TG_MODE_ALWAYS)
		return XDP_ABORTED;
	if (TG_UNLIKELY(tg_edge_expires(
		    frame[TG_ETH_HDR_LEN + (family == 4 ? TG_IPV4_TTL : TG_IPV6_HOPS)], edge->hops))) {
		tg_count(row, TG_COUNT_drop_hops);
		return XDP_DROP;
	}
	tg_fast_segment_read(frame, family, &pkt);
	hash = tg_bloom_hash(&pkt, TG_BLOOM_FROM_CLIENT, &edge->bloom_key);
	generations = tg_bloom_look_for(hash, edge->bloom_bits & 31);
	tg_fast_segment_read(frame, family, &pkt);
	if (!generations) {
		found = TG_EDGE_UNKNOWN;
		if (tg_edge_may_verify(&pkt)) {
			if (!tg_fast_segment_ack(frame, end, (__u32)(end - frame), &pkt, &ack)) {
				struct tg_tcp_options o = {};

				if (!tg_ack_options(
					    ctx, tg_fast_segment_len(family),
					    tg_fast_segment_options_len(&pkt, (__u32)(end - frame)),
					    &o))
					return XDP_ABORTED;
				ack.cookie.tsval = o.tsecr;
				ack.ts_ok = o.ts_ok;
			}
			found = tg_edge_verify(&pkt, to, &ack, settings, back);
			if (TG_UNLIKELY(found == TG_EDGE_UNKNOWN && settings->four_epochs && !back))
				return TG_NEXT_OLDER;
			if (found == TG_EDGE_VERIFIED)
				return XDP_ABORTED; /* once a connection: the slow path looks whether it is intact */
		}
		if (found == TG_EDGE_UNKNOWN)
			found = tg_edge_unknown(settings, edge);
	}
	tg_fast_segment_read(frame, family, &pkt);
	/* Nearly every packet of a flood, compiled apart from the rest. */
	if (TG_LIKELY(found == TG_EDGE_UNKNOWN))
		d = tg_edge_judge(tg_edge_kind(&pkt), TG_EDGE_UNKNOWN);
	else
		d = tg_edge_judge(tg_edge_kind(&pkt), found);
	tg_count(row, d.counter);
	if (d.verdict == TG_DROP)
		return XDP_DROP;
	at = tg_bloom_locate(hash, edge->bloom_bits & 31);
	if (tg_edge_may_verify(&pkt) && tg_edge_may_refresh(found))
		tg_edge_self_refresh(edge, &at, generations, row);
	if (edge->hops)
		tg_edge_set_ttl(ctx, &pkt, edge->hops);
	return TG_NEXT_FORWARD;
}

/* A cookie of two more epochs. Functions of their own: few packets get here. */
TG_GLOBAL int tg_edge_older_v4(struct xdp_md *ctx)
{
	return tg_edge_fast_segment(ctx, 4, TG_EPOCHS_OLDER);
}

TG_GLOBAL int tg_edge_older_v6(struct xdp_md *ctx)
{
	return tg_edge_fast_segment(ctx, 6, TG_EPOCHS_OLDER);
}

/* Sends a common segment on. */
static __always_inline int tg_edge_fast_forward(struct xdp_md *ctx, __u8 family)
{
	const __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct tg_proxy_settings *ports = tg_proxy_get();
	struct tg_packet *pkt;
	__u32 to;

	if (!ports)
		return XDP_PASS;
	to = tg_bridge_to(ports, tg_ingress(ctx));
	if (to)
		return bpf_redirect_map(&tg_devices, to, 0);
	pkt = tg_edge_packet();
	if (!pkt || frame + tg_fast_segment_len(family) > end)
		return XDP_PASS;
	tg_fast_segment_read(frame, family, pkt);
	return tg_forward(ctx, pkt);
}

/* What is done with a segment of that family. */
static __always_inline int tg_edge_fast_family(struct xdp_md *ctx, __u8 family)
{
	int action = tg_edge_fast_segment(ctx, family, 0);

	if (TG_UNLIKELY(action == TG_NEXT_OLDER))
		action = family == 4 ? tg_edge_older_v4(ctx) : tg_edge_older_v6(ctx);
	return action == TG_NEXT_FORWARD ? tg_edge_fast_forward(ctx, family) : action;
}

/* What looks like nearly every packet, from outside and for us. XDP_ABORTED, with nothing done and
 * nothing counted, if it is not, or has to take the slow path. */
static __always_inline int tg_edge_fast(struct xdp_md *ctx, const struct tg_edge_port *port)
{
	const __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 len4 = tg_fast_segment_len(4), len6 = tg_fast_segment_len(6);

	if (port->flags & TG_EDGE_PORT_INSIDE || frame + len4 > end || !tg_edge_is_mine(ctx, port))
		return XDP_ABORTED;
	if (tg_load16(frame + TG_ETH_TYPE) == TG_ETHERTYPE_IPV4 && !(frame[len4 - 7] & TG_TCP_SYN))
		return port->flags & TG_EDGE_PORT_TAGGED ? XDP_ABORTED : tg_edge_fast_family(ctx, 4);
	if (tg_load16(frame + TG_ETH_TYPE) == TG_ETHERTYPE_IPV6 && frame + len6 <= end &&
	    !(frame[len6 - 7] & TG_TCP_SYN))
		return port->flags & TG_EDGE_PORT_TAGGED ? XDP_ABORTED : tg_edge_fast_family(ctx, 6);
	return tg_edge_fast_any_syn(ctx, port->flags & TG_EDGE_PORT_CHALLENGE);
}

#endif
