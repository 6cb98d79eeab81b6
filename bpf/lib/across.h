/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Answers that leave by another interface than their SYN came in by. XDP could redirect them only to
 * drivers that send frames from XDP, and would drop the others silently. So it passes the
 * answer on, in place of the SYN, to the TC program behind it, which sends it by any interface, to
 * the next hop that the kernel's routes name.
 *
 * Between the two, the Ethernet addresses hold a number that nobody else knows, and the interface:
 *
 *    0                                 8            12
 *   +---------------------------------+-------------+------------
 *   |  tg_host_settings.across        |  interface  |  EtherType
 *   +---------------------------------+-------------+------------
 *
 * The number's lowest bit is 0, so that the address is no group's. Should the TC program be gone, the
 * kernel drops the frame: it is for another host.
 *
 * Must never: send what does not bear that number.
 */
#ifndef TG_BPF_ACROSS_H
#define TG_BPF_ACROSS_H

#include "kernel.h"

#ifndef TG_SKB
#include "reply.h"

/* The route, ACROSS, of an answer: it may leave by another interface only if what follows can. */
static __always_inline __u64 tg_across_route(const struct tg_host_settings *settings, __u64 route,
					     enum tg_takeover takeover)
{
	enum tg_reply reply = settings->across ? tg_reply_crossing(TG_REPLY_ACROSS,
								   TG_REPLY_MAC(route), takeover)
					       : TG_REPLY_ELSEWHERE;

	return reply == TG_REPLY_ACROSS ? route : (__u64)reply << 48;
}

/* Addresses the answer in the frame to the TC program. `route`: its lower half is the interface. */
static __always_inline void tg_across_address(__u8 *at, const struct tg_host_settings *settings,
					      __u64 route)
{
	tg_store32(at, (__u32)settings->across);
	tg_store32(at + 4, (__u32)(settings->across >> 32));
	tg_store32(at + 8, (__u32)route);
}

#else
#include "gate.h"
#include "server_meta.h"
#include "skb_bare.h"
#include "sum_left.h"
#include "../../core/intact.h"

/* A checksum that the SYN's sender left to the NIC is still left to it, although the answer's is complete: then the NIC
 * wants only the sum of the pseudo-header. */
static __always_inline void tg_across_sum(struct __sk_buff *skb, const struct tg_packet *answer)
{
	__u32 at = answer->l4_off + TG_TCP_SUM;
	__u16 field, pseudo = tg_csum_fold(tg_intact_pseudo(answer));

	if (!bpf_skb_load_bytes(skb, at, &field, sizeof(field)) && tg_sum_is_left(skb, at, field))
		bpf_skb_store_bytes(skb, at, &pseudo, sizeof(pseudo), 0);
}

/* The interface by which the frame in hand is to leave; 0: it is no answer that our XDP program has made. */
static __always_inline __u32 tg_across_of(struct __sk_buff *skb)
{
	const struct tg_host_settings *settings = tg_settings_get();
	__u32 words[3] = {};

	if (!settings->across ||
	    bpf_skb_load_bytes_relative(skb, 0, words, sizeof(words), BPF_HDR_START_MAC) ||
	    (words[0] | (__u64)words[1] << 32) != settings->across)
		return 0;
	return words[2];
}

/* Sends the SYN-ACK in hand if our XDP program has made it. A verdict. */
TG_GLOBAL int tg_across_send(struct __sk_buff *skb, const struct tg_packet *answer, __u32 bare)
{
	const struct tg_host_settings *settings = tg_settings_get();
	__u32 dev = tg_across_of(skb);

	if (!answer || !dev)
		return TCX_NEXT;
	tg_across_sum(skb, answer);
	if ((bare && !tg_skb_dress(skb)) || (skb->vlan_present && bpf_skb_vlan_pop(skb)))
		return TCX_DROP;
	/* Else the program that translates would take it for the stack's answer to the SYN of a connection in set-up. */
	if (settings->translates)
		skb->mark = TG_MARK_DONE;
	return (int)bpf_redirect_neigh(dev, 0, 0, 0);
}
#endif

#endif
