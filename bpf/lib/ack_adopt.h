/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What becomes of an ACK whose cookie has verified: the kernel adopts the connection (adopt.h), or
 * something stands in the way, a socket, a listener that cannot, a limit, an adoption before it
 * that is not proven yet (proof.h).
 *
 * Must never: adopt twice from one cookie while it is undecided whether the first adoption stands.
 */
#ifndef TG_BPF_ACK_ADOPT_H
#define TG_BPF_ACK_ADOPT_H

#include "ack_cookie.h"
#include "adopt.h"
#include "own_port.h"
#include "proof.h"
#include "proven.h"
#include "replace.h"
#include "source_limit.h"

/* How often a packet goes to the end of the queue. */
#define TG_MARK_TURNS 3U

/* What becomes of a packet. */
enum tg_tc_next {
	TG_TC_GO_ON,
	TG_TC_DROP,
	TG_TC_REQUEUE,   /* to the end of the queue */
	TG_TC_REPLACE, /* likewise, preceded by a RST for the old socket */
	TG_TC_TRANSLATE, /* host_translate.bpf.c continues */
	TG_TC_UNPROVEN, /* likewise, after an adoption that failed */
	TG_TC_PROVE, /* goes on, and a copy of it to the end of the queue */
	TG_TC_REFUSED, /* to the end of the queue, for the translating gate of this server */
	TG_TC_REFUSED_UNPROVEN, /* likewise, after an adoption that failed */
};

/* Where a packet goes to, as the table of listeners has it. */
static __always_inline struct tg_listener_key tg_place_of(const struct tg_packet *pkt)
{
	return (struct tg_listener_key){
		.addr = pkt->dst, .port_be = TG_DST_PORT_BE(pkt), .family = pkt->family};
}

/* How a connection is taken over that a verified ACK begins. `first`: no ACK of it has come before. */
static __always_inline enum tg_takeover tg_ack_takeover(const struct tg_service *svc,
							const struct tg_packet *pkt, bool first)
{
	enum tg_takeover takeover = tg_host_takeover(tg_listener_of(svc, pkt), true);
	struct tg_listener_key at;

	if (TG_LIKELY(takeover != TG_TAKEOVER_ADOPT ||
		      tg_service_listener(svc, pkt->family) != TG_LISTENER_VARIES))
		return takeover;
	at = tg_place_of(pkt);
	return tg_listener_try(&at, first) ? TG_TAKEOVER_ADOPT : TG_TAKEOVER_TRANSLATE;
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

/* The same where this gate translates nothing, for the copy. The listener may have closed after the kernel was given the cookie: the
 * kernel then drops the ACK silently, and a client that waits for the server to speak would wait for ever. TG_TC_PROVE: it may
 * be adopted from again, once. */
static __always_inline enum tg_tc_next tg_ack_prove_alone(
	const struct tg_host_settings *settings, struct bpf_sock *sk, const struct tg_packet *pkt,
	const struct tg_ack *ack, struct tg_service *svc, struct tg_counter_row *row, __u32 turn)
{
	enum tg_tc_next next;

	if (tg_adoption_of(ack->cookie.isn) != TG_ADOPTION_UNDECIDED)
		return TG_TC_DROP;
	next = tg_ack_prove(sk, ack, row, turn, true);
	if (next != TG_TC_UNPROVEN)
		return next;
	if (!settings->held_elsewhere)
		return TG_TC_PROVE;
	/* From now on the listener's own entry counts, in which the translating gate pauses adoption. */
	*tg_service_listener_at(svc, pkt->family) = TG_LISTENER_VARIES;
	return TG_TC_REFUSED_UNPROVEN;
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

/* The same, of which the verifier knows nothing: it would go through all that follows once for each form of cookie. */
static __always_inline void tg_agreed_forget(struct tg_agreed *agreed, __u64 number)
{
	__u64 all = agreed->mss | (__u64)agreed->wscale << 16 | (__u64)agreed->sack_ok << 24 |
		    (__u64)agreed->ts_ok << 25 | (__u64)agreed->ecn_ok << 26;

	TG_FORGET(all, number);
	agreed->mss = (__u16)all;
	agreed->wscale = (__u8)(all >> 16);
	agreed->sack_ok = all >> 24 & 1;
	agreed->ts_ok = all >> 25 & 1;
	agreed->ecn_ok = all >> 26 & 1;
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
	__u64 isn = ack->cookie.isn, how;
	struct tg_listener_key at;
	enum tg_limit_action limited;
	enum tg_adoption state;
	struct bpf_sock *sk;
	struct tcp_sock *tp;
	enum tg_tc_next next;
	bool adopted, watched;

	tg_agreed_forget(&agreed, isn);
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
	if (!settings->translates && proves) {
		next = tg_ack_prove_alone(settings, sk, pkt, ack, svc, row, turn);
		if (next != TG_TC_PROVE) {
			if (sk)
				bpf_sk_release(sk);
			return next;
		}
	}
	if (settings->translates && bare && turn == 0) { /* which could not be copied */
		if (sk)
			bpf_sk_release(sk);
		return TG_TC_REQUEUE;
	}
	/* Before the listener counts: it may not be the one that a rule means. And a client that
	 * asks for smaller segments than can be adopted gets them from the kernel's own handshake. */
	if (settings->translates && (agreed.mss < tg_mss_least(pkt->family) ||
				     tg_ack_takeover(svc, pkt, true) == TG_TAKEOVER_TRANSLATE)) {
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
	if (settings->held_elsewhere && state == TG_ADOPTION_FAILED && !bare) {
		bpf_sk_release(sk);
		return TG_TC_REFUSED; /* behind the ACK that failed, from which the other gate opens it */
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
	/* Data may be behind an ACK that is on its way to the other gate: it does not try. */
	if (settings->held_elsewhere && !bare && state != TG_ADOPTION_UNDECIDED &&
	    tg_ack_takeover(svc, pkt, pkt->l4_len == pkt->tcp_hdr_len) == TG_TAKEOVER_TRANSLATE) {
		bpf_sk_release(sk);
		if (settings->report)
			tg_proven_note(pkt, 0);
		tg_count(row, TG_COUNT_cookie_valid);
		return TG_TC_REFUSED;
	}
	how = proves | (__u64)bare << 1;
	TG_FORGET(how, isn);
	proves = how & 1;
	bare = how >> 1 & 1;
	/* One that the kernel will drop for lack of room proves nothing. */
	tp = bpf_skc_to_tcp_sock(sk);
	watched = tp && !tg_sock_is_full(tp);
	if (watched || !settings->translates)
		tg_adoption_begin(ack->cookie.isn);
	adopted = tg_listener_adopt(skb, sk, pkt, ack, &agreed, svc,
				    settings->translates || settings->held_elsewhere);
	bpf_sk_release(sk);
	if (!adopted)
		tg_adoption_decide(ack->cookie.isn, TG_ADOPTION_FAILED);
	if (!proves) { /* else it has been counted */
		if (settings->report)
			tg_proven_note(pkt, 0);
		if (adopted || !settings->translates)
			tg_count(row, TG_COUNT_cookie_valid); /* else the translating program does */
		tg_count(row, adopted ? TG_COUNT_adopted : TG_COUNT_adopt_failed);
	}
	if (!adopted && !settings->translates)
		return settings->held_elsewhere && !bare ? TG_TC_REFUSED : TG_TC_GO_ON;
	return !adopted ? TG_TC_TRANSLATE : watched && !bare && !proves ? TG_TC_PROVE : TG_TC_GO_ON;
}

#endif
