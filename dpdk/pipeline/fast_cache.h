/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of strategy `cache`. A SYN whose bucket of the SYN cache is full of clients that may still
 * answer gets a cookie, as fast_syn.h makes it, and the bucket notes that it gave one
 * (core/syn_cache.h): that is what a flood's SYNs are once they have filled the cache. One that
 * finds a free place, or that stands in the bucket already, is answered by cache.h, without the parser.
 *
 * A SYN reads one cache line of its bucket, and the next one where that notes the epoch; those of a burst are
 * fetched together.
 */
#ifndef TG_DPDK_FAST_CACHE_H
#define TG_DPDK_FAST_CACHE_H

#include "cache.h"
#include "fast.h"

/* The buckets of a batch of hashes. */
TG_INLINE void tg_fast_cache_fetch(const struct tg_worker *w, const struct tg_siphash_batch *b)
{
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		const struct tg_halfopen_bucket *bucket = tg_halfopen_bucket_of(w, b->out[i]);

		__builtin_prefetch(bucket->heads);
		__builtin_prefetch(&bucket->halfopens[0].cookie_epoch, 1);
	}
}

/* True if a SYN of this hash gets a cookie, which its bucket then knows. */
TG_INLINE bool tg_fast_cache_is_full(struct tg_worker *w, uint64_t hash)
{
	struct tg_halfopen_bucket *b = tg_halfopen_bucket_of(w, hash);
	uint32_t tick = TG_HALFOPEN_TICK(w->now_ns), i, full = 1;

	for (i = 0; i < TG_HALFOPEN_WAYS; i++)
		full &= tg_halfopen_lives(b->heads[i], tick) &
			(b->heads[i] >> TG_HALFOPEN_TAG_SHIFT != hash >> TG_HALFOPEN_TAG_SHIFT);
	if (!full)
		return false;
	tg_halfopen_gives_cookie(b, w->epoch);
	return true;
}

#endif
