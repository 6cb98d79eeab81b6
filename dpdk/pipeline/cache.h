/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategy `cache`: SYNs are kept and answered, ACKs and RSTs are held to what was
 * kept, as bpf/lib/proxy_cache.h does. All that is decided stands in
 * core/syn_cache.h; the cache is one core's own.
 */
#ifndef TG_DPDK_CACHE_H
#define TG_DPDK_CACHE_H

#include "flow_setup.h"
#include "intact.h"

/* First stage: asks for the hash of addresses and ports under the cache's key; the
 * message is that of a flow's hash. */
static inline void tg_foresee_half(struct tg_worker *w, struct tg_item *it)
{
	struct tg_siphash_batch *b = it->pkt.family == 4 ? &w->halves4 : &w->halves6;
	struct tg_flow_key key = tg_flow_key_of(&it->pkt, TG_TO_SERVER);
	uint32_t lane = b->n++, i = 0;

	b->m[i++][lane] = key.a[0];
	if (key.family != 4) {
		b->m[i++][lane] = key.a[1];
		b->m[i++][lane] = key.a[2];
		b->m[i++][lane] = key.a[3];
	}
	b->m[i][lane] = tg_flow_key_tail(&key);
	it->half_lane = (int16_t)lane;
}

static inline uint64_t tg_item_half_hash(const struct tg_worker *w, const struct tg_item *it)
{
	if (it->half_lane < 0)
		return tg_half_hash(&it->pkt, &w->cache.key);
	return it->pkt.family == 4 ? w->halves4.out[it->half_lane] : w->halves6.out[it->half_lane];
}

static inline struct tg_half_bucket *tg_half_bucket_of(const struct tg_worker *w, uint64_t hash)
{
	return &w->cache.buckets[tg_half_index(hash, w->cache.mask)];
}

/* Takes a place for the SYN and fills it. */
static inline struct tg_half *tg_cache_keep(struct tg_worker *w, const struct tg_item *it,
					    struct tg_half_bucket *b, uint64_t hash, uint32_t slot,
					    const struct tg_tcp_options *offered)
{
	struct tg_synack answer = tg_synack_agree(&it->pkt, offered, tg_told(w, &it->pkt, it->id));
	uint32_t tick = TG_HALF_TICK(w->now_ns);
	uint64_t head = 0;

	if (slot >= TG_HALF_WAYS) {
		slot = tg_half_victim(b, tick, &head) & (TG_HALF_WAYS - 1);
		if (tg_half_lives(head, tick))
			tg_count(w, it->id, TG_COUNT_cache_evicted);
	}
	tg_half_fill(&b->halves[slot], &it->pkt, offered, &answer, tg_half_isn(hash, w->now_ns),
		     TG_DATA(it->m));
	b->halves[slot].service = it->id;
	b->halves[slot].ifindex = it->port;
	b->heads[slot] = tg_half_head(hash, tick, 1);
	return &b->halves[slot];
}

/* Answers a SYN out of the cache, in which it is put if it is not there. */
static inline void tg_cache_syn(struct tg_worker *w, struct tg_item *it)
{
	uint64_t hash = tg_item_half_hash(w, it), head = 0;
	struct tg_half_bucket *b = tg_half_bucket_of(w, hash);
	struct tg_tcp_options offered;
	const struct tg_half *half;
	struct tg_decision d;
	struct tg_segment s;
	uint32_t slot;

	if (!tg_item_options(it, &offered)) {
		tg_count(w, it->id, TG_COUNT_drop_malformed);
		tg_drop(w, it->m);
		return;
	}
	d = tg_item_signed(w, it, &offered);
	tg_count(w, it->id, d.counter);
	if (TG_UNLIKELY(d.verdict != TG_REPLY)) {
		if (d.verdict == TG_DROP)
			tg_drop(w, it->m);
		else
			tg_forward(w, it);
		return;
	}
	slot = tg_half_find(b, hash, &it->pkt, &head);
	if (slot < TG_HALF_WAYS && b->halves[slot].client_isn == it->pkt.seq) {
		half = &b->halves[slot];
		tg_count(w, it->id, TG_COUNT_cache_known);
		if (tg_half_sent(head) < TG_HALF_SENDS) /* its asking was one of the times */
			b->heads[slot] = head + TG_HALF_SENT_ONE;
	} else {
		half = tg_cache_keep(w, it, b, hash, slot, &offered);
		tg_count(w, it->id, TG_COUNT_cache_kept);
	}
	s = tg_half_answer(half);
	s.l3_off = it->pkt.l3_off;
	if (!tg_segment_send(w, it->m, it->port, &s))
		tg_count(w, it->id, TG_COUNT_drop_tx);
}

/* A packet of a client that is not known here, with a flow that has ended, or is being
 * set up with other numbers, or none. */
static inline void tg_unknown_other(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e,
				    enum tg_counter invalid)
{
	if (e && e->flow.state == TG_FLOW_SETUP) {
		tg_drop(w, it->m);
		return;
	}
	if (e) { /* it has ended: a retransmission */
		tg_flow_forward(w, it, &e->flow, TG_TO_SERVER);
		return;
	}
	if (tg_item_is_ack(it))
		tg_count(w, it->id, invalid);
	tg_forward(w, it);
}

/* An ACK or a RST under `cache`, or a SYN-ACK that nobody asked for. */
static inline void tg_cache_other(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	uint64_t hash = tg_item_half_hash(w, it), head = 0;
	struct tg_half_bucket *b = tg_half_bucket_of(w, hash);
	uint32_t slot = tg_half_find(b, hash, &it->pkt, &head);
	struct tg_tcp_options o;
	struct tg_flow flow;
	struct tg_ack said;

	if (slot < TG_HALF_WAYS && tg_half_refused(&b->halves[slot], &it->pkt)) {
		b->heads[slot] = 0;
		tg_count(w, it->id, TG_COUNT_cache_reset);
		tg_drop(w, it->m); /* the server has never heard of it */
		return;
	}
	if (slot < TG_HALF_WAYS && tg_item_is_ack(it) && tg_item_options(it, &o)) {
		said = tg_host_read_ack(&it->pkt, &o);
		if (tg_half_accepts(&b->halves[slot], &it->pkt, &said)) {
			if (!tg_case_intact(w, it))
				return;
			flow = tg_flow_of_half(&b->halves[slot], &said, tg_item_window(it), w->now_ms);
			b->heads[slot] = tg_half_done(head, TG_HALF_TICK(w->now_ns));
			tg_count(w, it->id, TG_COUNT_cache_valid);
			(void)tg_flow_begin(w, it, &flow);
			return;
		}
	}
	tg_unknown_other(w, it, e, TG_COUNT_cache_invalid);
}

/* Sends one SYN-ACK again, if one is due in the next few buckets. Called with the
 * clock, so at most a thousand times a second, whatever a flood keeps in the cache. */
static inline void tg_cache_again(struct tg_worker *w)
{
	uint32_t tick = TG_HALF_TICK(w->now_ns), look = w->cache.mask / 512 + 1, i, len;
	struct rte_mbuf *m;

	for (; look; look--, w->cache.next++) {
		struct tg_half_bucket *b = &w->cache.buckets[w->cache.next & w->cache.mask];

		for (i = 0; i < TG_HALF_WAYS; i++) {
			const struct tg_half *h = &b->halves[i];
			struct tg_segment s;

			if (!tg_half_is_due(b->heads[i], tick))
				continue;
			b->heads[i] += TG_HALF_SENT_ONE;
			s = tg_half_answer(h);
			len = s.l3_off + tg_segment_len(&s);
			m = rte_pktmbuf_alloc(w->pool);
			if (!m || h->ifindex >= w->ports_n || !rte_pktmbuf_append(m, (uint16_t)len)) {
				rte_pktmbuf_free(m);
				return;
			}
			memcpy(TG_DATA(m), h->link, s.l3_off);
			(void)tg_segment_write((struct tg_writer){TG_DATA(m) + s.l3_off, TG_DATA(m) + len}, &s);
			tg_count(w, h->service, TG_COUNT_cache_again);
			tg_send(w, (uint16_t)h->ifindex, m);
			tg_flush(w, (uint16_t)h->ifindex);
			return; /* this bucket may have more: it is where to go on */
		}
	}
}

#endif
