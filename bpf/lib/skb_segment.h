/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC: reads the options of the packet in hand, and puts a segment of our own into its place.
 */
#ifndef TG_BPF_SKB_SEGMENT_H
#define TG_BPF_SKB_SEGMENT_H

#include "gate.h"
#include "../../core/segment.h"

#define TG_ETH_OFF_MAX 22 /* an IP header behind two tags */

static __always_inline bool tg_skb_options(struct __sk_buff *skb, const struct tg_packet *pkt,
					   struct tg_tcp_options *o)
{
	struct tg_options_cursor c;

	c.at = 0;
	c.len = (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	if (c.len && (!tg_options_len_is_sane(&c.len) ||
		      bpf_skb_load_bytes(skb, pkt->l4_off + TG_TCP_HDR_LEN, c.bytes, c.len)))
		return false;
	return tg_options_read(&c, o) == 0;
}

#ifdef TG_HOST /* which forwards what it has written, too */
/* Where the checksum of the packet in hand was left to the NIC, it is so for what we have written
 * over it, and the field has to hold the pseudo-header's sum; else what tg_segment_write has put there.
 * Only the kernel knows, so it gets the difference between the two. Without this, what is
 * forwarded by another interface would leave with a wrong one. */
static __always_inline int tg_skb_checksum(struct __sk_buff *skb, const struct tg_segment *s,
					   __u8 *data)
{
	__u8 *field = data + (s->l3_off & 31) + tg_segment_ip_len(s) + 16;
	__u32 len = tg_segment_tcp_len(s), i;
	__u64 sum = TG_WIRE32(0, TG_IPPROTO_TCP, len >> 8, len);
	__u16 whole, pseudo;

	if (field + 2 > (__u8 *)(long)skb->data_end)
		return -TG_ENOENT;
	for (i = 0; i < 4; i++)
		if (i == 0 || s->family == 6)
			sum += (__u64)s->src.w[i] + s->dst.w[i];
	whole = tg_load16(field);
	pseudo = (__u16)~tg_csum_finish(sum);
	tg_store16(field, pseudo);
	return (int)bpf_l4_csum_replace(skb, (s->l3_off & 31) + tg_segment_ip_len(s) + 16, 0,
					(__u32)(__u16)~whole + pseudo, 0);
}
#endif

/* Takes IP options or extension headers out of the packet in hand. The kernel cuts no packet
 * off before the place where GRO has seen its TCP header: behind long ones, that is
 * beyond the end of the segment that is put into its place. If it fails, the segment may fail, too. */
static __always_inline void tg_skb_strip(struct __sk_buff *skb, const struct tg_packet *pkt)
{
	__s32 over = (__s32)(pkt->l4_off - pkt->l3_off) -
		     (pkt->family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN);

	if (TG_UNLIKELY(over > 0))
		bpf_skb_adjust_room(skb, -over, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* Puts a segment of our own into the place of the packet in hand. Negative if there
 * is no memory for it. */
TG_GLOBAL int tg_skb_put(struct __sk_buff *skb, const struct tg_segment *s)
{
	__u8 *data, *end;
	__u32 l3_off, len;

	if (!s)
		return -TG_EINVAL;
	l3_off = s->l3_off;
	if (l3_off > TG_ETH_OFF_MAX)
		return -TG_EINVAL;
	len = l3_off + tg_segment_len(s);
	/* After a clone, it also unshares the bytes. */
	if (bpf_skb_change_tail(skb, len, 0) || bpf_skb_pull_data(skb, len))
		return -TG_ENOENT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + TG_ETH_HDR_LEN > end ||
	    !tg_segment_write((struct tg_writer){data + l3_off, end}, s))
		return -TG_ENOENT;
	if (s->reflect)
		tg_ethernet_reflect(data);
#ifdef TG_HOST
	return tg_skb_checksum(skb, s, data);
#else
	return 0;
#endif
}

#endif
