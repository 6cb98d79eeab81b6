/* SPDX-License-Identifier: Apache-2.0
 *
 * The whitelist of one core: sources that have proven themselves, under the keys
 * of tg_white_key. IPv6 prefixes stand in a bounded hash; IPv4 addresses stand
 * there, too, or, if so configured, in a bitmap of the whole address space, which
 * is never full: two generations of a bit for each address are the 1 GiB of seed
 * 000 section IV.C (a third is being emptied; only pages with a source in them
 * exist). Swapped as all tables are, swap.h.
 */
#ifndef TG_DPDK_WHITELIST_H
#define TG_DPDK_WHITELIST_H

#include "swap.h"

#define TG_WHITE_SLOTS 8
#define TG_WHITE_BITMAP_LEN (1UL << 29)

struct tg_whitelist {
	struct tg_swap hash; /* of buckets of 8 keys, a cache line each */
	struct tg_swap bits; /* of the IPv4 bitmap, if there is one */
	bool bitmap;
	uint64_t salt;
	uint32_t buckets; /* a power of two */
	uint32_t max;     /* sources in one generation of the hash */
};

bool tg_whitelist_init(struct tg_whitelist *l, uint32_t max, bool bitmap, uint64_t salt);
void tg_whitelist_free(struct tg_whitelist *l);

/* True if the source is on the list, which renews it. */
bool tg_whitelist_find(struct tg_whitelist *l, uint64_t key);

/* Adds a source; false if there is no room. */
bool tg_whitelist_put(struct tg_whitelist *l, uint64_t key);

/* False for nearly all sources that are not on it, for the cost of one or two bits. */
static inline bool tg_whitelist_maybe(const struct tg_whitelist *l, uint64_t key)
{
	return tg_swap_maybe(&l->hash, tg_presence_source(key, l->salt));
}

/* Prefetches what tg_whitelist_maybe reads. */
static inline void tg_whitelist_prefetch(const struct tg_whitelist *l, uint64_t key)
{
	tg_swap_prefetch(&l->hash, tg_presence_source(key, l->salt));
}

/* ---- the place that most likely has a source ---- */

static inline bool tg_whitelist_in_bitmap(const struct tg_whitelist *l, uint64_t key)
{
	return l->bitmap && tg_white_key_is_v4(key);
}

/* The address is in a key's upper half (core/proxy.h). */
static inline uint64_t tg_whitelist_bit(uint64_t key)
{
	return 1ULL << (key >> 32 & 63);
}

static inline uint64_t *tg_whitelist_word(const struct tg_generation *g, uint64_t key)
{
	return (uint64_t *)g->table + ((uint32_t)(key >> 32) >> 6);
}

static inline uint64_t *tg_whitelist_bucket(const struct tg_whitelist *l,
					    const struct tg_generation *g, uint64_t key, int second)
{
	uint64_t h = (key ^ l->salt) * TG_MIX3;
	uint32_t at = (uint32_t)((h ^ h >> 31) * TG_MIX2 >> (second ? 8 : 36));

	return (uint64_t *)g->table + (size_t)(at & (l->buckets - 1)) * TG_WHITE_SLOTS;
}

/* Prefetches what tg_whitelist_has_first reads. */
static inline void tg_whitelist_fetch_first(const struct tg_whitelist *l, uint64_t key)
{
	__builtin_prefetch(TG_UNLIKELY(tg_whitelist_in_bitmap(l, key))
				   ? tg_whitelist_word(l->bits.active, key)
				   : tg_whitelist_bucket(l, l->hash.active, key, 0));
}

/* True for nearly all sources that have been met since the last swap; tg_whitelist_find knows the others. */
static inline bool tg_whitelist_has_first(const struct tg_whitelist *l, uint64_t key)
{
	const uint64_t *b;
	uint64_t is = 0;
	int i;

	if (TG_UNLIKELY(tg_whitelist_in_bitmap(l, key)))
		return *tg_whitelist_word(l->bits.active, key) & tg_whitelist_bit(key);
	b = tg_whitelist_bucket(l, l->hash.active, key, 0);
	for (i = 0; i < TG_WHITE_SLOTS; i++)
		is |= b[i] == key;
	return is;
}

/* Prefetches what tg_whitelist_find reads of a source that may be on the list. */
void tg_whitelist_fetch(const struct tg_whitelist *l, uint64_t key);

/* The owner's part of a swap. */
static inline bool tg_whitelist_turn(struct tg_whitelist *l)
{
	if (l->bitmap && (!atomic_load(&l->bits.spare) || !atomic_load(&l->hash.spare)))
		return false;
	return tg_swap_turn(&l->hash) && (!l->bitmap || tg_swap_turn(&l->bits));
}

#endif
