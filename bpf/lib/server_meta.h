/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the server role's XDP program passes to its TC program with a packet: a word of
 * XDP metadata before the frame, and a mark on packets that come a second time.
 */
#ifndef TG_BPF_SERVER_META_H
#define TG_BPF_SERVER_META_H

#include "kernel.h"

/* The segment is of a connection whose set-up the TC program has in hand. (Not used
 * with generic XDP: where the kernel copies the packet, TC reads it 14 bytes off.) */
#define TG_META_SETUP 0x74677331U

/* On skb->mark, while a packet is in the queue for its second time. A mark of that value from
 * elsewhere would be cleared, with no other effect. */
#define TG_MARK_RETRANSMIT 0x74677333U

/* On skb->mark, while a packet is in the queue for its second time: an ACK that the adopting gate
 * beside this one has verified, and that the kernel does not adopt; with the lowest bit, one whose adoption made no
 * socket, for a reason that its client cannot have caused. For host_tc.bpf.c numbers of turns that
 * are not reached. A mark of that value from elsewhere has the packet verified once more. */
#define TG_MARK_REFUSED 0x74676768U
#define TG_MARK_EVIDENCE 1U

static __always_inline bool tg_mark_is_refused(__u32 mark)
{
	return (mark ^ TG_MARK_REFUSED) <= TG_MARK_EVIDENCE;
}

/* On skb->mark, of the translated copy of a packet whose original becomes a
 * confirmation: the egress program lets it pass. */
#define TG_MARK_DONE 0x74677334U

/* 0, or negative: the driver has no metadata, or no room for it. */
static __always_inline int tg_meta_set(struct xdp_md *ctx)
{
	__u32 *meta;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
		return -TG_EINVAL;
	meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > (void *)(long)ctx->data)
		return -TG_EINVAL;
	*meta = TG_META_SETUP;
	return 0;
}

/* True if XDP has marked the packet so; only once: a copy in the queue may keep it. */
static __always_inline bool tg_meta_take(struct __sk_buff *skb)
{
	__u32 *meta = (void *)(long)skb->data_meta;

	if ((void *)(meta + 1) > (void *)(long)skb->data || *meta != TG_META_SETUP)
		return false;
	*meta = 0;
	return true;
}

#endif
