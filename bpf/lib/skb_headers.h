/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * At TC a packet's headers may lie in page fragments: which part of it the programs
 * need in the linear part, and where the IP header begins. Decides nothing.
 */
#ifndef TG_BPF_SKB_HEADERS_H
#define TG_BPF_SKB_HEADERS_H

#include "maps.h"

/* True if the linear part, which ends at `end`, does not hold all headers there may be.
 * Nearly all packets have neither IP options nor extension headers: theirs end early. */
static __always_inline bool tg_skb_headers_are_far(struct __sk_buff *skb, const __u8 *data,
						   const __u8 *end)
{
	__u32 need = skb->len < TG_HEADERS_MAX ? skb->len : TG_HEADERS_MAX;

	if ((__u64)(end - data) >= need)
		return false;
	if (data + TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN + TG_TCP_HDR_LEN + TG_TCP_OPTIONS_MAX_LEN > end)
		return true;
	return skb->protocol != TG_ETHERTYPE_IPV4 &&
	       (tg_load16(data + TG_ETH_TYPE) != TG_ETHERTYPE_IPV6 ||
		data[TG_ETH_HDR_LEN + 6] != TG_IPPROTO_TCP);
}

/* Pulls the headers into the linear part. False if there is no memory for it. */
static __always_inline bool tg_skb_headers_pull(struct __sk_buff *skb)
{
	__u32 need = skb->len < TG_HEADERS_MAX ? skb->len : TG_HEADERS_MAX;

	return bpf_skb_pull_data(skb, need) == 0;
}

#endif
