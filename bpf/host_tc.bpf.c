/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC ingress (TCX where the kernel has it), roles host and server: meets the client's ACK.
 * If it carries our cookie and no socket is there yet, the kernel is handed a
 * request socket with what the cookie says, and makes the connection from it;
 * the kernel's initial sequence number is the cookie. After that nothing is
 * stored and no packet of the connection is changed.
 *
 * Must never, as host: drop or change a packet. Packets it does not know continue unchanged. (One
 * packet is queued twice, see tg_ack_adopt; and where host_translate.bpf.c runs, a copy of each
 * adopting ACK follows it, see tg_ack_prove.) As server, behind an edge that answers the SYNs, it
 * is the final ACK check: it drops ACKs that match neither socket nor cookie, and ends an old
 * socket that is in the way of a new connection of the same client.
 */
#define TG_SKB
#include "lib/across.h"
#include "lib/ack_adopt.h"
#include "lib/host_parts.h"
#include "lib/fast_ack.h"
#include "lib/kernel_cookie.h"
#include "lib/server_meta.h"
#include "lib/skb_bare.h"
#include "lib/skb_headers.h"

/* On skb->mark, from when a packet is sent to the end of the queue to when it comes back; the
 * lowest bits count how often. A mark of that value from elsewhere would be cleared, with no other
 * effect. */
#define TG_MARK 0x74676760U
#define TG_MARK_PROVES 4U /* a copy of an ACK that was adopted from */

/* Whether the final ACK check drops what it has found to belong to nothing: in modes that drop nothing it only counts. */
static __always_inline bool tg_unmatched_drops(const struct tg_service *svc,
					       struct tg_counter_row *row)
{
	if (!tg_service_is_passive(svc)) {
		tg_count(row, TG_COUNT_drop_unmatched_ack);
		return true;
	}
	if (svc->mode == TG_MODE_MONITOR)
		tg_count(row, TG_COUNT_would_drop);
	return false;
}

/* What becomes of an ACK that carries no cookie, of ours or of the kernel's, and belongs to no live connection, `result` being what its check said. A
 * function of its own: with its stack in the program's, Linux 6.1 refuses the program (512 bytes for all calls). */
TG_GLOBAL int tg_ack_unmatched(const struct tg_packet *pkt, __u32 id, __u32 result)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_service *svc = tg_service_at(id);
	struct tg_counter_row *row = tg_counter_row_get(id);

	if (!pkt || !row)
		return TG_TC_GO_ON;
	tg_count(row, result == TG_ACK_STALE ? TG_COUNT_cookie_stale : TG_COUNT_cookie_invalid);
	if (settings->report && result == TG_ACK_INVALID)
		tg_proven_note(pkt, 1);
	if (!settings->final_check || tg_listener_of(svc, pkt) == TG_LISTENER_NONE ||
	    tg_keys_fail_open(settings, tg_epoch_verifying_now(settings)))
		return TG_TC_GO_ON;
	return tg_unmatched_drops(svc, row) ? TG_TC_DROP : TG_TC_GO_ON;
}

/* Anything but a whole TCP segment: the final ACK check drops what our XDP program would have
 * dropped. */
static __always_inline int tg_condemned(enum tg_parse_result parsed)
{
	struct tg_decision d = tg_host_judge_parse(parsed);
	const struct tg_host_settings *settings;
	struct tg_counter_row *row;

	if (TG_LIKELY(d.verdict != TG_DROP))
		return TCX_NEXT;
	settings = tg_settings_get();
	row = tg_counter_row_get(0);
	if (!row || !settings->final_check)
		return TCX_NEXT;
	tg_count(row, settings->enforce ? d.counter : TG_COUNT_would_drop);
	return settings->enforce ? TCX_DROP : TCX_NEXT;
}

/* A first fragment with an ACK: the final ACK check drops it if no socket of its tuple can exist,
 * and thereby the rest, which is then never reassembled. Nothing is adopted from it: the kernel
 * loses the socket during reassembly. Such a client retransmits it, to the socket that its bare ACK
 * has created. */
TG_GLOBAL int tg_first_fragment(const struct tg_packet *pkt)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row;
	struct tg_service *svc;
	__u32 id;

	if (!pkt || !settings->final_check)
		return TCX_NEXT;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || !tg_service_verifies(svc) ||
	    tg_filter_may_exist(settings, tg_filter_at(settings, pkt)) ||
	    tg_listener_of(svc, pkt) == TG_LISTENER_NONE ||
	    tg_keys_fail_open(settings, tg_epoch_verifying_now(settings)))
		return TCX_NEXT;
	/* Be it to a cookie of the kernel's: its client sends it again. */
	return tg_unmatched_drops(svc, row) ? TCX_DROP : TCX_NEXT;
}

/* host_translate.bpf.c continues. Added is the verdict if that is not there. */
#define TG_NEXT_OPEN 0x200

/* To be called next: tg_slow_adopt, tg_first_fragment. */
#define TG_NEXT_ADOPT 0x100
#define TG_NEXT_FRAGMENT 0x101

/* What the slow path knows of a packet. Its steps are functions of their own, called one after
 * another: their stacks do not add up, and the verifier goes through each with any packet, instead
 * of once for every state in which the step before may end. */
struct tg_slow {
	struct tg_packet pkt;
	struct tg_ack ack;
	__u32 id; /* of the service */
	__u32 turn; /* how often the packet has been to the end of the queue */
	__u32 proves; /* it is a copy */
	__u32 bare; /* it has no Ethernet header */
	__u32 rst_seq; /* of a RST that ends an old socket */
};

/* Of the packet in hand. Not on the stack: what the fast path needs of that is there already, inlined for the price of a call,
 * and Linux 6.1 has no more for all. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_slow);
} tg_slow_packet SEC(".maps");

/* Whether an ACK that has been read may go to tg_slow_adopt: TG_NEXT_ADOPT, or a verdict. */
TG_GLOBAL int tg_slow_verify(struct tg_slow *w)
{
	const struct tg_host_settings *settings = tg_settings_get();
	enum tg_ack_result result;
	bool maybe_live;

	if (!w)
		return TCX_NEXT;
	/* On a live connection hardly any ACK carries a cookie: do not count those. */
	maybe_live = tg_filter_may_exist(settings, tg_filter_at(settings, &w->pkt));
	result = tg_ack_verify(settings, &w->pkt, &w->ack, !maybe_live && !settings->final_check);
	if (result == TG_ACK_VALID)
		return TG_NEXT_ADOPT;
	if (w->proves)
		return TCX_DROP;
	if (maybe_live || (settings->final_check && tg_kernel_cookie_passes(&w->pkt, w->id)))
		return TCX_NEXT;
	return tg_ack_unmatched(&w->pkt, w->id, result) == TG_TC_DROP ? TCX_DROP : TCX_NEXT;
}

/* To the end of the queue, with the Ethernet header that the kernel expects there. */
static __always_inline int tg_slow_redirect(struct __sk_buff *skb, struct tg_slow *w, __u32 mark)
{
	if (w->bare && !tg_skb_dress(skb))
		return TCX_DROP;
	skb->mark = mark;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

static __always_inline int tg_slow_requeue(struct __sk_buff *skb, struct tg_slow *w)
{
	return tg_slow_redirect(skb, w, TG_MARK | (w->proves ? TG_MARK_PROVES : 0) | (w->turn + 1));
}

/* A verified ACK. */
TG_GLOBAL int tg_slow_adopt(struct __sk_buff *skb, struct tg_slow *w)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row;
	struct tg_service *svc;
	__u32 id;

	if (!w)
		return TCX_NEXT;
	id = w->id;
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!row)
		return TCX_NEXT;
	switch (tg_ack_adopt(skb, settings, &w->pkt, &w->ack, svc, row, w->turn, &w->rst_seq,
			     w->bare, w->proves)) {
	case TG_TC_DROP:
		return TCX_DROP;
	case TG_TC_REQUEUE:
		return tg_slow_requeue(skb, w);
	case TG_TC_REFUSED_UNPROVEN:
		return tg_slow_redirect(
			skb, w,
			TG_MARK_REFUSED | (tg_ack_is_evidence(skb, &w->pkt) ? TG_MARK_EVIDENCE : 0));
	case TG_TC_REFUSED:
		return tg_slow_redirect(skb, w, TG_MARK_REFUSED);
	case TG_TC_PROVE:
		skb->mark = TG_MARK | TG_MARK_PROVES;
		bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS); /* or the next segment proves */
		skb->mark = 0;
		return TCX_NEXT;
	case TG_TC_REPLACE:
		if (w->bare) /* it could not be copied */
			return tg_slow_requeue(skb, w);
		skb->mark = TG_MARK | (w->turn + 1);
		if (bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
			return TCX_DROP; /* no memory: the client sends it again */
		skb->mark = 0;
		return tg_become_reset(skb, &w->pkt, w->rst_seq) ? TCX_DROP : TCX_NEXT;
	case TG_TC_UNPROVEN:
		skb->mark = TG_MARK_UNPROVEN |
			    (tg_ack_is_evidence(skb, &w->pkt) ? TG_MARK_EVIDENCE : 0);
		return TG_NEXT_OPEN + TCX_DROP;
	case TG_TC_TRANSLATE:
		return TG_NEXT_OPEN +
		       TCX_NEXT; /* it is not there: the client's next segment tries again */
	default:
		return TCX_NEXT;
	}
}

/* A packet that the fast path has left: tg_slow_verify continues (TG_NEXT_ADOPT), tg_first_fragment, or a verdict. */
TG_GLOBAL int tg_slow_read(struct __sk_buff *skb, struct tg_slow *w)
{
	const __u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	bool bare = tg_skb_is_bare(skb, data, end);
	struct tg_packet pkt = {};
	enum tg_parse_result parsed;
	struct tg_service *svc;
	struct tg_ack ack = {};
	tg_ethertype type;
	__u32 id;

	if (!w)
		return TCX_NEXT;
	type = bare ? (tg_ethertype)skb->protocol : tg_packet_ethernet(&pkt, data, end);
	pkt.l3_off = (__u32)tg_skb_any_number(pkt.l3_off) & 31;
	parsed = tg_packet_l3(&pkt, type, data, end);
	if ((parsed == TG_PARSE_TCP || parsed == TG_PARSE_FRAGMENT) && tg_host_is_syn(&pkt)) {
		tg_kernel_syn_note(&pkt);
		return TCX_NEXT;
	}
	if (TG_UNLIKELY(parsed == TG_PARSE_FRAGMENT) && tg_host_is_ack(&pkt)) {
		w->pkt = pkt;
		return TG_NEXT_FRAGMENT;
	}
	if (parsed != TG_PARSE_TCP)
		return tg_condemned(parsed);
	if (TG_UNLIKELY(tg_host_is_answer(&pkt)))
		return tg_across_send(skb, &pkt, bare);
	if (!tg_host_is_ack(&pkt))
		return TCX_NEXT;
	id = tg_service_find(&pkt);
	if (!id)
		return TCX_NEXT;
	tg_packet_measure(&pkt, skb->len);
	svc = tg_service_at(id);
	if (!tg_service_verifies(svc) || !tg_ack_read(skb, &pkt, &ack))
		return w->proves ? TCX_DROP : TCX_NEXT;
	w->pkt = pkt;
	w->ack = ack;
	w->id = id;
	w->bare = bare;
	return TG_NEXT_ADOPT;
}

/* What the fast path has left. */
static __always_inline int tg_slow_ack(struct __sk_buff *skb, __u32 turn, __u32 proves)
{
	__u32 zero = 0;
	struct tg_slow *w = bpf_map_lookup_elem(&tg_slow_packet, &zero);
	int action;

	if (!w)
		return TCX_NEXT;
	w->turn = turn;
	w->proves = proves;
	w->rst_seq = 0;
	action = tg_slow_read(skb, w);
	if (action == TG_NEXT_FRAGMENT)
		return tg_first_fragment(&w->pkt);
	if (action == TG_NEXT_ADOPT)
		action = tg_slow_verify(w);
	return action == TG_NEXT_ADOPT ? tg_slow_adopt(skb, w) : action;
}

SEC("tc")
int tg_host_tc(struct __sk_buff *skb)
{
	__u32 turn = skb->mark ^ TG_MARK;
	const __u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	bool fresh = turn > ((TG_MARK_REFUSED | TG_MARK_EVIDENCE) ^ TG_MARK);
	int action = TG_NEXT_LONG;

	if (!fresh) {
		if (turn >= (TG_MARK_REFUSED ^ TG_MARK))
			return TCX_NEXT; /* this gate is through with it */
		skb->mark = 0;
	}
	if (tg_skb_headers_are_far(skb, data, end)) {
		if (!tg_skb_headers_pull(skb))
			return TCX_NEXT;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	if (fresh && !tg_skb_is_bare(skb, data, end))
		action = skb->protocol == TG_ETHERTYPE_IPV4 ? tg_fast_ack(skb, 4)
							    : tg_fast_ack(skb, 6);
	if (TG_LIKELY(action != TG_NEXT_LONG))
		return action;
	action = tg_slow_ack(skb, fresh ? 0 : turn & TG_MARK_TURNS,
			     fresh ? 0 : turn & TG_MARK_PROVES);
	if (TG_LIKELY(action < TG_NEXT_OPEN + TCX_NEXT))
		return action;
	bpf_tail_call(skb, &tg_parts, TG_PART_OPEN);
	tg_parts_are_lost();
	return action - TG_NEXT_OPEN;
}

char LICENSE[] SEC("license") = "GPL";
