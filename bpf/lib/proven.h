/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Sources whose address a handshake has proven, and what they do since: the daemon
 * reads it and reports those that exceed a limit to a filter manager (docs/upstream.md), and
 * `tidegate why` shows what it says of a source.
 *
 * A table of fixed size without chains: a slot belongs to one pair of source and destination, and
 * passes to another when that one has made as many more handshakes than its owner, at most
 * TG_PROVEN_CREDIT_MAX (Misra and Gries' frequent items, a slot each). So the most active pair is
 * found, whatever else arrives. Each CPU has a table of its own: nothing is locked, and only a
 * reader can see torn values, which `turn_before` and `turn_after` reveal.
 *
 * Must never: take a slot for a segment whose source may be forged.
 */
#ifndef TG_BPF_PROVEN_H
#define TG_BPF_PROVEN_H

#include "gate.h"

#define TG_PROVEN_SLOTS 4096
#define TG_PROVEN_CREDIT_MAX 64

struct tg_proven {
	__u64 turn_before; /* counts owners of the slot; differs from turn_after while the owner changes */
	__u64 src[2], dst[2]; /* as union tg_addr */
	__u64 first_ns, last_ns; /* handshakes of this owner */
	__u32 handshakes; /* of this owner */
	__u32 unmarked; /* of those, came without the true-source codepoint */
	__u32 invalid; /* segments with the codepoint that belong to no connection */
	__u8 family;
	__u8 credit;
	__u8 pad[2];
	__u64 turn_after;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_PROVEN_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_proven);
} tg_offenders SEC(".maps");

static __always_inline void tg_proven_move_in(struct tg_proven *p, const struct tg_packet *pkt)
{
	p->turn_before++;
	TG_BARRIER();
	p->src[0] = pkt->src.d[0];
	p->src[1] = pkt->src.d[1];
	p->dst[0] = pkt->dst.d[0];
	p->dst[1] = pkt->dst.d[1];
	p->family = pkt->family;
	p->first_ns = TG_CLOCK_NS();
	p->handshakes = p->unmarked = p->invalid = 0;
	TG_BARRIER();
	p->turn_after = p->turn_before;
}

/* Notes a completed handshake, or (`invalid`) a segment of no connection that carries
 * the true-source codepoint. A function of its own: what calls it has no stack left. */
TG_GLOBAL int tg_proven_note(const struct tg_packet *pkt, __u32 invalid)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_proven *p;
	bool marked;
	__u32 slot;

	if (!pkt || !settings || !settings->report)
		return 0;
	marked = pkt->ip_dscp == settings->report_dscp;
	if (invalid && !marked)
		return 0;
	slot = tg_filter_index(settings->filter_keys, pkt->family, &pkt->src, &pkt->dst, 0).first &
	       (TG_PROVEN_SLOTS - 1);
	p = bpf_map_lookup_elem(&tg_offenders, &slot);
	if (!p)
		return 0;
	if (p->src[0] != pkt->src.d[0] || p->src[1] != pkt->src.d[1] ||
	    p->dst[0] != pkt->dst.d[0] || p->dst[1] != pkt->dst.d[1] || p->family != pkt->family) {
		if (invalid)
			return 0; /* that address has not been proven here */
		if (p->credit) {
			p->credit--;
			return 0;
		}
		tg_proven_move_in(p, pkt);
	}
	if (invalid) {
		p->invalid++;
		return 0;
	}
	p->handshakes++;
	p->last_ns = TG_CLOCK_NS();
	p->unmarked += !marked;
	if (p->credit < TG_PROVEN_CREDIT_MAX)
		p->credit++;
	return 0;
}

#endif
