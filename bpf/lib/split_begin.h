/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC: a connection enters the table of translated ones (core/server_table.h), by a call: for programs
 * that have no room on the stack to do it inline.
 *
 * Must never: begin a connection whose cookie has not been verified.
 */
#ifndef TG_BPF_SPLIT_BEGIN_H
#define TG_BPF_SPLIT_BEGIN_H

#include "server_maps.h"

/* Inserts a connection into the table. 0, or negative: there is no room for it. */
TG_GLOBAL int tg_split_begin(struct tg_split *fresh, struct tg_split *old, __u32 id)
{
	struct tg_counter_row *row = tg_counter_row_get(id);
	__u64 hash;
	__u32 place;
	int full;

	if (!fresh || !row)
		return -TG_EINVAL;
	hash = fresh->hash;
	if (old)
		tg_split_release(old);
	full = tg_split_insert(fresh, 2 * TG_SPLIT_WAYS);
	if (TG_UNLIKELY(full)) {
		place = (__u32)tg_split_contest(fresh);
		full = place < 2 * TG_SPLIT_WAYS ? tg_split_insert(fresh, place) : full;
		tg_count(row, full ? TG_COUNT_split_full : TG_COUNT_split_displaced);
		if (full)
			return -TG_ENOENT;
	}
	tg_split_count(fresh->hash, -1);
	tg_split_count(hash, 1);
	tg_count(row, TG_COUNT_split_opened);
	return 0;
}

#endif
