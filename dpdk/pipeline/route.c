/* SPDX-License-Identifier: Apache-2.0
 *
 * What does not simply leave: packets without a route, those that are too long, those that wait for their next hop.
 */
#include "route.h"

#include "fragment.h"
#include "icmp_error.h"

void tg_way_refuse(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
		   uint8_t family, const struct tg_way *way, enum tg_way_state state, bool tell)
{
	if (state == TG_WAY_OURS) {
		tg_drop(w, m);
		return;
	}
	if (tell && state == TG_WAY_TTL)
		tg_icmp_error_send(w, m, port, l3_off, family, TG_ICMP_TIME_EXCEEDED, 0);
	else if (tell && state == TG_WAY_TOO_BIG)
		tg_icmp_error_send(w, m, port, l3_off, family, TG_ICMP_TOO_BIG,
				   tg_way_mtu(w, way->port));
	else if (tell && state == TG_WAY_NONE)
		tg_icmp_error_send(w, m, port, l3_off, family, TG_ICMP_NO_ROUTE, 0);
	tg_count(w, 0, state == TG_WAY_ASK ? TG_COUNT_drop_no_neighbour : TG_COUNT_drop_no_route);
	tg_drop(w, m);
}

/* The next hop is to be asked for; the packet waits. */
static void tg_way_ask(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint8_t family,
		       const union tg_addr *dst, const struct tg_way *way, bool tell)
{
	uint8_t of = family;
	const union tg_addr *neighbour = tg_way_neighbour(way->route, dst, &of);

	if (tg_waiting_put(&w->waiting, neighbour, of, way->route, m, port, family, tell, w->now_ms))
		return;
	tg_count(w, 0, TG_COUNT_drop_no_neighbour);
	tg_drop(w, m);
}

void tg_way_other(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
		  uint8_t family, const union tg_addr *dst, const struct tg_way *way,
		  enum tg_way_state state, bool tell)
{
	struct rte_mbuf *piece[TG_FRAGMENTS_MAX];
	int i, n;

	if (state == TG_WAY_ASK) {
		tg_way_ask(w, m, port, family, dst, way, tell);
		return;
	}
	if (state != TG_WAY_CUT) {
		tg_way_refuse(w, m, port, l3_off, family, way, state, tell);
		return;
	}
	n = tg_fragment(w, m, tg_way_mtu(w, way->port), piece);
	for (i = 0; i < n; i++) {
		if (way->mac)
			tg_way_send(w, piece[i], l3_off, family, way);
		else
			tg_way_ask(w, piece[i], port, family, dst, way, false);
	}
}

void tg_waiting_look(struct tg_worker *w)
{
	struct tg_waiting *q = &w->waiting;
	uint32_t i, k;

	for (i = 0; i < TG_WAIT_PLACES && q->used; i++) {
		struct tg_wait_place was = q->place[i];
		bool known, late;

		if (!was.n)
			continue;
		known = !w->box->router ||
			tg_hops_neighbour(w->box->neighbours, &was.addr, was.family, was.port);
		late = w->now_ms - was.since_ms >= TG_WAIT_MS;
		if (!known && !late)
			continue;
		q->place[i].n = 0; /* first: what is still unknown asks again */
		q->used--;
		for (k = 0; k < was.n; k++) {
			uint8_t family = was.frame[k].family;
			struct rte_mbuf *m = was.frame[k].m;
			const uint8_t *ip = TG_DATA(m) + TG_ETH_HDR_LEN;
			union tg_addr dst = {{0, 0}};

			memcpy(&dst, ip + (family == 4 ? 16 : 24), family == 4 ? 4 : 16);
			if (known) {
				tg_forward_ip(w, m, was.frame[k].came_by, TG_ETH_HDR_LEN, family,
					      &dst, was.frame[k].tell);
				continue;
			}
			if (was.frame[k].tell)
				tg_icmp_error_send(w, m, was.frame[k].came_by, TG_ETH_HDR_LEN,
						   family, TG_ICMP_NO_HOST, 0);
			tg_count(w, 0, TG_COUNT_drop_no_neighbour);
			tg_drop(w, m);
		}
	}
	for (i = 0; i < w->ports_n; i++)
		tg_flush(w, (uint16_t)i);
}
