/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How many connections one source may begin each second. A source is a prefix of a length that the
 * configuration sets, and only a handshake that its cookie has proven counts: nobody can use up the
 * allowance of another by forging its address.
 *
 * The memory is fixed, whatever number of sources comes: a count-min sketch (Cormode and
 * Muthukrishnan 2005) with the conservative update of Estan and Varghese (2002). Each source has one
 * cell in each of four rows, by a keyed hash. A cell is a leaky bucket: the time at which it will be
 * empty. A connection fills a bucket by `cost_ns`, 1 s divided by the limit; it is admitted if the
 * emptiest of its four buckets then holds one second's worth at most, and the others are filled only
 * up to that one. So nothing is ever cleared: time drains the cells.
 *
 * The sketch errs in one direction only: the emptiest bucket of a source is never emptier than a
 * bucket of its own would be. A source never gets more than `limit` connections a second and one
 * second's worth at the beginning. It gets less only if other sources fill all four of its cells;
 * core/test/test_source_limit.c measures how seldom that is.
 *
 * Must never: count what is not proven; let senders choose who shares their cells.
 */
#ifndef TG_SOURCE_LIMIT_H
#define TG_SOURCE_LIMIT_H

#include "packet.h"
#include "siphash.h"

#define TG_LIMIT_ROWS 4U
#define TG_LIMIT_BITS 13
#define TG_LIMIT_ROW (1U << TG_LIMIT_BITS)
#define TG_LIMIT_CELLS (TG_LIMIT_ROWS * TG_LIMIT_ROW) /* 256 KiB */
_Static_assert(TG_LIMIT_ROWS *TG_LIMIT_BITS <= 64, "one hash has the cells of all rows");

/* One second's worth: as many connections as the limit says may come at once. */
#define TG_LIMIT_SAVED_NS 1000000000ULL

/* What happens to a connection of a source above its limit: the words of source_limits.action. */
enum tg_limit_action {
#define TG_ABI_LIMIT(name, number, word, help) TG_LIMIT_##name = number,
#include "abi.def"
};

/* The prefix that an address belongs to; at least /1 and, of IPv6, at most /64. */
TG_INLINE uint64_t tg_limit_prefix(uint8_t family, const union tg_addr *src, uint8_t len)
{
	if (family == 4)
		return src->w[0] & tg_swap32((uint32_t)(0xffffffff00000000ULL >> (len & 63)));
	return len > 63 ? src->d[0] : src->d[0] & __builtin_bswap64(~(~0ULL >> (len & 63)));
}

TG_INLINE uint64_t tg_limit_hash(uint8_t family, uint64_t prefix, const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_siphash_begin(key);

	tg_siphash13_word(&s, prefix);
	return tg_siphash13_end(&s, family | TG_SIPHASH_LEN(9));
}

/* Where a source's cell of a row is. */
TG_INLINE uint32_t tg_limit_cell(uint64_t hash, uint32_t row)
{
	return row * TG_LIMIT_ROW + ((uint32_t)(hash >> row * TG_LIMIT_BITS) & (TG_LIMIT_ROW - 1));
}

/* How full a bucket is that will be empty at `empty_ns`. */
TG_INLINE uint64_t tg_limit_level(uint64_t empty_ns, uint64_t now_ns)
{
	return empty_ns > now_ns ? empty_ns - now_ns : 0;
}

/* True if one more connection fits a bucket of this level. */
TG_INLINE bool tg_limit_admits(uint64_t level_ns, uint64_t cost_ns)
{
	return level_ns + cost_ns <= (cost_ns > TG_LIMIT_SAVED_NS ? cost_ns : TG_LIMIT_SAVED_NS);
}

/* Fills a bucket up to what the emptiest one of its source holds now. If another CPU fills it at the same time, this adds to that:
 * too much for a source that only shares the cell, and right for one whose two connections these are. */
TG_INLINE void tg_limit_fill(uint64_t *empty_ns, uint64_t until_ns, uint64_t cost_ns)
{
	uint64_t was = *empty_ns;

	if (was < until_ns && __sync_val_compare_and_swap(empty_ns, was, until_ns) != was)
		__sync_fetch_and_add(empty_ns, cost_ns);
}

/* True if the source of these four cells may begin a connection now, which then counts. */
TG_INLINE bool tg_limit_take(uint64_t *const cells[TG_LIMIT_ROWS], uint64_t cost_ns, uint64_t now_ns)
{
	uint64_t least = tg_limit_level(*cells[0], now_ns), level;
	uint32_t row;

	for (row = 1; row < TG_LIMIT_ROWS; row++) {
		level = tg_limit_level(*cells[row], now_ns);
		least = level < least ? level : least;
	}
	if (!tg_limit_admits(least, cost_ns))
		return false;
	for (row = 0; row < TG_LIMIT_ROWS; row++)
		tg_limit_fill(cells[row], now_ns + least + cost_ns, cost_ns);
	return true;
}

#endif
