/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Sources whose address a handshake has proven, and what they do since: the daemon
 * reads it and reports those that exceed a limit to a filter manager (docs/upstream.md), and
 * `tidegate why` shows what it says of a source.
 *
 * A table of fixed size without chains: a slot belongs to one pair of source and destination, and
 * passes to another when that one has made as many more handshakes than its owner, at most
 * TG_PROVEN_CREDIT_MAX (Misra and Gries' frequent items, a slot each). So the most active pair is
 * found, whatever else arrives. Each CPU or core has a table of its own: nothing is locked, and only a
 * reader can see torn values, which `turn_before` and `turn_after` reveal.
 *
 * Must never: take a slot for a segment whose source may be forged.
 */
#ifndef TG_PROVEN_H
#define TG_PROVEN_H

#include "packet.h"

#define TG_PROVEN_SLOTS 4096
#define TG_PROVEN_CREDIT_MAX 64

struct tg_proven {
	uint64_t turn_before; /* counts owners of the slot; differs from turn_after while the owner changes */
	uint64_t src[2], dst[2]; /* as union tg_addr */
	uint64_t first_ns, last_ns; /* handshakes of this owner */
	uint32_t handshakes; /* of this owner */
	uint32_t unmarked; /* of those, came without the true-source codepoint */
	uint32_t invalid; /* segments with the codepoint that belong to no connection */
	uint8_t family;
	uint8_t credit;
	uint8_t pad[2];
	uint64_t turn_after;
};

TG_INLINE bool tg_proven_is_of(const struct tg_proven *p, const struct tg_packet *pkt)
{
	return p->src[0] == pkt->src.d[0] && p->src[1] == pkt->src.d[1] &&
	       p->dst[0] == pkt->dst.d[0] && p->dst[1] == pkt->dst.d[1] && p->family == pkt->family;
}

TG_INLINE void tg_proven_move_in(struct tg_proven *p, const struct tg_packet *pkt, uint64_t now_ns)
{
	p->turn_before++;
	TG_BARRIER();
	p->src[0] = pkt->src.d[0];
	p->src[1] = pkt->src.d[1];
	p->dst[0] = pkt->dst.d[0];
	p->dst[1] = pkt->dst.d[1];
	p->family = pkt->family;
	p->first_ns = now_ns;
	p->handshakes = p->unmarked = p->invalid = 0;
	TG_BARRIER();
	p->turn_after = p->turn_before;
}

/* Notes a completed handshake, or (`invalid`) a segment of no connection that carries the true-source
 * codepoint, in the slot of its pair. `marked`: it carries that codepoint. */
TG_INLINE void tg_proven_count(struct tg_proven *p, const struct tg_packet *pkt, bool invalid,
			       bool marked, uint64_t now_ns)
{
	if (!tg_proven_is_of(p, pkt)) {
		if (invalid)
			return; /* that address has not been proven here */
		if (p->credit) {
			p->credit--;
			return;
		}
		tg_proven_move_in(p, pkt, now_ns);
	}
	if (invalid) {
		p->invalid++;
		return;
	}
	p->handshakes++;
	p->last_ns = now_ns;
	p->unmarked += !marked;
	if (p->credit < TG_PROVEN_CREDIT_MAX)
		p->credit++;
}

#endif
