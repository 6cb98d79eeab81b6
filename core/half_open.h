/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How many SYNs a second a host leaves to its kernel although it answers SYNs with cookies: the
 * kernel stores those and retransmits their SYN-ACKs. One bucket for all CPUs, as the time from
 * which the next SYN may go to the kernel (GCRA): during a flood it lies in the future, and nothing
 * is written.
 *
 * Must never: read a clock; the caller says what time it is.
 */
#ifndef TG_HALF_OPEN_H
#define TG_HALF_OPEN_H

#include "base.h"

#define TG_HALF_OPEN_BURST_NS                                                                      \
	1000000000ULL /* a second's worth may come at once; a cost is no more */

/* True if a SYN may go to the kernel. `next_ns`: see above; `cost_ns`: a second divided by the
 * rate, 0: none may. */
TG_INLINE bool tg_half_open_may(uint64_t next_ns, uint64_t cost_ns, uint64_t now_ns)
{
	return cost_ns && (int64_t)(now_ns - next_ns) >= 0;
}

/* Takes it. False: another CPU has taken it meanwhile. */
TG_INLINE bool tg_half_open_take(uint64_t *next_ns, uint64_t cost_ns, uint64_t now_ns)
{
	uint64_t was = *(volatile uint64_t *)next_ns, from = now_ns - TG_HALF_OPEN_BURST_NS + cost_ns;

	if (!tg_half_open_may(was, cost_ns, now_ns))
		return false;
	if ((int64_t)(was - from) > 0)
		from = was;
	return __sync_val_compare_and_swap(next_ns, was, from + cost_ns) == was;
}

#endif
