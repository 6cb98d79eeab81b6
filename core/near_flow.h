/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * A copy of what the translation of a proxy's flow needs, one for each of its two directions, in an
 * array whose look-up takes no call and one cache line: a plane asks here before its flow table. An
 * entry is found by the numbers of the segment as they stand on the wire, so neither the direction nor
 * the service has to be known beforehand.
 *
 * What changes a flow (a FIN, a RST, a new connection of its numbers) goes to the flow table, and the
 * entries of both directions are forgotten. An entry is good for one turn, which ends when the flow
 * tables are swapped: so each flow is met in the table, and moves on to the next, as without this.
 *
 * Several CPUs may read and write an entry at once, without a lock: `check` tells an entry of two halves.
 *
 * Must never: hold a flow that is in set-up, waits for a place, or has seen a FIN or a RST.
 */
#ifndef TG_NEAR_FLOW_H
#define TG_NEAR_FLOW_H

#include "fast_segment.h"
#include "proxy_rules.h"

#define TG_FLOWS_NEAR_BITS 12
#define TG_FLOWS_NEAR (1U << TG_FLOWS_NEAR_BITS)

enum tg_near_bit {
	TG_NEAR_TS = 1,        /* TG_FLOW_TS */
	TG_NEAR_TO_CLIENT = 2, /* tg_direction */
	TG_NEAR_HELD = 4, /* always set */
};

/* Which segments an entry is of. IPv4: both addresses are addr[0], as on the wire, and the rest is not
 * looked at. `turn`: of the flow tables. */
struct tg_near_key {
	uint64_t addr[4];
	uint64_t ports_turn; /* ports in the lower half, as on the wire */
};

struct tg_near_flow {
	struct tg_near_key key;
	uint64_t deltas; /* of sequence numbers; of timestamps in the upper half */
	/* What the server wants next, from the lowest bit 32; the port of this box that it is behind, 16;
	 * the shift of windows, signed, 8; enum tg_near_bit, 8. */
	uint64_t rest;
	uint64_t check; /* tg_near_check */
};
_Static_assert(sizeof(struct tg_near_flow) == 64, "one cache line");

TG_INLINE struct tg_near_key tg_near_key(const struct tg_packet *pkt, uint32_t turn)
{
	struct tg_near_key k = {.ports_turn = pkt->ports | (uint64_t)turn << 32};

	if (pkt->family == 4) {
		k.addr[0] = pkt->src.d[0] | pkt->dst.d[0] << 32;
	} else {
		k.addr[0] = pkt->src.d[0];
		k.addr[1] = pkt->src.d[1];
		k.addr[2] = pkt->dst.d[0];
		k.addr[3] = pkt->dst.d[1];
	}
	return k;
}

/* The same of the opposite direction. */
TG_INLINE struct tg_near_key tg_near_key_back(const struct tg_near_key *k, uint8_t family)
{
	uint32_t ports = (uint32_t)k->ports_turn;
	struct tg_near_key back = {.ports_turn = (k->ports_turn >> 32 << 32) |
						 (uint32_t)(ports << 16 | ports >> 16)};

	if (family == 4) {
		back.addr[0] = k->addr[0] << 32 | k->addr[0] >> 32;
	} else {
		back.addr[0] = k->addr[2];
		back.addr[1] = k->addr[3];
		back.addr[2] = k->addr[0];
		back.addr[3] = k->addr[1];
	}
	return back;
}

/* The key of a common segment (tg_fast_segment_is). */
TG_INLINE struct tg_near_key tg_near_key_read(const uint8_t *frame, uint8_t family, uint32_t turn)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN;
	const uint8_t *tcp = frame + tg_fast_segment_len(family) - TG_TCP_HDR_LEN;
	struct tg_near_key k = {.ports_turn = tg_load32(tcp) | (uint64_t)turn << 32};

	if (family == 4) {
		k.addr[0] = tg_load32(ip + TG_IPV4_SRC) | (uint64_t)tg_load32(ip + TG_IPV4_DST) << 32;
	} else {
		k.addr[0] = tg_load64(ip + TG_IPV6_SRC);
		k.addr[1] = tg_load64(ip + TG_IPV6_SRC + 8);
		k.addr[2] = tg_load64(ip + TG_IPV6_DST);
		k.addr[3] = tg_load64(ip + TG_IPV6_DST + 8);
	}
	return k;
}

/* Where an entry stands, whatever its turn. Salted, so that senders cannot choose numbers that share a
 * place: each such segment would take the long way. */
TG_INLINE uint32_t tg_near_place(const struct tg_near_key *k, uint8_t family, uint64_t salt)
{
	uint64_t h = (k->addr[0] ^ salt) * TG_MIX1;

	if (family == 6) {
		h = (h ^ h >> 32 ^ k->addr[1]) * TG_MIX3;
		h = ((h ^ k->addr[2]) + k->addr[3]) * TG_MIX1;
	}
	return (uint32_t)((((h ^ h >> 32) + (uint32_t)k->ports_turn) * TG_MIX2) >>
			  (64 - TG_FLOWS_NEAR_BITS));
}

/* The exclusive or of all numbers, those in `addr` as far as the family uses them. An entry of one family
 * is none of the other. */
TG_INLINE uint64_t tg_near_check(const struct tg_near_key *k, uint8_t family, uint64_t deltas,
				 uint64_t rest)
{
	uint64_t sum = k->addr[0] ^ k->ports_turn ^ deltas ^ rest;

	return family == 4 ? sum : sum ^ k->addr[1] ^ k->addr[2] ^ k->addr[3] ^ TG_MIX1;
}

/* Whether an entry may be kept of the flow. */
TG_INLINE bool tg_near_may_hold(const struct tg_flow *f)
{
	return f->state == TG_FLOW_READY && !(f->flags & ~TG_FLOW_TS) && f->waits == TG_FLOW_SETTLED;
}

/* Whether the entry would have been asked for the segment: it is a common one, without options or with
 * what may be timestamps alone. */
TG_INLINE bool tg_near_asks(const struct tg_packet *pkt)
{
	return pkt->l3_off == TG_ETH_HDR_LEN &&
	       pkt->l4_off ==
		       TG_ETH_HDR_LEN + (pkt->family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN) &&
	       (pkt->tcp_hdr_len == TG_TCP_HDR_LEN || pkt->tcp_hdr_len == TG_TCP_HDR_LEN + 12);
}

/* Whether a segment may change more of a flow than an entry can tell. */
TG_INLINE bool tg_near_ends(uint8_t flags)
{
	return flags & (TG_TCP_SYN | TG_TCP_FIN | TG_TCP_RST);
}

/* `acked`: tg_flow.server_acked. */
TG_INLINE uint64_t tg_near_rest(const struct tg_flow *f, enum tg_direction dir, uint32_t acked)
{
	uint64_t bits = (f->flags & TG_FLOW_TS ? TG_NEAR_TS : 0) |
			(dir == TG_TO_CLIENT ? TG_NEAR_TO_CLIENT : 0) | TG_NEAR_HELD;
	uint8_t shift = dir == TG_TO_SERVER ? f->window_up : (uint8_t)f->window_down;

	return acked | (uint64_t)f->server_port << 32 | (uint64_t)shift << 48 | bits << 56;
}

/* Whether the entry in that place may become that of the segments with that key. One of this turn that has
 * not been forgotten stays, but for one tick of the clock in sixteen: where there are more flows than places, most segments that
 * go to the flow table have nothing to write. */
TG_INLINE bool tg_near_yields(const struct tg_near_flow *e, const struct tg_near_key *k,
			      uint32_t place, uint32_t tick)
{
	return !e->rest || e->key.ports_turn == k->ports_turn ||
	       (e->key.ports_turn ^ k->ports_turn) >> 32 || !((place ^ tick) & 15);
}

/* Writes the entry of the direction in which the segment with that key goes. */
TG_INLINE void tg_near_keep(struct tg_near_flow *e, const struct tg_near_key *k, uint8_t family,
			    const struct tg_flow *f, enum tg_direction dir)
{
	uint64_t deltas = f->seq_delta | (uint64_t)f->ts_delta << 32;
	uint64_t rest = tg_near_rest(f, dir, f->server_acked);

	e->key.addr[0] = k->addr[0];
	if (family == 6) {
		e->key.addr[1] = k->addr[1];
		e->key.addr[2] = k->addr[2];
		e->key.addr[3] = k->addr[3];
	}
	e->key.ports_turn = k->ports_turn;
	e->deltas = deltas;
	e->rest = rest;
	e->check = tg_near_check(k, family, deltas, rest);
}

/* What an entry says of a flow, as far as translation asks. */
struct tg_near_found {
	uint64_t deltas;
	uint64_t rest; /* 0: the entry is of other segments */
};

TG_INLINE struct tg_near_found tg_near_find(const struct tg_near_flow *e,
					    const struct tg_near_key *k, uint8_t family)
{
	struct tg_near_found is = {e->deltas, e->rest}, none = {};

	if (e->key.addr[0] != k->addr[0] || e->key.ports_turn != k->ports_turn ||
	    (family == 6 && (e->key.addr[1] != k->addr[1] || e->key.addr[2] != k->addr[2] ||
			     e->key.addr[3] != k->addr[3])) ||
	    e->check != tg_near_check(k, family, is.deltas, is.rest))
		return none;
	return is;
}

/* Forgets the entry, if it is of segments with that key, in whatever turn. */
TG_INLINE void tg_near_forget(struct tg_near_flow *e, const struct tg_near_key *k)
{
	if (e->key.addr[0] == k->addr[0] && (uint32_t)e->key.ports_turn == (uint32_t)k->ports_turn)
		e->rest = 0; /* `check` was made with TG_NEAR_HELD */
}

TG_INLINE enum tg_direction tg_near_dir(uint64_t rest)
{
	return rest >> 56 & TG_NEAR_TO_CLIENT ? TG_TO_CLIENT : TG_TO_SERVER;
}

TG_INLINE uint16_t tg_near_port(uint64_t rest)
{
	return (uint16_t)(rest >> 32);
}

enum tg_near_step {
	TG_NEAR_NOT, /* the flow table has it, or nothing */
	TG_NEAR_TRANSLATE, /* translate it, and let it go on */
	TG_NEAR_ACKED, /* after its flow has been told what the server wants next */
};

/* What to do with a segment that has an entry: `acked` is its ACK number, `port` that it came by. What may
 * change more of the flow than that number is left to the flow table. */
TG_INLINE enum tg_near_step tg_near_judge(uint64_t rest, uint8_t flags, uint32_t acked, uint16_t port)
{
	if (tg_near_ends(flags) || !(flags & TG_TCP_ACK))
		return TG_NEAR_NOT;
	if (tg_near_dir(rest) == TG_TO_SERVER)
		return TG_NEAR_TRANSLATE;
	return acked == (uint32_t)rest || port != tg_near_port(rest) ? TG_NEAR_TRANSLATE
								     : TG_NEAR_ACKED;
}

/* The flow, of which only what tg_translate_header and tg_translate_timestamps read. */
TG_INLINE struct tg_flow tg_near_flow(struct tg_near_found is)
{
	return (struct tg_flow){
		.seq_delta = (uint32_t)is.deltas,
		.ts_delta = (uint32_t)(is.deltas >> 32),
		.flags = is.rest >> 56 & TG_NEAR_TS ? TG_FLOW_TS : 0,
		.window_down = (int8_t)(is.rest >> 48),
		.window_up = (uint8_t)(is.rest >> 48),
	};
}

/* Whether the TCP header at `tcp`, whose fixed part is there, has no options (`ts` is then false) or
 * timestamps alone, in the usual layout. */
TG_INLINE bool tg_near_form(const uint8_t *tcp, const uint8_t *end, bool *ts)
{
	uint32_t words = tcp[TG_TCP_DOFF] >> 4;

	*ts = words == (TG_TCP_HDR_LEN + 12) / 4;
	if (TG_LIKELY(*ts))
		return tcp + TG_TCP_HDR_LEN + 12 <= end &&
		       tg_translate_is_aligned(tcp + TG_TCP_HDR_LEN);
	return words == TG_TCP_HDR_LEN / 4;
}

/* Translates such a header one way. `dir` is a constant at each call. */
TG_INLINE void tg_near_translate_to(uint8_t *tcp, const struct tg_flow *f, bool ts,
				    enum tg_direction dir, uint64_t *sum)
{
	tg_translate_header(tcp, f, dir, sum);
	if (ts && f->flags & TG_FLOW_TS)
		tg_translate_timestamps(tcp + TG_TCP_HDR_LEN + 4, f, true, dir, sum);
}

/* Translates such a header of a segment that tg_near_judge lets go on. */
TG_INLINE void tg_near_translate_header(uint8_t *tcp, struct tg_near_found is, bool ts)
{
	struct tg_flow f = tg_near_flow(is);
	uint64_t sum = 0;

	if (tg_near_dir(is.rest) == TG_TO_SERVER)
		tg_near_translate_to(tcp, &f, ts, TG_TO_SERVER, &sum);
	else
		tg_near_translate_to(tcp, &f, ts, TG_TO_CLIENT, &sum);
	tg_store16(tcp + TG_TCP_SUM, tg_translate_checksum(tg_load16(tcp + TG_TCP_SUM), sum));
}

#endif
