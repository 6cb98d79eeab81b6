/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that wait for a place.
 */
#include "flow.h"

void tg_flow_settle(struct tg_worker *w, const struct tg_packet *pkt, struct tg_flow_entry *e)
{
	struct tg_flow *f = &e->flow;

	if (tg_flow_wish(f, pkt, w->flows.tick) != TG_FLOW_SETTLES ||
	    tg_flow_table_settle(&w->flows, e))
		return;
	f->waits = tg_flow_tick_mark(w->flows.tick);
	tg_count(w, f->service, TG_COUNT_flow_waits);
}
