/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How much of a table one source may hold: no more than as many places as are still free. So one
 * source fills half of it at most, ten leave an eleventh, n leave one part in n + 1, and a source
 * that holds nothing yet is admitted; while there is room, nothing is limited.
 *
 * What a source holds is counted, not looked up: in two rows of cells, by a secret hash of its
 * prefix; the smaller of its two cells is what counts (a count-min sketch). It errs only upwards,
 * by what others in both cells hold. IPv4 sources are single addresses. IPv6 sources are counted
 * twice: those of a /48 may hold what is free, those of a /56 half.
 *
 * Counts belong to a table's active generation: entries that enter it are counted, those that leave
 * or end are uncounted, and a swap begins with none.
 */
#ifndef TG_SHARE_H
#define TG_SHARE_H

#include "packet.h"
#include "siphash.h"

#define TG_SHARE_BITS 14
#define TG_SHARE_ROW (1U << TG_SHARE_BITS)
#define TG_SHARE_CELLS (16 + 2 * TG_SHARE_ROW) /* of one generation; cell 0: all */
#define TG_SHARE_ALL 0
#define TG_SHARE_LEVELS 2

/* Where a source is counted, for each length of prefix: its cell of the first row, and that of
 * the second in the upper half. Level 1 is 0 for IPv4. */
struct tg_share {
	uint64_t level[TG_SHARE_LEVELS];
};

TG_INLINE uint32_t tg_share_cell(uint64_t level, uint32_t row)
{
	return (uint32_t)(level >> 32 * row);
}

/* A hash whose values are never visible, so that two secret factors are enough to keep senders from
 * choosing who shares their cells. */
TG_INLINE uint64_t tg_share_cells(uint64_t prefix, const struct tg_siphash_key *key)
{
	uint64_t h = (prefix + key->k0) * (key->k1 | 1);

	h = (h ^ h >> 32) * (key->k0 | 1);
	return (16 + (h >> (64 - TG_SHARE_BITS))) |
	       (16 + TG_SHARE_ROW + (h >> 32 & (TG_SHARE_ROW - 1))) << 32;
}

/* The first `bytes` bytes of an address, as on the wire. */
TG_INLINE uint64_t tg_share_prefix(uint64_t first, uint32_t bytes)
{
	return first & ((1ULL << 8 * bytes) - 1);
}

/* `first`: the client's address; of IPv6 the first eight bytes. */
TG_INLINE struct tg_share tg_share_of(uint64_t first, uint8_t family, const struct tg_siphash_key *key)
{
	if (family == 4)
		return (struct tg_share){{tg_share_cells((uint32_t)first, key), 0}};
	return (struct tg_share){{tg_share_cells(tg_share_prefix(first, 6), key),
				  tg_share_cells(tg_share_prefix(first, 7) ^ key->k1, key)}};
}

/* A cell's count; one that was counted down too often counts as 0. */
TG_INLINE uint32_t tg_share_count(uint32_t cell)
{
	return (int32_t)cell < 0 ? 0 : cell;
}

/* True if one more place is due to a source that holds what its cells of that level say.
 * `all`: cell 0 of a table of `max`. */
TG_INLINE bool tg_share_admits(uint32_t level, uint32_t row0, uint32_t row1, uint32_t all,
			       uint32_t max)
{
	uint32_t a = tg_share_count(row0), b = tg_share_count(row1), used = tg_share_count(all);
	uint32_t holds = a < b ? a : b, free = used < max ? max - used : 0;

	return holds < free >> level;
}

/* ---- who may wait for a place ---- */

/* Flows that have not carried data yet wait in a table of their own, an LRU map, which does not
 * report evictions, so what a source holds there cannot be counted. What it has opened in this tick
 * can: cells of the same kind, whose highest byte is their tick. Room for `max` is shared as a
 * table is; but when it is used up, a source that holds next to nothing is still admitted. */
#define TG_LATELY_MASK 0xffffffU

TG_INLINE uint32_t tg_lately(uint32_t cell, uint32_t tick)
{
	return (cell >> 24) == (tick & 0xff) ? cell & TG_LATELY_MASK : 0;
}

/* The cell, with `by` more: 1 or -1. */
TG_INLINE uint32_t tg_lately_add(uint32_t cell, uint32_t tick, int by)
{
	uint32_t n = tg_lately(cell, tick);

	n = by > 0 ? n + 1 : n - (n > 0);
	return tick << 24 | (n & TG_LATELY_MASK);
}

TG_INLINE bool tg_lately_admits(uint32_t level, uint32_t row0, uint32_t row1, uint32_t all,
				uint32_t max, uint32_t tick)
{
	uint32_t a = tg_lately(row0, tick), b = tg_lately(row1, tick), used = tg_lately(all, tick);
	uint32_t brought = a < b ? a : b, free = used < max ? max - used : 0;

	return brought < free >> level || brought <= used >> (TG_SHARE_BITS - 3);
}

/* ---- how large tables are ---- */

/* How many flows wait at most beside a table of `max`, of one family. */
TG_INLINE uint32_t tg_share_waiting(uint32_t max)
{
	uint32_t n = max / 4 < 65536 ? max / 4 : 65536;

	return n < 1024 ? 1024 : n;
}

/* Places for both families together, where they stand in one table; each has `max` at most. */
TG_INLINE uint32_t tg_share_both(uint32_t max)
{
	return max + max / 4;
}

/* Places that one of them may have while the other holds `other`: a quarter of `max` at least. */
TG_INLINE uint32_t tg_share_family(uint32_t max, uint32_t other)
{
	uint32_t left = tg_share_both(max);

	left = other < left ? left - other : 0;
	return left < max ? left : max;
}

/* ---- when a table is as good as full ---- */

/* Places that are kept for flows of the other generation, of a table of `max`. */
TG_INLINE uint32_t tg_share_newcomers(uint32_t max)
{
	return max - max / 8;
}

/* True if next to nothing of a table of `max` is free for newcomers, so that they would have to
 * wait: then it is swapped before its time. */
TG_INLINE bool tg_share_is_full(uint32_t used, uint32_t max)
{
	uint32_t room = tg_share_newcomers(max);

	return used >= room - room / 64;
}

#endif
