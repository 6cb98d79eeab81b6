/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames that wait for their next hop.
 */
#include "waiting.h"

static void tg_asks_put(struct tg_asks *a, struct tg_ask ask)
{
	uint32_t head = atomic_load_explicit(&a->head, memory_order_relaxed);

	if (head - atomic_load_explicit(&a->tail, memory_order_acquire) == TG_ASKS)
		return; /* the next hop is requested again when the place is free */
	a->ask[head % TG_ASKS] = ask;
	atomic_store_explicit(&a->head, head + 1, memory_order_release);
}

bool tg_asks_take(struct tg_asks *a, struct tg_ask *ask)
{
	uint32_t tail = atomic_load_explicit(&a->tail, memory_order_relaxed);

	if (tail == atomic_load_explicit(&a->head, memory_order_acquire))
		return false;
	*ask = a->ask[tail % TG_ASKS];
	atomic_store_explicit(&a->tail, tail + 1, memory_order_release);
	return true;
}

/* The neighbour's place, or a free one; NULL: none is left for it. */
static struct tg_wait_place *tg_waiting_place(struct tg_waiting *q, const union tg_addr *addr,
					      uint8_t family, const struct tg_route *r)
{
	bool host = r->kind == TG_ROUTE_ONLINK;
	uint32_t i = host ? TG_WAIT_GATEWAYS : 0, end = host ? TG_WAIT_PLACES : TG_WAIT_GATEWAYS,
		 same = 0;
	struct tg_wait_place *free_one = NULL;

	for (; i < end; i++) {
		struct tg_wait_place *p = &q->place[i];

		if (!p->n) {
			free_one = free_one ? free_one : p;
			continue;
		}
		if (p->addr.d[0] == addr->d[0] && p->addr.d[1] == addr->d[1] &&
		    p->family == family && p->port == r->port)
			return p;
		same += p->route == r->number;
	}
	return host && same >= TG_WAIT_A_ROUTE ? NULL : free_one;
}

/* True if two untagged frames of a family are equal from their addresses to the TCP
 * flags: a retransmission. */
static bool tg_waiting_same(const struct rte_mbuf *a, const struct rte_mbuf *b, uint8_t family)
{
	uint32_t from = 14 + (family == 4 ? 12 : 8), len = (family == 4 ? 8 : 32) + 14;

	return a->data_len == b->data_len && a->data_len >= from + len &&
	       memcmp(rte_pktmbuf_mtod_offset(a, const uint8_t *, from),
		      rte_pktmbuf_mtod_offset(b, const uint8_t *, from), len) == 0;
}

bool tg_waiting_put(struct tg_waiting *q, const union tg_addr *addr, uint8_t family,
		    const struct tg_route *r, struct rte_mbuf *m, uint16_t came_by,
		    uint8_t frame_family, bool notify, uint32_t now_ms)
{
	struct tg_wait_place *p = tg_waiting_place(q, addr, family, r);
	uint32_t i;

	if (!p)
		return false;
	if (!p->n) {
		p->addr = *addr;
		p->route = r->number;
		p->family = family;
		p->port = r->port;
		p->since_ms = now_ms;
		p->asked_ms = now_ms - TG_ASK_MS;
		q->used++;
	}
	if (now_ms - p->asked_ms >= TG_ASK_MS) {
		tg_asks_put(&q->asks,
			    (struct tg_ask){*addr, family, r->port, r->kind == TG_ROUTE_ONLINK});
		p->asked_ms = now_ms;
	}
	if (p->n == TG_WAIT_FRAMES)
		return false;
	for (i = 0; i < p->n && !notify; i++)
		if (p->frame[i].family == frame_family &&
		    tg_waiting_same(p->frame[i].m, m, frame_family))
			return false;
	p->frame[p->n].m = m;
	p->frame[p->n].came_by = came_by;
	p->frame[p->n].family = frame_family;
	p->frame[p->n].notify = notify;
	p->n++;
	return true;
}

uint32_t tg_waiting_frames(const struct tg_waiting *q)
{
	uint32_t i, n = 0;

	for (i = 0; q->used && i < TG_WAIT_PLACES; i++)
		n += q->place[i].n;
	return n;
}

void tg_waiting_free(struct tg_waiting *q)
{
	uint32_t i;

	for (i = 0; i < TG_WAIT_PLACES; i++)
		while (q->place[i].n)
			rte_pktmbuf_free(q->place[i].frame[--q->place[i].n].m);
	q->used = 0;
}
