/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline's stage between the first and the last: the hashes of a burst, by kind, and the lines of the tables that
 * they select, which are fetched meanwhile. SYNs of a group have hashed their cookies already (wide_servers.h).
 */
#ifndef TG_DPDK_HASH_H
#define TG_DPDK_HASH_H

#include "cache.h"
#include "fast_cache.h"
#include "flow.h"

static inline void tg_hash_batch(const struct tg_worker *w, struct tg_siphash_batch *b)
{
	if (b->n)
		w->variant->run(b);
}

static inline void tg_prefetch_buckets(const struct tg_worker *w, const struct tg_siphash_batch *b)
{
	const struct tg_bucket *buckets = tg_flow_buckets(w->flows.swap.active);
	uint32_t i;

	for (i = 0; i < b->n; i++)
		__builtin_prefetch(&buckets[tg_flow_first(&w->flows, b->out[i])]);
}

static inline void tg_prefetch_flows(struct tg_worker *w, uint32_t n)
{
	uint32_t i;

	tg_prefetch_buckets(w, &w->flows4);
	tg_prefetch_buckets(w, &w->flows6);
	for (i = 0; i < n; i++) {
		struct tg_item *it = &w->items[i];

		if (w->fast.path[i] == TG_SLOW_PATH && it->todo == TG_TODO_TCP && it->flow_lane >= 0)
			(void)tg_flow_prefetch(&w->flows, tg_lane_flow(w, it), it->pkt.family);
	}
}

/* For frames on the fast path. */
static inline void tg_hash_fast(struct tg_worker *w)
{
	if (TG_UNLIKELY(w->fast.halves4.n | w->fast.halves6.n | w->fast.wide_halves.n |
			w->fast.wide_halves6.n)) {
		tg_hash_batch(w, &w->fast.wide_halves);
		tg_fast_cache_fetch(w, &w->fast.wide_halves);
		tg_hash_batch(w, &w->fast.wide_halves6);
		tg_fast_cache_fetch(w, &w->fast.wide_halves6);
		tg_hash_batch(w, &w->fast.halves4);
		tg_fast_cache_fetch(w, &w->fast.halves4);
		tg_hash_batch(w, &w->fast.halves6);
		tg_fast_cache_fetch(w, &w->fast.halves6);
	}
	tg_hash_batch(w, &w->fast.flows4);
	tg_hash_batch(w, &w->fast.flows6);
	tg_hash_batch(w, &w->fast.wide_flows);
	tg_prefetch_buckets(w, &w->fast.wide_flows);
	tg_prefetch_buckets(w, &w->fast.flows4);
	tg_prefetch_buckets(w, &w->fast.flows6);
	tg_hash_batch(w, &w->fast.cookies4.batch);
	tg_hash_batch(w, &w->fast.cookies6.batch);
}

static inline void tg_hash_all(struct tg_worker *w, uint32_t n)
{
	uint32_t i;

	tg_hash_batch(w, &w->cookies4);
	tg_hash_batch(w, &w->cookies6);
	if (w->flows4.n | w->flows6.n) {
		tg_hash_batch(w, &w->flows4);
		tg_hash_batch(w, &w->flows6);
		tg_prefetch_flows(w, n);
	}
	tg_hash_batch(w, &w->halves4);
	tg_hash_batch(w, &w->halves6);
	for (i = 0; i < w->halves4.n; i++)
		__builtin_prefetch(tg_halfopen_bucket_of(w, w->halves4.out[i]), 1);
	for (i = 0; i < w->halves6.n; i++)
		__builtin_prefetch(tg_halfopen_bucket_of(w, w->halves6.out[i]), 1);
}

#endif
