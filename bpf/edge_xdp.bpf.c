/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP, edge role: on every port of a router, or of a bridge with two ports, that
 * stands before servers of our `server` role. Answers SYNs to protected services,
 * verifies ACKs, and lets pass what its filter of verified flows knows. Protocol
 * `plain`: what goes on is the client's packet, changed in nothing but its TTL.
 * Protocol `tagged`: lib/edge_tagged.h.
 *
 * Must never: keep anything of a single flow but its bits in the filter; judge what
 * comes from inside; decide anything that is not in core/.
 */
#define TG_AUTO_SAMPLES
#include "lib/automatic.h"
#include "lib/closed_port.h"
#include "lib/edge_fast.h"
#include "lib/proven.h"
#include "lib/signed.h"

/* Not TCP, or a later fragment. A bridge forwards it; a router's kernel does. */
static __always_inline int tg_edge_pass(__u32 ingress)
{
	const struct tg_proxy_settings *ports = tg_proxy_get();

	if (!ports || !ports->bridge[0])
		return XDP_PASS;
	if (ingress == ports->bridge[0])
		return bpf_redirect_map(&tg_devices, ports->bridge[1], 0);
	if (ingress == ports->bridge[1])
		return bpf_redirect_map(&tg_devices, ports->bridge[0], 0);
	return XDP_PASS;
}

/* TCP of no service: a router's kernel forwards it, unless `fast_path: all` is set. */
static __always_inline int tg_edge_leave(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	const struct tg_proxy_settings *ports = tg_proxy_get();

	return ports && (ports->forward_all || ports->bridge[0]) ? tg_forward(ctx, pkt) : XDP_PASS;
}

static __always_inline __u8 *tg_edge_ttl(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	__u8 *ip = (void *)(long)ctx->data + (pkt->l3_off & 31);

	if (ip + TG_IPV4_HDR_LEN > (__u8 *)(long)ctx->data_end)
		return 0;
	return ip + (pkt->family == 4 ? 8 : 7);
}

/* A SYN that the server's stack may have to challenge. XDP_ABORTED, with nothing done and nothing
 * counted, if it is still ours to answer. */
TG_GLOBAL int tg_edge_challenge(struct xdp_md *ctx, const struct tg_packet *syn)
{
	const struct tg_edge_settings *edge = tg_edge_get();
	struct tg_counter_row *row;
	__u8 *ttl;

	if (!syn)
		return XDP_ABORTED;
	row = tg_counter_row_get(tg_service_find(syn));
	ttl = tg_edge_ttl(ctx, syn);
	if (!row || !ttl || !tg_edge_syn_goes_on(*ttl))
		return XDP_ABORTED;
	tg_count(row, TG_COUNT_edge_syn_known);
	if (edge->hops)
		tg_edge_set_ttl(ctx, syn, edge->hops);
	return tg_forward(ctx, syn);
}

/* A SYN from outside. `port_flags` may have TG_EDGE_ANSWER. To the verifier, the header's offset is one unknown number here, not one of
 * many known ones. */
TG_GLOBAL int tg_edge_syn(struct xdp_md *ctx, const struct tg_packet *syn, __u32 parse,
			  __u32 port_flags)
{
	__u32 frame_len = (__u32)bpf_xdp_get_buff_len(ctx);
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_tcp_options offered = {};
	const struct tg_siphash_key *key;
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_decision d;
	__u64 epoch;
	__u32 id;

	if (!syn)
		return XDP_PASS;
	if (syn->l4_off > TG_L4_OFF_MAX)
		return tg_edge_pass(tg_ingress(ctx));
	id = tg_service_find(syn);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || svc->mode == TG_MODE_OFF)
		return tg_edge_leave(ctx, syn);
	if (!(port_flags & TG_EDGE_ANSWER))
		tg_count(row, TG_COUNT_syn);
	d = tg_proxy_judge_syn(syn, parse, frame_len);
	if (d.verdict == TG_REPLY)
		d = tg_host_judge_intact(tg_intact(ctx, syn));
	if (svc->mode == TG_MODE_MONITOR) {
		tg_count(row, tg_host_monitor(d));
		return tg_forward(ctx, syn);
	}
	if (TG_UNLIKELY(d.verdict != TG_REPLY)) {
		tg_count(row, d.counter);
		return d.verdict == TG_DROP ? XDP_DROP : tg_forward(ctx, syn);
	}
	if (TG_UNLIKELY(svc->closed) && tg_closed_syn_judge(syn, id) == TG_PASS)
		return tg_forward(ctx, syn);
	epoch = tg_epoch_now(settings);
	key = tg_key_find(settings, epoch);
	if (TG_UNLIKELY(!key)) {
		d = tg_host_judge_no_key(settings->stale_keys);
		tg_count(row, d.counter);
		return d.verdict == TG_DROP ? XDP_DROP : tg_forward(ctx, syn);
	}
	if (TG_UNLIKELY(!tg_syn_options(ctx, syn, &offered))) {
		tg_count(row, TG_COUNT_drop_malformed);
		return XDP_DROP;
	}
	if (TG_UNLIKELY(offered.auth)) {
		int verdict = tg_signed_syn(offered.auth, id);

		if (verdict != TG_REPLY)
			return verdict == TG_DROP ? XDP_DROP : tg_forward(ctx, syn);
	}
	if (!(port_flags & TG_EDGE_ANSWER) &&
	    tg_edge_looks_up_syn(offered.ts_ok && svc->timestamps, TG_EDGE_LAYOUT_IS_SMART,
				 port_flags & TG_EDGE_PORT_CHALLENGE) &&
	    TG_UNLIKELY(tg_edge_syn_is_known(syn)))
		return TG_NEXT_CHALLENGE;
	if (tg_reflect_limits(settings, syn->family, &syn->src)) {
		tg_count(row, TG_COUNT_drop_reflected);
		return XDP_DROP;
	}
	if (!tg_edge_answer(ctx, syn, svc, &offered, epoch, key)) {
		tg_count(row, TG_COUNT_drop_tx);
		return XDP_DROP;
	}
	tg_count(row, TG_COUNT_cookie_sent);
	return XDP_TX;
}

/* What the ACK in hand says; false if its lengths lie. */
static __always_inline bool tg_edge_read(struct xdp_md *ctx, const struct tg_packet *pkt,
					 struct tg_ack *ack)
{
	const __u8 *end = (void *)(long)ctx->data_end;
	const __u8 *options = (void *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX) +
			      TG_TCP_HDR_LEN;
	struct tg_tcp_options o = {};

	/* The linear part is the whole frame, but for jumbo frames. */
	if (TG_UNLIKELY(!tg_host_ack_is_whole(pkt, (__u32)(end - (const __u8 *)(long)ctx->data))) &&
	    !tg_host_ack_is_whole(pkt, (__u32)bpf_xdp_get_buff_len(ctx)))
		return false;
	ack->cookie.isn = pkt->ack - 1;
	ack->ts_ok = false;
	if (pkt->tcp_hdr_len == TG_TCP_HDR_LEN)
		return true;
	if (pkt->tcp_hdr_len >= TG_TCP_HDR_LEN + 12 && options + 12 <= end &&
	    tg_tcp_timestamps_aligned(tg_load32(options), tg_load32(options + 4),
				      tg_load32(options + 8), &ack->tsval, &ack->cookie.tsval)) {
		ack->ts_ok = true;
		return true;
	}
	if (!tg_ack_options(ctx, pkt->l4_off + TG_TCP_HDR_LEN,
			    (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN, &o))
		return false;
	*ack = tg_host_read_ack(pkt, &o);
	return true;
}

/* Anything but a SYN, in mode monitor: counted, not changed. As while judging, the client's packets
 * only keep known what is known: what nobody has verified would pass once the service is switched
 * on. */
static __always_inline int tg_edge_watch(struct xdp_md *ctx, const struct tg_packet *pkt,
					 const struct tg_edge_settings *edge,
					 const struct tg_bloom_at *at, __u32 generations,
					 struct tg_counter_row *row)
{
	tg_count(row, generations ? TG_COUNT_edge_known : TG_COUNT_would_drop);
	if (generations && tg_edge_may_verify(pkt))
		tg_edge_self_refresh(edge, at, generations, row);
	return tg_forward(ctx, pkt);
}

/* Anything but a SYN, from outside. TG_NEXT_OLDER, with nothing done and nothing counted, if another key is to be tried: with `back`
 * TG_EPOCHS_OLDER. Two hashes in one function exceed the stack. */
TG_GLOBAL int tg_edge_segment(struct xdp_md *ctx, struct tg_packet *pkt, __u32 parse, __u64 back)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_edge_settings *edge = tg_edge_get();
	const struct tg_tagged_settings *tagged = tg_tagged_get();
	bool tag = tagged && tagged->edge && parse != TG_PARSE_FRAGMENT;
	enum tg_edge_finding found = TG_EDGE_KNOWN;
	struct tg_counter_row *row;
	struct tg_ack ack = {};
	struct tg_service *svc;
	struct tg_bloom_at at;
	struct tg_decision d;
	__u32 generations;
	__u64 hash;
	__u8 *ttl;
	__u32 id;

	if (!pkt)
		return XDP_PASS;
	if (pkt->l4_off > TG_L4_OFF_MAX)
		return tg_edge_pass(tg_ingress(ctx));
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || (svc->mode == TG_MODE_OFF && !svc->verify))
		return tg_edge_leave(ctx, pkt);
	ttl = tg_edge_ttl(ctx, pkt);
	if (TG_UNLIKELY(!ttl))
		return XDP_PASS;
	if (svc->mode == TG_MODE_ALWAYS && TG_UNLIKELY(tg_edge_expires(*ttl, edge->hops))) {
		tg_count(row, TG_COUNT_drop_hops);
		return XDP_DROP;
	}
	hash = tg_bloom_hash(pkt, TG_BLOOM_FROM_CLIENT, &edge->bloom_key);
	generations = tg_bloom_look_for(hash, edge->bloom_bits & 31);
	if (TG_UNLIKELY(svc->mode == TG_MODE_MONITOR && !svc->verify)) {
		at = tg_bloom_locate(hash, edge->bloom_bits & 31);
		return tg_edge_watch(ctx, pkt, edge, &at, generations, row);
	}
	if (!generations) {
		found = TG_EDGE_UNKNOWN;
		if (tg_edge_may_verify(pkt) && tg_edge_read(ctx, pkt, &ack))
			found = (enum tg_edge_finding)tg_edge_verify_by_call(pkt, &ack, back);
		if (found == TG_EDGE_VERIFIED)
			found = parse == TG_PARSE_FRAGMENT
					? TG_EDGE_UNKNOWN /* its sum is that of the whole */
					: tg_edge_verified(tg_intact(ctx, pkt));
		if (found == TG_EDGE_UNKNOWN && settings->four_epochs && !back)
			return TG_NEXT_OLDER;
		if (found == TG_EDGE_UNKNOWN && tag && tg_pending_is(edge, pkt))
			found = TG_EDGE_ALLOWED;
		if (found == TG_EDGE_UNKNOWN)
			found = tg_edge_unknown(settings, edge);
	}
	d = tg_edge_judge(tg_edge_kind(pkt), found);
	if (settings->report && (found == TG_EDGE_VERIFIED || d.counter == TG_COUNT_drop_ack))
		tg_proven_note(pkt, found != TG_EDGE_VERIFIED);
	if (d.verdict == TG_DROP)
		return TG_NEXT_DROP | (int)d.counter;
	tg_count(row, d.counter);
	if (found == TG_EDGE_VERIFIED) {
		pkt->as_probe = true;
		tg_closed_note(edge, pkt);
	}
	if (tag && found != TG_EDGE_KNOWN && found != TG_EDGE_NO_KEY) {
		if (found == TG_EDGE_VERIFIED)
			tg_pending_note(edge, pkt);
		if (edge->hops)
			tg_edge_set_ttl(ctx, pkt, edge->hops);
		return TG_NEXT_TAG | (found == TG_EDGE_VERIFIED ? TG_TAG_SETUP : TG_TAG_PROBE);
	}
	at = tg_bloom_locate(hash, edge->bloom_bits & 31);
	if (found == TG_EDGE_VERIFIED)
		tg_bloom_put(&at, edge->generation);
	else if (tg_edge_may_verify(pkt) && tg_edge_may_refresh(found))
		tg_edge_self_refresh(edge, &at, generations, row);
	if (edge->hops)
		tg_edge_set_ttl(ctx, pkt, edge->hops);
	return tg_forward(ctx, pkt);
}

/* From the servers' side. What carries an ACK belongs to a connection: it keeps the flow in the
 * filter. (A SYN-ACK or an RST may answer a flood; what it shows about the port is recorded, and
 * the answer to a SYN that we have forwarded begins a flow.) */
TG_GLOBAL int tg_edge_outbound(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	const struct tg_edge_settings *edge = tg_edge_get();
	struct tg_packet turned = {};
	struct tg_counter_row *row;
	struct tg_bloom_at at;
	__u32 id;

	if (!pkt)
		return XDP_PASS;
	if (pkt->l4_off > TG_L4_OFF_MAX)
		return tg_edge_pass(tg_ingress(ctx));
	turned.family = pkt->family;
	if (!tg_port_is_protected(TG_SRC_PORT_BE(pkt)))
		return tg_edge_leave(ctx, pkt);
	turned.dst = pkt->src;
	turned.ports = pkt->ports << 16 | pkt->ports >> 16;
	id = tg_service_find(&turned);
	row = tg_counter_row_get(id);
	if (id && row &&
	    (tg_host_is_ack(pkt) ||
	     (pkt->flags & (TG_TCP_SYN | TG_TCP_RST) && tg_closed_listen(pkt, id)))) {
		at = tg_bloom_find(edge, pkt, TG_BLOOM_FROM_SERVER);
		if (!(tg_bloom_look(&at) & 1U << (edge->generation & 3))) {
			tg_bloom_put(&at, edge->generation);
			tg_count(row, TG_COUNT_edge_refreshed);
		}
	}
	return tg_forward(ctx, pkt);
}

/* Whether a packet has to go on through the edge. */
enum tg_edge_way {
	TG_EDGE_STAYS,
	TG_EDGE_GOES_BY,
	TG_EDGE_DENIED,
};

/* enum tg_edge_way, by lists of sources and under AUTO; counts for the detector. A separate function for the stack, as
 * is the next. */
TG_GLOBAL int tg_edge_goes_by(struct tg_packet *pkt, __u32 port_flags)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row;
	struct tg_service *svc;
	__u32 id;

	if (!pkt)
		return TG_EDGE_STAYS;
	if (port_flags & TG_EDGE_PORT_INSIDE) {
		if ((pkt->flags & (TG_TCP_SYN | TG_TCP_ACK)) == (TG_TCP_SYN | TG_TCP_ACK))
			tg_auto_synack(pkt);
		return TG_EDGE_STAYS;
	}
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row)
		return TG_EDGE_STAYS;
	if (TG_UNLIKELY(settings->lists) && svc->mode != TG_MODE_OFF && tg_host_is_syn(pkt)) {
		int denied = tg_denied_syn(pkt, svc->mode, id);

		if (denied != TG_DENIED_NOT)
			return denied == TG_DENIED_DROP ? TG_EDGE_DENIED : TG_EDGE_GOES_BY;
	}
	if (TG_LIKELY(!svc->automatic))
		return TG_EDGE_STAYS;
	if (!tg_host_is_syn(pkt)) {
		if (tg_auto_ack(pkt))
			tg_auto_done(pkt, TG_SAMPLE);
		return svc->mode == TG_MODE_AUTO && !svc->verify ? TG_EDGE_GOES_BY : TG_EDGE_STAYS;
	}
	if (svc->mode != TG_MODE_AUTO || tg_auto_syn(pkt, id))
		return TG_EDGE_STAYS;
	tg_count(row, TG_COUNT_syn);
	return TG_EDGE_GOES_BY;
}

TG_GLOBAL int tg_edge_go(struct xdp_md *ctx, struct tg_packet *pkt)
{
	if (!pkt)
		return XDP_PASS;
	tg_frame_measure(ctx, pkt);
	if (pkt->l4_off > TG_L4_OFF_MAX)
		return tg_edge_pass(tg_ingress(ctx));
	return tg_edge_leave(ctx, pkt);
}

/* A segment that is to be dropped. True if it is forwarded all the same: the service, or some of its
 * addresses, are not being answered for, so this edge does not know all of its connections. */
TG_GLOBAL int tg_edge_spares(const struct tg_packet *pkt, __u32 counter)
{
	struct tg_counter_row *row;
	struct tg_service *svc;
	__u32 id;

	if (!pkt)
		return 0;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!row)
		return 1;
	if (svc->mode != TG_MODE_ALWAYS) {
		if (svc->mode == TG_MODE_MONITOR)
			tg_count(row, TG_COUNT_would_drop);
		return 1;
	}
	tg_count(row, (enum tg_counter)counter);
	return 0;
}

/* TCP with a header that is there, which has to go on through the edge. */
static __always_inline int tg_edge_tcp(struct xdp_md *ctx, struct tg_packet *pkt, __u32 parse,
				       __u32 port_flags)
{
	int verdict;

	tg_frame_measure(ctx, pkt);
	if (port_flags & TG_EDGE_PORT_INSIDE)
		return tg_edge_outbound(ctx, pkt);
	if (tg_host_is_syn(pkt)) {
		verdict = tg_edge_syn(ctx, pkt, parse, port_flags & TG_EDGE_PORT_CHALLENGE);
		if (TG_UNLIKELY(verdict == TG_NEXT_CHALLENGE)) {
			verdict = tg_edge_challenge(ctx, pkt);
			if (verdict == XDP_ABORTED)
				verdict = tg_edge_syn(ctx, pkt, parse, TG_EDGE_ANSWER);
		}
		return verdict;
	}
	verdict = tg_edge_segment(ctx, pkt, parse, 0);
	if (TG_UNLIKELY(verdict == TG_NEXT_OLDER))
		verdict = tg_edge_segment(ctx, pkt, parse, TG_EPOCHS_OLDER);
	if (TG_UNLIKELY(pkt->as_probe))
		tg_auto_done(pkt, 1);
	if ((verdict & ~0xff) == TG_NEXT_DROP)
		return tg_edge_spares(pkt, (__u32)verdict & 0xff) ? tg_edge_go(ctx, pkt) : XDP_DROP;
	if (TG_UNLIKELY(verdict >= TG_NEXT_TAG))
		return tg_edge_tag(ctx, pkt, (__u32)verdict & 15) ? XDP_DROP : tg_forward(ctx, pkt);
	return verdict;
}

SEC("xdp.frags")
int tg_edge_xdp(struct xdp_md *ctx)
{
	const struct tg_host_settings *settings;
	__u32 ifindex = tg_ingress(ctx);
	struct tg_edge_port *port = bpf_map_lookup_elem(&tg_edge_ports, &ifindex);
	enum tg_parse_result result;
	struct tg_counter_row *row;
	struct tg_packet *pkt;
	struct tg_decision d;
	int action;

	if (!port)
		return XDP_PASS;
	action = tg_edge_fast(ctx, port);
	if (action != XDP_ABORTED)
		return action;
	TG_BARRIER(); /* else the frame's ends are merged with those read above */
	pkt = tg_edge_packet();
	if (!pkt)
		return XDP_PASS;
	*pkt = (struct tg_packet){};
	result = tg_packet_parse(pkt, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	if (result == TG_PARSE_OTHER) {
		if (port->flags & TG_EDGE_PORT_INSIDE && pkt->l3_off &&
		    tg_confirm_take(ctx, pkt->l3_off))
			return XDP_DROP;
		return tg_edge_pass(tg_ingress(ctx));
	}
	if (!tg_edge_is_mine(ctx, port))
		return XDP_PASS;
	if (TG_LIKELY(result == TG_PARSE_TCP || result == TG_PARSE_FRAGMENT)) {
		int way = tg_edge_goes_by(pkt, port->flags);

		if (TG_UNLIKELY(way != TG_EDGE_STAYS))
			return way == TG_EDGE_GOES_BY ? tg_edge_go(ctx, pkt) : XDP_DROP;
		return tg_edge_tcp(ctx, pkt, result, port->flags);
	}
	d = tg_host_judge_parse(result);
	row = tg_counter_row_get(0);
	settings = tg_settings_get();
	if (port->flags & TG_EDGE_PORT_INSIDE || d.verdict != TG_DROP || !row)
		return tg_edge_pass(tg_ingress(ctx));
	tg_count(row, settings->enforce ? d.counter : TG_COUNT_would_drop);
	return settings->enforce ? XDP_DROP : tg_edge_pass(tg_ingress(ctx));
}

char LICENSE[] SEC("license") = "GPL";
