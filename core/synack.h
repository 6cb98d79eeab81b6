/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The answer to a SYN: an IP header without options or extension headers, a TCP header, the options
 * that client and service agree on. Written whole, with whole checksums: the SYN's own TCP checksum
 * is not relied on (between virtual interfaces it is often not filled in).
 */
#ifndef TG_SYNACK_H
#define TG_SYNACK_H

#include "checksum.h"
#include "cookie.h"
#include "service.h"

#define TG_SYNACK_TTL 64

/* Everything that the answer to one SYN depends on. */
struct tg_synack {
	struct tg_tcp_options options; /* as our SYN-ACK carries them */
	uint32_t option_bits;          /* as the cookie carries them */
	uint32_t flow_key;
	uint16_t window;
	bool ecn;
};

/* The first word of an IPv6 header, as on the wire: version 6, traffic class 0, and a flow label. Linux labels each
 * connection's SYN-ACK at random (net.ipv6.auto_flowlabels). Of ours, the label is made from the initial sequence number,
 * which is as on the wire, so that every path writes the same; with a secret multiplier, so that nobody else knows it. The macro's
 * arguments may be vectors. */
#define TG_FLOW_WORD(isn_be, flow_key)                                                             \
	(TG_WIRE32(0x60, 0, 0, 0) | ((isn_be) * (flow_key) & TG_WIRE32(0, 0x0f, 0xff, 0xff)))

TG_INLINE uint32_t tg_flow_word(uint32_t isn_be, uint32_t flow_key)
{
	return TG_FLOW_WORD(isn_be, flow_key);
}

/* What this service answers to a SYN with these options. RFC 7323, RFC 2018: an
 * option is sent only if it was offered. RFC 3168: ECN only for an ECN-setup
 * SYN, which is not itself ECN-capable transport (as Linux demands). */
TG_INLINE struct tg_synack tg_synack_agree(const struct tg_packet *syn,
					   const struct tg_tcp_options *offered,
					   const struct tg_service *svc)
{
	struct tg_synack a = {.window = svc->window, .flow_key = svc->flow_key};
	bool wscale = offered->wscale != TG_WSCALE_NONE && svc->wscale != TG_WSCALE_NONE;

	a.ecn = svc->ecn && (syn->flags & (TG_TCP_ECE | TG_TCP_CWR)) == (TG_TCP_ECE | TG_TCP_CWR) &&
		syn->ip_ecn == 0;
	a.options.mss = syn->family == 4 ? svc->mss_v4 : svc->mss_v6;
	a.options.wscale = wscale ? svc->wscale : TG_WSCALE_NONE;
	a.options.sack_ok = offered->sack_ok && svc->sack;
	a.options.ts_ok = offered->ts_ok && svc->timestamps;
	a.options.tsecr = offered->tsval;
	a.option_bits = tg_cookie_option_bits(
		tg_cookie_mss(syn->family, offered->mss, a.options.ts_ok),
		wscale ? offered->wscale : TG_WSCALE_NONE, a.options.sack_ok, a.ecn);
	return a;
}

TG_INLINE uint32_t tg_synack_ip_len(const struct tg_packet *syn)
{
	return syn->family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN;
}

/* Bytes from the IP header to the end of the answer. */
TG_INLINE uint32_t tg_synack_len(const struct tg_packet *syn, const struct tg_synack *a)
{
	return tg_synack_ip_len(syn) + TG_TCP_HDR_LEN + tg_tcp_options_len(&a->options);
}

/* Swaps the Ethernet addresses; VLAN tags stay where they are. */
TG_INLINE void tg_ethernet_reflect(uint8_t *eth)
{
	uint32_t dst_hi = tg_load32(eth);
	uint16_t dst_lo = tg_load16(eth + TG_MAC_LO);

	tg_store32(eth, tg_load32(eth + TG_ETH_SRC));
	tg_store16(eth + TG_MAC_LO, tg_load16(eth + TG_ETH_SRC + TG_MAC_LO));
	tg_store32(eth + TG_ETH_SRC, dst_hi);
	tg_store16(eth + TG_ETH_SRC + TG_MAC_LO, dst_lo);
}

/* Writes the IP header, whose first word `flow` is, if it is of IPv6; adds the pseudo-header to the TCP sum. */
TG_INLINE bool tg_synack_write_ip(struct tg_writer *w, const struct tg_packet *syn, uint32_t flow,
				  uint32_t tcp_len, uint64_t *tcp_sum)
{
	uint64_t sum = 0;

	if (syn->family == 4) {
		/* version 4, IHL 5, TOS 0, length; ID 0 with DF (RFC 6864); TTL, TCP */
		uint32_t w0 = TG_WIRE32(0x45, 0, (TG_IPV4_HDR_LEN + tcp_len) >> 8,
					TG_IPV4_HDR_LEN + tcp_len);
		uint32_t w1 = TG_WIRE32(0, 0, 0x40, 0);
		uint32_t w2 = TG_WIRE32(TG_SYNACK_TTL, TG_IPPROTO_TCP, 0, 0);
		uint64_t addrs = (uint64_t)syn->src.w[0] + syn->dst.w[0];

		if (!tg_writer_has(w, TG_IPV4_HDR_LEN))
			return false;
		sum = (uint64_t)w0 + w1 + w2 + addrs;
		tg_store32(w->at, w0);
		tg_store32(w->at + 4, w1);
		tg_store32(w->at + 8, w2 | (uint32_t)tg_csum_finish_words(sum) << 16);
		tg_store32(w->at + 12, syn->dst.w[0]);
		tg_store32(w->at + 16, syn->src.w[0]);
		w->at += TG_IPV4_HDR_LEN;
		*tcp_sum += addrs;
	} else {
		uint32_t i;

		if (!tg_writer_has(w, TG_IPV6_HDR_LEN))
			return false;
		tg_store32(w->at, flow);
		tg_store32(w->at + 4,
			   TG_WIRE32(tcp_len >> 8, tcp_len, TG_IPPROTO_TCP, TG_SYNACK_TTL));
		for (i = 0; i < 4; i++) {
			tg_store32(w->at + 8 + 4 * i, syn->dst.w[i]);
			tg_store32(w->at + 24 + 4 * i, syn->src.w[i]);
			*tcp_sum += (uint64_t)syn->dst.w[i] + syn->src.w[i];
		}
		w->at += TG_IPV6_HDR_LEN;
	}
	*tcp_sum += TG_WIRE32(0, TG_IPPROTO_TCP, tcp_len >> 8, tcp_len);
	return true;
}

/* Writes the answer from the IP header on. `w` must have tg_synack_len bytes;
 * false (with the bytes undefined) if it has not. The Ethernet header is the
 * caller's: tg_ethernet_reflect. */
TG_INLINE bool tg_synack_write(struct tg_writer w, const struct tg_packet *syn,
			       const struct tg_synack *a, struct tg_cookie cookie)
{
	struct tg_tcp_options options = a->options;
	uint32_t tcp_len = TG_TCP_HDR_LEN + tg_tcp_options_len(&options);
	uint8_t flags = TG_TCP_SYN | TG_TCP_ACK | (a->ecn ? TG_TCP_ECE : 0);
	uint32_t ports = syn->ports << 16 | syn->ports >> 16;
	uint32_t w3 = TG_WIRE32(tcp_len / 4 << 4, flags, a->window >> 8, a->window);
	uint32_t ack = syn->seq + 1; /* never of data in the SYN (RFC 7413 section 3) */
	uint64_t sum = 0;
	uint8_t *tcp;

	if (!tg_synack_write_ip(&w, syn, tg_flow_word(tg_swap32(cookie.isn), a->flow_key), tcp_len,
				&sum) ||
	    !tg_writer_has(&w, TG_TCP_HDR_LEN))
		return false;
	tcp = w.at;
	sum += (uint64_t)ports + tg_swap32(cookie.isn) + tg_swap32(ack) + w3;
	tg_store32(tcp, ports);
	tg_store32(tcp + TG_TCP_SEQ, tg_swap32(cookie.isn));
	tg_store32(tcp + TG_TCP_ACKED, tg_swap32(ack));
	tg_store32(tcp + TG_TCP_DOFF, w3);
	w.at += TG_TCP_HDR_LEN;
	options.tsval = cookie.tsval;
	if (!tg_tcp_options_write(&w, &options, &sum))
		return false;
	tg_store32(tcp + TG_TCP_SUM, tg_csum_finish_words(sum)); /* urgent pointer 0 */
	return true;
}

#endif
