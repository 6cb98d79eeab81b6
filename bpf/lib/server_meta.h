/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the server role's XDP program tells its TC program of a packet: a word of
 * XDP metadata before the frame, and a mark on packets that come a second time.
 */
#ifndef TG_BPF_SERVER_META_H
#define TG_BPF_SERVER_META_H

#include "kernel.h"

#define TG_META_OPEN 0x74677331U /* make a SYN of it */
#define TG_META_WAIT 0x74677332U /* the stack has not answered the SYN yet */

/* On skb->mark, while a packet is in the queue for its second time. A mark of that
 * value from elsewhere would be cleared, no more. */
#define TG_MARK_AGAIN 0x74677333U

/* On skb->mark, of the translated copy of a packet whose original becomes a
 * confirmation: the egress program lets it pass. */
#define TG_MARK_DONE 0x74677334U

/* 0, or negative: the driver has no metadata, or no room for it. */
static __always_inline int tg_meta_set(struct xdp_md *ctx, __u32 what)
{
	__u32 *meta;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(what)))
		return -TG_EINVAL;
	meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > (void *)(long)ctx->data)
		return -TG_EINVAL;
	*meta = what;
	return 0;
}

static __always_inline __u32 *tg_meta_at(struct __sk_buff *skb)
{
	__u32 *meta = (void *)(long)skb->data_meta;

	return (void *)(meta + 1) <= (void *)(long)skb->data ? meta : 0;
}

#endif
