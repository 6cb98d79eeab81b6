/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP, host role: answers SYNs to protected services with a cookie. It stores nothing. Everything
 * else goes to the kernel.
 *
 * Must never: touch a packet of an established connection; answer anything but a SYN; look up a
 * socket for a SYN that the socket filter does not report.
 */
#include "lib/across.h"
#include "lib/automatic.h"
#include "lib/intact.h"
#include "lib/listeners.h"
#include "lib/live.h"
#include "lib/own.h"
#include "lib/reflect.h"
#include "lib/reply.h"
#include "lib/signed.h"
#include "lib/socket_filter.h"
#include "lib/source_list.h"
#include "lib/syn_forms.h"
#include "../core/fast_segment.h"
#include "../core/half_open.h"

/* True if the kernel has a socket for just this 4-tuple, so that the SYN is left to the kernel: RFC
 * 5961 challenge ACK, RFC 6191 TIME-WAIT assassination. If it has none, nothing says any longer that
 * it has one: the SYN may be answered. */
static __always_inline bool tg_syn_meets_socket(struct xdp_md *ctx,
						const struct tg_host_settings *settings,
						const struct tg_packet *syn)
{
	__u64 hash = tg_filter_hash_of(settings, syn);
	struct bpf_sock *sk;
	bool met = false;

	if (TG_LIKELY(!tg_filter_may_exist(settings, tg_filter_cells(hash))))
		return false;
	sk = tg_socket_find(ctx, syn);
	if (sk) {
		met = sk->state != BPF_TCP_LISTEN;
		bpf_sk_release(sk);
	}
	if (!met)
		tg_live_forget(hash);
	return met;
}

/* True if the SYN, which we would answer, is left to the kernel, which remembers it. A separate
 * function, for the stack. */
TG_GLOBAL int tg_half_open_passes(void)
{
	return tg_half_open_take(&tg_settings.half_open_next_ns, tg_settings.half_open_cost_ns,
				 TG_CLOCK_NS());
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_allowance);
} tg_tag_allowances SEC(".maps");

/* True if the frame may continue although no connection can be adopted from it. */
TG_GLOBAL int tg_tags_allowed(void)
{
	__u32 zero = 0;
	struct tg_allowance *a = bpf_map_lookup_elem(&tg_tag_allowances, &zero);

	return a && tg_allowance_take(a, TG_TAGGED_SYN_COST_NS, TG_CLOCK_NS());
}

/* What becomes of a SYN before its options are looked at. */
static __always_inline struct tg_decision tg_syn_judge(struct xdp_md *ctx,
						       const struct tg_host_settings *settings,
						       const struct tg_service *svc,
						       const struct tg_packet *syn,
						       enum tg_parse_result result, __u32 frame_len)
{
	const __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct tg_decision d = tg_host_judge_listener(tg_listener_of(svc, syn), settings->translates);

	if (TG_LIKELY(d.verdict == TG_REPLY))
		d = tg_host_judge_syn(syn, result, frame_len);
	if (TG_LIKELY(d.verdict == TG_REPLY))
		d = tg_host_judge_intact(tg_intact(ctx, syn));
	if (TG_LIKELY(d.verdict == TG_REPLY) &&
	    TG_UNLIKELY(frame + TG_ETH_HDR_LEN > end ||
			!tg_frame_is_adoptable(syn->l3_off, tg_load16(frame + TG_ETH_TYPE))))
		d = tg_host_judge_tags(
			frame + TG_ETH_HDR_LEN + 2 * TG_VLAN_TAG_LEN <= end &&
			!tg_frame_is_twice_untagged(syn->l3_off, frame + TG_ETH_HDR_LEN) &&
			tg_tags_allowed());
	return d;
}

static __always_inline int tg_syn_handle(struct xdp_md *ctx, const struct tg_host_settings *settings,
					 const struct tg_packet *syn, enum tg_parse_result result,
					 __u32 id)
{
	struct tg_service *svc = tg_service_at(id);
	struct tg_counter_row *row = tg_counter_row_get(id);
	__u32 frame_len = (__u32)bpf_xdp_get_buff_len(ctx);
	const struct tg_siphash_key *key;
	struct tg_syn_room *room = tg_syn_room_get();
	enum tg_listed listed;
	struct tg_decision d;
	__u64 epoch, route;

	if (!row || !room || svc->mode == TG_MODE_OFF)
		return XDP_PASS;
	if (settings->only_own) {
		d = tg_host_judge_own(tg_own_judge(ctx, syn));
		if (d.verdict == TG_PASS) {
			tg_count(row, d.counter);
			return XDP_PASS;
		}
	} else {
		d = TG_DECIDE(TG_REPLY, TG_COUNT_cookie_sent);
	}
	tg_count(row, TG_COUNT_syn);
	listed = tg_listed(settings, syn->family, &syn->src);
	if (TG_UNLIKELY(listed == TG_LISTED_DENY))
		d = tg_list_judge(listed);
	else if (svc->mode == TG_MODE_AUTO && !tg_auto_syn(syn, id))
		return XDP_PASS;
	if (d.verdict == TG_REPLY)
		d = tg_syn_judge(ctx, settings, svc, syn, result, frame_len);
	if (svc->mode == TG_MODE_MONITOR) {
		tg_count(row, tg_host_monitor(d));
		return XDP_PASS;
	}
	if (TG_UNLIKELY(d.verdict != TG_REPLY)) {
		tg_count(row, d.counter);
		return d.verdict == TG_DROP ? XDP_DROP : XDP_PASS;
	}
	if (TG_UNLIKELY(tg_syn_meets_socket(ctx, settings, syn))) {
		tg_count(row, TG_COUNT_pass_existing);
		return XDP_PASS;
	}
	if (TG_UNLIKELY(settings->parts_lost)) {
		tg_count(row, TG_COUNT_pass_unverifiable);
		return XDP_PASS;
	}
	epoch = tg_epoch_now(settings);
	key = tg_key_find(settings, epoch);
	if (TG_UNLIKELY(!key)) {
		d = tg_host_judge_no_key(settings->stale_keys);
		tg_count(row, d.counter);
		return d.verdict == TG_DROP ? XDP_DROP : XDP_PASS;
	}
	if (TG_UNLIKELY(!tg_syn_options_in(ctx, syn, &room->options, &room->offered))) {
		tg_count(row, TG_COUNT_drop_malformed);
		return XDP_DROP;
	}
	if (TG_UNLIKELY(room->offered.auth)) {
		int verdict = tg_signed_syn(room->offered.auth, id);

		if (verdict != TG_REPLY)
			return verdict == TG_DROP ? XDP_DROP : XDP_PASS;
	}
	if (tg_reflect_limits(settings, syn->family, &syn->src)) {
		tg_count(row, TG_COUNT_drop_reflected);
		return XDP_DROP;
	}
	route = tg_reply_for(ctx, syn);
	if (TG_UNLIKELY(TG_REPLY_KIND(route) == TG_REPLY_ACROSS))
		route = tg_across_route(
			settings, route,
			tg_host_takeover(tg_listener_of(svc, syn), settings->translates));
	if (settings->half_open_cost_ns && tg_half_open_passes()) {
		tg_count(row, TG_COUNT_pass_half_open);
		return XDP_PASS;
	}
	if (TG_UNLIKELY(TG_REPLY_KIND(route) != TG_REPLY_BACK)) {
		int verdict = tg_reply_decide(route, tg_ingress(ctx), id);

		if (verdict != TG_REPLY)
			return verdict == TG_DROP ? XDP_DROP : XDP_PASS;
	}
	if (!tg_syn_answer_in(ctx, syn, svc, &room->offered, epoch, &room->answer)) {
		tg_count(row, TG_COUNT_drop_tx);
		return XDP_DROP;
	}
	tg_count(row, TG_COUNT_cookie_sent);
	if (TG_UNLIKELY(TG_REPLY_MAC(route))) {
		__u8 *frame = (void *)(long)ctx->data;

		if (frame + TG_ETH_HDR_LEN > (__u8 *)(long)ctx->data_end)
			return XDP_DROP;
		if (TG_REPLY_KIND(route) == TG_REPLY_ACROSS) {
			tg_across_address(frame, settings, route);
			return XDP_PASS;
		}
		tg_reply_address(frame, route);
	}
	return XDP_TX;
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_reply_ask);
} tg_ask_rooms SEC(".maps");

/* Where the fast path of this form asks for its route: on the stack, if there is room. */
static __always_inline struct tg_reply_ask *tg_host_ask(enum tg_syn_form form,
							struct tg_reply_ask *local)
{
	__u32 zero = 0;

	return form == TG_SYN_ANY ? bpf_map_lookup_elem(&tg_ask_rooms, &zero) : local;
}

/* Sends the answer to a common SYN that does not come from the only gateway where the route leads:
 * the answer goes to the frame's source MAC, which is therefore rewritten first. False, with
 * nothing done, if it is not to be answered here. `ask`: memory. */
static __always_inline bool tg_host_fast_route(const struct xdp_md *ctx, __u8 *frame,
					       const struct tg_host_settings *settings,
					       const struct tg_packet *syn, __u8 family,
					       struct tg_counter_row *row, struct tg_reply_ask *ask)
{
	__u64 route;

	if (!ask)
		return false;
	ask->from = tg_reply_sender(frame);
	ask->src = syn->src;
	ask->dst = syn->dst;
	ask->ifindex = tg_ingress(ctx);
	ask->vid = 0;
	ask->family = family;
	ask->pad = 0;
	route = tg_reply_to(ask);
	if (TG_REPLY_KIND(route) == TG_REPLY_BACK)
		return true;
	if (TG_REPLY_KIND(route) != TG_REPLY_NEXT || !tg_key_find(settings, tg_epoch_now(settings)))
		return false;
	tg_reply_address(frame + TG_ETH_SRC, route);
	tg_count(row, TG_COUNT_reply_routed);
	return true;
}

/* True for a segment as nearly all of a connection's are, which is for the kernel. */
static __always_inline bool tg_host_is_segment(const struct xdp_md *ctx, __u8 family)
{
	const __u8 *frame = (void *)(long)ctx->data;

	return frame + tg_fast_segment_len(family) <= (const __u8 *)(long)ctx->data_end &&
	       tg_fast_segment_is(frame, family);
}

/* A common SYN to a service in mode AUTO: XDP_PASS if nothing is answered where it goes, and it is
 * counted. TG_FAST_SLOW, with nothing counted, if the slow path has to decide. */
TG_GLOBAL int tg_host_quiet(struct xdp_md *ctx, const struct tg_host_settings *settings,
			    __u32 family, __u32 id)
{
	const __u8 *frame = (void *)(long)ctx->data;
	struct tg_packet syn;
	bool ok;

	if (!settings || settings->lists ||
	    frame + tg_fast_syn_len(4, false) > (__u8 *)(long)ctx->data_end)
		return TG_FAST_SLOW;
	if (family == 4) {
		ok = tg_fast_syn_head(frame, 4, frame[tg_fast_syn_l4(4) + TG_TCP_DOFF] == 0xa0, &syn) &&
		     (!settings->only_own || tg_own_plainly(ctx, frame, &syn, 4) != TG_OWN_UNCLEAR);
	} else {
		if (frame + tg_fast_syn_len(6, false) > (__u8 *)(long)ctx->data_end)
			return TG_FAST_SLOW;
		ok = tg_fast_syn_head(frame, 6, frame[tg_fast_syn_l4(6) + TG_TCP_DOFF] == 0xa0, &syn) &&
		     (!settings->only_own || tg_own_plainly(ctx, frame, &syn, 6) != TG_OWN_UNCLEAR);
	}
	return ok && tg_auto_quiet(tg_place_prefix(&syn), family, id) ? XDP_PASS : TG_FAST_SLOW;
}

/* A SYN of this form, to a service without exceptions: answered at once, or, under AUTO while nothing
 * is answered, counted and passed. TG_FAST_OTHER and TG_FAST_SLOW, with nothing done and nothing counted. */
static __always_inline int tg_host_fast(struct xdp_md *ctx, __u8 family, enum tg_syn_form form)
{
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct tg_host_settings *settings;
	struct tg_tcp_options offered;
	struct tg_counter_row *row;
	struct tg_destination *d;
	struct tg_service *svc;
	enum tg_own_plain own = TG_OWN_BACK;
	struct tg_reply_ask ask;
	struct tg_packet local, *syn = tg_form_syn(form, &local);
	uint64_t addrs = 0;
	int action;
	__u32 id;

	if (!syn || !tg_form_head(frame, end, family, form, syn))
		return TG_FAST_OTHER;
	settings = tg_settings_get();
	id = tg_service_find(syn);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row)
		return TG_FAST_SLOW;
	if (TG_UNLIKELY(svc->mode != TG_MODE_ALWAYS))
		return svc->mode == TG_MODE_AUTO ? tg_host_quiet(ctx, settings, family, id)
						 : TG_FAST_SLOW;
	if (settings->only_own && (own = tg_own_plainly(ctx, frame, syn, family)) == TG_OWN_UNCLEAR)
		return TG_FAST_SLOW;
	if (TG_UNLIKELY(settings->lists) && tg_listed(settings, family, &syn->src) == TG_LISTED_DENY) {
		tg_count(row, TG_COUNT_syn);
		tg_count(row, tg_list_judge(TG_LISTED_DENY).counter);
		return XDP_DROP;
	}
	d = tg_destination_of(syn);
	if (!d)
		return TG_FAST_SLOW;
	action = tg_form_rest(ctx, frame, family, form, syn, &offered, &addrs);
	if (action != XDP_TX)
		return action;
	if (form == TG_SYN_ANY) { /* whose options have moved the verifier's bounds of the frame */
		frame = (void *)(long)ctx->data;
		if (frame + TG_ETH_HDR_LEN > (__u8 *)(long)ctx->data_end)
			return TG_FAST_SLOW;
	}
	if (!tg_form_agrees(svc, form))
		return TG_FAST_OTHER;
	if (tg_host_takeover(tg_listener_of(svc, syn), settings->translates) == TG_TAKEOVER_NONE ||
	    tg_filter_may_exist(settings, tg_filter_at(settings, syn)) ||
	    (settings->half_open_cost_ns &&
	     tg_half_open_may(settings->half_open_next_ns, settings->half_open_cost_ns,
			      tg_clock_ns(settings))) ||
	    /* Last: a SYN that the slow path answers must not take from the allowance here as well. */
	    (settings->exceptions &&
	     (settings->parts_lost ||
	      (settings->synack_cost_ns &&
	       (own != TG_OWN_BACK || tg_reflect_limits(settings, family, &syn->src))))))
		return TG_FAST_SLOW;
	if (TG_UNLIKELY(own != TG_OWN_BACK) &&
	    !tg_host_fast_route(ctx, frame, settings, syn, family, row, tg_host_ask(form, &ask)))
		return TG_FAST_SLOW;
	return tg_form_send(ctx, frame, family, form, settings, d, svc, syn, &offered, addrs, row);
}

/* Functions of their own: their stacks do not add to that of the program. */
TG_GLOBAL int tg_host_any_v4(struct xdp_md *ctx)
{
	return tg_host_fast(ctx, 4, TG_SYN_ANY);
}

TG_GLOBAL int tg_host_any_v6(struct xdp_md *ctx)
{
	return tg_host_fast(ctx, 6, TG_SYN_ANY);
}

/* What is not of the two common forms. */
static __always_inline int tg_host_any(struct xdp_md *ctx)
{
	const __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (frame + tg_any_syn_len(4) <= end && tg_any_syn_may_be(frame, 4))
		return tg_host_any_v4(ctx);
	if (frame + tg_any_syn_len(6) <= end && tg_any_syn_may_be(frame, 6))
		return tg_host_any_v6(ctx);
	return TG_FAST_SLOW;
}

/* Whatever the fast paths have left. */
static __always_inline int tg_host_slow(struct xdp_md *ctx)
{
	const struct tg_host_settings *settings;
	struct tg_syn_room *room = tg_syn_room_get();
	enum tg_parse_result result;
	struct tg_counter_row *row;
	struct tg_decision d;
	__u32 id;

	if (!room)
		return XDP_PASS;
	room->syn = (struct tg_packet){};
	result = tg_packet_parse(&room->syn, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	if (result == TG_PARSE_OTHER)
		return XDP_PASS;
	if (result == TG_PARSE_TCP && TG_LIKELY(!tg_host_is_syn(&room->syn)))
		return XDP_PASS;
	settings = tg_settings_get();
	if (TG_UNLIKELY(result != TG_PARSE_TCP && result != TG_PARSE_FRAGMENT)) {
		d = tg_host_judge_parse(result);
		if (d.verdict != TG_DROP)
			return XDP_PASS;
		row = tg_counter_row_get(0);
		if (row)
			tg_count(row, settings->enforce ? d.counter : TG_COUNT_would_drop);
		return settings->enforce ? XDP_DROP : XDP_PASS;
	}
	if (!tg_host_is_syn(&room->syn))
		return XDP_PASS;
	tg_frame_measure(ctx, &room->syn);
	id = tg_service_find(&room->syn);
	if (!id)
		return XDP_PASS;
	return tg_syn_handle(ctx, settings, &room->syn, result, id);
}

SEC("xdp.frags")
int tg_host_xdp(struct xdp_md *ctx)
{
	int action = TG_FAST_OTHER;

	switch (tg_fast_syn_kind((void *)(long)ctx->data, (void *)(long)ctx->data_end)) {
	case TG_FAST_V4_TS:
		action = tg_host_fast(ctx, 4, TG_SYN_TS);
		break;
	case TG_FAST_V4:
		action = tg_host_fast(ctx, 4, TG_SYN_NO_TS);
		break;
	case TG_FAST_V6_TS:
		action = tg_host_fast(ctx, 6, TG_SYN_TS);
		break;
	case TG_FAST_V6:
		action = tg_host_fast(ctx, 6, TG_SYN_NO_TS);
		break;
	default:
		if (tg_host_is_segment(ctx, 4) || tg_host_is_segment(ctx, 6))
			return XDP_PASS;
		break;
	}
	if (TG_UNLIKELY(action == TG_FAST_OTHER))
		action = tg_host_any(ctx);
	return TG_LIKELY(tg_fast_decided(action)) ? action : tg_host_slow(ctx);
}

char LICENSE[] SEC("license") = "GPL";
