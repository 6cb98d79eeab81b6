/* SPDX-License-Identifier: Apache-2.0
 *
 * Retransmissions of the SYN cache.
 */
#include "cache.h"

void tg_cache_retransmit(struct tg_worker *w)
{
	uint32_t tick = TG_HALFOPEN_TICK(w->now_ns), look = w->cache.mask / 512 + 1, i, len;
	struct rte_mbuf *m;

	for (; look; look--, w->cache.next++) {
		struct tg_halfopen_bucket *b = &w->cache.buckets[w->cache.next & w->cache.mask];

		for (i = 0; i < TG_HALFOPEN_WAYS; i++) {
			const struct tg_halfopen *h = &b->halfopens[i];
			struct tg_segment s;

			if (!tg_halfopen_is_due(b->heads[i], tick))
				continue;
			b->heads[i] += TG_HALFOPEN_SENT_ONE;
			s = tg_halfopen_answer(h);
			len = s.l3_off + tg_segment_len(&s);
			m = rte_pktmbuf_alloc(w->pool);
			if (!m || h->ifindex >= w->ports_n || !rte_pktmbuf_append(m, (uint16_t)len)) {
				rte_pktmbuf_free(m);
				return;
			}
			memcpy(TG_DATA(m), h->link, s.l3_off);
			(void)tg_segment_write(
				(struct tg_writer){TG_DATA(m) + s.l3_off, TG_DATA(m) + len}, &s);
			tg_count(w, h->service, TG_COUNT_cache_retransmit);
			tg_send(w, (uint16_t)h->ifindex, m);
			tg_flush(w, (uint16_t)h->ifindex);
			return; /* this bucket may have more entries that are due: continue there */
		}
	}
}
