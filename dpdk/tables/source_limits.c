/* SPDX-License-Identifier: Apache-2.0
 *
 * source_limits.h.
 */
#include "source_limits.h"

#include <string.h>

uint32_t tg_limits_held_by(struct tg_limits *all, uint32_t era, uint64_t hash)
{
	const uint32_t *cells = tg_limits_held(all, era);
	uint32_t row, n, least = UINT32_MAX;

	for (row = 0; row < TG_LIMIT_ROWS; row++) {
		n = __atomic_load_n(&cells[tg_limit_cell(hash, row)], __ATOMIC_RELAXED);
		if ((int32_t)n <= 0)
			return 0;
		least = n < least ? n : least;
	}
	return least;
}

void tg_held_add(const struct tg_held_by *by, struct tg_held_sketch *s, uint8_t family,
		 uint64_t first, uint32_t n)
{
	uint64_t hash = tg_held_hash(by, family, first);
	uint32_t *all = tg_limits_held(by->all, by->era), row;

	s->era = by->era;
	for (row = 0; row < TG_LIMIT_ROWS; row++) {
		s->cells[tg_limit_cell(hash, row)] += n;
		__atomic_fetch_add(&all[tg_limit_cell(hash, row)], n, __ATOMIC_RELAXED);
	}
}

void tg_held_turn(struct tg_held_sketch *s, uint32_t era)
{
	if (s->era && s->era != era)
		memset(s, 0, sizeof(*s));
}

void tg_held_retire(struct tg_limits *all, const struct tg_held_sketch *s)
{
	uint32_t *sum = tg_limits_held(all, s->era), i;

	if (!s->era)
		return;
	for (i = 0; i < TG_LIMIT_CELLS; i++)
		if (s->cells[i])
			__atomic_fetch_sub(&sum[i], s->cells[i], __ATOMIC_RELAXED);
}

void tg_limits_begin(struct tg_limits *all, uint32_t era)
{
	memset(tg_limits_held(all, era), 0, sizeof(all->held[0]));
}
