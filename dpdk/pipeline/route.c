/* SPDX-License-Identifier: Apache-2.0
 *
 * What does not simply leave: packets without a route, those that are too long, those that wait for their next hop.
 */
#include "route.h"

#include "fragment.h"
#include "icmp_error.h"

void tg_output_refuse(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
		      uint8_t family, const struct tg_output *output, enum tg_output_state state,
		      bool notify)
{
	if (state == TG_OUTPUT_OURS) {
		tg_drop(w, m);
		return;
	}
	if (notify && state == TG_OUTPUT_TTL)
		tg_icmp_error_send(w, m, port, l3_off, family, TG_ICMP_TIME_EXCEEDED, 0);
	else if (notify && state == TG_OUTPUT_TOO_BIG)
		tg_icmp_error_send(w, m, port, l3_off, family, TG_ICMP_TOO_BIG,
				   tg_output_mtu(w, output->port));
	else if (notify && state == TG_OUTPUT_NONE)
		tg_icmp_error_send(w, m, port, l3_off, family, TG_ICMP_NO_ROUTE, 0);
	tg_count(w, 0, state == TG_OUTPUT_ASK ? TG_COUNT_drop_no_neighbour : TG_COUNT_drop_no_route);
	tg_drop(w, m);
}

/* Requests the next hop's resolution; the packet waits. */
static void tg_output_ask(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint8_t family,
			  const union tg_addr *dst, const struct tg_output *output, bool notify)
{
	uint8_t of = family;
	const union tg_addr *neighbour = tg_output_neighbour(output->route, dst, &of);

	if (tg_waiting_put(&w->waiting, neighbour, of, output->route, m, port, family, notify,
			   w->now_ms))
		return;
	tg_count(w, 0, TG_COUNT_drop_no_neighbour);
	tg_drop(w, m);
}

void tg_output_other(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
		     uint8_t family, const union tg_addr *dst, const struct tg_output *output,
		     enum tg_output_state state, bool notify)
{
	struct rte_mbuf *piece[TG_FRAGMENTS_MAX];
	int i, n;

	if (state == TG_OUTPUT_ASK) {
		tg_output_ask(w, m, port, family, dst, output, notify);
		return;
	}
	if (state != TG_OUTPUT_CUT) {
		tg_output_refuse(w, m, port, l3_off, family, output, state, notify);
		return;
	}
	n = tg_fragment(w, m, tg_output_mtu(w, output->port), piece);
	for (i = 0; i < n; i++) {
		if (output->mac)
			tg_output_send(w, piece[i], l3_off, family, output);
		else
			tg_output_ask(w, piece[i], port, family, dst, output, false);
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
		known = !w->config->router ||
			tg_hops_neighbour(w->config->neighbours, &was.addr, was.family, was.port);
		late = w->now_ms - was.since_ms >= TG_WAIT_MS;
		if (!known && !late)
			continue;
		q->place[i].n = 0; /* first: a next hop still unknown is requested again */
		q->used--;
		for (k = 0; k < was.n; k++) {
			uint8_t family = was.frame[k].family;
			struct rte_mbuf *m = was.frame[k].m;
			const uint8_t *ip = TG_DATA(m) + TG_ETH_HDR_LEN;
			union tg_addr dst = {{0, 0}};

			memcpy(&dst, ip + (family == 4 ? 16 : 24), family == 4 ? 4 : 16);
			if (known) {
				tg_forward_ip(w, m, was.frame[k].came_by, TG_ETH_HDR_LEN, family,
					      &dst, was.frame[k].notify);
				continue;
			}
			if (was.frame[k].notify)
				tg_icmp_error_send(w, m, was.frame[k].came_by, TG_ETH_HDR_LEN,
						   family, TG_ICMP_NO_HOST, 0);
			tg_count(w, 0, TG_COUNT_drop_no_neighbour);
			tg_drop(w, m);
		}
	}
	for (i = 0; i < w->ports_n; i++)
		tg_flush(w, (uint16_t)i);
}
