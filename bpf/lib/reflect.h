/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * This CPU's share of the answers to each source prefix (core/reflect.h). Costs one comparison
 * where there is no limit.
 */
#ifndef TG_BPF_REFLECT_H
#define TG_BPF_REFLECT_H

#include "gate.h"
#include "../../core/reflect.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_REFLECT_PLACES);
	__type(key, __u32);
	__type(value, struct tg_allowance);
} tg_reflect SEC(".maps");

/* 1: one more answer may go to the prefix. A function of its own for stack and registers. */
TG_GLOBAL int tg_reflect_allows(__u64 prefix)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_allowance *a;
	__u32 at;

	at = tg_reflect_at(prefix, settings->filter_keys[1]);
	a = bpf_map_lookup_elem(&tg_reflect, &at);
	return !a || tg_allowance_take(a, settings->synack_cost_ns, tg_clock_ns(settings));
}

/* True if a SYN from there is not to be answered. */
static __always_inline bool tg_reflect_limits(const struct tg_host_settings *settings, __u8 family,
					      const union tg_addr *src)
{
	return TG_UNLIKELY(settings->synack_cost_ns) &&
	       !tg_reflect_allows(tg_reflect_prefix(family, src));
}

#endif
