/* SPDX-License-Identifier: Apache-2.0
 *
 * whitelist.h: look-up and insertion.
 */
#include "whitelist.h"

bool tg_whitelist_init(struct tg_whitelist *l, uint32_t max, bool bitmap, uint64_t salt)
{
	uint32_t buckets = 1;

	while ((uint64_t)buckets * TG_WHITE_SLOTS * 5 < (uint64_t)max * 8)
		buckets *= 2;
	l->buckets = buckets;
	l->max = max;
	l->salt = salt;
	l->bitmap = bitmap;
	return tg_swap_init(&l->hash, (size_t)buckets * 64, (size_t)buckets * 64) &&
	       (!bitmap || tg_swap_init(&l->bits, TG_WHITE_BITMAP_LEN, 0));
}

void tg_whitelist_free(struct tg_whitelist *l)
{
	tg_swap_free(&l->hash);
	if (l->bitmap)
		tg_swap_free(&l->bits);
}

void tg_whitelist_fetch(const struct tg_whitelist *l, uint64_t key)
{
	if (!tg_whitelist_maybe(l, key))
		return;
	if (tg_whitelist_in_bitmap(l, key))
		__builtin_prefetch(tg_whitelist_word(l->bits.active, key));
	else
		__builtin_prefetch(tg_whitelist_bucket(l, l->hash.active, key, 0));
}

static bool generation_has(const struct tg_whitelist *l, const struct tg_generation *g, uint64_t key)
{
	int i, second;

	for (second = 0; second < 2; second++) {
		const uint64_t *b = tg_whitelist_bucket(l, g, key, second);

		for (i = 0; i < TG_WHITE_SLOTS; i++)
			if (b[i] == key)
				return true;
	}
	return false;
}

static uint64_t *free_in(uint64_t *b)
{
	int i;

	for (i = 0; i < TG_WHITE_SLOTS; i++)
		if (b[i] == 0)
			return &b[i];
	return NULL;
}

/* A place for a new source in one of its two buckets, perhaps after another has
 * moved to its other one. */
static uint64_t *place_take(const struct tg_whitelist *l, const struct tg_generation *g, uint64_t key)
{
	uint64_t *two[2] = {tg_whitelist_bucket(l, g, key, 0), tg_whitelist_bucket(l, g, key, 1)},
		 *other;
	int i, second;

	for (i = 0; i < 2; i++)
		if ((other = free_in(two[i])))
			return other;
	for (i = 0; i < TG_WHITE_SLOTS; i++) {
		uint64_t *at = &two[0][i];

		for (second = 0; second < 2; second++) {
			other = free_in(tg_whitelist_bucket(l, g, *at, second));
			if (other) {
				*other = *at;
				return at;
			}
		}
	}
	return NULL;
}

/* The place of a full bucket to reuse next, round robin; an empty one, if there is any. */
static uint64_t *place_evict(const struct tg_whitelist *l, struct tg_generation *g, uint64_t key)
{
	uint64_t *b = tg_whitelist_bucket(l, g, key, 0), *place = free_in(b);

	if (!place)
		return &b[g->evicted++ % TG_WHITE_SLOTS];
	g->used++;
	return place;
}

bool tg_whitelist_find(struct tg_whitelist *l, uint64_t key)
{
	uint64_t bit = tg_whitelist_bit(key);

	if (!tg_whitelist_maybe(l, key))
		return false;
	if (tg_whitelist_in_bitmap(l, key)) {
		if (*tg_whitelist_word(l->bits.active, key) & bit)
			return true;
		if (!(*tg_whitelist_word(l->bits.history, key) & bit))
			return false;
	} else {
		if (generation_has(l, l->hash.active, key))
			return true;
		if (!generation_has(l, l->hash.history, key))
			return false;
	}
	tg_whitelist_put(l, key); /* no room: it stays in history */
	return true;
}

bool tg_whitelist_put(struct tg_whitelist *l, uint64_t key)
{
	struct tg_generation *g = l->hash.active;
	uint64_t *place;

	if (tg_whitelist_in_bitmap(l, key)) {
		*tg_whitelist_word(l->bits.active, key) |= tg_whitelist_bit(key);
		tg_swap_note(&l->hash, tg_presence_source(key, l->salt));
		return true;
	}
	if (!key) /* an empty place; tg_white_key_of never gives it */
		return false;
	if (generation_has(l, g, key))
		return true;
	place = g->used < l->max ? place_take(l, g, key) : NULL;
	if (place)
		g->used++;
	else /* otherwise one of its places is reused; a source in use returns by a challenge */
		place = place_evict(l, g, key);
	*place = key;
	tg_swap_note(&l->hash, tg_presence_source(key, l->salt));
	return true;
}
