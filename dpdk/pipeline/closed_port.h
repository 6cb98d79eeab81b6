/* SPDX-License-Identifier: Apache-2.0
 *
 * One core's memory of closed ports (core/closed_port.h): what the servers of translated
 * connections have refused. SYNs to these go on to the server, which refuses them, so that clients
 * receive what they would without this proxy. As bpf/lib/proxy_closed.h. Decides nothing.
 */
#ifndef TG_DPDK_CLOSED_PORT_H
#define TG_DPDK_CLOSED_PORT_H

#include "../core/closed_port.h"
#include "item.h"

/* False if no closed port is known; the check then costs nothing. */
TG_INLINE bool tg_closed_any(const struct tg_worker *w)
{
	return w->now_ns < w->closed.until_ns;
}

static inline struct tg_closed_entry *tg_closed_find(struct tg_worker *w,
						     const struct tg_listener_key *place)
{
	return &w->closed.places[tg_closed_slot(&w->flows.key, place)];
}

/* Records that the server, by this segment, has refused a connection's SYN. True if that is new. */
static inline bool tg_closed_learn(struct tg_worker *w, const struct tg_item *it, uint32_t service)
{
	struct tg_listener_key place = tg_closed_place(&it->pkt, true);
	struct tg_closed_entry *e = tg_closed_find(w, &place);

	if (!tg_closed_refused(e, &place, w->now_ns))
		return false;
	tg_count(w, service, TG_COUNT_closed_learned);
	if (w->closed.until_ns < e->until_ns)
		w->closed.until_ns = e->until_ns;
	return true;
}

/* True if this SYN is left to the server to refuse. */
static inline bool tg_closed_passes(struct tg_worker *w, const struct tg_item *it)
{
	struct tg_listener_key place = tg_closed_place(&it->pkt, false);
	struct tg_decision d = tg_closed_syn(tg_closed_find(w, &place), &place, &it->pkt,
					     &w->closed.share, w->now_ns);

	tg_count(w, it->id, d.counter);
	return d.verdict == TG_PASS;
}

/* True if SYNs to the packet's destination have to be checked one by one. */
static inline bool tg_closed_is_near(struct tg_worker *w, const struct tg_packet *syn)
{
	struct tg_listener_key place = tg_closed_place(syn, false);

	return tg_closed_any(w) && tg_closed_is(tg_closed_find(w, &place), &place, w->now_ns);
}

/* A server's segment with SYN or RST of no known connection. */
static inline void tg_closed_listen(struct tg_worker *w, const struct tg_item *it)
{
	struct tg_listener_key place = tg_closed_place(&it->pkt, true);
	const struct tg_route *r = w->config->router
					   ? tg_config_route(w->config, &it->pkt.src, it->pkt.family)
					   : NULL;
	struct tg_closed_entry *e = tg_closed_find(w, &place);

	if (w->config->router && (!r || r->port != it->port))
		return; /* it did not come from the server's port */
	if (tg_closed_hear(e, &place, &it->pkt, w->now_ns) == TG_CLOSED_REFUSES &&
	    w->closed.until_ns < e->until_ns)
		w->closed.until_ns = e->until_ns;
}

#endif
