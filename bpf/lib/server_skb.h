/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the server role's two TC programs do with a packet: bring its headers into
 * reach, read its options, put a segment of our own into its place.
 */
#ifndef TG_BPF_SERVER_SKB_H
#define TG_BPF_SERVER_SKB_H

#define TG_SKB
#include "server_translate.h"
#include "server_meta.h"
#include "skb_headers.h"

#define TG_ETH_OFF_MAX 22

/* A number back as it is. To the verifier it is any number: it then goes once
 * through what follows, not once for each place where an IP header may begin. */
__attribute__((noinline)) int tg_skb_any_number(__u32 n)
{
	asm volatile("" : "+r"(n)); /* nor must the compiler know */
	return (int)n;
}

/* True if the packet begins with its IP header. So it does, although the device is an
 * Ethernet, after generic XDP has had to copy it: the copy's mac_len is 0
 * (skb_pp_cow_data; seen on Linux 6.18). As in host_tc.bpf.c. */
static __always_inline bool tg_skb_is_bare(struct __sk_buff *skb, const __u8 *data, const __u8 *end)
{
	__u32 ip[4], version = skb->protocol == TG_ETHERTYPE_IPV4 ? 4 : 6;

	return data + sizeof(ip) <= end && data[0] >> 4 == version &&
	       !bpf_skb_load_bytes_relative(skb, 0, ip, sizeof(ip), BPF_HDR_START_NET) &&
	       tg_load32(data) == ip[0] && tg_load32(data + 4) == ip[1] &&
	       tg_load32(data + 8) == ip[2] && tg_load32(data + 12) == ip[3];
}

/* Parses the headers, which it brings to the linear part if they are not there. */
static __always_inline enum tg_parse_result tg_skb_parse(struct __sk_buff *skb,
							 struct tg_packet *pkt, bool may_be_bare)
{
	const __u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	enum tg_parse_result parsed;
	tg_ethertype type;

	if (tg_skb_headers_are_far(skb, data, end)) {
		if (!tg_skb_headers_pull(skb))
			return TG_PARSE_OTHER;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	if (may_be_bare && TG_UNLIKELY(tg_skb_is_bare(skb, data, end)))
		type = (tg_ethertype)skb->protocol;
	else
		type = tg_packet_ethernet(pkt, data, end);
	pkt->l3_off = (__u32)tg_skb_any_number(pkt->l3_off) & 31;
	parsed = tg_packet_l3(pkt, type, data, end);
	if (TG_LIKELY(parsed == TG_PARSE_TCP))
		tg_packet_measure(pkt, skb->len);
	return parsed;
}

/* Gives a bare packet its Ethernet header back; the stack must not get it so. */
static __always_inline bool tg_skb_dress(struct __sk_buff *skb)
{
	__u8 eth[TG_ETH_HDR_LEN];

	return !bpf_skb_load_bytes_relative(skb, 0, eth, sizeof(eth), BPF_HDR_START_MAC) &&
	       !bpf_skb_change_head(skb, sizeof(eth), 0) &&
	       !bpf_skb_store_bytes(skb, 0, eth, sizeof(eth), 0);
}

static __always_inline bool tg_skb_options(struct __sk_buff *skb, const struct tg_packet *pkt,
					   struct tg_tcp_options *o)
{
	struct tg_options_cursor c;

	c.at = 0;
	c.len = (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	if (c.len > TG_TCP_OPTIONS_MAX_LEN)
		return false;
	if (c.len && bpf_skb_load_bytes(skb, pkt->l4_off + TG_TCP_HDR_LEN, c.bytes, c.len))
		return false;
	return tg_options_read(&c, o) == 0;
}

/* Puts a segment of our own into the place of the packet in hand. Negative if there
 * is no memory for it. */
__attribute__((noinline)) int tg_skb_put(struct __sk_buff *skb, const struct tg_segment *s)
{
	__u8 *data, *end;
	__u32 l3_off, len;

	if (!s)
		return -TG_EINVAL;
	l3_off = s->l3_off;
	if (l3_off > TG_ETH_OFF_MAX)
		return -TG_EINVAL;
	len = l3_off + tg_segment_len(s);
	/* It also makes the bytes ours alone, after a clone. */
	if (bpf_skb_change_tail(skb, len, 0) || bpf_skb_pull_data(skb, len))
		return -TG_ENOENT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + TG_ETH_HDR_LEN > end ||
	    !tg_segment_write((struct tg_writer){data + l3_off, end}, s))
		return -TG_ENOENT;
	if (s->reflect)
		tg_ethernet_reflect(data);
	return 0;
}

#endif
