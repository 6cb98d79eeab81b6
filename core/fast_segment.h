/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The form of TCP segment that nearly every packet of a connection has, and nearly every packet of
 * a flood, read at once: no VLAN tag, no IP options, no extension headers, no fragment, and not a
 * SYN. Anything else is left to packet.h, which gives the same results for these segments, only
 * slower (test_fast_segment.c).
 *
 * `family` is a constant at each call: every case becomes straight-line code, in which a BPF
 * program keeps its values in registers.
 */
#ifndef TG_FAST_SEGMENT_H
#define TG_FAST_SEGMENT_H

#include "host.h"

/* Bytes from the start of the frame to the end of the fixed TCP header. */
TG_INLINE uint32_t tg_fast_segment_len(uint8_t family)
{
	return TG_ETH_HDR_LEN + (family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN) + TG_TCP_HDR_LEN;
}

/* True if the frame, of which tg_fast_segment_len bytes are there, is a common segment
 * of that family. */
TG_INLINE bool tg_fast_segment_is(const uint8_t *frame, uint8_t family)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN;
	uint8_t flags = frame[tg_fast_segment_len(family) - TG_TCP_HDR_LEN + 13];

	if ((flags & (TG_TCP_SYN | TG_TCP_ACK)) == TG_TCP_SYN)
		return false;
	if (family == 4)
		return tg_load16(frame + TG_ETH_TYPE) == TG_ETHERTYPE_IPV4 && ip[0] == 0x45 &&
		       ip[TG_IPV4_PROTO] == TG_IPPROTO_TCP &&
		       !(tg_load16(ip + TG_IPV4_FRAG) & tg_swap16(0x3fff)) &&
		       tg_swap16(tg_load16(ip + TG_IPV4_LEN)) >= TG_IPV4_HDR_LEN + TG_TCP_HDR_LEN;
	return tg_load16(frame + TG_ETH_TYPE) == TG_ETHERTYPE_IPV6 && (ip[0] & 0xf0) == 0x60 &&
	       ip[TG_IPV6_NEXT] == TG_IPPROTO_TCP &&
	       tg_swap16(tg_load16(ip + TG_IPV6_LEN)) >= TG_TCP_HDR_LEN;
}

/* Of a frame that is one: what tg_packet_parse makes of it. */
TG_INLINE void tg_fast_segment_read(const uint8_t *frame, uint8_t family, struct tg_packet *pkt)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN;
	const uint8_t *tcp = frame + tg_fast_segment_len(family) - TG_TCP_HDR_LEN;

	if (family == 4) {
		pkt->l4_len = tg_swap16(tg_load16(ip + TG_IPV4_LEN)) - TG_IPV4_HDR_LEN;
		pkt->ip_ecn = ip[TG_IPV4_TOS] & 3;
		pkt->ip_dscp = ip[TG_IPV4_TOS] >> 2;
		pkt->src.d[0] = tg_load32(ip + TG_IPV4_SRC);
		pkt->dst.d[0] = tg_load32(ip + TG_IPV4_DST);
		pkt->src.d[1] = pkt->dst.d[1] = 0;
	} else {
		pkt->l4_len = tg_swap16(tg_load16(ip + TG_IPV6_LEN));
		pkt->ip_ecn = ip[TG_IPV6_TCLASS] >> 4 & 3;
		pkt->ip_dscp = (uint8_t)((ip[0] & 0xf) << 2 | ip[TG_IPV6_TCLASS] >> 6);
		pkt->src.d[0] = tg_load64(ip + TG_IPV6_SRC);
		pkt->src.d[1] = tg_load64(ip + TG_IPV6_SRC + 8);
		pkt->dst.d[0] = tg_load64(ip + TG_IPV6_DST);
		pkt->dst.d[1] = tg_load64(ip + TG_IPV6_DST + 8);
	}
	pkt->ports = tg_load32(tcp);
	pkt->seq = tg_swap32(tg_load32(tcp + TG_TCP_SEQ));
	pkt->ack = tg_swap32(tg_load32(tcp + TG_TCP_ACKED));
	pkt->l3_off = TG_ETH_HDR_LEN;
	pkt->l4_off = tg_fast_segment_len(family) - TG_TCP_HDR_LEN;
	pkt->tcp_hdr_len = (uint8_t)((tcp[TG_TCP_DOFF] >> 4) * 4);
	pkt->flags = tcp[TG_TCP_FLAGS];
	pkt->family = family;
	pkt->group_frame = frame[0] & 1;
	pkt->group_sender = frame[TG_ETH_SRC] & 1;
	pkt->as_probe = false;
}

/* What a common segment says that may carry a cookie, as tg_host_read_ack has it of parsed options.
 * The frame has `len` bytes, of which those before `end` are in one piece. False if its lengths
 * lie, or if its options are not there, laid out as usual (tg_fast_segment_options_len). */
TG_INLINE bool tg_fast_segment_ack(const uint8_t *frame, const uint8_t *end, uint32_t len,
				   const struct tg_packet *pkt, struct tg_ack *ack)
{
	const uint8_t *options = frame + tg_fast_segment_len(pkt->family);

	/* In any case: a caller that reads the options itself completes it. */
	ack->cookie.isn = pkt->ack - 1;
	ack->cookie.tsval = ack->tsval = 0;
	ack->ts_ok = false;
	/* tg_host_ack_is_whole, in the order that costs least: tg_fast_segment_is has seen to a header
	 * without options. */
	if (pkt->l4_off + pkt->l4_len > len)
		return false;
	if (pkt->tcp_hdr_len == TG_TCP_HDR_LEN)
		return true;
	if (pkt->tcp_hdr_len < TG_TCP_HDR_LEN + 12 || pkt->tcp_hdr_len > pkt->l4_len ||
	    options + 12 > end ||
	    !tg_tcp_timestamps_aligned(tg_load32(options), tg_load32(options + 4),
				       tg_load32(options + 8), &ack->tsval, &ack->cookie.tsval))
		return false;
	ack->ts_ok = true;
	return true;
}

/* Bytes of options of one that tg_fast_segment_ack has not read; 0 if its lengths lie: packet.h decides. */
TG_INLINE uint32_t tg_fast_segment_options_len(const struct tg_packet *pkt, uint32_t len)
{
	return tg_host_ack_is_whole(pkt, len) ? (uint32_t)pkt->tcp_hdr_len - TG_TCP_HDR_LEN : 0;
}

#endif
