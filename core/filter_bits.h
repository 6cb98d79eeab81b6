/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How CPUs set and clear the bits of the socket filter (tuple_filter.h) without a lock. A bit of the
 * bitmap stands for a cell, a bit of the front for eight of the bitmap.
 *
 * Who opens or closes a socket writes the cell, then sets the bit, then the front's. Who clears goes the
 * other way: it clears a bit, then reads again what the bit stands for, and sets it again if that
 * is in use. So whichever of the two comes last leaves the bit set: either the clearer reads what
 * the other has written, or the other sets what the clearer has cleared.
 *
 * Must never: leave a bit clear for good that stands for something in use. The other way around is
 * allowed: it costs a look at what the bit stands for.
 */
#ifndef TG_FILTER_BITS_H
#define TG_FILTER_BITS_H

#include "tuple_filter.h"

/* Where the test of all interleavings lets another CPU go on. */
#ifndef TG_FILTER_STEP
#define TG_FILTER_STEP() ((void)0)
#endif

/* The tuple's first cell is in use; after it has been written. */
TG_INLINE void tg_filter_bits_set(uint64_t *word, uint64_t *front, struct tg_filter_index at)
{
	TG_IN_ORDER(__sync_fetch_and_or(word, tg_filter_bit(at)));
	TG_FILTER_STEP();
	/* Among many sockets it is set: to write it would take the line from all other CPUs. */
	if (*(volatile uint64_t *)front & tg_filter_front_bit(at))
		return;
	TG_FILTER_STEP();
	__sync_fetch_and_or(front, tg_filter_front_bit(at));
}

/* Clears the front's bit if it stands for nothing any more. */
TG_INLINE void tg_filter_front_clear(const uint64_t *word, uint64_t *front, struct tg_filter_index at)
{
	const volatile uint64_t *bitmap = word;

	if (*bitmap & tg_filter_neighbours(at))
		return;
	TG_FILTER_STEP();
	TG_IN_ORDER(__sync_fetch_and_and(front, ~tg_filter_front_bit(at)));
	TG_FILTER_STEP();
	if (!(*bitmap & tg_filter_neighbours(at)))
		return;
	TG_FILTER_STEP();
	__sync_fetch_and_or(front, tg_filter_front_bit(at));
}

/* The tuple's first cell was dead, so its bits are given up. True if it is in use now: another CPU
 * has opened a socket there in the meantime. */
TG_INLINE bool tg_filter_bits_clear(uint64_t *word, uint64_t *front, struct tg_filter_index at,
				    const uint32_t *cell, uint16_t now_tick, uint16_t keep_ticks)
{
	TG_IN_ORDER(__sync_fetch_and_and(word, ~tg_filter_bit(at)));
	TG_FILTER_STEP();
	if (tg_filter_cell_hit(*(const volatile uint32_t *)cell, now_tick, keep_ticks)) {
		TG_FILTER_STEP();
		tg_filter_bits_set(word, front, at);
		return true;
	}
	TG_FILTER_STEP();
	tg_filter_front_clear(word, front, at);
	return false;
}

#endif
