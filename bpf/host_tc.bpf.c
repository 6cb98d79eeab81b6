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
#define TG_AT_TC
#include "lib/across.h"
#include "lib/adopt.h"
#include "lib/cookie_call.h"
#include "lib/host_parts.h"
#include "lib/fast_ack.h"
#include "lib/kernel_cookie.h"
#include "lib/own_port.h"
#include "lib/proof.h"
#include "lib/proven.h"
#include "lib/replace.h"
#include "lib/server_meta.h"
#include "lib/skb_bare.h"
#include "lib/skb_headers.h"
#include "lib/source_limit.h"
#include "../core/cookie_smartcookie.h"

/* On skb->mark, from when a packet is sent to the end of the queue to when it comes back; the
 * lowest bits count how often. A mark of that value from elsewhere would be cleared, with no other
 * effect. */
#define TG_MARK 0x74676760U
#define TG_MARK_TURNS 3U
#define TG_MARK_PROVES 4U /* a copy of an ACK that was adopted from */

enum tg_ack_result { TG_ACK_INVALID, TG_ACK_STALE, TG_ACK_VALID, TG_ACK_NO_KEY };

/* What becomes of a packet. */
enum tg_tc_next {
	TG_TC_GO_ON,
	TG_TC_DROP,
	TG_TC_REQUEUE,   /* to the end of the queue */
	TG_TC_REPLACE, /* likewise, preceded by a RST for the old socket */
	TG_TC_TRANSLATE, /* host_translate.bpf.c continues */
	TG_TC_UNPROVEN, /* likewise, after an adoption that failed */
	TG_TC_PROVE, /* goes on, and a copy of it to the end of the queue */
	TG_TC_DRESS, /* to the end of the queue, with the Ethernet header that it lacks */
	TG_TC_REFUSED, /* to the end of the queue, for the translating gate of this server */
};

/* The layout smartcookie, of gates that are switches: 1 if the cookie is one that such
 * a gate made. */
TG_GLOBAL int tg_smart_check(const struct tg_packet *pkt, const struct tg_siphash_key *key,
			     __u64 epoch)
{
	struct tg_halfsiphash_key half;

	if (!pkt || !key)
		return 0;
	half.k0 = (__u32)key->k0;
	half.k1 = (__u32)(key->k0 >> 32);
	return tg_smart_verify(pkt, epoch, &half);
}

/* True if what came back was made in `epoch`, in the layout that is set. */
static __always_inline bool tg_ack_is_ours(const struct tg_host_settings *settings,
					   const struct tg_packet *pkt, const struct tg_ack *ack,
					   __u64 epoch, const struct tg_siphash_key *key)
{
	if (settings->smart)
		return tg_smart_check(pkt, key, epoch);
	return tg_cookie_is(pkt, TG_COOKIE_PACKED(ack->cookie), ack->ts_ok, epoch, key);
}

/* What a verified cookie says. A switch offers no timestamps, so any that the ACK carries were not
 * negotiated. */
static __always_inline struct tg_agreed tg_ack_agreed(const struct tg_host_settings *settings,
						      const struct tg_packet *pkt,
						      const struct tg_ack *ack)
{
	if (settings->smart)
		return tg_cookie_agreed(pkt->family, tg_smart_claimed_bits(ack->cookie.isn), false);
	return tg_cookie_agreed(pkt->family, tg_cookie_claimed_bits(ack->cookie, ack->ts_ok),
				ack->ts_ok);
}

static __always_inline enum tg_ack_result tg_ack_verify(const struct tg_host_settings *settings,
							const struct tg_packet *pkt,
							const struct tg_ack *ack, bool look_for_stale)
{
	__u64 now = tg_epoch_verifying_now(settings);
	__u64 epoch = tg_cookie_epoch(ack->cookie.isn, now);
	const struct tg_siphash_key *key = tg_key_find(settings, epoch);

	if (key && tg_ack_is_ours(settings, pkt, ack, epoch, key))
		return TG_ACK_VALID;
	if (!key)
		return TG_ACK_NO_KEY;
	if (!look_for_stale && !settings->four_epochs)
		return TG_ACK_INVALID;
	/* The same parity, two epochs earlier: only to report "too late", unless clocks may differ
	 * by so much. */
	key = tg_key_find(settings, epoch - TG_EPOCHS_OLDER);
	if (key && tg_ack_is_ours(settings, pkt, ack, epoch - TG_EPOCHS_OLDER, key))
		return settings->four_epochs ? TG_ACK_VALID : TG_ACK_STALE;
	return TG_ACK_INVALID;
}

/* Where a packet goes to, as the table of listeners has it. */
static __always_inline struct tg_listener_key tg_place_of(const struct tg_packet *pkt)
{
	return (struct tg_listener_key){
		.addr = pkt->dst, .port_be = TG_DST_PORT_BE(pkt), .family = pkt->family};
}

/* How a connection is taken over that a verified ACK begins. */
static __always_inline enum tg_takeover tg_ack_takeover(const struct tg_service *svc,
							const struct tg_packet *pkt)
{
	enum tg_takeover takeover = tg_host_takeover(tg_listener_of(svc, pkt), true);
	struct tg_listener_key at;

	if (TG_LIKELY(takeover != TG_TAKEOVER_ADOPT ||
		      tg_service_listener(svc, pkt->family) != TG_LISTENER_VARIES))
		return takeover;
	at = tg_place_of(pkt);
	return tg_listener_try(&at) ? TG_TAKEOVER_ADOPT : TG_TAKEOVER_TRANSLATE;
}

#define TG_PLAIN_ACK_MAX (TG_TCP_HDR_LEN + 12)

/* True for an ACK whose failed adoption shows something about this machine: nothing in it can have
 * been the kernel's reason to drop it. No IP options, no data, no options but the timestamps of the
 * handshake. Whether its sums are right is seen to before it is translated. */
static __always_inline bool tg_ack_is_evidence(struct __sk_buff *skb, const struct tg_packet *pkt)
{
	__u32 options[3], tsval, tsecr;

	if (pkt->flags != TG_TCP_ACK || pkt->l4_len != pkt->tcp_hdr_len ||
	    pkt->l4_off - pkt->l3_off != (pkt->family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN))
		return false;
	if (pkt->tcp_hdr_len == TG_TCP_HDR_LEN)
		return true;
	return pkt->tcp_hdr_len == TG_PLAIN_ACK_MAX &&
	       !bpf_skb_load_bytes(skb, pkt->l4_off + TG_TCP_HDR_LEN, options, sizeof(options)) &&
	       tg_tcp_timestamps_aligned(options[0], options[1], options[2], &tsval, &tsecr);
}

/* A verified ACK whose cookie the kernel was given before, and which still finds no socket but the
 * listener `sk`, or (NULL) none at all. `proves`: it is the copy. */
static __always_inline enum tg_tc_next tg_ack_prove(struct bpf_sock *sk, const struct tg_ack *ack,
						    struct tg_counter_row *row, __u32 turn,
						    bool proves)
{
	enum tg_adoption state = tg_adoption_of(ack->cookie.isn);
	struct tcp_sock *tp;

	if (!sk) { /* closed a moment ago: the kernel tells the client */
		tg_adoption_decide(ack->cookie.isn, TG_ADOPTION_NONE);
		return TG_TC_GO_ON;
	}
	if (state == TG_ADOPTION_UNDECIDED) {
		if (turn < TG_MARK_TURNS)
			return TG_TC_REQUEUE;
		tp = bpf_skc_to_tcp_sock(sk);
		if (tp && tg_sock_is_full(tp)) {
			/* The kernel has dropped the ACK for that; the next segment tries. */
			tg_adoption_decide(ack->cookie.isn, TG_ADOPTION_NONE);
			return TG_TC_DROP;
		}
		if (tg_adoption_decide(ack->cookie.isn, TG_ADOPTION_FAILED))
			tg_count(row, TG_COUNT_adopt_unproven);
		return TG_TC_UNPROVEN;
	}
	if (state == TG_ADOPTION_FAILED)
		return TG_TC_UNPROVEN;
	return proves ? TG_TC_DROP : TG_TC_GO_ON; /* it was there, or that is unknown */
}

/* A verified ACK that meets a socket which does not listen. */
static __always_inline enum tg_tc_next tg_ack_meets(const struct tg_host_settings *settings,
						    struct bpf_sock *sk, const struct tg_packet *pkt,
						    const struct tg_ack *ack, __u32 turn,
						    __u32 *rst_seq, struct tg_counter_row *row)
{
	bool may_end_live = tg_cookie_may_end_live(settings->smart, ack->ts_ok);
	enum tg_meeting met = sk->state == BPF_TCP_NEW_SYN_RECV ? tg_request_met(pkt, rst_seq)
			      : settings->behind_edge ? tg_socket_met(sk, pkt, may_end_live, rst_seq)
						      : TG_MEETS_ITS_OWN;

	if (met == TG_MEETS_OLD && turn < TG_MARK_TURNS) {
		tg_count(row, TG_COUNT_socket_replaced);
		return TG_TC_REPLACE;
	}
	tg_count(row, met == TG_MEETS_REPEATED ? TG_COUNT_ack_repeated : TG_COUNT_ack_existing);
	return TG_TC_GO_ON;
}

/* A verified ACK where the kernel adopts nothing, whatever the listener. The verifier of such a
 * kernel, which follows fewer paths through a program, then never sees tg_ack_adopt. */
static __always_inline enum tg_tc_next tg_ack_not_adopted(struct __sk_buff *skb,
							  const struct tg_host_settings *settings,
							  const struct tg_packet *pkt,
							  struct tg_service *svc,
							  struct tg_counter_row *row)
{
	struct bpf_sock *sk = tg_socket_find(skb, pkt);
	bool live = sk && sk->state != BPF_TCP_LISTEN;

	if (sk)
		bpf_sk_release(sk);
	if (live)
		tg_count(row, TG_COUNT_ack_existing);
	if (live || !settings->translates ||
	    tg_host_takeover(tg_listener_of(svc, pkt), true) != TG_TAKEOVER_TRANSLATE)
		return TG_TC_GO_ON;
	if (settings->report)
		tg_proven_note(pkt, 0);
	return TG_TC_TRANSLATE;
}

/* A verified ACK: adopt it if it meets a listener.
 *
 * The kernel runs TC for a whole batch of frames before TCP sees the first. So the client's first
 * data, right behind its ACK, may meet the listener too; if it were adopted a second time, the
 * kernel would drop it, and the client would have to retransmit. It is sent to the end of the queue
 * instead: by then the socket exists. If it does not after a few turns (another CPU has the first
 * packet, or the accept queue was full), this packet is adopted. */
static __always_inline enum tg_tc_next tg_ack_adopt(struct __sk_buff *skb,
						    const struct tg_host_settings *settings,
						    const struct tg_packet *pkt,
						    const struct tg_ack *ack, struct tg_service *svc,
						    struct tg_counter_row *row, __u32 turn,
						    __u32 *rst_seq, bool bare, bool proves)
{
	struct tg_agreed agreed = tg_ack_agreed(settings, pkt, ack);
	__u64 isn = ack->cookie.isn;
	__u32 mss = agreed.mss;
	struct tg_listener_key at;
	enum tg_limit_action limited;
	enum tg_adoption state;
	struct bpf_sock *sk;
	struct tcp_sock *tp;
	enum tg_tc_next next;
	bool adopted, watched;

	TG_FORGET(mss, isn); /* one of eight without timestamps */
	agreed.mss = (__u16)mss;
	/* The kernel finds no IP packet here, although we have parsed past its tags; or one for somebody else. */
	if (TG_UNLIKELY(skb->protocol != (pkt->family == 4 ? TG_ETHERTYPE_IPV4 : TG_ETHERTYPE_IPV6) ||
			tg_skb_is_others(skb))) {
		tg_count(row, TG_COUNT_ack_frame);
		return TG_TC_GO_ON;
	}
	if (!TG_KERNEL_ADOPTS)
		return tg_ack_not_adopted(skb, settings, pkt, svc, row);
	sk = tg_socket_find(skb, pkt);
	if (sk && sk->state != BPF_TCP_LISTEN) {
		if (proves) {
			if (tg_service_listener(svc, pkt->family) == TG_LISTENER_VARIES) {
				at = tg_place_of(pkt);
				tg_listener_made(&at);
			}
			next = TG_TC_DROP;
		} else {
			next = tg_ack_meets(settings, sk, pkt, ack, turn, rst_seq, row);
		}
		bpf_sk_release(sk);
		return next;
	}
	state = proves ? TG_ADOPTION_UNDECIDED : tg_adoption_of(ack->cookie.isn);
	if (settings->translates && (state == TG_ADOPTION_UNDECIDED || state == TG_ADOPTION_FAILED)) {
		next = tg_ack_prove(sk, ack, row, turn, proves);
		if (sk)
			bpf_sk_release(sk);
		return next;
	}
	if (settings->translates && bare && turn == 0) { /* which could not be copied */
		if (sk)
			bpf_sk_release(sk);
		return TG_TC_DRESS;
	}
	/* Before the listener counts: it may not be the one that a rule means. And a client that
	 * asks for smaller segments than can be adopted gets them from the kernel's own handshake. */
	if (settings->translates && (agreed.mss < tg_mss_least(pkt->family) ||
				     tg_ack_takeover(svc, pkt) == TG_TAKEOVER_TRANSLATE)) {
		if (sk)
			bpf_sk_release(sk);
		if (settings->report)
			tg_proven_note(pkt, 0);
		return TG_TC_TRANSLATE;
	}
	if (!sk) {
		tg_count(row, TG_COUNT_ack_no_listener);
		tg_bell_ring(TG_BELL_ORPHAN, tg_swap16(TG_DST_PORT_BE(pkt)));
		return TG_TC_GO_ON;
	}
	if (state != TG_ADOPTION_NONE && turn < TG_MARK_TURNS) {
		bpf_sk_release(sk);
		return TG_TC_REQUEUE;
	}
	/* Once for each connection: while its first ACK is undecided, this is a repetition. */
	if (TG_UNLIKELY(settings->source_limited) && state != TG_ADOPTION_UNDECIDED) {
		limited = tg_source_limited(pkt, row);
		if (limited != TG_LIMIT_REPORT) {
			bpf_sk_release(sk);
			if (settings->report)
				tg_proven_note(pkt, 0);
			tg_count(row, TG_COUNT_cookie_valid);
			return limited == TG_LIMIT_DROP ? TG_TC_DROP : TG_TC_GO_ON;
		}
	}
	/* One that the kernel will drop for lack of room proves nothing. */
	tp = settings->translates ? bpf_skc_to_tcp_sock(sk) : 0;
	watched = tp && !tg_sock_is_full(tp);
	if (watched || !settings->translates)
		tg_adoption_begin(ack->cookie.isn);
	adopted = tg_listener_adopt(skb, sk, pkt, ack, &agreed, svc, settings->translates);
	bpf_sk_release(sk);
	if (!adopted)
		tg_adoption_decide(ack->cookie.isn, TG_ADOPTION_FAILED);
	if (settings->report)
		tg_proven_note(pkt, 0);
	if (adopted || !settings->translates)
		tg_count(row, TG_COUNT_cookie_valid); /* else the translating program does */
	tg_count(row, adopted ? TG_COUNT_adopted : TG_COUNT_adopt_failed);
	if (!settings->translates)
		return !adopted && settings->held_elsewhere && !bare ? TG_TC_REFUSED : TG_TC_GO_ON;
	return !adopted ? TG_TC_TRANSLATE : watched && !bare ? TG_TC_PROVE : TG_TC_GO_ON;
}

/* What the ACK's options say. False if they lie about their length. */
static __always_inline bool tg_ack_read(struct __sk_buff *skb, const struct tg_packet *pkt,
					struct tg_ack *ack)
{
	/* Bounded again: the verifier forgets the bounds of a packet that was passed to a function. */
	const __u8 *options = (void *)(long)skb->data + TG_BOUND(pkt->l4_off, TG_L4_OFF_MAX + 1) +
			      TG_TCP_HDR_LEN;
	const __u8 *end = (void *)(long)skb->data_end;
	__u32 len = pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	struct tg_options_cursor c;
	struct tg_tcp_options o = {};

	if (!tg_host_ack_is_whole(pkt, skb->len))
		return false;
	ack->cookie.isn = pkt->ack - 1;
	ack->ts_ok = false;
	if (len == 0)
		return true;
	if (len >= 12 && options + 12 <= end &&
	    tg_tcp_timestamps_aligned(tg_load32(options), tg_load32(options + 4),
				      tg_load32(options + 8), &ack->tsval, &ack->cookie.tsval)) {
		ack->ts_ok = true;
		return true;
	}
	if (!tg_options_len_is_sane(&len))
		return false;
	c.at = 0;
	c.len = len;
	if (bpf_skb_load_bytes(skb, pkt->l4_off + TG_TCP_HDR_LEN, c.bytes, len))
		return false;
	tg_options_read(&c, &o);
	*ack = tg_host_read_ack(pkt, &o);
	return true;
}

/* What becomes of an ACK that carries no cookie, of ours or of the kernel's, and belongs to no live connection, `result` being what its check said. A
 * function of its own: with its stack in the program's, Linux 6.1 refuses the program (512 bytes for all calls). */
TG_GLOBAL int tg_ack_unmatched(const struct tg_packet *pkt, __u32 id, __u32 result)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_service *svc = bpf_map_lookup_elem(&tg_services, &id);
	struct tg_counter_row *row = tg_counter_row_get(id);

	if (!pkt || !settings || !svc || !row)
		return TG_TC_GO_ON;
	tg_count(row, result == TG_ACK_STALE ? TG_COUNT_cookie_stale : TG_COUNT_cookie_invalid);
	if (settings->report && result == TG_ACK_INVALID)
		tg_proven_note(pkt, 1);
	if (!settings->final_check || tg_listener_of(svc, pkt) == TG_LISTENER_NONE ||
	    tg_host_fails_open(settings->stale_keys,
			       tg_key_find(settings, tg_epoch_verifying_now(settings))))
		return TG_TC_GO_ON;
	tg_count(row, TG_COUNT_drop_unmatched_ack);
	return TG_TC_DROP;
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
	if (!settings || !row || !settings->final_check)
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

	if (!pkt || !settings || !settings->final_check)
		return TCX_NEXT;
	id = tg_service_find(pkt);
	svc = bpf_map_lookup_elem(&tg_services, &id);
	row = tg_counter_row_get(id);
	if (!id || !svc || !row || !tg_service_verifies(svc) ||
	    tg_filter_may_exist(settings, tg_filter_at(settings, pkt)) ||
	    tg_listener_of(svc, pkt) == TG_LISTENER_NONE ||
	    tg_host_fails_open(settings->stale_keys,
			       tg_key_find(settings, tg_epoch_verifying_now(settings))))
		return TCX_NEXT;
	tg_count(row, TG_COUNT_drop_unmatched_ack);
	return TCX_DROP; /* be it to a cookie of the kernel's: its client sends it again */
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

	if (!w || !settings)
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

/* A verified ACK. */
TG_GLOBAL int tg_slow_adopt(struct __sk_buff *skb, struct tg_slow *w)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row;
	struct tg_service *svc;
	__u32 id;

	if (!w || !settings)
		return TCX_NEXT;
	id = w->id;
	svc = bpf_map_lookup_elem(&tg_services, &id);
	row = tg_counter_row_get(id);
	if (!svc || !row)
		return TCX_NEXT;
	switch (tg_ack_adopt(skb, settings, &w->pkt, &w->ack, svc, row, w->turn, &w->rst_seq, w->bare,
			     w->proves)) {
	case TG_TC_DROP:
		return TCX_DROP;
	case TG_TC_DRESS:
		if (!tg_skb_dress(skb))
			return TCX_DROP;
		/* fallthrough */
	case TG_TC_REQUEUE:
		skb->mark = TG_MARK | (w->proves ? TG_MARK_PROVES : 0) | (w->turn + 1);
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	case TG_TC_REFUSED:
		skb->mark = TG_MARK_REFUSED;
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	case TG_TC_PROVE:
		skb->mark = TG_MARK | TG_MARK_PROVES;
		bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS); /* or the next segment proves */
		skb->mark = 0;
		return TCX_NEXT;
	case TG_TC_REPLACE:
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
	svc = bpf_map_lookup_elem(&tg_services, &id);
	if (!svc || !tg_service_verifies(svc) || !tg_ack_read(skb, &pkt, &ack))
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
	bool fresh = turn > (TG_MARK_REFUSED ^ TG_MARK);
	int action = TG_NEXT_LONG;

	if (!fresh) {
		if (turn == (TG_MARK_REFUSED ^ TG_MARK))
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
