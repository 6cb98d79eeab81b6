/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The edge's judgement: what becomes of a packet that comes from outside for a protected service
 * behind it (SmartCookie, appendix B.1, and the `plain` protocol). Plane-neutral: a plane parses,
 * queries its filter, its keys and its allowance, and acts on the judgement.
 *
 *   SYN                          answered with a cookie; never forwarded
 *   known to the filter          on to the server
 *   ACK whose cookie verifies    into the filter, on to the server
 *   SYN-ACK                      dropped
 *   anything else                "unknown": on to the server, whose sockets know,
 *                                within an allowance; else dropped
 *
 * The last rule lets any edge carry any packet of the `plain` protocol: an edge that has never seen
 * a flow cannot distinguish it from a flood, but the server can. The allowance bounds its cost,
 * however large the flood.
 *
 * Must never: store anything about a single flow.
 */
#ifndef TG_EDGE_H
#define TG_EDGE_H

#include "allowance.h"
#include "bloom.h"
#include "host.h"

enum tg_edge_kind {
	TG_EDGE_SYN,    /* with FIN or RST or without: host.h judges it */
	TG_EDGE_SYNACK,
	TG_EDGE_RST,
	TG_EDGE_FIN,    /* with ACK or without */
	TG_EDGE_ACK,    /* data or none */
	TG_EDGE_STRAY,  /* none of SYN, ACK, RST, FIN: no packet of any connection (RFC 9293) */
};

TG_INLINE enum tg_edge_kind tg_edge_kind(const struct tg_packet *pkt)
{
	if ((pkt->flags & (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST | TG_TCP_FIN)) == TG_TCP_ACK)
		return TG_EDGE_ACK;
	if (pkt->flags & TG_TCP_SYN)
		return pkt->flags & TG_TCP_ACK ? TG_EDGE_SYNACK : TG_EDGE_SYN;
	if (pkt->flags & TG_TCP_RST)
		return TG_EDGE_RST;
	if (pkt->flags & TG_TCP_FIN)
		return TG_EDGE_FIN;
	return pkt->flags & TG_TCP_ACK ? TG_EDGE_ACK : TG_EDGE_STRAY;
}

/* True for a packet that may complete a handshake: its cookie is worth hashing. */
TG_INLINE bool tg_edge_may_verify(const struct tg_packet *pkt)
{
	return tg_host_is_ack(pkt);
}

/* What the plane has found out about a packet that is not a SYN. */
enum tg_edge_finding {
	TG_EDGE_KNOWN,    /* the filter has it */
	TG_EDGE_VERIFIED, /* the filter has not, but the cookie verifies */
	TG_EDGE_NO_KEY, /* it could not be verified: the keys have run out, and that fails open */
	TG_EDGE_LEARNING, /* neither, but this edge's filter is younger than its window */
	TG_EDGE_ALLOWED, /* neither, within the allowance */
	TG_EDGE_UNKNOWN, /* neither, and the allowance is used up */
	TG_EDGE_BROKEN, /* the cookie verifies, but the packet is not intact */
	TG_EDGE_ROUTED, /* likewise: it is source-routed */
};

/* What is found of a packet whose cookie verifies, once its sums are known: the filter stores
 * nothing for a packet that the server's kernel will drop. */
TG_INLINE enum tg_edge_finding tg_edge_verified(enum tg_intact intact)
{
	return intact == TG_INTACT          ? TG_EDGE_VERIFIED
	       : intact == TG_INTACT_ROUTED ? TG_EDGE_ROUTED
					    : TG_EDGE_BROKEN;
}

/* TG_PASS: forward it. A plane puts VERIFIED flows into the filter before. */
TG_INLINE struct tg_decision tg_edge_judge(enum tg_edge_kind kind, enum tg_edge_finding found)
{
	if (found == TG_EDGE_KNOWN)
		return TG_DECIDE(TG_PASS, TG_COUNT_edge_known);
	if (found == TG_EDGE_VERIFIED)
		return TG_DECIDE(TG_PASS, TG_COUNT_cookie_valid);
	if (found == TG_EDGE_BROKEN)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_checksum);
	if (found == TG_EDGE_ROUTED)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_source_route);
	if (kind == TG_EDGE_STRAY)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_stray);
	if (kind == TG_EDGE_SYNACK)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_synack);
	if (found == TG_EDGE_NO_KEY)
		return TG_DECIDE(TG_PASS, TG_COUNT_pass_no_key);
	if (found == TG_EDGE_LEARNING)
		return TG_DECIDE(TG_PASS, TG_COUNT_edge_learning);
	if (found == TG_EDGE_ALLOWED)
		return TG_DECIDE(TG_PASS, TG_COUNT_edge_unknown);
	switch (kind) {
	case TG_EDGE_RST:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_rst);
	case TG_EDGE_FIN:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_fin);
	default:
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_ack);
	}
}

/* May a client's own packet put its flow into the filter's active generation? What the filter knows
 * already, so that a flow stays known whose answers go another way; and what passes unjudged while
 * nothing can be judged. Never what passes within the allowance: otherwise repeating one forged
 * segment would make its flow known, and let all of them pass. The server's answer makes such a
 * flow known. */
TG_INLINE bool tg_edge_may_refresh(enum tg_edge_finding found)
{
	return found == TG_EDGE_KNOWN || found == TG_EDGE_LEARNING || found == TG_EDGE_NO_KEY;
}

/* A SYN of a flow that the filter knows: its client may have lost a connection that lives at the
 * server, or somebody forges it. It is forwarded, for the server's stack to challenge (RFC 5961,
 * section 4), and the client's RST ends the old connection. Within an allowance, because a flood's
 * false positives do the same: what exceeds it is answered.
 *
 * Without timestamps this has to be: the cookie that we would answer with is too weak to end a live
 * connection, and the client would not be served. With timestamps it is strong enough, and the
 * look-up, which every SYN of a flood then pays for, can be left out (`challenge: weak`). */
#define TG_EDGE_CHALLENGE_NS 10000000ULL /* of each CPU: 100 a second */

TG_INLINE bool tg_edge_looks_up_syn(bool timestamps_agreed, bool smartcookie, bool challenge_all)
{
	return challenge_all || smartcookie || !timestamps_agreed;
}

/* Hops: why the TTL matters. A forwarded packet that expires behind the edge causes an ICMP error,
 * one that is dropped here does not: by sending ACKs with a chosen TTL, an attacker learns which of
 * them the filter lets through, and can shape the flood to match its false positives (SmartCookie,
 * section 7.2). So what has fewer than `hops` left is dropped before the filter is queried, and
 * what is forwarded has exactly `hops`. It is never raised: a packet in a routing loop must die. */
TG_INLINE bool tg_edge_expires(uint8_t ttl, uint8_t hops)
{
	return ttl < hops;
}

#endif
