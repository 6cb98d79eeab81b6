/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC ingress (TCX), role host, for what cannot be adopted: the verified ACK becomes the SYN that it
 * stands for, and the stack (or the target of a rule of this machine) completes a handshake of its
 * own, as connection tracking, NAT, firewalls and bridges expect it. What follows is translated by
 * core/server_flow.h; host_egress.bpf.c handles the other direction. Everything else is
 * host_tc.bpf.c's, which is called from here, and calls tg_host_open with an ACK that it has
 * verified and cannot adopt from.
 *
 * While no connection is translated, a packet costs two more array look-ups.
 *
 * Must never: touch a segment that is of no connection in the table, unless its cookie is ours.
 */
#define TG_HOST
#define TG_SKB
#define TG_STACK_IS_FULL
#include "lib/cookie_check.h"
#include "lib/host_idle.h"
#include "lib/host_parts.h"
#include "lib/server_skb.h"
#include "lib/intact.h"
#include "lib/source_limit.h"
#include "lib/own_port.h"
#include "lib/split_begin.h"

/* Left to host_tc.bpf.c; neither TCX_NEXT nor TCX_DROP. */
#define TG_NEXT_ADOPT 0x100
#define TG_NEXT_WAIT 0x101 /* to the end of the queue, TG_MARK_WAITS on it */
#define TG_NEXT_CHECK 0x200 /* plus what follows if its cookie is not ours: enum tg_server_step */

#define TG_STEP_JUDGE 0x100U

enum tg_host_checked {
	TG_CHECKED_NOT_OURS,
	TG_CHECKED_KEEPS, /* ours, but the connection that stands there goes on */
	TG_CHECKED_OPEN, /* it has an entry now */
	TG_CHECKED_FULL,
};

/* 1 if the ACK's cookie is ours, and what else the ACK says. A function of its own, as all here, for the stack:
 * Linux 6.1 counts that of all nested calls together (internal/plane/stack_test.go). */
TG_GLOBAL int tg_host_verify(struct __sk_buff *skb, const struct tg_packet *pkt,
			     struct tg_ack *ack_info)
{
	struct tg_tcp_options o = {};

	if (!pkt || !ack_info || !tg_skb_options(skb, pkt, &o))
		return 0;
	*ack_info = tg_host_read_ack(pkt, &o);
	/* What the kernel would drop must not become a SYN of ours, which it would take. */
	return tg_cookie_check(pkt, ack_info) && tg_intact(skb, pkt) == TG_INTACT;
}

/* Opens a connection if the ACK's cookie is ours: enum tg_host_checked. */
TG_GLOBAL int tg_host_check(struct __sk_buff *skb, const struct tg_packet *pkt)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_server_settings *server = tg_server_get();
	struct tg_ack ack_info = {};
	struct tg_counter_row *row;
	struct tg_split fresh, *old;
	enum tg_limit_action limited;
	struct tg_service *svc;
	__u16 window = 0;
	bool counted;
	__u32 id;

	if (!pkt || !tg_host_ack_is_whole(pkt, skb->len) || tg_skb_is_others(skb))
		return TG_CHECKED_NOT_OURS;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || !tg_service_verifies(svc) || !tg_host_verify(skb, pkt, &ack_info) ||
	    bpf_skb_load_bytes(skb, pkt->l4_off + 14, &window, sizeof(window)))
		return TG_CHECKED_NOT_OURS;
	counted = (skb->mark | TG_MARK_EVIDENCE) == (TG_MARK_UNPROVEN | TG_MARK_EVIDENCE);
	if (!counted)
		tg_count(row, TG_COUNT_cookie_valid);
	old = tg_split_find(server, pkt, TG_TO_SERVER);
	if (old && !tg_split_gives_way(old, ack_info.ts_ok))
		return TG_CHECKED_KEEPS;
	if (TG_UNLIKELY(settings->source_limited) && !counted) {
		limited = tg_source_limited(pkt, row);
		if (limited != TG_LIMIT_REPORT)
			return limited == TG_LIMIT_RESET && !old ? TG_CHECKED_NOT_OURS
								 : TG_CHECKED_FULL;
	}
	if (old && old->state & TG_SPLIT_READY && !(old->state & TG_FLOW_CLOSED))
		tg_count(row, TG_COUNT_split_replaced);
	fresh = tg_split_open(pkt, &ack_info, tg_cookie_claimed_bits(ack_info.cookie, ack_info.ts_ok),
			      svc->wscale, tg_swap16(window), 0, tg_tick_now());
	if (skb->mark == (TG_MARK_UNPROVEN | TG_MARK_EVIDENCE))
		fresh.agreed |= TG_SPLIT_EVIDENCE;
	fresh.hash = tg_split_hash(server->keys, pkt, TG_TO_SERVER);
	return tg_split_begin(&fresh, old, id) ? TG_CHECKED_FULL : TG_CHECKED_OPEN;
}

/* The packet in hand becomes the SYN, or the SYN again, of its entry. */
static __always_inline int tg_host_syn(struct __sk_buff *skb, const struct tg_packet *pkt,
				       const struct tg_split *e)
{
	struct tg_flow f = tg_split_flow(e);
	struct tg_segment syn = tg_flow_syn(pkt, &f, f.client_isn, false);

	tg_skb_strip(skb, pkt);
	return tg_skb_put(skb, &syn) ? TCX_DROP : TCX_NEXT;
}

/* A segment of the client that comes while the stack has not answered. The one that opens the
 * connection becomes the SYN; what it carries, and all that follow, come again behind it: the
 * kernel runs TC for a whole batch of frames before TCP sees the first, and a container answers
 * through the same queue. One that has waited long enough repeats the SYN. */
static __always_inline int tg_host_early(struct __sk_buff *skb, const struct tg_packet *pkt,
					 struct tg_split *e, __u32 turn)
{
	struct tg_counter_row *row;

	if (e->state & TG_SPLIT_FRESH) {
		tg_split_clear(e, TG_SPLIT_FRESH);
		/* A packet without an Ethernet header cannot be queued and become the SYN: its data
		 * comes with the client's retransmission. */
		if (pkt->l3_off != 0 && (pkt->l4_len > pkt->tcp_hdr_len || pkt->flags & TG_TCP_FIN)) {
			skb->mark = TG_MARK_WAITS + 1;
			if (bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
				return TCX_DROP;
			skb->mark = 0;
		}
	} else {
		if (turn < TG_MARK_TURNS_MAX && (pkt->l3_off != 0 || tg_skb_dress(skb)))
			return TG_NEXT_WAIT;
		row = tg_server_row(pkt, TG_TO_SERVER);
		if (row)
			tg_count(row, TG_COUNT_split_retransmit);
	}
	return tg_host_syn(skb, pkt, e);
}

static __always_inline int tg_host_ongoing(struct __sk_buff *skb, const struct tg_packet *pkt,
					   struct tg_split *e)
{
	struct tg_flow f = tg_split_flow(e);

	if (tg_translate(skb, pkt, &f, TG_TO_SERVER))
		return TCX_DROP;
	tg_split_acked(e, pkt);
	tg_split_note(e, pkt, TG_TO_SERVER);
	return TCX_NEXT;
}

/* What follows for a segment from the look at its cookie: enum tg_server_step. */
static __always_inline __u32 tg_host_step(int checked, __u32 otherwise)
{
	return checked == TG_CHECKED_OPEN    ? TG_SERVER_WAIT
	       : checked == TG_CHECKED_KEEPS ? TG_SERVER_TRANSLATE
	       : checked == TG_CHECKED_FULL  ? TG_SERVER_DROP
					     : otherwise;
}

/* `opens`: host_tc.bpf.c has verified the segment. `step`: what is already known to follow
 * (enum tg_server_step), or TG_STEP_JUDGE. */
TG_GLOBAL int tg_host_tcp(struct __sk_buff *skb, const struct tg_packet *pkt, __u32 turn,
			  __u32 opens, __u32 step)
{
	const struct tg_server_settings *server = tg_server_get();
	struct tg_server_judgement j;
	struct tg_split *e;

	TG_HIDE(server); /* one register, not one for each field's address: Linux 6.1 counts the stack */
	if (!pkt || pkt->l4_off > TG_L4_OFF_MAX || !tg_host_ack_is_whole(pkt, skb->len))
		return TG_NEXT_ADOPT;
	e = tg_split_find(server, pkt, TG_TO_SERVER);
	if (step == TG_STEP_JUDGE) {
		if (!e && !opens)
			return turn ? TCX_DROP : TG_NEXT_ADOPT;
		j = tg_server_judge(pkt, e, 0);
		if (j.step == TG_SERVER_CHECK)
			return TG_NEXT_CHECK + (e ? (int)j.otherwise : (int)TG_SERVER_PASS);
		step = j.step;
	}
	if (!e)
		return step == TG_SERVER_PASS ? TCX_NEXT : TCX_DROP;
	switch (step) {
	case TG_SERVER_TRANSLATE:
		return tg_host_ongoing(skb, pkt, e);
	case TG_SERVER_WAIT:
		return tg_host_early(skb, pkt, e, turn);
	case TG_SERVER_FORGET:
		tg_split_release(e);
		return TCX_DROP;
	case TG_SERVER_PASS:
		if (pkt->flags & TG_TCP_RST)
			tg_split_clear(e, TG_SPLIT_RESET_PASSES); /* ours, and this was it */
		return TCX_NEXT;
	default:
		return TCX_DROP;
	}
}

/* What becomes of the packet in hand: a verdict, or TG_NEXT_... A function that both programs call: inlined,
 * each would have a copy of the parser. */
TG_GLOBAL int tg_host_packet(struct __sk_buff *skb, __u32 turn, __u32 opens)
{
	struct tg_packet pkt = {};
	enum tg_parse_result parsed = tg_skb_parse(skb, &pkt, true);
	int verdict;

	if (parsed == TG_PARSE_OTHER && pkt.l3_off)
		tg_server_icmp(skb, pkt.l3_off);
	if (parsed != TG_PARSE_TCP || !tg_port_is_protected(TG_DST_PORT_BE(&pkt)))
		return TG_NEXT_ADOPT;
	verdict = tg_host_tcp(skb, &pkt, turn, opens, TG_STEP_JUDGE);
	if (TG_LIKELY(verdict < TG_NEXT_CHECK))
		return verdict;
	return tg_host_tcp(skb, &pkt, turn, opens,
			   tg_host_step(tg_host_check(skb, &pkt), (__u32)verdict - TG_NEXT_CHECK));
}

/* What tg_host_tc calls with an ACK that it has verified and cannot adopt from. */
SEC("tc")
int tg_host_open(struct __sk_buff *skb)
{
	int verdict = tg_host_packet(skb, 0, true);

	if ((skb->mark ^ TG_MARK_UNPROVEN) <= TG_MARK_EVIDENCE)
		skb->mark = 0;
	return verdict == TG_NEXT_ADOPT ? TCX_NEXT : verdict == TG_NEXT_WAIT ? TCX_DROP : verdict;
}

SEC("tc")
int tg_host_translate(struct __sk_buff *skb)
{
	__u32 turn = skb->mark - TG_MARK_WAITS;
	int verdict;

	if (turn > TG_MARK_TURNS_MAX)
		turn = 0;
	else
		skb->mark = 0;
	verdict = tg_host_translates() ? tg_host_packet(skb, turn, false) : TG_NEXT_ADOPT;
	if (verdict == TG_NEXT_WAIT) {
		skb->mark = TG_MARK_WAITS + turn + 1;
		return (int)bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	}
	if (verdict != TG_NEXT_ADOPT)
		return verdict;
	bpf_tail_call(skb, &tg_parts, TG_PART_ADOPT);
	tg_parts_are_lost();
	return TCX_NEXT;
}

char LICENSE[] SEC("license") = "GPL";
