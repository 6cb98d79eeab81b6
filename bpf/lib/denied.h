/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What is configured about sources, before anything else is asked of a SYN: lists (source_list.h) and
 * the allowance of SYN-ACKs (reflect.h), at the edge and the proxy. Costs one comparison where neither is.
 *
 * Must never: be asked about a segment other than a SYN; connections that exist go on.
 */
#ifndef TG_BPF_DENIED_H
#define TG_BPF_DENIED_H

#include "source_list.h"
#include "reflect.h"

enum tg_denied {
	TG_DENIED_NOT,
	TG_DENIED_DROP, /* counted */
	TG_DENIED_MONITORED, /* counted; it goes on as if there were no gate */
};

/* Whether a SYN to a service whose mode is not off comes from a denied source. A function of its own for the stack. */
TG_GLOBAL int tg_denied_syn(const struct tg_packet *syn, __u32 mode, __u32 id)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_decision d;

	if (!syn || !row)
		return TG_DENIED_NOT;
	d = tg_list_judge(tg_listed(settings, syn->family, &syn->src));
	if (TG_LIKELY(d.verdict == TG_REPLY))
		return TG_DENIED_NOT;
	tg_count(row, TG_COUNT_syn);
	tg_count(row, mode == TG_MODE_MONITOR ? tg_host_monitor(d) : d.counter);
	return mode == TG_MODE_MONITOR ? TG_DENIED_MONITORED : TG_DENIED_DROP;
}

/* For fast paths, after all else that leaves a SYN to the slow path, which would take from the allowance
 * again: true if that has to decide about this source. */
static __always_inline bool tg_source_is_special(const struct tg_host_settings *settings,
						 __u8 family, const union tg_addr *src)
{
	return TG_UNLIKELY(settings->exceptions) &&
	       (tg_listed(settings, family, src) == TG_LISTED_DENY ||
		tg_reflect_limits(settings, family, src));
}

#endif
