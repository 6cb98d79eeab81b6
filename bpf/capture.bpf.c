/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * `tidegate capture`: wraps the program of a gate while a capture runs. It saves a packet's first
 * bytes and the counters of its services, lets the gate decide, and reports to userspace which
 * counters the decision has changed: they are its reasons. internal/plane puts the gate's own
 * program in the place of tg_capture_gate, so that what decides is the program that is installed
 * without a capture, too.
 *
 * Must never: change a packet or a verdict; look at more packets than the budget allows; work after
 * its lease has ended, because then the capturing process is dead.
 */
#include "lib/gate.h"
#include "../core/capture.h"
#include "lib/skb_bare.h"
#include "lib/skb_headers.h"

/* The upper half of skb->mark on what the gates' TC programs put at the end of the queue: TG_MARK and so on. */
#define TG_CAPTURE_MARKS 0x7467

/* One CPU's. */
struct tg_capture_room {
	struct tg_capture_event event;
	__u32 inside; /* a program of ours runs within another: its counts are the outer one's */
	__u32 looks;
	struct tg_capture_turn turn;
	__u32 services[TG_CAPTURE_SERVICES + 1];
	struct tg_counter_row before[TG_CAPTURE_SERVICES + 1];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_capture_settings);
} tg_capture SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_capture_counts);
} tg_capture_tally SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_capture_room);
} tg_capture_room SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} tg_capture_ring SEC(".maps");

static __always_inline struct tg_capture_settings *tg_capture_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tg_capture, &zero);
}

static __always_inline struct tg_capture_counts *tg_capture_tally_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tg_capture_tally, &zero);
}

static __always_inline struct tg_capture_room *tg_capture_room_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tg_capture_room, &zero);
}

/* True if it is this packet's turn, and the CPU's budget allows it. */
static __always_inline bool tg_capture_looks(const struct tg_capture_settings *s,
					     struct tg_capture_room *room)
{
	struct tg_capture_counts *tally = tg_capture_tally_get();
	enum tg_capture_take take;

	if (!tally || tally->left <= 0)
		return false;
	take = tg_capture_take(&room->turn, s->sample, bpf_ktime_get_coarse_ns());
	if (take == TG_CAPTURE_BEYOND)
		__sync_fetch_and_add(&tally->beyond, 1);
	return take == TG_CAPTURE_LOOK;
}

/* Saves the counters of a service, or returns which of them have changed since: a loop with a
 * constant bound and no state but its index, which every verifier accepts. */
TG_GLOBAL int tg_capture_keep(__u32 slot)
{
	struct tg_capture_room *room = tg_capture_room_get();
	struct tg_counter_row *row;
	__u32 i;

	if (!room || slot >= TG_CAPTURE_SERVICES)
		return 0;
	row = tg_counter_row_get(room->services[slot]);
	if (!row)
		return 0;
	for (i = 0; i < TG_COUNTERS; i++)
		*(volatile __u64 *)&room->before[slot].count[i] = row->count[i];
	return 0;
}

/* True if a reason that is wanted is among those of a service. */
TG_GLOBAL int tg_capture_compare(__u32 slot)
{
	struct tg_capture_settings *s = tg_capture_get();
	struct tg_capture_room *room = tg_capture_room_get();
	struct tg_counter_row *row;
	int wanted = 0;
	__u32 i;

	if (!s || !room || slot >= TG_CAPTURE_SERVICES)
		return 0;
	row = tg_counter_row_get(room->services[slot]);
	if (!row)
		return 0;
	for (i = 0; i < TG_COUNTERS; i++)
		if (row->count[i] != room->before[slot].count[i] &&
		    tg_capture_reason(&room->event, s, i, slot ? room->services[slot] : 0))
			wanted = 1;
	return wanted;
}

/* What services' counters the packet may move. */
TG_GLOBAL int tg_capture_services(const struct tg_packet *pkt)
{
	struct tg_capture_room *room = tg_capture_room_get();
	struct tg_packet back;

	if (!pkt || !room)
		return 0;
	room->services[0] = 0;
	room->services[1] = tg_service_find(pkt);
	back = *pkt;
	back.dst = pkt->src;
	back.ports = pkt->ports << 16;
	room->services[2] = tg_service_find(&back);
	return 0;
}

/* What is known of a packet before the gate has it. */
static __always_inline void tg_capture_begin(struct tg_capture_settings *s,
					     struct tg_capture_room *room, struct tg_packet *pkt,
					     enum tg_parse_result parsed)
{
	bool whole = parsed == TG_PARSE_TCP || parsed == TG_PARSE_FRAGMENT;

	if (!tg_capture_wants(s, pkt, whole) || !tg_capture_looks(s, room))
		return;
	room->services[0] = room->services[1] = room->services[2] = 0;
	if (whole)
		tg_capture_services(pkt);
	tg_capture_keep(0);
	if (room->services[1])
		tg_capture_keep(1);
	if (room->services[2] && room->services[2] != room->services[1])
		tg_capture_keep(2);
	room->event.reasons = 0;
	room->event.service = 0;
	room->event.part = (__u8)s->part;
	room->event.time_ns = bpf_ktime_get_ns();
	room->looks = 1;
}

/* The buffer, if this packet may match the capture's filter. */
static __always_inline struct tg_capture_room *tg_capture_enter(struct tg_capture_settings *s)
{
	struct tg_capture_room *room = tg_capture_room_get();

	if (!room || room->inside++)
		return 0;
	room->looks = 0;
	return s && bpf_ktime_get_coarse_ns() < s->until_ns ? room : 0;
}

TG_GLOBAL int tg_capture_before_xdp(struct xdp_md *ctx)
{
	struct tg_capture_settings *s = tg_capture_get();
	struct tg_capture_room *room = tg_capture_enter(s);
	struct tg_packet pkt = {};
	enum tg_parse_result parsed;
	__u32 len;

	if (!room || !s)
		return 0;
	parsed = tg_packet_parse(&pkt, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	tg_capture_begin(s, room, &pkt, parsed);
	if (!room->looks)
		return 0;
	room->event.len = (__u32)bpf_xdp_get_buff_len(ctx);
	room->event.ifindex = ctx->ingress_ifindex;
	room->event.hook = TG_CAPTURE_XDP;
	room->event.bare = room->event.requeued = 0;
	len = room->event.len < TG_CAPTURE_SNAP ? room->event.len : TG_CAPTURE_SNAP;
	room->event.kept = (__u16)len;
	len = tg_len_within(len, TG_CAPTURE_SNAP, TG_CAPTURE_SNAP - 1);
	if (!len || bpf_xdp_load_bytes(ctx, 0, room->event.frame, len))
		room->looks = 0;
	return 0;
}

TG_GLOBAL int tg_capture_before_tc(struct __sk_buff *skb, __u32 hook)
{
	struct tg_capture_settings *s = tg_capture_get();
	struct tg_capture_room *room = tg_capture_enter(s);
	struct tg_packet pkt = {};
	const __u8 *data, *end;
	enum tg_parse_result parsed;
	tg_ethertype type;
	__u32 len;
	bool bare;

	if (!room || !s)
		return 0;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (tg_skb_headers_are_far(skb, data, end)) {
		if (!tg_skb_headers_pull(skb))
			return 0;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	bare = tg_skb_is_bare(skb, data, end);
	type = bare ? (tg_ethertype)skb->protocol : tg_packet_ethernet(&pkt, data, end);
	pkt.l3_off = (__u32)tg_skb_any_number(pkt.l3_off) & 31;
	parsed = tg_packet_l3(&pkt, type, data, end);
	tg_capture_begin(s, room, &pkt, parsed);
	if (!room->looks)
		return 0;
	room->event.len = skb->len;
	room->event.ifindex = skb->ifindex;
	room->event.hook = (__u8)hook;
	room->event.bare = bare;
	room->event.requeued = skb->mark >> 16 == TG_CAPTURE_MARKS;
	len = skb->len < TG_CAPTURE_SNAP ? skb->len : TG_CAPTURE_SNAP;
	room->event.kept = (__u16)len;
	len = tg_len_within(len, TG_CAPTURE_SNAP, TG_CAPTURE_SNAP - 1);
	if (!len || bpf_skb_load_bytes(skb, 0, room->event.frame, len))
		room->looks = 0;
	return 0;
}

static __always_inline __u8 tg_capture_verdict(__u32 hook, int action)
{
	if (hook == TG_CAPTURE_XDP)
		return action == XDP_PASS       ? TG_CAPTURE_PASS
		       : action == XDP_TX       ? TG_CAPTURE_TX
		       : action == XDP_REDIRECT ? TG_CAPTURE_REDIRECT
						: TG_CAPTURE_DROP;
	return action == TCX_DROP                  ? TG_CAPTURE_DROP
	       : action == 7 /* TC_ACT_REDIRECT */ ? TG_CAPTURE_REDIRECT
						   : TG_CAPTURE_PASS;
}

TG_GLOBAL int tg_capture_after(int action)
{
	struct tg_capture_settings *s = tg_capture_get();
	struct tg_capture_counts *tally = tg_capture_tally_get();
	struct tg_capture_room *room = tg_capture_room_get();
	int wanted;

	if (!s || !tally || !room)
		return 0;
	if (--room->inside || !room->looks)
		return 0;
	room->looks = 0;
	wanted = tg_capture_compare(0);
	if (room->services[1])
		wanted |= tg_capture_compare(1);
	if (room->services[2] && room->services[2] != room->services[1])
		wanted |= tg_capture_compare(2);
	room->event.verdict = tg_capture_verdict(room->event.hook, action);
	if (!tg_capture_reports(s, &room->event, wanted) ||
	    __sync_fetch_and_add(&tally->left, -1) <= 0)
		return 0;
	if (bpf_ringbuf_output(&tg_capture_ring, &room->event, sizeof(room->event), 0))
		__sync_fetch_and_add(&tally->lost, 1);
	return 0;
}

/* Replaced by the gate's program. */
TG_GLOBAL int tg_capture_gate_xdp(struct xdp_md *ctx)
{
	TG_HIDE(ctx);
	return ctx ? XDP_PASS : XDP_ABORTED;
}

TG_GLOBAL int tg_capture_gate_tc(struct __sk_buff *skb)
{
	TG_HIDE(skb);
	return skb ? TCX_NEXT : TCX_DROP;
}

SEC("xdp.frags")
int tg_capture_xdp(struct xdp_md *ctx)
{
	int action;

	tg_capture_before_xdp(ctx);
	action = tg_capture_gate_xdp(ctx);
	tg_capture_after(action);
	return action;
}

SEC("tc")
int tg_capture_tc(struct __sk_buff *skb)
{
	int action;

	tg_capture_before_tc(skb, TG_CAPTURE_INGRESS);
	action = tg_capture_gate_tc(skb);
	tg_capture_after(action);
	return action;
}

SEC("tc")
int tg_capture_egress(struct __sk_buff *skb)
{
	int action;

	tg_capture_before_tc(skb, TG_CAPTURE_EGRESS);
	action = tg_capture_gate_tc(skb);
	tg_capture_after(action);
	return action;
}

char LICENSE[] SEC("license") = "GPL";
