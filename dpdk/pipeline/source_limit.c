/* SPDX-License-Identifier: Apache-2.0
 *
 * source_limit.h.
 */
#include "source_limit.h"

/* True if the source may begin one more connection now, which then counts. */
static bool may_begin(struct tg_worker *w, uint64_t hash)
{
	uint64_t *cells[TG_LIMIT_ROWS];
	uint32_t row;

	for (row = 0; row < TG_LIMIT_ROWS; row++)
		cells[row] = &w->limits->cells[tg_limit_cell(hash, row)];
	return tg_limit_take(cells, w->config->limits.cost_ns, w->now_ns);
}

enum tg_limit_action tg_source_limited(struct tg_worker *w, const struct tg_packet *ack,
				       uint32_t service)
{
	const struct tg_limit_settings *s = &w->config->limits;
	uint8_t len = ack->family == 4 ? s->v4 : s->v6;
	uint64_t prefix = tg_limit_prefix(ack->family, &ack->src, len);
	uint64_t hash = tg_limit_hash(ack->family, prefix, &w->flows.key);
	bool held = s->held && tg_limits_held_by(w->limits, s->era, hash) >= s->held;

	if (!held && (!s->cost_ns || may_begin(w, hash)))
		return TG_LIMIT_REPORT;
	if (w->config->sources &&
	    tg_source_table_says(w->config->sources, ack->family, &ack->src) == TG_LISTED_ALLOW)
		return TG_LIMIT_REPORT;
	tg_over_count(&w->over[tg_over_slot(hash)], ack, prefix, len, held, w->now_ns);
	tg_count(w, service, TG_COUNT_over_source_limit);
	if (s->action == TG_LIMIT_DROP)
		tg_count(w, service, TG_COUNT_drop_source_limit);
	return s->action;
}
