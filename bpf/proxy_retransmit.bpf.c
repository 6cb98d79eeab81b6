/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Retransmits the SYN-ACKs of the SYN cache when they are due. A BPF program cannot send a packet
 * that it has not received, and no timer changes that; so userspace runs this one
 * (BPF_PROG_TEST_RUN), a slice of the cache at a time, and sends the frame that it writes. What is
 * due, and what is sent, is decided here.
 *
 * Must never: be attached anywhere.
 */
#include "lib/proxy_maps.h"

#define TG_RETRANSMIT_BUCKETS 512 /* looked at in one run */

/* The head of the buffer in hand; the frame follows. */
struct tg_retransmit {
	__u32 next;    /* bucket to begin with; afterwards, to go on with */
	__u32 ifindex; /* where to send the frame */
	__u32 len;     /* of the frame; 0: none is due in this slice */
	__u32 buckets; /* there are */
};

struct tg_retransmit_walk {
	__u32 next, slot, tick, mask;
	__u64 head;
};

static long tg_retransmit_look(__u64 turn, void *arg)
{
	struct tg_retransmit_walk *w = arg;
	__u32 index = w->next & w->mask, i;
	struct tg_halfopen_bucket *b = bpf_map_lookup_elem(&tg_halfopens, &index);

	(void)turn;
	if (!b)
		return 1;
	for (i = 0; i < TG_HALFOPEN_WAYS; i++) {
		__u64 head = tg_halfopen_read(&b->heads[i]);

		if (!tg_halfopen_is_due(head, w->tick))
			continue;
		w->head = tg_halfopen_retransmit(head, w->tick);
		if (tg_halfopen_swap(&b->heads[i], head, w->head)) {
			w->slot = i;
			return 1; /* this bucket may have more: continue there */
		}
	}
	w->next++;
	return w->next > w->mask;
}

/* Writes the frame. Its length, or 0. */
static __always_inline __u32 tg_retransmit_write(struct xdp_md *ctx, struct tg_retransmit_walk *w)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *frame = data + sizeof(struct tg_retransmit);
	__u32 index = w->next & w->mask, slot = w->slot, i, len;
	struct tg_halfopen_bucket *b = bpf_map_lookup_elem(&tg_halfopens, &index);
	struct tg_counter_row *row;
	struct tg_segment s;
	struct tg_halfopen *h;

	if (!b || slot >= TG_HALFOPEN_WAYS || frame + TG_HALFOPEN_LINK_LEN > end)
		return 0;
	h = &b->halfopens[slot];
	s = tg_halfopen_answer(h);
	if (s.l3_off > TG_HALFOPEN_LINK_LEN)
		return 0;
	for (i = 0; i < TG_HALFOPEN_LINK_LEN; i++)
		frame[i] = h->link[i];
	if (!tg_segment_write((struct tg_writer){frame + s.l3_off, end}, &s))
		return 0;
	((struct tg_retransmit *)data)->ifindex = h->ifindex;
	row = tg_counter_row_get(h->service);
	len = s.l3_off + tg_segment_len(&s);
	if (!tg_halfopen_still(&b->heads[slot], w->head))
		return 0; /* answered, or evicted, meanwhile */
	if (row)
		tg_count(row, TG_COUNT_cache_retransmit);
	return len;
}

SEC("xdp")
int tg_proxy_retransmit(struct xdp_md *ctx)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_retransmit *a = (void *)(long)ctx->data;
	struct tg_retransmit_walk w = {.slot = TG_HALFOPEN_WAYS,
				       .tick = TG_HALFOPEN_TICK(bpf_ktime_get_coarse_ns())};
	__u32 len;

	if ((void *)(a + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	w.mask = proxy->cache_mask;
	w.next = a->next;
	bpf_loop(TG_RETRANSMIT_BUCKETS, tg_retransmit_look, &w, 0);
	len = w.slot < TG_HALFOPEN_WAYS ? tg_retransmit_write(ctx, &w) : 0;
	a = (void *)(long)ctx->data;
	if ((void *)(a + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	a->next = w.next;
	a->len = len;
	a->buckets = w.mask + 1;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
