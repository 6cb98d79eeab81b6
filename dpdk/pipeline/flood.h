/* SPDX-License-Identifier: Apache-2.0
 *
 * A burst that begins with SYNs of a flood: as long as one group after the other is of SYNs over IPv4 to one server, through
 * one pair of MAC addresses, and no table may contain any of them, they are read and answered at once, before the stages of
 * pipeline.h. Nothing of them is noted in between.
 *
 * Must never: answer a SYN that fast_wide.h would not, or otherwise; pass a frame by: the first group that is something else
 * ends it.
 */
#ifndef TG_DPDK_FLOOD_H
#define TG_DPDK_FLOOD_H

#include "flood_block.h"
#include "flood_group.h"

/* What the first stage asks of MAC addresses: these bits must be so. */
struct tg_macs {
	uint64_t want, mask; /* the destination's 48 bits; the source's first ones */
};

/* Answers and sends the SYNs of a flood that a burst begins with. Returns how many frames these are. `single`: so
 * many behind them are no group. */
static inline uint32_t tg_flood_act(struct tg_worker *w, struct rte_mbuf **m, uint32_t n,
				    uint16_t port, struct tg_macs macs, struct tg_fast_tally *tally,
				    uint32_t *single)
{
	uint32_t done = 0;
#if TG_HAS_WIDE
	bool together;

	if (n >= TG_WIDE && !w->fast.off && !w->fast.no_flood &&
	    tg_wide_may(w, m[0]) == TG_WIDE_SYNS) {
		done = tg_flood_answer(w, m, n, macs.want, macs.mask, &tally->server, &together);
		*single = together ? 0 : TG_WIDE;
		tally->n = done;
		w->fast.wides += done;
		w->fast.floods += done;
		if (TG_LIKELY(done))
			tg_wide_send(w, port, m, done);
		else if (together)
			w->fast.no_flood = TG_FLOOD_PAUSE;
	}
#else
	(void)w, (void)m, (void)n, (void)port, (void)macs, (void)tally, (void)single;
#endif
	return done;
}

#endif
