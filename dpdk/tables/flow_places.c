/* SPDX-License-Identifier: Apache-2.0
 *
 * Who has a place of its own in a flow table, who waits for one, and who makes room for whom:
 * what flow_table.h says, by the shares of core/share.h. As bpf/lib/proxy_flow_tables.h, but that all
 * stand in one table, in lists.
 *
 * Must never: walk a list for longer than SECOND_CHANCES.
 */
#include "flow_table.h"

#define SECOND_CHANCES 8 /* flows that were met lately and so go to their list's end again */

static struct tg_flow_entry *entry(const struct tg_flow_table *t, const struct tg_generation *g,
				   uint32_t slot)
{
	return &tg_flow_entries(t, g)[slot];
}

static uint32_t is_v6(uint32_t family)
{
	return family == 6;
}

/* ---- lists ---- */

static struct tg_flow_list *list_of(const struct tg_generation *g, const struct tg_flow_entry *e)
{
	struct tg_flow_head *h = tg_flow_head(g);

	return e->place == TG_PLACE_ENDED ? &h->ended : &h->waits[is_v6(e->key.family)];
}

static void list_add(const struct tg_flow_table *t, struct tg_generation *g, uint32_t slot)
{
	struct tg_flow_entry *e = entry(t, g, slot);
	struct tg_flow_list *l = list_of(g, e);

	e->newer = 0;
	e->older = l->newest;
	e->met = 0;
	if (l->newest)
		entry(t, g, l->newest - 1)->newer = slot + 1;
	else
		l->oldest = slot + 1;
	l->newest = slot + 1;
	l->n++;
}

static void list_drop(const struct tg_flow_table *t, struct tg_generation *g, uint32_t slot)
{
	const struct tg_flow_entry *e = entry(t, g, slot);
	struct tg_flow_list *l = list_of(g, e);

	if (e->newer)
		entry(t, g, e->newer - 1)->older = e->older;
	else
		l->newest = e->older;
	if (e->older)
		entry(t, g, e->older - 1)->newer = e->newer;
	else
		l->oldest = e->newer;
	l->n--;
}

void tg_flow_moved(struct tg_flow_table *t, struct tg_generation *g, uint32_t to)
{
	const struct tg_flow_entry *e = entry(t, g, to);
	struct tg_flow_list *l;

	if (e->place == TG_PLACE_OWN)
		return;
	l = list_of(g, e);
	if (e->newer)
		entry(t, g, e->newer - 1)->older = to + 1;
	else
		l->newest = to + 1;
	if (e->older)
		entry(t, g, e->older - 1)->newer = to + 1;
	else
		l->oldest = to + 1;
}

/* ---- shares ---- */

static void share_add(const struct tg_flow_table *t, struct tg_generation *g,
		      const struct tg_flow_key *key, uint32_t n)
{
	struct tg_share s = tg_share_of(key->a[0], (uint8_t)key->family, &t->key);
	uint32_t *cells = tg_flow_head(g)->shares[is_v6(key->family)], i;

	cells[TG_SHARE_ALL] += n;
	for (i = 0; i < TG_SHARE_LEVELS && s.level[i]; i++) {
		cells[tg_share_cell(s.level[i], 0)] += n;
		cells[tg_share_cell(s.level[i], 1)] += n;
	}
}

/* Places that a family may use. */
static uint32_t family_max(const struct tg_flow_table *t, const struct tg_generation *g,
			   uint32_t family)
{
	return tg_share_family(t->max, tg_flow_head(g)->shares[!is_v6(family)][TG_SHARE_ALL]);
}

bool tg_flow_has_room(const struct tg_flow_table *t, const struct tg_generation *g, uint32_t family)
{
	return tg_flow_head(g)->shares[is_v6(family)][TG_SHARE_ALL] < family_max(t, g, family);
}

/* True if a newcomer's source may have one more place of its own. */
static bool share_is_due(const struct tg_flow_table *t, const struct tg_flow_key *key)
{
	const struct tg_generation *g = t->swap.active;
	struct tg_share s = tg_share_of(key->a[0], (uint8_t)key->family, &t->key);
	const uint32_t *cells = tg_flow_head(g)->shares[is_v6(key->family)];
	uint32_t max = tg_share_newcomers(family_max(t, g, key->family)), i;

	for (i = 0; i < TG_SHARE_LEVELS && s.level[i]; i++)
		if (!tg_share_admits(i, cells[tg_share_cell(s.level[i], 0)],
				     cells[tg_share_cell(s.level[i], 1)], cells[TG_SHARE_ALL], max))
			return false;
	return true;
}

bool tg_flow_table_is_full(const struct tg_flow_table *t)
{
	const struct tg_generation *g = t->swap.active;
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (tg_share_is_full(tg_flow_head(g)->shares[i][TG_SHARE_ALL],
				     family_max(t, g, i ? 6 : 4)))
			return true;
	return false;
}

bool tg_flow_table_may_wait(const struct tg_flow_table *t, const struct tg_flow_key *key)
{
	struct tg_share s = tg_share_of(key->a[0], (uint8_t)key->family, &t->key);
	const uint32_t *cells = t->lately + is_v6(key->family) * TG_SHARE_CELLS;
	uint32_t i;

	for (i = 0; i < TG_SHARE_LEVELS && s.level[i]; i++)
		if (!tg_lately_admits(i, cells[tg_share_cell(s.level[i], 0)],
				      cells[tg_share_cell(s.level[i], 1)], cells[TG_SHARE_ALL],
				      t->waiting, t->tick))
			return false;
	return true;
}

static void lately_add(const struct tg_flow_table *t, uint32_t *cell, int by)
{
	*cell = tg_lately_add(*cell, t->tick, by);
}

void tg_flow_lately(struct tg_flow_table *t, const struct tg_flow_key *key, int by)
{
	struct tg_share s = tg_share_of(key->a[0], (uint8_t)key->family, &t->key);
	uint32_t *cells = t->lately + is_v6(key->family) * TG_SHARE_CELLS, i;

	lately_add(t, &cells[TG_SHARE_ALL], by);
	for (i = 0; i < TG_SHARE_LEVELS && s.level[i]; i++) {
		lately_add(t, &cells[tg_share_cell(s.level[i], 0)], by);
		lately_add(t, &cells[tg_share_cell(s.level[i], 1)], by);
	}
}

/* ---- places ---- */

enum tg_flow_place tg_flow_place_of(const struct tg_flow *flow)
{
	if (flow->flags & TG_FLOW_CLOSED)
		return TG_PLACE_ENDED;
	return flow->state == TG_FLOW_READY && flow->waits == TG_FLOW_SETTLED ? TG_PLACE_OWN
									      : TG_PLACE_WAITS;
}

void tg_flow_enter(struct tg_flow_table *t, struct tg_generation *g, uint32_t slot,
		   enum tg_flow_place place)
{
	struct tg_flow_entry *e = entry(t, g, slot);

	e->place = (uint8_t)place;
	e->held_era = 0;
	if (place != TG_PLACE_OWN) {
		list_add(t, g, slot);
		return;
	}
	share_add(t, g, &e->key, 1);
	if (TG_UNLIKELY(t->held.era)) {
		e->held_era = t->held.era;
		tg_held_add(&t->held, &tg_flow_head(g)->held, (uint8_t)e->key.family, e->key.a[0], 1);
	}
}

void tg_flow_leave(struct tg_flow_table *t, struct tg_generation *g, uint32_t slot)
{
	const struct tg_flow_entry *e = entry(t, g, slot);

	if (e->place != TG_PLACE_OWN) {
		list_drop(t, g, slot);
		return;
	}
	share_add(t, g, &e->key, (uint32_t)-1);
	if (TG_UNLIKELY(e->held_era) && e->held_era == t->held.era)
		tg_held_add(&t->held, &tg_flow_head(g)->held, (uint8_t)e->key.family, e->key.a[0],
			    (uint32_t)-1);
}

void tg_flow_clear(struct tg_flow_table *t, struct tg_generation *g, uint32_t slot)
{
	tg_flow_leave(t, g, slot);
	tg_flow_buckets(g)[slot / TG_BUCKET_SLOTS].sig[slot % TG_BUCKET_SLOTS] = 0;
	entry(t, g, slot)->key.family = 0; /* tg_flow_table_at */
	g->used--;
}

/* The entry not met for longest is evicted: of those at the end of the list, the first not met since it got
 * there. */
static void waits_evict(struct tg_flow_table *t, struct tg_generation *g, uint32_t family)
{
	struct tg_flow_list *l = &tg_flow_head(g)->waits[is_v6(family)];
	uint32_t i, slot;

	for (i = 0; i < SECOND_CHANCES && entry(t, g, l->oldest - 1)->met; i++) {
		slot = l->oldest - 1;
		list_drop(t, g, slot);
		list_add(t, g, slot);
	}
	tg_flow_clear(t, g, l->oldest - 1);
}

void tg_flow_make_room(struct tg_flow_table *t, struct tg_generation *g, enum tg_flow_place place,
		       uint32_t family)
{
	struct tg_flow_head *h = tg_flow_head(g);

	if (place == TG_PLACE_WAITS && h->waits[is_v6(family)].n >= t->waiting)
		waits_evict(t, g, family);
	if (g->used >= t->room && h->ended.n)
		tg_flow_clear(t, g, h->ended.oldest - 1);
}

/* The generation that an entry stands in. */
static struct tg_generation *generation_of(const struct tg_flow_table *t,
					   const struct tg_flow_entry *e)
{
	const struct tg_flow_entry *first = entry(t, t->swap.active, 0);

	return e >= first && e < first + (size_t)t->buckets * TG_BUCKET_SLOTS ? t->swap.active
									      : t->swap.history;
}

bool tg_flow_table_settle(struct tg_flow_table *t, struct tg_flow_entry *e)
{
	struct tg_generation *g = t->swap.active;
	uint32_t slot;

	if (e->place != TG_PLACE_WAITS || generation_of(t, e) != g || !share_is_due(t, &e->key) ||
	    !tg_flow_has_room(t, g, e->key.family))
		return false;
	slot = (uint32_t)(e - entry(t, g, 0));
	tg_flow_leave(t, g, slot);
	tg_flow_lately(t, &e->key, -1);
	e->flow.waits = TG_FLOW_SETTLED;
	tg_flow_enter(t, g, slot, TG_PLACE_OWN);
	return true;
}

void tg_flow_table_ended(struct tg_flow_table *t, struct tg_flow_entry *e, bool after_all_not)
{
	struct tg_generation *g = generation_of(t, e);
	uint32_t slot = (uint32_t)(e - entry(t, g, 0));
	bool own;

	if (e->place == TG_PLACE_WAITS)
		tg_flow_lately(t, &e->key, -1);
	tg_flow_leave(t, g, slot);
	if (!after_all_not) {
		tg_flow_enter(t, g, slot, TG_PLACE_ENDED);
		return;
	}
	own = tg_flow_has_room(t, g, e->key.family);
	e->flow.waits = own ? TG_FLOW_SETTLED : TG_FLOW_REFUSED;
	if (!own)
		tg_flow_make_room(t, g, TG_PLACE_WAITS, e->key.family);
	tg_flow_enter(t, g, slot, own ? TG_PLACE_OWN : TG_PLACE_WAITS);
}
