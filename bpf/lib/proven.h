/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The table of proven sources (core/proven.h), one for each CPU.
 *
 * Must never: take a slot for a segment whose source may be forged.
 */
#ifndef TG_BPF_PROVEN_H
#define TG_BPF_PROVEN_H

#include "../../core/proven.h"
#include "gate.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_PROVEN_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_proven);
} tg_offenders SEC(".maps");

/* Notes a completed handshake, or (`invalid`) a segment of no connection that carries
 * the true-source codepoint. A function of its own: what calls it has no stack left. */
TG_GLOBAL int tg_proven_note(const struct tg_packet *pkt, __u32 invalid)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_proven *p;
	bool marked;
	__u32 slot;

	if (!pkt || !settings->report)
		return 0;
	marked = pkt->ip_dscp == settings->report_dscp;
	if (invalid && !marked)
		return 0;
	slot = tg_filter_index(settings->filter_keys, pkt->family, &pkt->src, &pkt->dst, 0).first &
	       (TG_PROVEN_SLOTS - 1);
	p = bpf_map_lookup_elem(&tg_offenders, &slot);
	if (p)
		tg_proven_count(p, pkt, invalid, marked, TG_CLOCK_NS());
	return 0;
}

#endif
