/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC egress of an edge router's port with queues: puts packets with the
 * true-source codepoint into the upper HTB class and all others into the lower.
 * HTB takes the class from skb->priority (net/sched/sch_htb.c, htb_classify).
 *
 * Must never: drop, or change a packet.
 */
#include "lib/kernel.h"
#include "../core/patrol.h"

/* Classes of internal/role/patrol/queue.go: major 1, minors 0x10 and 0x20. */
#define TG_CLASS_TRUE 0x10010U
#define TG_CLASS_OTHER 0x10020U

volatile const __u32 tg_codepoint = 0;

SEC("tc")
int tg_patrol_tc(struct __sk_buff *skb)
{
	struct tg_patrol_packet pkt = {};
	__u8 *data, *end;

	/* The fixed headers stand in the linear part of what the kernel forwards; a
	 * frame of which that is not so is pulled, one too short fails and is judged as
	 * "not IP". */
	if ((__u8 *)(long)skb->data + TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN > (__u8 *)(long)skb->data_end)
		bpf_skb_pull_data(skb, TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	switch (tg_patrol_parse(&pkt, data, end)) {
	case TG_PATROL_IP:
		/* link scope: a neighbour that cannot be resolved helps nobody */
		skb->priority = pkt.link_scope || tg_patrol_dscp(&pkt) == tg_codepoint
					? TG_CLASS_TRUE
					: TG_CLASS_OTHER;
		break;
	case TG_PATROL_OTHER:
		skb->priority = TG_CLASS_TRUE; /* ARP */
		break;
	default:
		skb->priority = TG_CLASS_OTHER;
	}
	return TCX_NEXT;
}

char LICENSE[] SEC("license") = "GPL";
