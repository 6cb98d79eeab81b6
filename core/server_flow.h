/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The state machine of a connection that the server role translates:
 *
 *               set-up tag, or cookie that verifies
 *      listen ----------------------------------------> SYN_SENT
 *        ^          SYN to the local stack                 |
 *        |                                                 | SYN-ACK of the stack (absorbed):
 *        | FINs both ways and an ACK, or a RST;            | difference = its ISN - the cookie,
 *        | not seen for the idle time                      | once and for all; ACK to the
 *        |                                                 v stack, confirmation to the edge
 *        +---------------------------------------------- ongoing: translated both ways
 *
 * (The names are those of the published design's figure 9.) Its memory is an entry of
 * server_table.h.
 *
 * Must never: compute a difference twice; decide without the state.
 */
#ifndef TG_SERVER_FLOW_H
#define TG_SERVER_FLOW_H

#include <stddef.h>

#include "server_table.h"
#include "tag.h"

/* ---- listen -> SYN_SENT ---- */

#define TG_SPLIT_OPTION_MASK ((1U << TG_COOKIE_PLAIN_OPTION_BITS) - 1)

/* The entry that a verified segment opens, but for its hash. `wscale` is what the
 * edge announced, `option_bits` what the cookie claims, `window` the field in the segment. */
TG_INLINE struct tg_split tg_split_open(const struct tg_packet *ack, const struct tg_ack *ack_info,
					uint32_t option_bits, uint8_t wscale, uint16_t window,
					uint8_t edge, uint16_t now_tick)
{
	return (struct tg_split){
		.seq_delta = ack_info->cookie.isn,
		.ts_delta = ack_info->cookie.tsval,
		.client_isn = ack->seq - 1,
		.client_tsval = ack_info->tsval,
		.seen_tick = now_tick,
		.agreed = (uint16_t)((option_bits & TG_SPLIT_OPTION_MASK) |
				     (uint32_t)(wscale & 15) << TG_COOKIE_PLAIN_OPTION_BITS),
		.client_window = window,
		.edge = edge,
		.state = TG_SPLIT_FRESH | (ack_info->ts_ok ? TG_FLOW_TS : 0),
	};
}

/* The entry as core/proxy.h and core/translate.h know a flow. */
TG_INLINE struct tg_flow tg_split_flow(const struct tg_split *e)
{
	struct tg_flow f = {
		.seq_delta = e->seq_delta,
		.ts_delta = e->ts_delta,
		.client_isn = e->client_isn,
		.flags = e->state & (e->state & TG_SPLIT_READY ? TG_SPLIT_FLAGS : TG_FLOW_TS),
	};

	if (e->state & TG_SPLIT_READY) {
		f.state = TG_FLOW_READY;
		f.server_isn = e->server_isn;
		f.window_up = (uint8_t)(e->window[0] & (TG_SPLIT_LASTING - 1));
		f.window_down = e->window[1];
	} else {
		uint16_t bits = e->agreed & TG_SPLIT_OPTION_MASK;

		f.state = TG_FLOW_SETUP;
		f.client_tsval = e->client_tsval;
		f.client_window = e->client_window;
		/* ts_delta is still the TSval that the client returned: MSS highest */
		f.syn.mss = e->state & TG_FLOW_TS
				    ? (uint16_t)(e->ts_delta >> (32 - TG_COOKIE_MSS_BITS))
				    : tg_mss_value(tg_split_is_v6(e->hash) ? 6 : 4,
						   (uint32_t)bits >> TG_COOKIE_FLAG_BITS);
		f.option_bits = bits & TG_FLOW_OPTION_MASK;
		f.advertised_wscale = tg_cookie_wscale(bits) != TG_WSCALE_NONE
					      ? e->agreed >> TG_COOKIE_PLAIN_OPTION_BITS & 15
					      : TG_WSCALE_NONE;
	}
	return f;
}

/* The cookie that the connection was opened with. */
TG_INLINE uint32_t tg_split_cookie_isn(const struct tg_split *e)
{
	return e->state & TG_SPLIT_READY ? e->server_isn - e->seq_delta : e->seq_delta;
}

/* ---- SYN_SENT -> ongoing ---- */

/* Notes what tg_flow_ready has made of the flow. The state comes last: who reads
 * it as ready finds the rest written. */
TG_INLINE void tg_split_settle(struct tg_split *e, const struct tg_flow *f)
{
	e->seq_delta = f->seq_delta;
	e->ts_delta = f->ts_delta;
	e->server_isn = f->server_isn;
	e->acked = (uint16_t)((f->server_isn - f->seq_delta) >> 16);
	e->window[0] = (int8_t)f->window_up;
	e->window[1] = f->window_down;
	TG_BARRIER();
	e->state = (uint8_t)(TG_SPLIT_READY | (f->flags & TG_FLOW_TS));
}

/* ---- a client that has started over ---- */

/* A client that lost its state (a crash, a power cut) and returns from the same port is answered by
 * an edge; its segments then arrive as if they belonged to the connection that still exists here.
 * The number they acknowledge distinguishes them: a cookie, effectively random, while a connection
 * acknowledges more and more in small steps. So only segments whose acknowledgement is more than
 * 2^16 away from the last one are checked for a cookie. A new cookie lies that close to the old
 * numbers with a chance of 3 in 65,536. */
TG_INLINE bool tg_split_ack_jumps(const struct tg_split *e, const struct tg_packet *pkt)
{
	return tg_host_is_ack(pkt) && (uint16_t)((pkt->ack >> 16) - e->acked + 1) > 2;
}

TG_INLINE void tg_split_acked(struct tg_split *e, const struct tg_packet *pkt)
{
	if (tg_host_is_ack(pkt) && TG_UNLIKELY(e->acked != pkt->ack >> 16))
		e->acked = (uint16_t)(pkt->ack >> 16);
}

/* True if the connection yields to one that a verified cookie of the same addresses and ports
 * begins. A blind guess must not end a live connection: `strong` is a cookie whose MAC has 41 bits
 * (the layout tidegate, with timestamps). Any other, of 22 or 24 bits, takes only the place of what
 * is ending anyway; as bpf/lib/replace.h. */
TG_INLINE bool tg_split_gives_way(const struct tg_split *e, bool strong)
{
	return strong || !(e->state & TG_SPLIT_READY) ||
	       e->state & (TG_FLOW_SERVER_FIN | TG_FLOW_CLOSED);
}

/* ---- the end of a connection ---- */

/* A test of races between two CPUs hooks in here. */
#ifndef TG_SPLIT_SWAP
#define TG_SPLIT_SWAP __sync_val_compare_and_swap
#endif
#define TG_SPLIT_RACES 8 /* tries; each lost one means that the other side has noted something */

/* The last four bytes of an entry, the state in the highest: segments of both directions are seen
 * on two CPUs at the same time, so what one of them records is never overwritten with what the
 * other has read before. */
typedef uint32_t __attribute__((may_alias)) tg_split_tail;
#define TG_SPLIT_STATE_SHIFT 24
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the state is the word's highest byte");
_Static_assert(offsetof(struct tg_split, state) == 31, "the tail of an entry");
_Static_assert(offsetof(struct tg_split, window) == 28, "window[0] is the tail's lowest byte");

TG_INLINE tg_split_tail *tg_split_tail_of(struct tg_split *e)
{
	return (tg_split_tail *)((uint8_t *)e + offsetof(struct tg_split, client_window));
}

/* Sets bits of the state, or clears them, and nothing else. */
TG_INLINE void tg_split_set(struct tg_split *e, uint8_t bits)
{
	__sync_fetch_and_or(tg_split_tail_of(e), (uint32_t)bits << TG_SPLIT_STATE_SHIFT);
}

TG_INLINE void tg_split_clear(struct tg_split *e, uint8_t bits)
{
	__sync_fetch_and_and(tg_split_tail_of(e), ~((uint32_t)bits << TG_SPLIT_STATE_SHIFT));
}

/* True if the client's segment is worth recording. The server's segments do not show that the
 * client is there: it retransmits for minutes what is not acknowledged. */
TG_INLINE bool tg_split_is_news(const struct tg_split *e, uint16_t tick)
{
	return e->seen_tick != tick || !(e->state & TG_SPLIT_CARRIED);
}

/* Records that the client was seen. */
TG_INLINE void tg_split_heard(struct tg_split *e, const struct tg_packet *pkt, uint16_t tick)
{
	if (e->state & TG_SPLIT_CARRIED) {
		if (e->seen_tick == tick)
			return;
		__sync_fetch_and_or(tg_split_tail_of(e), TG_SPLIT_LASTING);
	} else if (tg_split_carries(e, pkt)) {
		tg_split_set(e, TG_SPLIT_CARRIED);
	}
	e->seen_tick = tick;
}

/* True if the segment may begin, continue or take back the connection's end. */
TG_INLINE bool tg_split_may_end(const struct tg_split *e, const struct tg_packet *pkt)
{
	return pkt->flags & (TG_TCP_FIN | TG_TCP_RST) || e->state & (TG_SPLIT_FLAGS & ~TG_FLOW_TS);
}

/* One try of tg_split_track: enum tg_flow_turn, or TG_SPLIT_LOST if the other side has
 * noted something in the meantime. */
#define TG_SPLIT_LOST (-1)

TG_INLINE int tg_split_track_once(struct tg_split *e, const struct tg_packet *pkt,
				  enum tg_direction dir)
{
	tg_split_tail *tail = tg_split_tail_of(e), was = *(volatile tg_split_tail *)tail, is;
	struct tg_flow f = {.flags = was >> TG_SPLIT_STATE_SHIFT & TG_SPLIT_FLAGS};
	enum tg_flow_turn turn;

	if (!(was >> TG_SPLIT_STATE_SHIFT & TG_SPLIT_READY))
		return TG_FLOW_STAYS; /* another connection has taken it */
	turn = tg_flow_track(&f, pkt, dir, true, f.server_port);
	is = (was & ~((uint32_t)TG_SPLIT_FLAGS << TG_SPLIT_STATE_SHIFT)) |
	     (uint32_t)(f.flags & TG_SPLIT_FLAGS) << TG_SPLIT_STATE_SHIFT;
	return is == was || TG_SPLIT_SWAP(tail, was, is) == was ? (int)turn : TG_SPLIT_LOST;
}

/* A plane may wrap it in a function of its own. */
#ifndef TG_SPLIT_TRACK_ONCE
#define TG_SPLIT_TRACK_ONCE tg_split_track_once
#endif

/* Notes what a segment of an ongoing connection contributes to its end. TG_FLOW_ENDS is returned
 * once. */
TG_INLINE enum tg_flow_turn tg_split_track(struct tg_split *e, const struct tg_packet *pkt,
					   enum tg_direction dir)
{
	int turn = TG_SPLIT_LOST, tries = TG_SPLIT_RACES;

	while (turn == TG_SPLIT_LOST && tries--)
		turn = TG_SPLIT_TRACK_ONCE(e, pkt, dir);
	return turn == TG_SPLIT_LOST ? TG_FLOW_STAYS : (enum tg_flow_turn)turn;
}

/* ---- what becomes of a segment ---- */

enum tg_server_step {
	TG_SERVER_PASS, /* not ours: to the stack as it came */
	TG_SERVER_DROP,
	TG_SERVER_CHECK, /* verify the cookie in it; then OPEN, or else as `otherwise` */
	TG_SERVER_OPEN, /* listen -> SYN_SENT: a SYN to the stack in its place */
	TG_SERVER_WAIT, /* SYN_SENT: queue it behind the SYN */
	TG_SERVER_TRANSLATE, /* ongoing */
	TG_SERVER_FORGET, /* the client has given up: drop it and the entry */
};

struct tg_server_judgement {
	enum tg_server_step step;
	enum tg_server_step otherwise;
};

/* The largest window of a SYN-ACK, which is never scaled. */
#define TG_SPLIT_FIRST_WINDOW 0xffffU

/* A client's segment to a protected service. `e` is NULL for a connection that is
 * not known; `what` is 0 for a segment without a (verified) tag. */
TG_INLINE struct tg_server_judgement tg_server_judge(const struct tg_packet *pkt,
						     const struct tg_split *e, uint32_t what)
{
	bool ack = tg_host_is_ack(pkt), same;

	/* A SYN has bypassed the edges; it is to be answered. */
	if (pkt->flags & TG_TCP_SYN)
		return (struct tg_server_judgement){TG_SERVER_PASS, TG_SERVER_PASS};
	if (!e) {
		if (what == TG_TAG_SETUP && ack)
			return (struct tg_server_judgement){TG_SERVER_OPEN, TG_SERVER_DROP};
		return (struct tg_server_judgement){
			ack && what == 0 ? TG_SERVER_CHECK : TG_SERVER_DROP, TG_SERVER_DROP};
	}
	same = pkt->ack - 1 == tg_split_cookie_isn(e);
	if (what == TG_TAG_SETUP && ack && !same) /* the port is reused */
		return (struct tg_server_judgement){TG_SERVER_OPEN, TG_SERVER_DROP};
	if (!(e->state & TG_SPLIT_READY)) {
		if (pkt->flags & TG_TCP_RST) {
			if (e->state & TG_SPLIT_RESET_PASSES)
				return (struct tg_server_judgement){TG_SERVER_PASS, TG_SERVER_PASS};
			/* From behind what it has sent, which nobody has seen: as far as our window lets
			 * it send. Who forges one makes the client's next segment verify again. */
			return (struct tg_server_judgement){pkt->seq - (e->client_isn + 1) <=
									    TG_SPLIT_FIRST_WINDOW
								    ? TG_SERVER_FORGET
								    : TG_SERVER_DROP,
							    TG_SERVER_DROP};
		}
		if (ack && same)
			return (struct tg_server_judgement){TG_SERVER_WAIT, TG_SERVER_DROP};
		return (struct tg_server_judgement){
			ack && what == 0 ? TG_SERVER_CHECK : TG_SERVER_DROP, TG_SERVER_DROP};
	}
	if (ack && !same && what == 0 && (e->state & TG_FLOW_CLOSED || tg_split_ack_jumps(e, pkt)))
		return (struct tg_server_judgement){TG_SERVER_CHECK, TG_SERVER_TRANSLATE};
	return (struct tg_server_judgement){TG_SERVER_TRANSLATE, TG_SERVER_TRANSLATE};
}

enum tg_server_answer {
	TG_ANSWER_TRANSLATE,
	TG_ANSWER_READY, /* SYN_SENT -> ongoing */
	TG_ANSWER_REFUSED, /* the client is to see the RST */
	TG_ANSWER_OLDER, /* the stack thinks of an older connection: reset it, SYN again */
	TG_ANSWER_REACK, /* its SYN-ACK again: ACK again */
	TG_ANSWER_ABSORB, /* nothing for the client in it */
	TG_ANSWER_FOREIGN, /* it has completed a handshake with the client itself: forget the entry */
};

/* True for a segment of a connection in SYN_SENT whose numbers are those of the cookie: the stack has a
 * socket that was adopted from it, and answers our SYN by a challenge ACK (RFC 5961 section 4), or has data for the client.
 * So an adoption that was given up was only slow. Numbers of an older connection lie that close with a chance of one in 2^32. */
TG_INLINE bool tg_split_is_adopted(const struct tg_split *e, const struct tg_packet *pkt)
{
	return (pkt->flags & (TG_TCP_SYN | TG_TCP_ACK)) == TG_TCP_ACK &&
	       pkt->seq - (tg_split_cookie_isn(e) + 1) <= TG_SPLIT_FIRST_WINDOW &&
	       pkt->ack - (e->client_isn + 1) <= TG_SPLIT_FIRST_WINDOW;
}

/* A segment of the stack, to a client whose connection is known. */
TG_INLINE enum tg_server_answer tg_server_judge_answer(const struct tg_packet *pkt,
						       const struct tg_split *e)
{
	struct tg_flow f;

	if (e->state & TG_SPLIT_READY) {
		if ((pkt->flags & (TG_TCP_SYN | TG_TCP_ACK)) != (TG_TCP_SYN | TG_TCP_ACK))
			return TG_ANSWER_TRANSLATE;
		if (pkt->ack != e->client_isn + 1)
			return TG_ANSWER_FOREIGN;
		return pkt->seq == e->server_isn ? TG_ANSWER_REACK : TG_ANSWER_ABSORB;
	}
	f = tg_split_flow(e);
	switch (tg_setup_judge(pkt, f.client_isn)) {
	case TG_SETUP_READY:
		return TG_ANSWER_READY;
	case TG_SETUP_REFUSED:
		return TG_ANSWER_REFUSED;
	case TG_SETUP_OTHER:
		if (tg_split_is_adopted(e, pkt))
			return TG_ANSWER_FOREIGN;
		return e->state & TG_SPLIT_RESET_OLDER ? TG_ANSWER_ABSORB : TG_ANSWER_OLDER;
	default:
		return tg_split_is_adopted(e, pkt) ? TG_ANSWER_FOREIGN : TG_ANSWER_ABSORB;
	}
}

#endif
