/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the server role's two TC programs do with a packet: pull its headers into the linear part,
 * parse it, restore the Ethernet header of one that has none.
 */
#ifndef TG_BPF_SERVER_SKB_H
#define TG_BPF_SERVER_SKB_H

#include "server_translate.h"
#include "server_meta.h"
#include "skb_bare.h"
#include "skb_headers.h"
#include "skb_segment.h"

/* Parses the headers, pulling them into the linear part if needed. */
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

#endif
