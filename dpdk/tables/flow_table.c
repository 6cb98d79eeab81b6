/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_table.h: look-up, insertion, second chance.
 */
#include "flow_table.h"

#define NO_SLOT TG_NO_SLOT

bool tg_flow_table_init(struct tg_flow_table *t, uint32_t max, struct tg_siphash_key key)
{
	uint32_t buckets = 1;

	/* At most five flows for eight places: then a new flow finds one, perhaps
	 * after another has moved to its other bucket. */
	while ((uint64_t)buckets * TG_BUCKET_SLOTS * 5 < (uint64_t)max * 8)
		buckets *= 2;
	t->buckets = buckets;
	t->max = max;
	t->key = key;
	return tg_swap_init(
		&t->swap,
		TG_SHARES_LEN + (size_t)buckets * (sizeof(struct tg_bucket) +
						   TG_BUCKET_SLOTS * sizeof(struct tg_flow_entry)),
		TG_SHARES_LEN + (size_t)buckets * sizeof(struct tg_bucket));
}

void tg_flow_table_free(struct tg_flow_table *t)
{
	tg_swap_free(&t->swap);
}

/* ---- shares: core/share.h ---- */

static void share_add(const struct tg_flow_table *t, struct tg_generation *g,
		      const struct tg_flow_key *key, int n)
{
	struct tg_share s = tg_share_of(key->a[0], (uint8_t)key->family, &t->key);
	uint32_t *cells = tg_flow_shares(g), i;

	cells[TG_SHARE_ALL] += (uint32_t)n;
	for (i = 0; i < TG_SHARE_LEVELS && s.level[i]; i++) {
		cells[tg_share_cell(s.level[i], 0)] += (uint32_t)n;
		cells[tg_share_cell(s.level[i], 1)] += (uint32_t)n;
	}
}

bool tg_flow_table_admits(const struct tg_flow_table *t, const struct tg_flow_key *key)
{
	struct tg_share s = tg_share_of(key->a[0], (uint8_t)key->family, &t->key);
	const uint32_t *cells = tg_flow_shares(t->swap.active);
	uint32_t i;

	for (i = 0; i < TG_SHARE_LEVELS && s.level[i]; i++)
		if (!tg_share_admits(i, cells[tg_share_cell(s.level[i], 0)],
				     cells[tg_share_cell(s.level[i], 1)], cells[TG_SHARE_ALL], t->max))
			return false;
	return true;
}

void tg_flow_table_ended(struct tg_flow_table *t, const struct tg_flow_key *key, bool after_all_not)
{
	share_add(t, t->swap.active, key, after_all_not ? 1 : -1);
}

/* ---- places ---- */

/* Where the flow stands in one bucket of a generation. */
static inline uint32_t slot_in(const struct tg_flow_table *t, const struct tg_generation *g,
			       uint32_t bucket, const struct tg_flow_key *key, uint64_t hash)
{
	const struct tg_bucket *b = &tg_flow_buckets(g)[bucket];
	uint32_t bits = tg_bucket_match(b, tg_flow_sig(hash));

	for (; bits; bits &= bits - 1) {
		uint32_t slot = bucket * TG_BUCKET_SLOTS + (uint32_t)__builtin_ctz(bits);

		if (TG_LIKELY(tg_flow_key_is(&tg_flow_entries(t, g)[slot].key, key)))
			return slot;
	}
	return NO_SLOT;
}

static inline uint32_t slot_find(const struct tg_flow_table *t, const struct tg_generation *g,
				 const struct tg_flow_key *key, uint64_t hash)
{
	uint32_t slot = slot_in(t, g, tg_flow_first(t, hash), key, hash);

	if (TG_LIKELY(slot != NO_SLOT))
		return slot;
	return slot_in(t, g, tg_flow_second(t, hash), key, hash);
}

static void slot_clear(const struct tg_flow_table *t, struct tg_generation *g, uint32_t slot)
{
	struct tg_flow_entry *e = &tg_flow_entries(t, g)[slot];

	if (!(e->flow.flags & TG_FLOW_CLOSED))
		share_add(t, g, &e->key, -1);
	tg_flow_buckets(g)[slot / TG_BUCKET_SLOTS].sig[slot % TG_BUCKET_SLOTS] = 0;
	e->key.family = 0; /* tg_flow_table_at */
	g->used--;
}

/* Makes room in a full bucket: moves one of its flows to its other bucket. */
static uint32_t slot_displace(const struct tg_flow_table *t, struct tg_generation *g, uint32_t bucket)
{
	struct tg_bucket *b = &tg_flow_buckets(g)[bucket], *other;
	uint32_t i, to, bits, from;

	for (i = 0; i < TG_BUCKET_SLOTS; i++) {
		to = tg_flow_other(t, bucket, b->sig[i]);
		other = &tg_flow_buckets(g)[to];
		bits = tg_bucket_match(other, 0);
		if (!bits)
			continue;
		to = to * TG_BUCKET_SLOTS + (uint32_t)__builtin_ctz(bits);
		from = bucket * TG_BUCKET_SLOTS + i;
		tg_flow_entries(t, g)[to] = tg_flow_entries(t, g)[from];
		other->sig[to % TG_BUCKET_SLOTS] = b->sig[i];
		b->sig[i] = 0;
		return from;
	}
	return NO_SLOT;
}

/* The place of a flow that has ended, in one bucket. */
static uint32_t slot_ended(const struct tg_flow_table *t, const struct tg_generation *g,
			   uint32_t bucket)
{
	uint32_t i;

	for (i = bucket * TG_BUCKET_SLOTS; i < (bucket + 1) * TG_BUCKET_SLOTS; i++)
		if (tg_flow_buckets(g)[bucket].sig[i % TG_BUCKET_SLOTS] &&
		    tg_flow_entries(t, g)[i].flow.flags & TG_FLOW_CLOSED)
			return i;
	return NO_SLOT;
}

/* A place for a new flow: an empty one, else that of one that has ended. */
static uint32_t slot_take(const struct tg_flow_table *t, struct tg_generation *g, uint64_t hash)
{
	uint32_t two[2] = {tg_flow_first(t, hash), tg_flow_second(t, hash)};
	uint32_t i, slot = NO_SLOT;

	for (i = 0; i < 2 && g->used < t->max; i++) {
		uint32_t bits = tg_bucket_match(&tg_flow_buckets(g)[two[i]], 0);

		if (bits) {
			g->used++;
			return two[i] * TG_BUCKET_SLOTS + (uint32_t)__builtin_ctz(bits);
		}
	}
	for (i = 0; i < 2; i++) {
		slot = slot_ended(t, g, two[i]);
		if (slot != NO_SLOT)
			return slot;
	}
	for (i = 0; i < 2 && g->used < t->max; i++) {
		slot = slot_displace(t, g, two[i]);
		if (slot != NO_SLOT) {
			g->used++;
			return slot;
		}
	}
	return NO_SLOT;
}

static struct tg_flow_entry *slot_fill(struct tg_flow_table *t, uint32_t slot,
				       const struct tg_flow_key *key, uint64_t hash,
				       uint32_t presence, const struct tg_flow *flow)
{
	struct tg_generation *g = t->swap.active;
	struct tg_flow_entry *e = &tg_flow_entries(t, g)[slot];

	tg_flow_buckets(g)[slot / TG_BUCKET_SLOTS].sig[slot % TG_BUCKET_SLOTS] = tg_flow_sig(hash);
	e->key = *key;
	e->presence = presence;
	e->flow = *flow;
	tg_swap_note(&t->swap, presence);
	return e;
}

struct tg_flow_entry *tg_flow_table_find(struct tg_flow_table *t, const struct tg_flow_key *key,
					 uint64_t hash)
{
	uint32_t slot = slot_find(t, t->swap.active, key, hash), place;
	struct tg_flow_entry *e;

	if (TG_LIKELY(slot != NO_SLOT))
		return &tg_flow_entries(t, t->swap.active)[slot];
	slot = slot_find(t, t->swap.history, key, hash);
	if (slot == NO_SLOT)
		return NULL;
	e = &tg_flow_entries(t, t->swap.history)[slot];
	if (e->flow.flags & TG_FLOW_CLOSED)
		return e;
	place = slot_take(t, t->swap.active, hash);
	if (place == NO_SLOT)
		return e;
	share_add(t, t->swap.active, key, 1);
	slot_clear(t, t->swap.history, slot);
	return slot_fill(t, place, key, hash, e->presence, &e->flow);
}

struct tg_flow_entry *tg_flow_table_insert(struct tg_flow_table *t, const struct tg_flow_key *key,
					   uint64_t hash, uint32_t presence,
					   const struct tg_flow *flow)
{
	uint32_t slot = slot_find(t, t->swap.active, key, hash);
	uint32_t old = slot_find(t, t->swap.history, key, hash);

	bool counted = slot != NO_SLOT &&
		       !(tg_flow_entries(t, t->swap.active)[slot].flow.flags & TG_FLOW_CLOSED);

	if (slot == NO_SLOT)
		slot = slot_take(t, t->swap.active, hash);
	if (slot == NO_SLOT)
		return NULL;
	if (!counted)
		share_add(t, t->swap.active, key, 1);
	if (old != NO_SLOT)
		slot_clear(t, t->swap.history, old);
	return slot_fill(t, slot, key, hash, presence, flow);
}

void tg_flow_table_remove(struct tg_flow_table *t, const struct tg_flow_key *key, uint64_t hash)
{
	struct tg_generation *both[2] = {t->swap.active, t->swap.history};
	int i;

	for (i = 0; i < 2; i++) {
		uint32_t slot = slot_find(t, both[i], key, hash);

		if (slot != NO_SLOT)
			slot_clear(t, both[i], slot);
	}
}
