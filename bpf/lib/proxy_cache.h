/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Strategy `cache` in BPF: SYNs are kept and answered, ACKs and RSTs are held to
 * what was kept. All that is decided stands in core/syn_cache.h and core/syn_cache_front.h.
 */
#ifndef TG_BPF_PROXY_CACHE_H
#define TG_BPF_PROXY_CACHE_H

#include "proxy_answer_common.h"
#include "reflect.h"
#include "signed.h"

/* A tuple's place in the cache. */
struct tg_cache_at {
	uint64_t hash;
	__u32 home, index; /* of the bucket */
};

static __always_inline struct tg_cache_at tg_cache_at(const struct tg_proxy_settings *proxy,
						      const struct tg_packet *pkt)
{
	struct tg_cache_at at;

	at.hash = tg_halfopen_hash(pkt, &proxy->cache_key);
	at.home = tg_halfopen_home(pkt, proxy->presence_salt, &proxy->cache_key);
	at.index = at.home & proxy->cache_mask;
	return at;
}

static __always_inline struct tg_halfopen_bucket *tg_halfopen_bucket_of(struct tg_cache_at *at)
{
	return bpf_map_lookup_elem(&tg_halfopens, &at->index);
}

static __always_inline struct tg_halfopen_front *tg_halfopen_front_of(struct tg_cache_at *at)
{
	return bpf_map_lookup_elem(&tg_half_fronts, &at->index);
}

/* True if the SYN gets a cookie, as its bucket would have it. Costs no SipHash, and nothing of the bucket. */
static __always_inline bool tg_cache_looks_full(const struct tg_proxy_settings *proxy,
						const struct tg_host_settings *settings,
						const struct tg_packet *syn)
{
	__u32 home = tg_halfopen_home(syn, proxy->presence_salt, &proxy->cache_key);
	__u32 index = home & proxy->cache_mask;
	const struct tg_halfopen_front *f = bpf_map_lookup_elem(&tg_half_fronts, &index);

	__u64 now_ns = tg_clock_ns(settings);

	return f && tg_halfopen_front_is_full(
			    f, home, TG_HALFOPEN_TICK(now_ns),
			    tg_epoch_of(settings, now_ns + settings->wall_minus_mono_ns));
}

/* Notes in front of the bucket that all its places are taken. */
static __always_inline void tg_cache_note_full(struct tg_cache_at *at, uint64_t oldest, __u64 epoch)
{
	struct tg_halfopen_front *f = tg_halfopen_front_of(at);

	if (f)
		tg_halfopen_front_note(f, oldest, epoch);
}

static __always_inline void tg_cache_note_free(struct tg_cache_at *at)
{
	struct tg_halfopen_front *f = tg_halfopen_front_of(at);

	if (f)
		tg_halfopen_front_frees(f);
}

/* Notes who takes a place, which is BUSY until then. */
static __always_inline void tg_cache_note_taken(struct tg_cache_at *at, __u32 slot)
{
	struct tg_halfopen_front *f = tg_halfopen_front_of(at);

	if (f)
		tg_halfopen_front_takes(f, slot, at->home);
}

/* A place's number among all. */
#define TG_CACHE_PLACE(index, slot) ((index) * TG_HALFOPEN_WAYS + (slot))

/* Takes a place for the SYN and fills it. The place's number, or TG_HALFOPEN_WAYS. */
static __always_inline __u32 tg_cache_keep(struct xdp_md *ctx, const struct tg_packet *syn,
					   struct tg_halfopen_bucket *b, struct tg_cache_at *at,
					   __u32 slot, uint64_t head, __u32 id,
					   const struct tg_tcp_options *offered,
					   struct tg_counter_row *row)
{
	const __u8 *data = (void *)(long)ctx->data;
	struct tg_service advertised = {};
	__u64 now_ns = TG_CLOCK_NS();
	struct tg_synack answer;

	if (tg_advertised(syn, id, &advertised) ||
	    data + TG_HALFOPEN_LINK_LEN > (const __u8 *)(long)ctx->data_end)
		return TG_HALFOPEN_WAYS;
	answer = tg_synack_agree(syn, offered, tg_advertised_hidden(&advertised));
	if (slot >= TG_HALFOPEN_WAYS) {
		slot = tg_halfopen_victim(b, TG_HALFOPEN_TICK(now_ns), &head);
		TG_FORGET(slot, at->hash);
		if (slot < TG_HALFOPEN_WAYS && tg_halfopen_lives(head, TG_HALFOPEN_TICK(now_ns)))
			tg_count(row, TG_COUNT_cache_evicted);
	}
	if (slot >= TG_HALFOPEN_WAYS || !tg_halfopen_swap(&b->heads[slot], head, TG_HALFOPEN_BUSY))
		return TG_HALFOPEN_WAYS;
	tg_cache_note_taken(at, slot);
	tg_halfopen_fill(&b->halfopens[slot], syn, offered, &answer,
			 tg_halfopen_isn(at->hash, now_ns), data);
	b->halfopens[slot].service = (__u16)id;
	b->halfopens[slot].ifindex = tg_ingress(ctx);
	tg_halfopen_publish(&b->heads[slot], tg_halfopen_head(at->hash, TG_HALFOPEN_TICK(now_ns), 1));
	return slot;
}

/* True if the clients of all places may still answer, so that a newcomer is to get a cookie. Without a
 * key there is none: then the oldest loses its place. */
static __always_inline bool tg_cache_is_full(struct tg_halfopen_bucket *b, struct tg_cache_at *at)
{
	const struct tg_host_settings *settings = tg_settings_get();
	__u32 tick = TG_HALFOPEN_TICK(TG_CLOCK_NS());
	uint64_t head = 0;
	__u64 epoch;

	if (tg_halfopen_victim(b, tick, &head) >= TG_HALFOPEN_WAYS ||
	    TG_LIKELY(!tg_halfopen_lives(head, tick)))
		return false;
	epoch = tg_epoch_now(settings);
	if (!tg_key_find(settings, epoch))
		return false;
	tg_halfopen_gives_cookie(b, epoch);
	tg_cache_note_full(at, head, epoch);
	return true;
}

/* Answers a SYN from the cache, inserting it if needed: a verdict, or, with the number of the SYN's place
 * above it, TG_NEXT_CACHE_ANSWER. What gets a cookie is left to the program, with its options unread:
 * reading them uses an allowance. */
TG_GLOBAL __u64 tg_cache_syn(struct xdp_md *ctx, const struct tg_packet *syn, __u32 id)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_tcp_options offered = {};
	struct tg_halfopen_bucket *b;
	struct tg_cache_at at;
	uint64_t head = 0;
	__u32 slot;

	if (!syn || !row)
		return XDP_DROP;
	at = tg_cache_at(proxy, syn);
	b = tg_halfopen_bucket_of(&at);
	if (!b)
		return XDP_DROP;
	slot = tg_halfopen_find(b, at.hash, syn, &head);
	TG_FORGET(slot, at.hash);
	if (slot >= TG_HALFOPEN_WAYS && tg_cache_is_full(b, &at))
		return TG_NEXT_OF(TG_NEXT_COOKIE_SYN, id);
	if (tg_noflow_options(ctx, syn, &offered)) {
		tg_count(row, TG_COUNT_drop_malformed);
		return XDP_DROP;
	}
	if (TG_UNLIKELY(offered.auth)) {
		int verdict = tg_signed_syn(offered.auth, id);

		if (verdict != TG_REPLY)
			return verdict == TG_DROP ? XDP_DROP : (__u32)tg_forward(ctx, syn);
	}
	if (slot < TG_HALFOPEN_WAYS && b->halfopens[slot].client_isn == syn->seq) {
		tg_count(row, TG_COUNT_cache_known);
		if (tg_halfopen_sent(head) < TG_HALFOPEN_SENDS) /* this retransmission counts */
			tg_halfopen_swap(&b->heads[slot], head, head + TG_HALFOPEN_SENT_ONE);
	} else {
		slot = tg_cache_keep(ctx, syn, b, &at, slot, head, id, &offered, row);
		if (slot >= TG_HALFOPEN_WAYS) {
			tg_count(row, TG_COUNT_cache_busy);
			return XDP_DROP;
		}
		tg_count(row, TG_COUNT_cache_kept);
	}
	return (__u64)TG_CACHE_PLACE(at.index, slot) << 32 | TG_NEXT_OF(TG_NEXT_CACHE_ANSWER, id);
}

/* Puts the SYN-ACK of a place into the SYN's. */
TG_GLOBAL int tg_cache_answer(struct xdp_md *ctx, const struct tg_packet *syn, __u32 id, __u32 place)
{
	__u32 index = place / TG_HALFOPEN_WAYS;
	struct tg_halfopen_bucket *b = bpf_map_lookup_elem(&tg_halfopens, &index);
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_segment s;

	if (!syn || !b || !row)
		return XDP_DROP;
	s = tg_halfopen_answer(&b->halfopens[place % TG_HALFOPEN_WAYS]);
	s.l3_off = syn->l3_off;
	if (tg_segment_put(ctx, &s)) {
		tg_count(row, TG_COUNT_drop_tx);
		return XDP_DROP;
	}
	return XDP_TX;
}

/* An ACK or a RST under `cache`, or an unsolicited SYN-ACK. What the cache does not know may carry a
 * cookie that the bucket gave: it is left to the program as if it came under `cookie`. */
TG_GLOBAL int tg_cache_other(struct xdp_md *ctx, struct tg_packet *pkt, __u32 id)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_flow *f, *flow = tg_next_flow_get();
	const struct tg_host_settings *settings;
	struct tg_ack ack_info = {};
	struct tg_halfopen_bucket *b;
	struct tg_cache_at at;
	uint64_t head = 0;
	bool may_prove;
	__u32 slot;
	__u16 window;

	if (!pkt || !row || !flow)
		return XDP_DROP;
	at = tg_cache_at(proxy, pkt);
	b = tg_halfopen_bucket_of(&at);
	if (!b)
		return XDP_DROP;
	slot = tg_halfopen_find(b, at.hash, pkt, &head);
	TG_FORGET(slot, at.hash);
	if (slot < TG_HALFOPEN_WAYS && tg_halfopen_refused(&b->halfopens[slot], pkt)) {
		if (tg_halfopen_swap(&b->heads[slot], head, 0)) {
			tg_cache_note_free(&at);
			tg_count(row, TG_COUNT_cache_reset);
		}
		return XDP_DROP; /* the server has never heard of it */
	}
	may_prove = tg_proxy_may_prove(TG_STRATEGY_CACHE, pkt, (__u32)bpf_xdp_get_buff_len(ctx));
	if (slot < TG_HALFOPEN_WAYS && may_prove && tg_noflow_read_ack(ctx, pkt, &ack_info, &window) &&
	    tg_halfopen_accepts(&b->halfopens[slot], pkt, &ack_info)) {
		if (!tg_noflow_intact(ctx, pkt, row))
			return XDP_DROP;
		pkt->seq = b->halfopens[slot].client_isn + 1; /* of a window probe, too */
		*flow = tg_flow_of_halfopen(&b->halfopens[slot], &ack_info, window, tg_now_ms());
		if (!tg_halfopen_swap(&b->heads[slot], head,
				      tg_halfopen_done(head, TG_HALFOPEN_TICK(TG_CLOCK_NS()))))
			return XDP_DROP;
		tg_cache_note_free(&at);
		tg_count(row, TG_COUNT_cache_valid);
		return TG_NEXT_BEGIN;
	}
	settings = tg_settings_get();
	if (may_prove && tg_halfopen_takes_cookie(b, tg_epoch_verifying_now(settings)))
		return TG_NEXT_OF(TG_NEXT_OTHER, id);
	f = tg_flow_find(pkt, TG_TO_SERVER);
	return tg_unknown_other(ctx, pkt, f, may_prove ? TG_COUNT_cache_invalid : TG_COUNT_NOTHING,
				row);
}

#endif
