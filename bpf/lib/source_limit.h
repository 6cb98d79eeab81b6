/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The limits of connections that one source begins and holds (core/source_limit.h), asked with an ACK whose
 * cookie has verified, once for each connection; and which sources are above it. Costs one
 * comparison on that path where there is no limit, and nothing elsewhere.
 *
 * The sources above their limit stand in the table of core/over_limit.h, one for each CPU.
 *
 * Must never: count or note a source that a cookie has not proven.
 */
#ifndef TG_BPF_SOURCE_LIMIT_H
#define TG_BPF_SOURCE_LIMIT_H

#include "source_held.h"
#include "source_list.h"
#include "../../core/over_limit.h"

/* No limit is exceeded; otherwise the answer is of enum tg_limit_action. */
#define TG_LIMIT_KEPT (-1)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_LIMIT_CELLS);
	__type(key, __u32);
	__type(value, __u64);
} tg_limit_cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_OVER_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_over);
} tg_over_limit SEC(".maps");

/* 1: the source of this hash begins one more connection. */
TG_GLOBAL int tg_limit_ask(__u64 hash, __u64 cost_ns)
{
	__u32 at0 = tg_limit_cell(hash, 0), at1 = tg_limit_cell(hash, 1);
	__u32 at2 = tg_limit_cell(hash, 2), at3 = tg_limit_cell(hash, 3);
	uint64_t *cells[TG_LIMIT_ROWS] = {bpf_map_lookup_elem(&tg_limit_cells, &at0),
					  bpf_map_lookup_elem(&tg_limit_cells, &at1),
					  bpf_map_lookup_elem(&tg_limit_cells, &at2),
					  bpf_map_lookup_elem(&tg_limit_cells, &at3)};

	if (!cells[0] || !cells[1] || !cells[2] || !cells[3])
		return 1;
	return tg_limit_take(cells, cost_ns, TG_CLOCK_NS());
}

/* Notes a connection of a source above its limit. `held`: it holds as many as it may. */
TG_GLOBAL int tg_over_note(const struct tg_packet *pkt, __u64 hash, __u32 held)
{
	const struct tg_host_settings *settings = tg_settings_get();
	__u32 slot = tg_over_slot(hash), len;
	struct tg_over *o = bpf_map_lookup_elem(&tg_over_limit, &slot);

	if (!pkt || !o)
		return 0;
	len = pkt->family == 4 ? settings->limit_v4 : settings->limit_v6;
	tg_over_count(o, pkt, tg_limit_prefix(pkt->family, &pkt->src, (__u8)len), len, held,
		      TG_CLOCK_NS());
	return 0;
}

/* Counts a connection for its source. TG_LIMIT_KEPT, or what is to happen to it. */
TG_GLOBAL int tg_source_limit(const struct tg_packet *pkt)
{
	const struct tg_host_settings *settings = tg_settings_get();
	__u64 prefix, hash;
	__u32 len;
	bool held;

	if (!pkt)
		return TG_LIMIT_KEPT;
	hash = tg_source_hash(settings, pkt, &prefix, &len);
	held = settings->limit_held && (__u32)TG_HELD_BY(hash, settings) >= settings->limit_held;
	if (!held && (!settings->limit_cost_ns || tg_limit_ask(hash, settings->limit_cost_ns)))
		return TG_LIMIT_KEPT;
	if (tg_listed(settings, pkt->family, &pkt->src) == TG_LISTED_ALLOW)
		return TG_LIMIT_KEPT;
	tg_over_note(pkt, hash, held);
	return settings->limit_action;
}

/* The same, counted: enum tg_limit_action. REPORT: it goes on as it would without a limit. */
static __always_inline enum tg_limit_action tg_source_limited(const struct tg_packet *pkt,
							      struct tg_counter_row *row)
{
	int over = tg_source_limit(pkt);

	if (TG_LIKELY(over == TG_LIMIT_KEPT))
		return TG_LIMIT_REPORT;
	tg_count(row, TG_COUNT_over_source_limit);
	if (over == TG_LIMIT_DROP)
		tg_count(row, TG_COUNT_drop_source_limit);
	return (enum tg_limit_action)over;
}

#endif
