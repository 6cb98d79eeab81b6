/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Packets that reach TC without their Ethernet header, and how to spare the verifier every place
 * where an IP header may begin.
 */
#ifndef TG_BPF_SKB_BARE_H
#define TG_BPF_SKB_BARE_H

#include "kernel.h"
#include "../../core/packet.h"

/* Returns a number unchanged. To the verifier it may be any number: it then verifies what follows
 * once, not once for each place where an IP header may begin. */
TG_GLOBAL int tg_skb_any_number(__u32 n)
{
	TG_HIDE(n); /* nor must the compiler know */
	return (int)n;
}

/* True if the packet begins with its IP header. That happens even on Ethernet devices after generic
 * XDP has copied the packet: the copy's mac_len is 0 (skb_pp_cow_data; seen on Linux 6.18). Costs a
 * helper only where the receiver's MAC address begins like an IP header. */
static __always_inline bool tg_skb_is_bare(struct __sk_buff *skb, const __u8 *data, const __u8 *end)
{
	__u32 ip[4], version = skb->protocol == TG_ETHERTYPE_IPV4 ? 4 : 6;

	return data + sizeof(ip) <= end && data[0] >> 4 == version &&
	       !bpf_skb_load_bytes_relative(skb, 0, ip, sizeof(ip), BPF_HDR_START_NET) &&
	       tg_load32(data) == ip[0] && tg_load32(data + 4) == ip[1] &&
	       tg_load32(data + 8) == ip[2] && tg_load32(data + 12) == ip[3];
}

/* Restores the Ethernet header of a packet that has none; it must not go to the stack like this. */
static __always_inline bool tg_skb_dress(struct __sk_buff *skb)
{
	__u8 eth[TG_ETH_HDR_LEN];

	return !bpf_skb_load_bytes_relative(skb, 0, eth, sizeof(eth), BPF_HDR_START_MAC) &&
	       !bpf_skb_change_head(skb, sizeof(eth), 0) &&
	       !bpf_skb_store_bytes(skb, 0, eth, sizeof(eth), 0);
}

#endif
