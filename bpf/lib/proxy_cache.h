/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Strategy `cache` in BPF: SYNs are kept and answered, ACKs and RSTs are held to
 * what was kept. All that is decided stands in core/syn_cache.h.
 */
#ifndef TG_BPF_PROXY_CACHE_H
#define TG_BPF_PROXY_CACHE_H

#include "proxy_answer_common.h"
#include "signed.h"

static __always_inline struct tg_half_bucket *tg_half_bucket_of(const struct tg_packet *pkt,
								uint64_t *hash)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u32 index;

	if (!proxy)
		return 0;
	*hash = tg_half_hash(pkt, &proxy->cache_key);
	index = tg_half_index(*hash, proxy->cache_mask);
	return bpf_map_lookup_elem(&tg_halves, &index);
}

/* Takes a place for the SYN and fills it. The place's number, or TG_HALF_WAYS. */
static __always_inline __u32 tg_cache_keep(struct xdp_md *ctx, const struct tg_packet *syn,
					   struct tg_half_bucket *b, uint64_t hash, __u32 slot,
					   uint64_t head, __u32 id, const struct tg_tcp_options *offered,
					   struct tg_counter_row *row)
{
	const __u8 *data = (void *)(long)ctx->data;
	struct tg_service told = {};
	__u64 now_ns = TG_CLOCK_NS();
	struct tg_synack answer;

	if (tg_told(syn, id, &told) || data + TG_HALF_LINK_LEN > (const __u8 *)(long)ctx->data_end)
		return TG_HALF_WAYS;
	answer = tg_synack_agree(syn, offered, tg_told_hidden(&told));
	if (slot >= TG_HALF_WAYS) {
		slot = tg_half_victim(b, TG_HALF_TICK(now_ns), &head);
		if (slot < TG_HALF_WAYS && tg_half_lives(head, TG_HALF_TICK(now_ns)))
			tg_count(row, TG_COUNT_cache_evicted);
	}
	if (slot >= TG_HALF_WAYS || !tg_half_swap(&b->heads[slot], head, TG_HALF_BUSY))
		return TG_HALF_WAYS;
	tg_half_fill(&b->halves[slot], syn, offered, &answer, tg_half_isn(hash, now_ns), data);
	b->halves[slot].service = (__u16)id;
	b->halves[slot].ifindex = ctx->ingress_ifindex;
	tg_half_publish(&b->heads[slot], tg_half_head(hash, TG_HALF_TICK(now_ns), 1));
	return slot;
}

/* Answers a SYN out of the cache, in which it is put if it is not there. */
__attribute__((noinline)) int tg_cache_syn(struct xdp_md *ctx, const struct tg_packet *syn, __u32 id)
{
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_tcp_options offered = {};
	struct tg_half_bucket *b;
	struct tg_segment s;
	uint64_t hash, head = 0;
	__u32 slot;

	if (!syn || !row)
		return XDP_DROP;
	if (tg_case_options(ctx, syn, &offered)) {
		tg_count(row, TG_COUNT_drop_malformed);
		return XDP_DROP;
	}
	if (TG_UNLIKELY(offered.auth)) {
		int verdict = tg_signed_syn(offered.auth, id);

		if (verdict != TG_REPLY)
			return verdict == TG_DROP ? XDP_DROP : tg_forward(ctx, syn);
	}
	b = tg_half_bucket_of(syn, &hash);
	if (!b)
		return XDP_DROP;
	slot = tg_half_find(b, hash, syn, &head);
	if (slot < TG_HALF_WAYS && b->halves[slot].client_isn == syn->seq) {
		tg_count(row, TG_COUNT_cache_known);
		if (tg_half_sent(head) < TG_HALF_SENDS) /* its asking was one of the times */
			tg_half_swap(&b->heads[slot], head, head + TG_HALF_SENT_ONE);
	} else {
		slot = tg_cache_keep(ctx, syn, b, hash, slot, head, id, &offered, row);
		if (slot >= TG_HALF_WAYS) {
			tg_count(row, TG_COUNT_cache_busy);
			return XDP_DROP;
		}
		tg_count(row, TG_COUNT_cache_kept);
	}
	s = tg_half_answer(&b->halves[slot & (TG_HALF_WAYS - 1)]);
	s.l3_off = syn->l3_off;
	if (tg_segment_put(ctx, &s)) {
		tg_count(row, TG_COUNT_drop_tx);
		return XDP_DROP;
	}
	return XDP_TX;
}

/* An ACK or a RST under `cache`, or a SYN-ACK that nobody asked for. */
__attribute__((noinline)) int tg_cache_other(struct xdp_md *ctx, struct tg_packet *pkt, __u32 id)
{
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_flow *f, *flow = tg_next_flow_get();
	struct tg_ack said = {};
	struct tg_half_bucket *b;
	uint64_t hash, head = 0;
	__u32 slot;
	__u16 window;

	if (!pkt || !row || !flow)
		return XDP_DROP;
	b = tg_half_bucket_of(pkt, &hash);
	if (!b)
		return XDP_DROP;
	slot = tg_half_find(b, hash, pkt, &head);
	if (slot < TG_HALF_WAYS && tg_half_refused(&b->halves[slot], pkt)) {
		if (tg_half_swap(&b->heads[slot], head, 0))
			tg_count(row, TG_COUNT_cache_reset);
		return XDP_DROP; /* the server has never heard of it */
	}
	if (slot < TG_HALF_WAYS && tg_host_is_ack(pkt) && tg_case_read_ack(ctx, pkt, &said, &window) &&
	    tg_half_accepts(&b->halves[slot], pkt, &said)) {
		if (!tg_case_intact(ctx, pkt, row))
			return XDP_DROP;
		*flow = tg_flow_of_half(&b->halves[slot], &said, window, tg_now_ms());
		if (!tg_half_swap(&b->heads[slot], head, tg_half_done(head, TG_HALF_TICK(TG_CLOCK_NS()))))
			return XDP_DROP;
		tg_count(row, TG_COUNT_cache_valid);
		return TG_NEXT_BEGIN;
	}
	f = tg_flow_find(pkt, TG_TO_SERVER);
	return tg_unknown_other(ctx, pkt, f, TG_COUNT_cache_invalid, row);
}

#endif
