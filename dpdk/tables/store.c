/* SPDX-License-Identifier: Apache-2.0
 *
 * Client data that wait for the server.
 */
#include "store.h"

static struct tg_store_place *tg_store_set(struct tg_store *s, uint64_t owner)
{
	return s->place[owner >> 40 & (TG_STORE_SETS - 1)];
}

bool tg_store_put(struct tg_store *s, uint64_t owner, uint32_t seq, struct rte_mbuf *m,
		  uint32_t now_ms)
{
	struct tg_store_place *p = tg_store_set(s, owner), *free_place = NULL;
	uint32_t i, mine = 0;

	for (i = 0; i < TG_STORE_PLACES; i++) {
		if (!p[i].m) {
			free_place = &p[i];
			continue;
		}
		if (p[i].owner != owner)
			continue;
		if (p[i].seq == seq && p[i].m->pkt_len >= m->pkt_len) {
			rte_pktmbuf_free(m);
			return true;
		}
		mine++;
	}
	if (!free_place || mine >= TG_STORE_FLOW_MAX)
		return false;
	*free_place = (struct tg_store_place){m, owner, seq, now_ms};
	return true;
}

struct rte_mbuf *tg_store_take(struct tg_store *s, uint64_t owner)
{
	struct tg_store_place *p = tg_store_set(s, owner), *first = NULL;
	struct rte_mbuf *m;
	uint32_t i;

	for (i = 0; i < TG_STORE_PLACES; i++)
		if (p[i].m && p[i].owner == owner && (!first || (int32_t)(p[i].seq - first->seq) < 0))
			first = &p[i];
	if (!first)
		return NULL;
	m = first->m;
	first->m = NULL;
	return m;
}

uint32_t tg_store_sweep(struct tg_store *s, uint32_t now_ms)
{
	struct tg_store_place *p = s->place[s->sweep++ & (TG_STORE_SETS - 1)];
	uint32_t i, n = 0;

	for (i = 0; i < TG_STORE_PLACES; i++) {
		if (p[i].m && now_ms - p[i].since_ms >= TG_STORE_AGE_MS) {
			rte_pktmbuf_free(p[i].m);
			p[i].m = NULL;
			n++;
		}
	}
	return n;
}

void tg_store_free(struct tg_store *s)
{
	struct rte_mbuf *m;
	uint32_t i, k;

	for (i = 0; i < TG_STORE_SETS; i++)
		for (k = 0; k < TG_STORE_PLACES; k++) {
			m = s->place[i][k].m;
			s->place[i][k].m = NULL;
			rte_pktmbuf_free(m);
		}
}
