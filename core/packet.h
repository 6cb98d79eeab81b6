/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * From an Ethernet frame to a TCP segment: VLAN and QinQ tags, IPv4 with options, IPv6 with
 * extension headers, fragments. States what the packet is and where its parts are; decides nothing.
 *
 * Offsets, not pointers, are kept: the BPF verifier and a reader both follow a
 * small number more easily than a moving pointer.
 */
#ifndef TG_PACKET_H
#define TG_PACKET_H

#include "base.h"
#include "headers.h"

#define TG_ETH_HDR_LEN 14
#define TG_VLAN_TAG_LEN 4
#define TG_VLAN_TAGS_MAX 2
#define TG_VLAN_TAGS_WALKED 8 /* ... and only skipped, to find what is condemned behind them */
#define TG_IPV4_HDR_LEN 20 /* without options */
#define TG_IPV6_HDR_LEN 40
#define TG_TCP_HDR_LEN 20 /* without options */
#define TG_IPV6_EXT_MAX 6 /* extension headers walked */
/* ... and their bytes together. Real TCP senders use much less (a segment routing header with 15
 * segments has 248 bytes, most routers see no more than 128), and every plane, whether it copies
 * headers or bounds offsets, has room for it. */
#define TG_IPV6_EXT_BYTES_MAX 256
#define TG_IPV6_NO_LEN (1U << 20) /* stands for a length that the IPv6 header does not say */
/* So a TCP header begins at 318 at most, in a frame with two VLAN tags; as a mask. */
#define TG_L4_OFF_MAX 511
/* Bytes from the start of the frame to the end of the longest TCP options. */
#define TG_HEADERS_MAX                                                                             \
	(TG_ETH_HDR_LEN + TG_VLAN_TAGS_MAX * TG_VLAN_TAG_LEN + TG_IPV6_HDR_LEN +                   \
	 TG_IPV6_EXT_BYTES_MAX + TG_TCP_HDR_LEN + 40)

typedef uint16_t tg_ethertype; /* as on the wire */
#define TG_ETHERTYPE_IPV4 ((tg_ethertype)0x0008)
#define TG_ETHERTYPE_IPV6 ((tg_ethertype)0xdd86)
#define TG_ETHERTYPE_VLAN ((tg_ethertype)0x0081)  /* 0x8100, 802.1Q */
#define TG_ETHERTYPE_QINQ ((tg_ethertype)0xa888)  /* 0x88a8, 802.1ad */
#define TG_ETHERTYPE_QINQ1 ((tg_ethertype)0x0091) /* 0x9100, before the standard */

enum tg_ip_proto {
	TG_IPPROTO_HOPOPTS = 0,
	TG_IPPROTO_TCP = 6,
	TG_IPPROTO_ROUTING = 43,
	TG_IPPROTO_FRAGMENT = 44,
	TG_IPPROTO_DSTOPTS = 60,
};

enum tg_tcp_flag {
	TG_TCP_FIN = 0x01,
	TG_TCP_SYN = 0x02,
	TG_TCP_RST = 0x04,
	TG_TCP_PSH = 0x08,
	TG_TCP_ACK = 0x10,
	TG_TCP_URG = 0x20,
	TG_TCP_ECE = 0x40,
	TG_TCP_CWR = 0x80,
};

enum tg_parse_result {
	TG_PARSE_OTHER,     /* not TCP over IP, or a later fragment: ignored */
	TG_PARSE_TCP,       /* a TCP header with at least 20 bytes in the frame */
	TG_PARSE_FRAGMENT,  /* as TCP, but the first of several fragments */
	TG_PARSE_CUT_TCP,   /* a first fragment, or a packet, that ends inside the TCP header */
	TG_PARSE_OVERLAY, /* a fragment with offset 8-19: it would overwrite TCP's flags (RFC 3128) */
	TG_PARSE_EXT_CHAIN, /* TCP, or an unknown protocol, behind more extension headers than are walked */
	TG_PARSE_TAGS, /* IP, or an unknown protocol, behind more VLAN tags than TG_VLAN_TAGS_MAX */
	TG_PARSE_CUT_CHAIN, /* a first fragment that ends before its last extension header does (RFC 7112) */
};

union tg_addr {
	uint64_t d[2];
	uint32_t w[4]; /* as on the wire; IPv4 stands in w[0], the rest is zero */
};

/* What a frame is. Of a packet that is not TCP only `l3_off` may be set. */
struct tg_packet {
	union tg_addr src, dst;
	uint32_t ports; /* source port low, destination port high, each as on the wire */
	uint32_t seq; /* host order */
	uint32_t ack;
	uint32_t l3_off; /* bytes from the start of the frame to the IP header */
	uint32_t l4_off; /* ... to the TCP header */
	uint32_t l4_len; /* TCP segment length by the IP header, header included (tg_packet_measure) */
	uint8_t tcp_hdr_len; /* bytes, by the data offset */
	uint8_t flags; /* enum tg_tcp_flag */
	uint8_t family; /* 4 or 6 */
	uint8_t ip_ecn; /* the ECN field, 0-3 */
	uint8_t ip_dscp; /* the other six bits of that byte */
	bool group_frame; /* sent to a broadcast or multicast MAC address */
	bool group_sender; /* from one: no device sends so, and nothing must answer there */
	bool as_probe; /* not parsed: seq is one more than on the wire (tg_may_be_window_probe); at an
			  edge: its cookie has verified */
};

#define TG_SRC_PORT_BE(pkt) ((uint16_t)(pkt)->ports)
#define TG_DST_PORT_BE(pkt) ((uint16_t)((pkt)->ports >> 16))

/* Reads the TCP header at l4_off; l3 and l4_len are set already. */
TG_INLINE enum tg_parse_result tg_packet_tcp(struct tg_packet *pkt, const uint8_t *data,
					     const uint8_t *end, bool first_fragment)
{
	const uint8_t *tcp = data + pkt->l4_off;

	TG_HIDE(tcp); /* else clang adds the two again, and the verifier has not seen that sum checked */
	if (tcp + TG_TCP_HDR_LEN > end || pkt->l4_len < TG_TCP_HDR_LEN)
		return TG_PARSE_CUT_TCP;
	pkt->ports = tg_load32(tcp);
	pkt->seq = tg_swap32(tg_load32(tcp + TG_TCP_SEQ));
	pkt->ack = tg_swap32(tg_load32(tcp + TG_TCP_ACKED));
	pkt->tcp_hdr_len = (uint8_t)((tcp[TG_TCP_DOFF] >> 4) * 4);
	pkt->flags = tcp[TG_TCP_FLAGS];
	return first_fragment ? TG_PARSE_FRAGMENT : TG_PARSE_TCP;
}

TG_INLINE enum tg_parse_result tg_packet_ipv4(struct tg_packet *pkt, const uint8_t *data,
					      const uint8_t *end)
{
	const uint8_t *ip = data + pkt->l3_off;
	uint32_t hdr_len, total_len, frag, frag_off;

	if (ip + TG_IPV4_HDR_LEN > end || ip[0] >> 4 != 4 || ip[TG_IPV4_PROTO] != TG_IPPROTO_TCP)
		return TG_PARSE_OTHER;
	hdr_len = (ip[0] & 0xfU) * 4;
	total_len = tg_swap16(tg_load16(ip + TG_IPV4_LEN));
	if (hdr_len < TG_IPV4_HDR_LEN || total_len < hdr_len)
		return TG_PARSE_OTHER; /* the kernel drops these as broken IP */
	pkt->family = 4;
	pkt->ip_ecn = ip[TG_IPV4_TOS] & 3;
	pkt->ip_dscp = ip[TG_IPV4_TOS] >> 2;
	pkt->src.d[0] = tg_load32(ip + TG_IPV4_SRC);
	pkt->src.d[1] = 0;
	pkt->dst.d[0] = tg_load32(ip + TG_IPV4_DST);
	pkt->dst.d[1] = 0;
	pkt->l4_off = pkt->l3_off + hdr_len;
	pkt->l4_len = total_len - hdr_len;
	frag = tg_swap16(tg_load16(ip + TG_IPV4_FRAG));
	frag_off = (frag & 0x1fffU) * 8;
	if (frag_off)
		return frag_off < TG_TCP_HDR_LEN ? TG_PARSE_OVERLAY : TG_PARSE_OTHER;
	return tg_packet_tcp(pkt, data, end, frag & 0x2000);
}

/* The headers that the walk goes through. AH (RFC 4302) ends it as it does for IPv4: its sender
 * expects an answer under AH, and a kernel without the key never passes it to TCP. */
TG_INLINE bool tg_ipv6_is_extension(uint32_t next)
{
	return next == TG_IPPROTO_HOPOPTS || next == TG_IPPROTO_ROUTING ||
	       next == TG_IPPROTO_FRAGMENT || next == TG_IPPROTO_DSTOPTS;
}

/* Walks the extension headers; sets l4_off and l4_len. A chain that is too long condemns the packet
 * only if it goes on there or ends in TCP: UDP, ESP or ICMPv6 behind the header that exceeds the
 * limit is ignored. */
TG_INLINE enum tg_parse_result tg_packet_ipv6(struct tg_packet *pkt, const uint8_t *data,
					      const uint8_t *end)
{
	const uint8_t *ip = data + pkt->l3_off;
	uint32_t off = pkt->l3_off + TG_IPV6_HDR_LEN, most = off + TG_IPV6_EXT_BYTES_MAX;
	uint32_t l3_end, next;
	bool first_fragment = false;
	int i;

	if (ip + TG_IPV6_HDR_LEN > end || ip[0] >> 4 != 6)
		return TG_PARSE_OTHER;
	pkt->family = 6;
	pkt->ip_ecn = ip[TG_IPV6_TCLASS] >> 4 & 3;
	pkt->ip_dscp = (uint8_t)((ip[0] & 0xf) << 2 | ip[TG_IPV6_TCLASS] >> 6);
	pkt->src.d[0] = tg_load64(ip + TG_IPV6_SRC);
	pkt->src.d[1] = tg_load64(ip + TG_IPV6_SRC + 8);
	pkt->dst.d[0] = tg_load64(ip + TG_IPV6_DST);
	pkt->dst.d[1] = tg_load64(ip + TG_IPV6_DST + 8);
	next = ip[TG_IPV6_NEXT];
	l3_end = off + tg_swap16(tg_load16(ip + TG_IPV6_LEN));
	/* Length 0: Linux goes by the frame's length if hop-by-hop options follow, which should, but
	 * need not, hold a jumbogram's (RFC 2675; so it marks segments that it has joined to more
	 * than 64 KiB, too). If nothing like that follows, the packet ends before TCP. */
	if (TG_UNLIKELY(l3_end == off)) {
		if (next != TG_IPPROTO_HOPOPTS)
			return TG_PARSE_OTHER;
		l3_end = off + TG_IPV6_NO_LEN;
	}
	for (i = 0; next != TG_IPPROTO_TCP; i++) {
		const uint8_t *ext = data + off;
		uint32_t ext_len;

		if (!tg_ipv6_is_extension(next))
			return TG_PARSE_OTHER;
		/* Hop-by-hop options stand at the beginning or nowhere (RFC 8200 4.1). */
		if (i == TG_IPV6_EXT_MAX || off > most || (i > 0 && next == TG_IPPROTO_HOPOPTS))
			return TG_PARSE_EXT_CHAIN;
		if (ext + 8 > end || off + 8 > l3_end)
			return first_fragment ? TG_PARSE_CUT_CHAIN
					      : TG_PARSE_OTHER; /* cut: never TCP to anyone */
		ext_len = (ext[1] + 1U) * 8;
		if (next == TG_IPPROTO_FRAGMENT) {
			uint32_t frag = tg_swap16(tg_load16(ext + 2));

			/* No host accepts a fragment of a packet without a length (RFC 2675 3). */
			if (TG_UNLIKELY(l3_end >= TG_IPV6_NO_LEN))
				return TG_PARSE_EXT_CHAIN;
			ext_len = 8;
			if (frag & 0xfff8U) {
				if (ext[0] != TG_IPPROTO_TCP)
					return TG_PARSE_OTHER;
				return (frag & 0xfff8U) < TG_TCP_HDR_LEN ? TG_PARSE_OVERLAY
									 : TG_PARSE_OTHER;
			}
			if (frag & 1)
				first_fragment = true;
			/* else: an atomic fragment (RFC 6946), a whole packet */
		} else if (next == TG_IPPROTO_ROUTING && ext[3] != 0) {
			return TG_PARSE_OTHER; /* segments left: the destination is not this one */
		}
		next = ext[0];
		off += ext_len;
		if (off > l3_end)
			return first_fragment ? TG_PARSE_CUT_CHAIN : TG_PARSE_OTHER;
	}
	if (off > most)
		return TG_PARSE_EXT_CHAIN;
	pkt->l4_off = off;
	pkt->l4_len = l3_end - off;
	return tg_packet_tcp(pkt, data, end, first_fragment);
}

TG_INLINE bool tg_ethertype_is_vlan(tg_ethertype type)
{
	return type == TG_ETHERTYPE_VLAN || type == TG_ETHERTYPE_QINQ || type == TG_ETHERTYPE_QINQ1;
}

/* Reads the Ethernet header and its tags; sets l3_off. The type of what follows,
 * or 0 if the frame is cut. */
TG_INLINE tg_ethertype tg_packet_ethernet(struct tg_packet *pkt, const uint8_t *data,
					  const uint8_t *end)
{
	uint32_t off = TG_ETH_HDR_LEN;
	tg_ethertype type;
	int i;

	if (data + TG_ETH_HDR_LEN > end)
		return 0;
	pkt->group_frame = data[0] & 1;
	pkt->group_sender = data[TG_ETH_SRC] & 1;
	type = tg_load16(data + TG_ETH_TYPE);
	for (i = 0; i < TG_VLAN_TAGS_MAX; i++) {
		if (TG_LIKELY(!tg_ethertype_is_vlan(type)))
			break;
		if (data + off + TG_VLAN_TAG_LEN > end)
			return 0;
		type = tg_load16(data + off + 2);
		off += TG_VLAN_TAG_LEN;
	}
	pkt->l3_off = off;
	return type;
}

/* What is behind more than TG_VLAN_TAGS_MAX tags. Linux removes any number of tags with VID 0, so
 * TCP there would bypass the gate; other protocols are ignored. l3_off stands behind the tags that
 * were read, `type` is the next. */
TG_INLINE enum tg_parse_result tg_packet_overtagged(const struct tg_packet *pkt,
						    const uint8_t *data, const uint8_t *end)
{
	const uint8_t *at = data + pkt->l3_off;
	tg_ethertype type;
	int i;

	for (i = TG_VLAN_TAGS_MAX; i < TG_VLAN_TAGS_WALKED; i++) {
		if (at + TG_VLAN_TAG_LEN + TG_IPV6_HDR_LEN > end)
			return TG_PARSE_OTHER; /* no room for TCP */
		type = tg_load16(at + 2);
		at += TG_VLAN_TAG_LEN;
		if (type == TG_ETHERTYPE_IPV4)
			return at[9] == TG_IPPROTO_TCP ? TG_PARSE_TAGS : TG_PARSE_OTHER;
		if (type == TG_ETHERTYPE_IPV6)
			return at[6] == TG_IPPROTO_TCP || tg_ipv6_is_extension(at[6])
				       ? TG_PARSE_TAGS
				       : TG_PARSE_OTHER;
		if (!tg_ethertype_is_vlan(type))
			return TG_PARSE_OTHER;
	}
	return TG_PARSE_TAGS;
}

/* True if the kernel finds the IP packet in a frame whose IP header stands at `l3_off`
 * behind the type `outer`, without the help of a VLAN device: it takes one tag off, and
 * only those of 802.1Q and 802.1ad. Only what it finds can it adopt a connection from. */
TG_INLINE bool tg_frame_is_adoptable(uint32_t l3_off, tg_ethertype outer)
{
	return l3_off <= TG_ETH_HDR_LEN ||
	       (l3_off == TG_ETH_HDR_LEN + TG_VLAN_TAG_LEN && outer != TG_ETHERTYPE_QINQ1);
}

/* True if both of a frame's two tags say VLAN 0, that is, none. No honest sender does that, and
 * Linux delivers it as if there were no tag; but only after TC, where it would be adopted. `tci`
 * points to the first tag's control information. */
TG_INLINE bool tg_frame_is_twice_untagged(uint32_t l3_off, const uint8_t *tci)
{
	return l3_off == TG_ETH_HDR_LEN + 2 * TG_VLAN_TAG_LEN &&
	       !((tg_load16(tci) | tg_load16(tci + TG_VLAN_TAG_LEN)) & 0xff0fU);
}

/* Parses from l3_off on. */
TG_INLINE enum tg_parse_result tg_packet_l3(struct tg_packet *pkt, tg_ethertype type,
					    const uint8_t *data, const uint8_t *end)
{
	if (type == TG_ETHERTYPE_IPV4)
		return tg_packet_ipv4(pkt, data, end);
	if (type == TG_ETHERTYPE_IPV6)
		return tg_packet_ipv6(pkt, data, end);
	if (TG_UNLIKELY(tg_ethertype_is_vlan(type)))
		return tg_packet_overtagged(pkt, data, end);
	return TG_PARSE_OTHER;
}

/* A segment whose IPv6 header says no length is as long as the rest of its frame, of `frame_len`
 * bytes. Call it after parsing where that length is known; until then the segment is longer than
 * any frame. */
TG_INLINE bool tg_packet_is_unmeasured(const struct tg_packet *pkt)
{
	return TG_UNLIKELY(pkt->l4_len >= TG_IPV6_NO_LEN - TG_IPV6_EXT_BYTES_MAX);
}

TG_INLINE void tg_packet_measure(struct tg_packet *pkt, uint32_t frame_len)
{
	if (tg_packet_is_unmeasured(pkt))
		pkt->l4_len = frame_len - pkt->l4_off;
}

/* Parses the frame [data, end). */
TG_INLINE enum tg_parse_result tg_packet_parse(struct tg_packet *pkt, const uint8_t *data,
					       const uint8_t *end)
{
	return tg_packet_l3(pkt, tg_packet_ethernet(pkt, data, end), data, end);
}

/* A source that cannot be a client: unspecified or 0/8, loopback, multicast,
 * broadcast, a frame with a group's MAC address as source, IPv4-mapped IPv6 (no such packet may be on a wire; the kernel drops
 * it), or the destination itself (a "land" packet). */
TG_INLINE bool tg_packet_source_is_bogus(const struct tg_packet *pkt)
{
	uint8_t first = (uint8_t)pkt->src.w[0];

	if (pkt->group_sender || (pkt->src.d[0] == pkt->dst.d[0] && pkt->src.d[1] == pkt->dst.d[1]))
		return true;
	if (pkt->family == 4)
		return first == 0 || first == 127 || (first & 0xf0) == 0xe0 ||
		       pkt->src.w[0] == 0xffffffffU;
	if (pkt->src.d[0] == 0 &&
	    (pkt->src.w[2] == TG_WIRE32(0, 0, 0xff, 0xff) ||
	     (pkt->src.w[2] == 0 && (pkt->src.w[3] == 0 || pkt->src.w[3] == TG_WIRE32(0, 0, 0, 1)))))
		return true;
	return first == 0xff;
}

/* 127/8 or ::1. */
TG_INLINE bool tg_packet_to_loopback(const struct tg_packet *pkt)
{
	if (pkt->family == 4)
		return (uint8_t)pkt->dst.w[0] == 127;
	return pkt->dst.d[0] == 0 && pkt->dst.w[2] == 0 && pkt->dst.w[3] == TG_WIRE32(0, 0, 0, 1);
}

/* Addresses that answers must never come from. */
TG_INLINE bool tg_packet_is_group(const struct tg_packet *pkt)
{
	uint8_t first = (uint8_t)pkt->dst.w[0];

	if (pkt->group_frame)
		return true;
	if (pkt->family == 4)
		return (first & 0xf0) == 0xe0 || pkt->dst.w[0] == 0xffffffffU;
	return first == 0xff;
}

#endif
