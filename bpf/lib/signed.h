/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * SYNs that carry TCP-MD5 or TCP-AO (core/signed.h): this CPU's share of each service's allowance,
 * and the look-up. Decides nothing.
 */
#ifndef TG_BPF_SIGNED_H
#define TG_BPF_SIGNED_H

#include "gate.h"
#include "../../core/signed.h"

/* By service id. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_SERVICES_MAX + 1);
	__type(key, __u32);
	__type(value, struct tg_allowance);
} tg_signed SEC(".maps");

/* What becomes of a SYN to the service for what its options say of signatures, which is
 * counted: enum tg_verdict. */
TG_GLOBAL int tg_signed_syn(__u32 auth, __u32 id)
{
	const struct tg_service *svc = tg_service_at(id);
	struct tg_allowance *a = bpf_map_lookup_elem(&tg_signed, &id);
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_decision d;
	bool allowed;

	if (!a || !row)
		return TG_DROP;
	allowed = tg_signed_asks(auth, svc->signed_cost_us) &&
		  tg_allowance_take(a, (__u64)svc->signed_cost_us * 1000, TG_CLOCK_NS());
	d = tg_signed_judge(auth, svc->signed_cost_us, allowed);
	tg_count(row, d.counter);
	return d.verdict;
}

#endif
