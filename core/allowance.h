/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * An allowance: a token bucket kept in time instead of tokens, which saves a multiplication. One
 * for each CPU, so that CPUs share nothing. It holds a tenth of a second's worth, at least one
 * packet.
 *
 * Must never: read a clock; the caller says what time it is.
 */
#ifndef TG_ALLOWANCE_H
#define TG_ALLOWANCE_H

#include "base.h"

struct tg_allowance {
	uint64_t last_ns;
	uint64_t credit_ns; /* time saved up; a packet costs `cost_ns` */
};

#define TG_ALLOWANCE_NONE 0ULL           /* no packet passes */
#define TG_ALLOWANCE_ALL (~0ULL)         /* all do */
#define TG_ALLOWANCE_SAVED_NS 100000000ULL

/* cost_ns: nanoseconds of a CPU's share that one packet uses up, or one of the two
 * above. True if the packet may pass. */
TG_INLINE bool tg_allowance_take(struct tg_allowance *a, uint64_t cost_ns, uint64_t now_ns)
{
	uint64_t most = cost_ns > TG_ALLOWANCE_SAVED_NS ? cost_ns : TG_ALLOWANCE_SAVED_NS;

	if (cost_ns == TG_ALLOWANCE_NONE || cost_ns == TG_ALLOWANCE_ALL)
		return cost_ns == TG_ALLOWANCE_ALL;
	/* A clock that stands still or steps back adds nothing. */
	if (now_ns > a->last_ns) {
		uint64_t since = now_ns - a->last_ns;

		a->credit_ns += since < most ? since : most;
		if (a->credit_ns > most)
			a->credit_ns = most;
		a->last_ns = now_ns;
	}
	if (a->credit_ns < cost_ns)
		return false;
	a->credit_ns -= cost_ns;
	return true;
}

#endif
