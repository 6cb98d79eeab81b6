/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The server role's table of translated connections: its entries, where they stand, and which
 * of them yields to a newcomer. What happens to a connection is server_flow.h.
 *
 * 32 bytes a connection of either family, four of them in a bucket of two cache lines, two buckets
 * for each to choose from; tables are made twice as large as the flows they are to hold, so a flow
 * costs 64 bytes in all.
 *
 * The key of an entry is a 64-bit hash of addresses and ports, under a secret key; 16 bits of it
 * are of the source alone. Two connections with the same hash would disturb each other; among
 * 65,536 of one source that is one chance in 2^32 for each new one.
 *
 * Must never: walk more than two buckets for a packet.
 */
#ifndef TG_SERVER_TABLE_H
#define TG_SERVER_TABLE_H

#include "proxy.h"
#include "tuple_filter.h"

#define TG_SPLIT_WAYS 4
#define TG_SPLIT_FREE 0ULL
#define TG_SPLIT_BUSY 1ULL       /* being written */
#define TG_SPLIT_TICK_SHIFT 32   /* a tick is 2^32 ns = 4.3 s; 16 bits wrap after 78 h */
#define TG_SPLIT_SETUP_TICKS 8   /* how long a server may take to answer a SYN: 34 s */

enum tg_split_state {
	TG_SPLIT_FLAGS = 0x1f,   /* enum tg_flow_flag; in SYN_SENT only TG_FLOW_TS */
	TG_SPLIT_CONFIRM = 0x20, /* the edge still tags: confirm again */
	TG_SPLIT_READY = 0x40,   /* ongoing; else SYN_SENT */
	TG_SPLIT_FRESH = 0x80,   /* SYN_SENT, but the SYN has still to be made */
	TG_SPLIT_CARRIED = 0x80, /* ongoing: data of the client, or acknowledged by it */
	/* SYN_SENT: an older connection of the stack has been reset, which is done once;
	 * and the RST is on its way to the stack. */
	TG_SPLIT_RESET_OLDER = TG_FLOW_CLIENT_FIN,
	TG_SPLIT_RESET_PASSES = TG_FLOW_SERVER_FIN,
};

/* Beside window_up, which is 14 at most: the client was heard again in a later tick than it
 * carried something first. This separates a connection that lasts from one that sent a single segment. */
#define TG_SPLIT_LASTING 0x10

/* In `agreed`, beside what the cookie says: an adoption from it made no socket, and its client cannot have caused that.
 * Once the stack has answered, that is booked on the listener (core/listener.h). */
#define TG_SPLIT_EVIDENCE 0x8000

/* Map ABI. */
struct tg_split {
	uint64_t hash; /* TG_SPLIT_FREE, TG_SPLIT_BUSY, or of the tuple */
	uint32_t seq_delta; /* ongoing: the stack's ISN - the cookie. SYN_SENT: the cookie */
	uint32_t ts_delta; /* likewise of the timestamp clocks */
	uint32_t client_isn;
	union {
		uint32_t client_tsval; /* SYN_SENT: what our SYN says */
		uint32_t server_isn; /* ongoing */
	};
	uint16_t seen_tick;
	union {
		uint16_t agreed; /* SYN_SENT: option bits 0-8 (MSS of the plain form), announced window scale 9-12, TG_SPLIT_EVIDENCE */
		uint16_t acked; /* ongoing: high half of what the client acknowledged last */
	};
	union {
		uint16_t client_window; /* SYN_SENT: field of the client's ACK */
		int8_t window[2]; /* ongoing: as tg_flow's window_up and TG_SPLIT_LASTING, window_down */
	};
	uint8_t edge; /* that expects a confirmation; 0: none */
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
 * IPv4 address or its IPv6 /56. So an entry shows its source, and a connection's hash
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

/* How readily an entry yields its place to a new connection; 0: not at all. */
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

/* ---- which entry yields when a connection finds no place ---- */

/* What is known about the newcomer. */
struct tg_split_newcomer {
	uint64_t hash;
	uint32_t held; /* by its source: connections */
	uint32_t floor; /* what a source may hold without yielding to others */
	uint16_t now_tick;
	bool few; /* its family holds less than a quarter of the table */
};

#define TG_SPLIT_QUIET_TICKS 2 /* the client was not heard for 4 to 9 s */

/* They yield in this order. */
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
	/* A newcomer has not had the time to carry anything. */
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

#endif
