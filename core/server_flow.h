/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The server role's memory of a translated connection, and its state machine:
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
 * (The names are those of the published design's figure 9.) 32 bytes a connection
 * of either family, four of them in a bucket of two cache lines, two buckets for
 * each to choose from; tables are made twice as large as the flows they are to
 * hold, so a flow costs 64 bytes, and there is nothing else to it.
 *
 * The key of an entry is a 64-bit hash of addresses and ports, keyed with numbers
 * that nobody else knows; 16 bits of it are of the source alone. Two connections of one
 * hash would disturb each other; among 65,536 of one source that is one chance in 2^32
 * for each new one.
 *
 * Must never: compute a difference twice; decide without the state.
 */
#ifndef TG_SERVER_FLOW_H
#define TG_SERVER_FLOW_H

#include <stddef.h>

#include "proxy.h"
#include "tag.h"
#include "tuple_filter.h"

#define TG_SPLIT_WAYS 4
#define TG_SPLIT_FREE 0ULL
#define TG_SPLIT_BUSY 1ULL       /* being written */
#define TG_SPLIT_TICK_SHIFT 32   /* a tick is 2^32 ns = 4.3 s; 16 bits wrap after 78 h */
#define TG_SPLIT_SETUP_TICKS 8   /* how long a server may take to answer a SYN: 34 s */

enum tg_split_state {
	TG_SPLIT_FLAGS = 0x1f,   /* enum tg_flow_flag; in SYN_SENT only TG_FLOW_TS */
	TG_SPLIT_CONFIRM = 0x20, /* the edge still tags: tell it again */
	TG_SPLIT_READY = 0x40,   /* ongoing; else SYN_SENT */
	TG_SPLIT_FRESH = 0x80,   /* SYN_SENT, but the SYN has still to be made */
	TG_SPLIT_CARRIED = 0x80, /* ongoing: data of the client, or acknowledged by it */
	/* SYN_SENT: an older connection of the stack has been reset, which is done once;
	 * and the RST is on its way to the stack. */
	TG_SPLIT_RESET_OLDER = TG_FLOW_CLIENT_FIN,
	TG_SPLIT_RESET_PASSES = TG_FLOW_SERVER_FIN,
};

/* Beside window_up, which is 14 at most: the client was heard again in a later tick than it
 * carried something first. So a connection that lasts is told from one that only said a word. */
#define TG_SPLIT_LASTING 0x10

/* Map ABI. */
struct tg_split {
	uint64_t hash;      /* TG_SPLIT_FREE, TG_SPLIT_BUSY, or of the tuple */
	uint32_t seq_delta; /* ongoing: the stack's ISN - the cookie. SYN_SENT: the cookie */
	uint32_t ts_delta;  /* likewise of the timestamp clocks */
	uint32_t client_isn;
	union {
		uint32_t client_tsval; /* SYN_SENT: what our SYN says */
		uint32_t server_isn;   /* ongoing */
	};
	uint16_t seen_tick;
	union {
		uint16_t agreed; /* SYN_SENT: option bits 0-8 (MSS of the plain form), announced window scale 9-12 */
		uint16_t acked; /* ongoing: high half of what the client acknowledged last */
	};
	union {
		uint16_t client_window; /* SYN_SENT: field of the client's ACK */
		int8_t window[2]; /* ongoing: as tg_flow's window_up and TG_SPLIT_LASTING, window_down */
	};
	uint8_t edge; /* that is to be told; 0: none */
	uint8_t state; /* enum tg_split_state */
};
_Static_assert(sizeof(struct tg_split) == 32, "map ABI; two for each flow make 64 bytes");

struct tg_split_bucket {
	struct tg_split way[TG_SPLIT_WAYS];
};
_Static_assert(sizeof(struct tg_split_bucket) == 128, "two cache lines");

TG_INLINE uint16_t tg_split_tick(uint64_t monotonic_ns)
{
	return (uint16_t)(monotonic_ns >> TG_SPLIT_TICK_SHIFT);
}

/* The highest 16 bits of a hash say where the client is: its family, and 15 bits for its
 * IPv4 address or its IPv6 /56. So an entry tells whose it is, and a connection's hash
 * is 48 bits among those of one source. */
#define TG_SPLIT_SOURCE_SHIFT 48
#define TG_SPLIT_SOURCES 65536

TG_INLINE uint64_t tg_split_source_slot(const uint64_t keys[TG_FILTER_KEYS], const union tg_addr *c,
					uint8_t family)
{
	uint64_t prefix = family == 4 ? c->w[0] : c->d[0] & 0x00ffffffffffffffULL;
	uint64_t h = (prefix + keys[3]) * keys[1] + keys[2];

	h = (h ^ h >> 32) * TG_MIX3;
	return (h >> 49) | (family == 4 ? 0 : 0x8000);
}

/* The hash of a connection, never FREE or BUSY. `dir` is where the packet goes. */
TG_INLINE uint64_t tg_split_hash(const uint64_t keys[TG_FILTER_KEYS], const struct tg_packet *pkt,
				 enum tg_direction dir)
{
	const union tg_addr *c = dir == TG_TO_SERVER ? &pkt->src : &pkt->dst;
	const union tg_addr *s = dir == TG_TO_SERVER ? &pkt->dst : &pkt->src;
	uint32_t ports = dir == TG_TO_SERVER ? pkt->ports : pkt->ports << 16 | pkt->ports >> 16;
	uint64_t h = keys[0] + keys[1] * c->w[0] + keys[2] * s->w[0] + keys[3] * ports;

	if (pkt->family == 6)
		h += keys[4] * c->w[1] + keys[5] * c->w[2] + keys[6] * c->w[3] + keys[7] * s->w[1] +
		     keys[8] * s->w[2] + keys[9] * s->w[3];
	h = (h ^ h >> 32) * TG_MIX2;
	h = (h ^ h >> 29) >> (64 - TG_SPLIT_SOURCE_SHIFT);
	return tg_split_source_slot(keys, c, pkt->family) << TG_SPLIT_SOURCE_SHIFT |
	       (h < 2 ? h + 2 : h);
}

/* The slot in which connections of this source are counted. */
TG_INLINE uint32_t tg_split_source(uint64_t hash)
{
	return (uint32_t)(hash >> TG_SPLIT_SOURCE_SHIFT);
}

TG_INLINE bool tg_split_is_v6(uint64_t hash)
{
	return hash >> 63;
}

/* Where all connections of a family are counted, behind the slots of sources. */
TG_INLINE uint32_t tg_split_family(uint64_t hash)
{
	return TG_SPLIT_SOURCES + (uint32_t)tg_split_is_v6(hash);
}

/* The two buckets of a hash, in a table of mask + 1. */
TG_INLINE uint32_t tg_split_bucket_at(uint64_t hash, uint32_t mask, uint32_t choice)
{
	return (choice ? (uint32_t)(hash * TG_MIX3 >> 32) : (uint32_t)hash) & mask;
}

/* How readily an entry gives its place to a new connection; 0: not at all. */
enum tg_split_room {
	TG_SPLIT_TAKEN = 0,
	TG_SPLIT_AGED = 1, /* not seen for longer than the idle time */
	TG_SPLIT_ENDED = 2, /* kept only for late retransmissions */
	TG_SPLIT_EMPTY = 3,
};

TG_INLINE enum tg_split_room tg_split_room(const struct tg_split *e, uint16_t now_tick,
					   uint16_t idle_ticks)
{
	uint16_t age = (uint16_t)(now_tick - e->seen_tick);

	if (e->hash == TG_SPLIT_FREE)
		return TG_SPLIT_EMPTY;
	if (e->hash == TG_SPLIT_BUSY)
		return TG_SPLIT_TAKEN;
	if (e->state & TG_FLOW_CLOSED)
		return TG_SPLIT_ENDED;
	return age > (e->state & TG_SPLIT_READY ? idle_ticks : TG_SPLIT_SETUP_TICKS)
		       ? TG_SPLIT_AGED
		       : TG_SPLIT_TAKEN;
}

/* ---- who gives way when a connection finds no place ---- */

/* What is known of the one that wants a place. */
struct tg_split_newcomer {
	uint64_t hash;
	uint32_t held; /* by its source: connections */
	uint32_t floor; /* what a source may hold without having to give way to others */
	uint16_t now_tick;
	bool few; /* its family holds less than a quarter of the table */
};

#define TG_SPLIT_QUIET_TICKS 2 /* the client was not heard for 4 to 9 s */

/* In this order they give way. */
enum tg_split_class {
	TG_SPLIT_KEEPS = 0,
	TG_SPLIT_OTHER_FAMILY = 1, /* the newcomer's family holds little, and this one is of the other */
	TG_SPLIT_QUIET = 2, /* has lasted, but its client is quiet */
	TG_SPLIT_BRIEF = 3, /* has not lasted yet */
	TG_SPLIT_IDLE = 4, /* has not carried anything, or is half closed and quiet */
	TG_SPLIT_ABOVE_SHARE = 5, /* its source holds more than the floor, and more than twice what
				      the newcomer's does */
};

TG_INLINE enum tg_split_class tg_split_class(const struct tg_split *e, uint16_t age)
{
	/* Who has only just come has not had the time to carry anything. */
	if ((e->state & (TG_SPLIT_READY | TG_SPLIT_CARRIED)) != (TG_SPLIT_READY | TG_SPLIT_CARRIED))
		return age ? TG_SPLIT_IDLE : TG_SPLIT_BRIEF;
	if (age >= TG_SPLIT_QUIET_TICKS && e->state & (TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN))
		return TG_SPLIT_IDLE;
	if (!(e->window[0] & TG_SPLIT_LASTING))
		return TG_SPLIT_BRIEF;
	return age >= TG_SPLIT_QUIET_TICKS ? TG_SPLIT_QUIET : TG_SPLIT_KEEPS;
}

/* How readily a connection gives its place to the newcomer, all places of whose two
 * buckets are taken; 0: not at all. `held` is what the connection's source holds.
 *
 *    31  29 28              17  16  15              0
 *   +------+------------------+------+----------------+
 *   |class | held, at most    | idle | ticks not seen |
 *   |      | 4,095            |      |                |
 *   +------+------------------+------+----------------+
 *
 * Of those above their share the largest holder's goes, what is idle first; of all classes
 * what was not seen longest. A source above the floor displaces only its own, or such. */
TG_INLINE uint32_t tg_split_claim(const struct tg_split *e, uint32_t held,
				  const struct tg_split_newcomer *n)
{
	uint16_t age = (uint16_t)(n->now_tick - e->seen_tick);
	enum tg_split_class class = tg_split_class(e, age);

	if (e->hash <= TG_SPLIT_BUSY)
		return 0;
	if (held > n->floor && held / 2 > n->held)
		return (uint32_t)TG_SPLIT_ABOVE_SHARE << 29 | (held < 0xfff ? held : 0xfff) << 17 |
		       (uint32_t)(class == TG_SPLIT_IDLE) << 16 | age;
	if (class && (n->held <= n->floor || tg_split_source(e->hash) == tg_split_source(n->hash)))
		return (uint32_t)class << 29 | age;
	if (n->few && tg_split_is_v6(e->hash) != tg_split_is_v6(n->hash))
		return (uint32_t)TG_SPLIT_OTHER_FAMILY << 29 | age;
	return 0;
}

/* True if a client's segment is the first that carries data, or acknowledges some. */
TG_INLINE bool tg_split_carries(const struct tg_split *e, const struct tg_packet *pkt)
{
	return !(e->state & TG_SPLIT_CARRIED) &&
	       (pkt->l4_len > pkt->tcp_hdr_len ||
		(pkt->flags & TG_TCP_ACK && pkt->ack - 1 != e->server_isn - e->seq_delta));
}

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

/* A client that lost its state (a crash, a power cut) and comes again from the same port
 * is answered by an edge; its segments then arrive as if they were of the connection that
 * still stands here. What gives them away is the number they acknowledge: a cookie, as
 * good as random, while a connection acknowledges more and more in small steps. So only
 * segments whose acknowledgement is more than a step of 2^16 away from the last one are
 * held to a cookie. A new cookie lies that close to the old numbers with a chance of
 * 3 in 65,536. */
TG_INLINE bool tg_split_ack_jumps(const struct tg_split *e, const struct tg_packet *pkt)
{
	return tg_host_is_ack(pkt) && (uint16_t)((pkt->ack >> 16) - e->acked + 1) > 2;
}

TG_INLINE void tg_split_acked(struct tg_split *e, const struct tg_packet *pkt)
{
	if (tg_host_is_ack(pkt) && TG_UNLIKELY(e->acked != pkt->ack >> 16))
		e->acked = (uint16_t)(pkt->ack >> 16);
}

/* True if the connection gives way to one that a verified cookie of the same addresses
 * and ports begins. Who guesses blindly must not end what lives: `strong` is a cookie
 * whose MAC has 41 bits (the layout tidegate, with timestamps). Any other, of 22 or 24
 * bits, takes only the place of what is ending anyway; as bpf/lib/replace.h. */
TG_INLINE bool tg_split_gives_way(const struct tg_split *e, bool strong)
{
	return strong || !(e->state & TG_SPLIT_READY) ||
	       e->state & (TG_FLOW_SERVER_FIN | TG_FLOW_CLOSED);
}

/* ---- the end of a connection ---- */

/* Whoever tests what happens between two CPUs puts himself in between. */
#ifndef TG_SPLIT_SWAP
#define TG_SPLIT_SWAP __sync_val_compare_and_swap
#endif
#define TG_SPLIT_RACES 8 /* tries; each lost one means that the other side has noted something */

/* The last four bytes of an entry, the state in the highest: segments of both directions
 * are seen on two CPUs at the same time, so what one of them notes is never written over
 * with what the other has read before. */
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

/* True if the client's segment is worth noting. What the server sends says nothing of who is
 * there: it repeats for minutes what nobody acknowledges. */
TG_INLINE bool tg_split_is_news(const struct tg_split *e, uint16_t tick)
{
	return e->seen_tick != tick || !(e->state & TG_SPLIT_CARRIED);
}

/* Notes that the client was heard. */
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

/* True if the segment may tell something of the connection's end, or takes it back. */
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
		return TG_FLOW_STAYS; /* it has become another one's */
	turn = tg_flow_track(&f, pkt, dir, true, f.server_port);
	is = (was & ~((uint32_t)TG_SPLIT_FLAGS << TG_SPLIT_STATE_SHIFT)) |
	     (uint32_t)(f.flags & TG_SPLIT_FLAGS) << TG_SPLIT_STATE_SHIFT;
	return is == was || TG_SPLIT_SWAP(tail, was, is) == was ? (int)turn : TG_SPLIT_LOST;
}

/* A plane may put a function of its own around it. */
#ifndef TG_SPLIT_TRACK_ONCE
#define TG_SPLIT_TRACK_ONCE tg_split_track_once
#endif

/* Notes what a segment of an ongoing connection tells of its end. TG_FLOW_ENDS is said
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
	TG_SERVER_WAIT, /* SYN_SENT: let it come again behind the SYN */
	TG_SERVER_TRANSLATE, /* ongoing */
	TG_SERVER_FORGET, /* the client has given up: drop it and the entry */
};

struct tg_server_judgement {
	enum tg_server_step step;
	enum tg_server_step otherwise;
};

/* A client's segment to a protected service. `e` is NULL for a connection that is
 * not known; `what` is 0 for a segment without a (verified) tag. */
TG_INLINE struct tg_server_judgement tg_server_judge(const struct tg_packet *pkt,
						     const struct tg_split *e, uint32_t what)
{
	bool ack = tg_host_is_ack(pkt), same;

	/* A SYN has come past the edges; whoever let it through wants it answered. */
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
			return (struct tg_server_judgement){
				pkt->seq == e->client_isn + 1 ? TG_SERVER_FORGET : TG_SERVER_DROP,
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
	TG_ANSWER_REFUSED, /* the client shall see the RST */
	TG_ANSWER_OLDER, /* the stack thinks of an older connection: reset it, SYN again */
	TG_ANSWER_REACK, /* its SYN-ACK again: ACK again */
	TG_ANSWER_ABSORB, /* nothing for the client in it */
	TG_ANSWER_FOREIGN, /* it has shaken hands with the client itself: forget the entry */
};

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
		return e->state & TG_SPLIT_RESET_OLDER ? TG_ANSWER_ABSORB : TG_ANSWER_OLDER;
	default:
		return TG_ANSWER_ABSORB;
	}
}

#endif
