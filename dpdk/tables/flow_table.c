/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_table.h: look-up, insertion, second chance.
 */
#include "flow_table.h"

#define NO_SLOT TG_NO_SLOT
#define ROOM_OF_BUCKET 6 /* of TG_BUCKET_SLOTS */
#define LATELY_LEN (2 * TG_SHARE_CELLS * sizeof(uint32_t))

bool tg_flow_table_init(struct tg_flow_table *t, uint32_t max, struct tg_siphash_key key)
{
	uint32_t buckets = 1, waiting = tg_share_waiting(max);
	/* at least as many ended flows as wait in one family */
	uint64_t room = (uint64_t)tg_share_both(max) + 3ULL * waiting;
	size_t head;

	/* At most six flows for eight places: a new flow then finds one, perhaps after another has
	 * moved to its other bucket. */
	while ((uint64_t)buckets * ROOM_OF_BUCKET < room)
		buckets *= 2;
	t->buckets = buckets;
	t->max = max;
	t->waiting = waiting;
	t->room = buckets * ROOM_OF_BUCKET;
	t->key = key;
	t->lately = tg_pages_get(LATELY_LEN);
	head = sizeof(struct tg_flow_head) + (size_t)buckets * sizeof(struct tg_bucket);
	return t->lately &&
	       tg_swap_init(&t->swap,
			    head + (size_t)buckets * TG_BUCKET_SLOTS * sizeof(struct tg_flow_entry),
			    head);
}

bool tg_flow_table_populate(struct tg_flow_table *t)
{
	return tg_pages_populate(t->lately, LATELY_LEN) && tg_swap_populate(&t->swap);
}

void tg_flow_table_free(struct tg_flow_table *t)
{
	tg_pages_put(t->lately, LATELY_LEN);
	tg_swap_free(&t->swap);
}

void tg_flow_table_limit(struct tg_flow_table *t, const struct tg_limit_settings *s)
{
	uint32_t era = s->held ? s->era : 0;

	if (TG_LIKELY(t->held.era == era))
		return;
	t->held.era = era;
	t->held.v4 = s->v4;
	t->held.v6 = s->v6;
	tg_held_turn(&tg_flow_head(t->swap.active)->held, era);
	tg_held_turn(&tg_flow_head(t->swap.history)->held, era);
}

void tg_flow_table_clean(struct tg_flow_table *t)
{
	struct tg_generation *old = tg_swap_retired(&t->swap);

	if (!old)
		return;
	tg_held_retire(t->held.all, &tg_flow_head(old)->held);
	tg_swap_empty(&t->swap, old);
}

/* ---- places ---- */

/* The slot of a flow in one bucket of a generation. */
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

/* Makes room in a full bucket: moves one of its flows to its other bucket. */
static uint32_t slot_displace(struct tg_flow_table *t, struct tg_generation *g, uint32_t bucket)
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
		tg_flow_moved(t, g, to);
		return from;
	}
	return NO_SLOT;
}

/* The slot of an ended flow in one bucket. */
static uint32_t slot_ended(const struct tg_flow_table *t, const struct tg_generation *g,
			   uint32_t bucket)
{
	uint32_t i;

	for (i = bucket * TG_BUCKET_SLOTS; i < (bucket + 1) * TG_BUCKET_SLOTS; i++)
		if (tg_flow_buckets(g)[bucket].sig[i % TG_BUCKET_SLOTS] &&
		    tg_flow_entries(t, g)[i].place == TG_PLACE_ENDED)
			return i;
	return NO_SLOT;
}

/* An empty slot for a new flow, perhaps after an ended flow was removed or another one moved
 * to its other bucket. */
static uint32_t slot_take(struct tg_flow_table *t, struct tg_generation *g, uint64_t hash)
{
	uint32_t two[2] = {tg_flow_first(t, hash), tg_flow_second(t, hash)};
	uint32_t i, slot;

	for (i = 0; i < 2; i++) {
		uint32_t bits = tg_bucket_match(&tg_flow_buckets(g)[two[i]], 0);

		if (bits)
			return two[i] * TG_BUCKET_SLOTS + (uint32_t)__builtin_ctz(bits);
	}
	for (i = 0; i < 2; i++) {
		slot = slot_ended(t, g, two[i]);
		if (slot != NO_SLOT) {
			tg_flow_clear(t, g, slot);
			return slot;
		}
	}
	for (i = 0; i < 2; i++) {
		slot = slot_displace(t, g, two[i]);
		if (slot != NO_SLOT)
			return slot;
	}
	return NO_SLOT;
}

/* Inserts a flow that is not in the active generation into it. */
static struct tg_flow_entry *slot_fill(struct tg_flow_table *t, const struct tg_flow_key *key,
				       uint64_t hash, uint32_t presence, const struct tg_flow *flow,
				       enum tg_flow_place place)
{
	struct tg_generation *g = t->swap.active;
	struct tg_flow_entry *e;
	uint32_t slot;

	tg_flow_make_room(t, g, place, key->family);
	slot = slot_take(t, g, hash);
	if (slot == NO_SLOT)
		return NULL;
	g->used++;
	e = &tg_flow_entries(t, g)[slot];
	tg_flow_buckets(g)[slot / TG_BUCKET_SLOTS].sig[slot % TG_BUCKET_SLOTS] = tg_flow_sig(hash);
	e->key = *key;
	e->presence = presence;
	e->flow = *flow;
	tg_flow_enter(t, g, slot, place);
	tg_swap_note(&t->swap, presence);
	return e;
}

/* A flow was found in history: it moves to active, and waits if it is half-closed or there is no place
 * for it. */
static struct tg_flow_entry *second_chance(struct tg_flow_table *t, uint32_t old, uint64_t hash)
{
	struct tg_flow_entry *e = &tg_flow_entries(t, t->swap.history)[old], *now;
	struct tg_flow flow = e->flow;
	enum tg_flow_place place = TG_PLACE_WAITS;

	if (e->place == TG_PLACE_OWN) {
		if (!(flow.flags & (TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN)) &&
		    tg_flow_has_room(t, t->swap.active, e->key.family))
			place = TG_PLACE_OWN;
		else
			flow.waits = TG_FLOW_REFUSED;
	}
	now = slot_fill(t, &e->key, hash, e->presence, &flow, place);
	if (!now)
		return e;
	tg_flow_clear(t, t->swap.history, old);
	return now;
}

struct tg_flow_entry *tg_flow_table_find(struct tg_flow_table *t, const struct tg_flow_key *key,
					 uint64_t hash)
{
	uint32_t slot = slot_find(t, t->swap.active, key, hash);
	struct tg_flow_entry *e;

	if (TG_LIKELY(slot != NO_SLOT)) {
		e = &tg_flow_entries(t, t->swap.active)[slot];
		if (TG_UNLIKELY(e->flow.state == TG_FLOW_SETUP || e->flow.waits))
			e->met = 1;
		return e;
	}
	slot = slot_find(t, t->swap.history, key, hash);
	if (slot == NO_SLOT)
		return NULL;
	e = &tg_flow_entries(t, t->swap.history)[slot];
	return e->place == TG_PLACE_ENDED ? e : second_chance(t, slot, hash);
}

struct tg_flow_entry *tg_flow_table_insert(struct tg_flow_table *t, const struct tg_flow_key *key,
					   uint64_t hash, uint32_t presence,
					   const struct tg_flow *flow)
{
	enum tg_flow_place place = tg_flow_place_of(flow);

	tg_flow_table_remove(t, key, hash);
	if (place == TG_PLACE_OWN && !tg_flow_has_room(t, t->swap.active, key->family))
		return NULL;
	if (place == TG_PLACE_WAITS)
		tg_flow_lately(t, key, 1);
	return slot_fill(t, key, hash, presence, flow, place);
}

void tg_flow_table_remove(struct tg_flow_table *t, const struct tg_flow_key *key, uint64_t hash)
{
	struct tg_generation *both[2] = {t->swap.active, t->swap.history};
	int i;

	for (i = 0; i < 2; i++) {
		uint32_t slot = slot_find(t, both[i], key, hash);

		if (slot == NO_SLOT)
			continue;
		if (tg_flow_entries(t, both[i])[slot].place == TG_PLACE_WAITS)
			tg_flow_lately(t, key, -1);
		tg_flow_clear(t, both[i], slot);
	}
}
