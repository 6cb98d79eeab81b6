/* SPDX-License-Identifier: Apache-2.0
 *
 * Swap-out tables (Me Love (SYN-)Cookies section IV.D): whoever is met in `history` moves to
 * `active`; a swap makes active history and an empty table active, and who was in
 * history and not met since is gone. A swap is an exchange of pointers by the core
 * that owns the table; what falls out is emptied by another thread, outside the
 * packet path, and comes back as the next empty one. Beside each table stand the
 * presence bits of core/proxy.h.
 *
 * Must never: walk a table on the packet path; be touched by two cores at once.
 */
#ifndef TG_DPDK_SWAP_H
#define TG_DPDK_SWAP_H

#include <stdatomic.h>
#include <string.h>

#include "../core/proxy.h"
#include "memory.h"

#define TG_PRESENCE_LEN ((TG_PRESENCE_WORDS + TG_PRESENCE_FRONT_WORDS) * sizeof(uint64_t))

/* One generation: a table and its presence bits. */
struct tg_generation {
	void *table;
	uint64_t *presence; /* behind the bits stands their front */
	uint32_t used; /* entries, by the table's own count */
	uint32_t evicted; /* likewise, in total: selects the next one to evict */
};

struct tg_swap {
	struct tg_generation *active, *history; /* the owner's */
	_Atomic(struct tg_generation *) spare; /* empty: given by the cleaner, taken by the owner */
	_Atomic(struct tg_generation *) retired; /* given by the owner, taken by the cleaner */
	struct tg_generation all[3];
	uint32_t turns; /* so far */
	size_t table_len; /* bytes */
	size_t clear_len; /* the bytes at its start that index its contents; 0: return all pages to the kernel */
	bool populated; /* the owner never causes a page fault */
};

/* False if there is no memory. */
static inline bool tg_swap_init(struct tg_swap *s, size_t table_len, size_t clear_len)
{
	int i;

	s->table_len = table_len;
	s->clear_len = clear_len;
	for (i = 0; i < 3; i++) {
		s->all[i].table = tg_pages_get(table_len);
		s->all[i].presence = tg_pages_get(TG_PRESENCE_LEN);
		if (!s->all[i].table || !s->all[i].presence)
			return false;
	}
	s->active = &s->all[0];
	s->history = &s->all[1];
	atomic_store(&s->spare, &s->all[2]);
	atomic_store(&s->retired, NULL);
	return true;
}

/* False if there is not enough memory. */
static inline bool tg_swap_populate(struct tg_swap *s)
{
	int i;

	for (i = 0; i < 3; i++)
		if (!tg_pages_populate(s->all[i].table, s->table_len) ||
		    !tg_pages_populate(s->all[i].presence, TG_PRESENCE_LEN))
			return false;
	s->populated = true;
	return true;
}

static inline void tg_swap_free(struct tg_swap *s)
{
	int i;

	for (i = 0; i < 3; i++) {
		tg_pages_put(s->all[i].table, s->table_len);
		tg_pages_put(s->all[i].presence, TG_PRESENCE_LEN);
	}
}

/* The owner's part, O(1). False if the cleaner has no empty table yet: try later. */
static inline bool tg_swap_turn(struct tg_swap *s)
{
	struct tg_generation *fresh = atomic_exchange(&s->spare, NULL);

	if (!fresh)
		return false;
	atomic_store(&s->retired, s->history);
	s->history = s->active;
	s->active = fresh;
	s->turns++;
	return true;
}

/* The cleaner's part, by any other thread: what has fallen out, or NULL; it goes to tg_swap_empty. */
static inline struct tg_generation *tg_swap_retired(struct tg_swap *s)
{
	return atomic_exchange(&s->retired, NULL);
}

static inline void tg_swap_empty(struct tg_swap *s, struct tg_generation *old)
{
	if (s->clear_len)
		memset(old->table, 0, s->clear_len);
	else if (s->populated)
		memset(old->table, 0, s->table_len);
	else
		tg_pages_clear(old->table, s->table_len);
	memset(old->presence, 0, TG_PRESENCE_LEN);
	old->used = 0;
	atomic_store(&s->spare, old);
}

static inline void tg_swap_clean(struct tg_swap *s)
{
	struct tg_generation *old = tg_swap_retired(s);

	if (old)
		tg_swap_empty(s, old);
}

/* core/proxy.h numbers the bits of one table and generation from 0. */
static inline bool tg_swap_maybe(const struct tg_swap *s, uint32_t hash)
{
	uint32_t word = tg_presence_word(hash, TG_PRESENCE_FLOWS, 0);

	return ((s->active->presence[word] | s->history->presence[word]) & tg_presence_bit(hash)) !=
	       0;
}

static inline void tg_swap_prefetch(const struct tg_swap *s, uint32_t hash)
{
	uint32_t word = tg_presence_word(hash, TG_PRESENCE_FLOWS, 0);

	__builtin_prefetch(&s->active->presence[word]);
	__builtin_prefetch(&s->history->presence[word]);
}

/* The front of both generations' bits. */
static inline const uint64_t *tg_swap_front(const struct tg_swap *s)
{
	return s->history->presence + TG_PRESENCE_WORDS;
}

/* The front of history has what active has, too, so that one of them answers for both; active's is complete when it
 * becomes history. */
static inline void tg_swap_note(struct tg_swap *s, uint32_t hash)
{
	uint64_t *active = s->active->presence, *history = s->history->presence;
	uint32_t front = TG_PRESENCE_WORDS + TG_PRESENCE_FRONT_WORD(hash);

	active[tg_presence_word(hash, TG_PRESENCE_FLOWS, 0)] |= tg_presence_bit(hash);
	active[front] |= tg_presence_front_bit(hash);
	history[front] |= tg_presence_front_bit(hash);
}

#endif
