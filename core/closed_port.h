/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Closed ports, as far as a gate that is not the server can know them: by address and port. Such a
 * gate answers SYNs for a server whose listeners it does not know, so a closed port would look
 * open: the client is connected, then reset. What it learns:
 *
 *                 a connection that we have answered for is reset
 *                 before the server has sent anything
 *      UNKNOWN  ------------------------------------------------>  ASKING
 *         ^                                                      one SYN now and then
 *         | time                                                 goes on to the server
 *         |                                                   /         |
 *       OPEN    <------------------ SYN-ACK ------------------     RST that refuses it
 *      never asked     ^                                                |
 *      meanwhile       +----------- SYN-ACK ------------------------  CLOSED
 *                                                                SYNs go on to the server,
 *                                                                within an allowance
 *
 * A proxy, which sends servers SYNs itself, skips ASKING: the refusal of one of these is the proof
 * (tg_closed_refused).
 *
 * All of it comes from servers, through the port that they are behind. An outsider can make a
 * server reset a connection, and so make one SYN pass occasionally; for more, the server must
 * refuse that SYN, which no listening socket does. What passes stays within TG_CLOSED_SYN_COST_NS
 * in any case, and a SYN beyond it is answered as before.
 *
 * Must never: treat a reset as proof; let a SYN pass without the allowance.
 */
#ifndef TG_CLOSED_PORT_H
#define TG_CLOSED_PORT_H

#include "allowance.h"
#include "host.h"
#include "siphash.h"

#define TG_CLOSED_SLOTS 4096 /* places that are remembered; a power of two */
#define TG_CLOSED_FLOWS                                                                            \
	16384 /* connections we have answered for, the newest in each slot; likewise */

#define TG_CLOSED_ASKING_NS 10000000000ULL
#define TG_CLOSED_ASK_EVERY_NS 250000000ULL
#define TG_CLOSED_KEPT_NS 60000000000ULL /* after the last refusal */
#define TG_CLOSED_OPEN_NS 30000000000ULL
#define TG_CLOSED_SYN_COST_NS 2000000ULL /* of each CPU's time: 500 SYNs a second pass */

enum tg_closed_state {
	TG_CLOSED_UNKNOWN = 0,
	TG_CLOSED_ASKING = 1,
	TG_CLOSED_CLOSED = 2,
	TG_CLOSED_OPEN = 3,
};

struct tg_closed_entry {
	struct tg_listener_key place;
	uint64_t until_ns;   /* CLOCK_MONOTONIC; afterwards the entry is void */
	uint64_t asked_ns;   /* when a SYN has passed last */
	uint32_t asked_ack;  /* what a refusal of that SYN acknowledges */
	uint16_t unanswered; /* SYNs that have passed, less the answers */
	uint8_t state;       /* enum tg_closed_state */
	uint8_t pad;
};
_Static_assert(sizeof(struct tg_closed_entry) == 48, "map ABI");

/* The slot of a place under a secret key. */
TG_INLINE uint32_t tg_closed_slot(const struct tg_siphash_key *key,
				  const struct tg_listener_key *place)
{
	struct tg_siphash s = tg_siphash_begin(key);

	tg_siphash_word(&s, place->addr.d[0]);
	tg_siphash_word(&s, place->addr.d[1]);
	return (uint32_t)tg_siphash_end(&s, TG_SIPHASH_LEN(16) | (uint64_t)place->family << 16 |
						    place->port_be) &
	       (TG_CLOSED_SLOTS - 1);
}

/* The place that a packet goes to, or comes from. */
TG_INLINE struct tg_listener_key tg_closed_place(const struct tg_packet *pkt, bool from_server)
{
	return (struct tg_listener_key){
		.addr = from_server ? pkt->src : pkt->dst,
		.port_be = from_server ? TG_SRC_PORT_BE(pkt) : TG_DST_PORT_BE(pkt),
		.family = pkt->family,
	};
}

/* True while the entry is about this place. */
TG_INLINE bool tg_closed_is(const struct tg_closed_entry *e, const struct tg_listener_key *place,
			    uint64_t now_ns)
{
	return now_ns < e->until_ns && e->place.addr.d[0] == place->addr.d[0] &&
	       e->place.addr.d[1] == place->addr.d[1] && e->place.port_be == place->port_be &&
	       e->place.family == place->family;
}

/* A connection, by the hash of its flow and the first number that its server would send, as
 * TG_CLOSED_FLOWS slots keep it. Never 0. */
TG_INLINE uint32_t tg_closed_flow(uint64_t flow_hash, uint32_t server_seq)
{
	return ((uint32_t)(flow_hash >> 16) ^ server_seq * 0x9e3779b1U) | 1;
}

/* A connection to the place was reset at its beginning. True if the place is known already, or if
 * the slot was free: then it is probed. An occupied slot keeps its entry. */
TG_INLINE bool tg_closed_suspect(struct tg_closed_entry *e, const struct tg_listener_key *place,
				 uint64_t now_ns)
{
	if (now_ns < e->until_ns)
		return tg_closed_is(e, place, now_ns);
	*e = (struct tg_closed_entry){.place = *place,
				      .until_ns = now_ns + TG_CLOSED_ASKING_NS,
				      .state = TG_CLOSED_ASKING};
	return true;
}

/* A SYN to the place: TG_PASS: it goes to the server; TG_REPLY: it is judged as usual. */
TG_INLINE struct tg_decision tg_closed_syn(struct tg_closed_entry *e,
					   const struct tg_listener_key *place,
					   const struct tg_packet *syn, struct tg_allowance *a,
					   uint64_t now_ns)
{
	struct tg_decision answer = TG_DECIDE(TG_REPLY, TG_COUNT_NOTHING);
	bool asks;

	if (!tg_closed_is(e, place, now_ns) || e->state == TG_CLOSED_OPEN)
		return answer;
	asks = e->state == TG_CLOSED_ASKING;
	if ((asks && now_ns - e->asked_ns < TG_CLOSED_ASK_EVERY_NS) ||
	    !tg_allowance_take(a, TG_CLOSED_SYN_COST_NS, now_ns))
		return answer;
	e->asked_ns = now_ns;
	e->asked_ack = syn->seq + 1 + (syn->l4_len - syn->tcp_hdr_len);
	if (e->unanswered != UINT16_MAX)
		e->unanswered++;
	return TG_DECIDE(TG_PASS, asks ? TG_COUNT_closed_asked : TG_COUNT_pass_closed);
}

/* A SYN that the gate itself has sent to the place was refused, which is a proof: a proxy connects
 * to servers in its clients' names (core/proxy.h). Call it for what arrived on the port that the
 * server is behind. As above, an occupied slot keeps its entry, and what was open a moment ago
 * stays so. */
TG_INLINE bool tg_closed_refused(struct tg_closed_entry *e, const struct tg_listener_key *place,
				 uint64_t now_ns)
{
	bool known = tg_closed_is(e, place, now_ns), news;

	if (now_ns < e->until_ns && (!known || e->state == TG_CLOSED_OPEN))
		return false;
	news = !known || e->state != TG_CLOSED_CLOSED;
	if (!known)
		*e = (struct tg_closed_entry){.place = *place};
	e->state = TG_CLOSED_CLOSED;
	e->until_ns = now_ns + TG_CLOSED_KEPT_NS;
	return news;
}

/* What a server's segment says. */
enum tg_closed_heard {
	TG_CLOSED_NOTHING,
	TG_CLOSED_REFUSES, /* closed, as known */
	TG_CLOSED_LEARNED, /* closed, which is new */
	TG_CLOSED_ACCEPTS, /* somebody does, and answers a SYN that has passed: the client's ACK
			      carries no cookie of ours, and must reach the server */
};

/* A segment with SYN or RST that comes from the place. Only the refusal of a SYN is a RST with
 * sequence number 0 and an acknowledgement (RFC 9293 3.10.7.1). */
TG_INLINE enum tg_closed_heard tg_closed_hear(struct tg_closed_entry *e,
					      const struct tg_listener_key *place,
					      const struct tg_packet *pkt, uint64_t now_ns)
{
	uint8_t flags = pkt->flags & (TG_TCP_SYN | TG_TCP_RST | TG_TCP_ACK);
	bool news;

	if (!tg_closed_is(e, place, now_ns) || !e->unanswered)
		return TG_CLOSED_NOTHING;
	if (flags == (TG_TCP_SYN | TG_TCP_ACK)) {
		e->unanswered--;
		if (e->state != TG_CLOSED_OPEN) {
			e->state = TG_CLOSED_OPEN;
			e->until_ns = now_ns + TG_CLOSED_OPEN_NS;
		}
		return TG_CLOSED_ACCEPTS;
	}
	if (flags != (TG_TCP_RST | TG_TCP_ACK) || pkt->seq != 0 || e->state == TG_CLOSED_OPEN ||
	    (e->state == TG_CLOSED_ASKING && pkt->ack != e->asked_ack))
		return TG_CLOSED_NOTHING;
	e->unanswered--;
	news = e->state != TG_CLOSED_CLOSED;
	e->state = TG_CLOSED_CLOSED;
	e->until_ns = now_ns + TG_CLOSED_KEPT_NS;
	return news ? TG_CLOSED_LEARNED : TG_CLOSED_REFUSES;
}

#endif
