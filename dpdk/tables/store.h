/* SPDX-License-Identifier: Apache-2.0
 *
 * The first data of clients whose server is not ready yet (`first_data: store`):
 * the frames themselves, in a bounded pool. A flow's frames stand in one set of
 * places, found by the flow's hash; a full set keeps no more (the client sends
 * again), and what has waited too long is given up.
 *
 * Must never: hold a frame without a bound in time; walk more than one set.
 */
#ifndef TG_DPDK_STORE_H
#define TG_DPDK_STORE_H

#include <rte_mbuf.h>

#include "../core/base.h"

#define TG_STORE_SETS 256
#define TG_STORE_PLACES 16 /* of a set */
#define TG_STORE_FLOW_MAX 12 /* of one flow: an initial window of ten segments, and two more */
#define TG_STORE_AGE_MS 3000

struct tg_store_place {
	struct rte_mbuf *m; /* NULL: free */
	uint64_t owner;     /* the flow's hash */
	uint32_t seq;
	uint32_t since_ms;
};

struct tg_store {
	struct tg_store_place place[TG_STORE_SETS][TG_STORE_PLACES];
	uint32_t sweep; /* the set that is looked at next */
};

static inline struct tg_store_place *tg_store_set(struct tg_store *s, uint64_t owner)
{
	return s->place[owner >> 40 & (TG_STORE_SETS - 1)];
}

/* Keeps a frame. False: no room, the frame is still the caller's. A segment that
 * is there already is not kept twice: true, and the frame is freed. */
static inline bool tg_store_put(struct tg_store *s, uint64_t owner, uint32_t seq,
				struct rte_mbuf *m, uint32_t now_ms)
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

/* Takes the flow's frame with the lowest sequence number; NULL: none is left. */
static inline struct rte_mbuf *tg_store_take(struct tg_store *s, uint64_t owner)
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

/* Gives up what is too old in the next set; returns how many. */
static inline uint32_t tg_store_sweep(struct tg_store *s, uint32_t now_ms)
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

static inline void tg_store_free(struct tg_store *s)
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

#endif
