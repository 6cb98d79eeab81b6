/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategy `cache`: SYNs are kept and answered, ACKs and RSTs are held to what was
 * kept, as bpf/lib/proxy_cache.h does. All that is decided stands in
 * core/syn_cache.h; the cache is one core's own.
 */
#ifndef TG_DPDK_CACHE_H
#define TG_DPDK_CACHE_H

#include "../core/syn_cache.h"
#include "advertised.h"
#include "flow_setup.h"
#include "intact.h"

/* First stage: requests the hash of addresses and ports under the cache's key; the
 * message is that of a flow's hash. */
static inline void tg_foresee_halfopen(struct tg_worker *w, struct tg_item *it)
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

static inline uint64_t tg_item_halfopen_hash(const struct tg_worker *w, const struct tg_item *it)
{
	if (it->half_lane < 0)
		return tg_halfopen_hash(&it->pkt, &w->cache.key);
	return it->pkt.family == 4 ? w->halves4.out[it->half_lane] : w->halves6.out[it->half_lane];
}

static inline struct tg_halfopen_bucket *tg_halfopen_bucket_of(const struct tg_worker *w,
							       uint64_t hash)
{
	return &w->cache.buckets[tg_halfopen_index(hash, w->cache.mask)];
}

/* Takes a place for the SYN and fills it. */
static inline struct tg_halfopen *tg_cache_keep(struct tg_worker *w, const struct tg_item *it,
						struct tg_halfopen_bucket *b, uint64_t hash,
						uint32_t slot, const struct tg_tcp_options *offered)
{
	struct tg_synack answer = tg_synack_agree(&it->pkt, offered,
						  tg_advertised(w, &it->pkt, it->id));
	uint32_t tick = TG_HALFOPEN_TICK(w->now_ns);
	uint64_t head = 0;

	if (slot >= TG_HALFOPEN_WAYS) {
		slot = tg_halfopen_victim(b, tick, &head) & (TG_HALFOPEN_WAYS - 1);
		if (tg_halfopen_lives(head, tick))
			tg_count(w, it->id, TG_COUNT_cache_evicted);
	}
	tg_halfopen_fill(&b->halfopens[slot], &it->pkt, offered, &answer,
			 tg_halfopen_isn(hash, w->now_ns), TG_DATA(it->m));
	b->halfopens[slot].service = it->id;
	b->halfopens[slot].ifindex = it->port;
	b->heads[slot] = tg_halfopen_head(hash, tick, 1);
	return &b->halfopens[slot];
}

/* True if the clients of all places may still answer, so that a newcomer is to get a cookie. Without a
 * key there is none: then the oldest loses its place. */
static inline bool tg_cache_is_full(const struct tg_worker *w, struct tg_halfopen_bucket *b)
{
	uint32_t tick = TG_HALFOPEN_TICK(w->now_ns);
	uint64_t head = 0;

	(void)tg_halfopen_victim(b, tick, &head);
	if (TG_LIKELY(!tg_halfopen_lives(head, tick)) || !w->key_now)
		return false;
	tg_halfopen_gives_cookie(b, w->epoch);
	return true;
}

/* Answers a SYN whose place is `slot` or, if that is none, that is to get one. */
static inline void tg_cache_reply(struct tg_worker *w, struct tg_item *it,
				  struct tg_halfopen_bucket *b, uint64_t hash, uint32_t slot,
				  uint64_t head, const struct tg_tcp_options *offered)
{
	const struct tg_halfopen *half;
	struct tg_segment s;

	if (slot < TG_HALFOPEN_WAYS && b->halfopens[slot].client_isn == it->pkt.seq) {
		half = &b->halfopens[slot];
		tg_count(w, it->id, TG_COUNT_cache_known);
		if (tg_halfopen_sent(head) < TG_HALFOPEN_SENDS) /* this retransmission counts */
			b->heads[slot] = head + TG_HALFOPEN_SENT_ONE;
	} else {
		half = tg_cache_keep(w, it, b, hash, slot, offered);
		tg_count(w, it->id, TG_COUNT_cache_kept);
	}
	s = tg_halfopen_answer(half);
	s.l3_off = it->pkt.l3_off;
	if (!tg_segment_send(w, it->m, it->port, &s))
		tg_count(w, it->id, TG_COUNT_drop_tx);
}

/* Answers a SYN from the cache, inserting it if needed. False, with nothing done and its options
 * unread, if it is to get a cookie. */
static inline bool tg_cache_syn(struct tg_worker *w, struct tg_item *it)
{
	uint64_t hash = tg_item_halfopen_hash(w, it), head = 0;
	struct tg_halfopen_bucket *b = tg_halfopen_bucket_of(w, hash);
	struct tg_tcp_options offered;
	struct tg_decision d;
	uint32_t slot;

	slot = tg_halfopen_find(b, hash, &it->pkt, &head);
	if (slot >= TG_HALFOPEN_WAYS && tg_cache_is_full(w, b))
		return false;
	if (!tg_item_options(it, &offered)) {
		tg_count(w, it->id, TG_COUNT_drop_malformed);
		tg_drop(w, it->m);
		return true;
	}
	d = tg_item_signed(w, it, &offered);
	tg_count(w, it->id, d.counter);
	if (TG_UNLIKELY(d.verdict != TG_REPLY)) {
		if (d.verdict == TG_DROP)
			tg_drop(w, it->m);
		else
			tg_forward(w, it);
		return true;
	}
	tg_cache_reply(w, it, b, hash, slot, head, &offered);
	return true;
}

/* An ACK or a RST that matches no opened connection; `e` is a flow of its tuple, or NULL. */
static inline void tg_unknown_other(struct tg_worker *w, struct tg_item *it,
				    struct tg_flow_entry *e, enum tg_counter invalid)
{
	switch (tg_proxy_unknown(e ? &e->flow : NULL)) {
	case TG_UNKNOWN_DROP:
		tg_drop(w, it->m);
		break;
	case TG_UNKNOWN_TRANSLATE:
		tg_flow_forward(w, it, e, TG_TO_SERVER);
		break;
	default:
		tg_count(w, it->id, tg_item_may_prove(w, it) ? invalid : TG_COUNT_NOTHING);
		tg_forward(w, it);
	}
}

/* An ACK or a RST under `cache`, or an unsolicited SYN-ACK. False, with nothing done, if it may carry
 * a cookie that the bucket gave. */
static inline bool tg_cache_other(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	uint64_t hash = tg_item_halfopen_hash(w, it), head = 0;
	struct tg_halfopen_bucket *b = tg_halfopen_bucket_of(w, hash);
	uint32_t slot = tg_halfopen_find(b, hash, &it->pkt, &head);
	struct tg_tcp_options o;
	struct tg_flow flow;
	struct tg_ack ack_info;

	if (slot < TG_HALFOPEN_WAYS && tg_halfopen_refused(&b->halfopens[slot], &it->pkt)) {
		b->heads[slot] = 0;
		tg_count(w, it->id, TG_COUNT_cache_reset);
		tg_drop(w, it->m); /* the server knows nothing of it */
		return true;
	}
	if (slot < TG_HALFOPEN_WAYS && tg_item_may_prove(w, it) && tg_item_options(it, &o)) {
		ack_info = tg_host_read_ack(&it->pkt, &o);
		if (tg_halfopen_accepts(&b->halfopens[slot], &it->pkt, &ack_info)) {
			if (!tg_noflow_intact(w, it))
				return true;
			it->pkt.seq = b->halfopens[slot].client_isn + 1; /* of a window probe, too */
			flow = tg_flow_of_halfopen(&b->halfopens[slot], &ack_info,
						   tg_item_window(it), w->now_ms);
			b->heads[slot] = tg_halfopen_done(head, TG_HALFOPEN_TICK(w->now_ns));
			tg_count(w, it->id, TG_COUNT_cache_valid);
			(void)tg_flow_begin(w, it, &flow);
			return true;
		}
	}
	if (tg_item_may_prove(w, it) && tg_halfopen_takes_cookie(b, w->verify_epoch))
		return false;
	tg_unknown_other(w, it, e, TG_COUNT_cache_invalid);
	return true;
}

/* Retransmits one SYN-ACK, if one is due in the next few buckets. Called with the
 * clock, so at most a thousand times a second, whatever a flood keeps in the cache. */
void tg_cache_retransmit(struct tg_worker *w);

#endif
