/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The form of SYN that nearly every client sends, and its answer, at half the cost: no VLAN tag, no
 * IP options or extension headers, no data, no ECN, and the TCP options of Linux, Android, Windows,
 * macOS and FreeBSD in their usual order:
 *
 *   20 bytes  MSS | SACK-permitted, timestamps | NOP, window scale
 *   12 bytes  MSS | NOP, window scale | NOP, NOP, SACK-permitted   (the last two in either order)
 *
 * A service that agrees to all of them answers with as many bytes as it got, so the answer is
 * written over the SYN. Anything else is left, unchanged, to fast_syn_any.h, packet.h and synack.h, which give the
 * same results for these SYNs, only slower: what is written here must be byte for byte what they
 * write (test_fast_syn.c).
 *
 * `family` and `ts` are constants at each call: every case becomes straight-line code, in which a
 * BPF program keeps its values in registers.
 */
#ifndef TG_FAST_SYN_H
#define TG_FAST_SYN_H

#include "host.h"

/* Bytes of the whole frame. */
TG_INLINE uint32_t tg_fast_syn_len(uint8_t family, bool ts)
{
	return TG_ETH_HDR_LEN + (family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN) + TG_TCP_HDR_LEN +
	       (ts ? 20 : 12);
}

/* Where the TCP header begins. */
TG_INLINE uint32_t tg_fast_syn_l4(uint8_t family)
{
	return TG_ETH_HDR_LEN + (family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN);
}

/* True if the IP header is that of a common SYN's; reads tg_fast_syn_len bytes. */
TG_INLINE bool tg_fast_syn_ip(const uint8_t *frame, uint8_t family, bool ts)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN;
	uint32_t len = tg_fast_syn_len(family, ts) - TG_ETH_HDR_LEN;

	if (family == 4)
		return ip[0] == 0x45 && tg_load16(ip + TG_IPV4_LEN) == tg_swap16(len) &&
		       (tg_load16(ip + TG_IPV4_FRAG) & tg_swap16(0x3fff)) == 0 &&
		       ip[TG_IPV4_PROTO] == TG_IPPROTO_TCP;
	len -= TG_IPV6_HDR_LEN;
	return (ip[0] & 0xf0) == 0x60 && (tg_load32(ip + TG_IPV6_LEN) & 0xffffff) ==
						 TG_WIRE32(len >> 8, len, TG_IPPROTO_TCP, 0);
}

/* True if the TCP options are those of a common SYN; then `o` says what they offer. */
TG_INLINE bool tg_fast_syn_options(const uint8_t *at, bool ts, struct tg_tcp_options *o)
{
	const uint32_t nop_wscale = TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_WSCALE, 3, 0);
	const uint32_t nop_nop_sack = TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_SACK_OK, 2);
	uint32_t mss = tg_load32(at), second = tg_load32(at + 4), last;

	if (ts) {
		last = tg_load32(at + 16);
		if (second != TG_WIRE32(TG_TCPOPT_SACK_OK, 2, TG_TCPOPT_TIMESTAMP, 10))
			return false;
	} else {
		last = tg_load32(at + 8);
		if (last == nop_nop_sack)
			last = second;
		else if (second != nop_nop_sack)
			return false;
	}
	if ((last & 0xffffff) != nop_wscale || last >> 24 > TG_WSCALE_MAX ||
	    (mss & 0xffff) != TG_WIRE32(TG_TCPOPT_MSS, 4, 0, 0) || mss >> 16 == 0)
		return false;
	o->mss = tg_swap16(mss >> 16);
	o->wscale = (uint8_t)(last >> 24);
	o->sack_ok = true;
	o->ts_ok = ts;
	o->auth = TG_AUTH_NONE;
	return true;
}

/* True if both checksums of a common SYN are right: core/intact.h, as straight-line code. `addrs` becomes
 * the sum of the addresses' words, which the answer has, too. */
TG_INLINE bool tg_fast_syn_sums(const uint8_t *frame, uint8_t family, bool ts, uint64_t *addrs)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN, *tcp = frame + tg_fast_syn_l4(family);
	uint32_t tcp_len = TG_TCP_HDR_LEN + (ts ? 20 : 12);
	uint64_t pseudo = family == 4 ? tg_intact_words(ip + TG_IPV4_SRC, 2)
				      : tg_intact_words(ip + TG_IPV6_SRC, 8);

	*addrs = pseudo;
	if (family == 4 && tg_csum_fold_words(pseudo + tg_intact_words(ip, 3)) != 0xffff)
		return false;
	return tg_intact_tcp(pseudo + TG_WIRE32(0, TG_IPPROTO_TCP, 0, tcp_len),
			     tg_intact_words(tcp, tcp_len / 4), tg_load16(tcp + TG_TCP_SUM));
}

/* Reads what the answer to a common SYN needs of its headers. */
TG_INLINE void tg_fast_syn_fields(const uint8_t *frame, uint8_t family, struct tg_packet *syn)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN, *tcp = frame + tg_fast_syn_l4(family);

	syn->family = family;
	syn->l3_off = TG_ETH_HDR_LEN;
	syn->group_frame = frame[0] & 1;
	syn->group_sender = frame[TG_ETH_SRC] & 1;
	if (family == 4) {
		syn->src.d[0] = tg_load32(ip + TG_IPV4_SRC);
		syn->dst.d[0] = tg_load32(ip + TG_IPV4_DST);
		syn->src.d[1] = syn->dst.d[1] = 0;
	} else {
		syn->src.d[0] = tg_load64(ip + TG_IPV6_SRC);
		syn->src.d[1] = tg_load64(ip + TG_IPV6_SRC + 8);
		syn->dst.d[0] = tg_load64(ip + TG_IPV6_DST);
		syn->dst.d[1] = tg_load64(ip + TG_IPV6_DST + 8);
	}
	syn->ports = tg_load32(tcp);
	syn->seq = tg_swap32(tg_load32(tcp + TG_TCP_SEQ));
}

/* True if the frame of tg_fast_syn_len bytes, whose EtherType is the family's, is a SYN whose headers
 * are a common SYN's, as far as its options; then `syn` holds what the answer needs. */
TG_INLINE bool tg_fast_syn_head(const uint8_t *frame, uint8_t family, bool ts, struct tg_packet *syn)
{
	/* Data offset, reserved bits, flags: SYN alone. */
	if (tg_load16(frame + tg_fast_syn_l4(family) + TG_TCP_DOFF) != (ts ? 0x02a0 : 0x0280) ||
	    !tg_fast_syn_ip(frame, family, ts))
		return false;
	tg_fast_syn_fields(frame, family, syn);
	return true;
}

/* True if such a SYN, whose options are a common one's, is to be answered; then `addrs` is the sum of its
 * addresses. False too for what tg_host_judge_syn would not answer. */
TG_INLINE bool tg_fast_syn_sound(const uint8_t *frame, uint8_t family, bool ts,
				 const struct tg_packet *syn, uint64_t *addrs)
{
	return !tg_packet_is_group(syn) && !tg_packet_source_is_bogus(syn) &&
	       tg_fast_syn_sums(frame, family, ts, addrs);
}

/* The same of one whose options have not been read; then `offered` says what it offers. */
TG_INLINE bool tg_fast_syn_rest(const uint8_t *frame, uint8_t family, bool ts,
				const struct tg_packet *syn, struct tg_tcp_options *offered,
				uint64_t *addrs)
{
	return tg_fast_syn_options(frame + tg_fast_syn_l4(family) + TG_TCP_HDR_LEN, ts, offered) &&
	       tg_fast_syn_sound(frame, family, ts, syn, addrs);
}

/* Both. */
TG_INLINE bool tg_fast_syn_read(const uint8_t *frame, uint8_t family, bool ts, struct tg_packet *syn,
				struct tg_tcp_options *offered, uint64_t *addrs)
{
	return tg_fast_syn_head(frame, family, ts, syn) &&
	       tg_fast_syn_rest(frame, family, ts, syn, offered, addrs);
}

/* True if the service answers a common SYN with as many options as it has. */
TG_INLINE bool tg_fast_syn_agrees(const struct tg_service *svc, bool ts)
{
	return svc->sack && (!ts || svc->timestamps) && svc->wscale != TG_WSCALE_NONE;
}

/* What the cookie says of the connection: tg_synack_agree's option_bits. */
TG_INLINE uint32_t tg_fast_syn_bits(uint8_t family, bool ts, const struct tg_tcp_options *offered)
{
	uint32_t mss = ts ? offered->mss
		       : offered->mss == tg_mss_value(family, TG_MSS_COMMON_INDEX)
			       ? TG_MSS_COMMON_INDEX
			       : tg_mss_index(family, offered->mss);

	return tg_cookie_option_bits(mss, offered->wscale, true, false);
}

/* Writes the answer over the SYN. `svc` agrees (tg_fast_syn_agrees); `addrs` is tg_fast_syn_rest's. */
TG_INLINE void tg_fast_syn_answer(uint8_t *frame, uint8_t family, bool ts,
				  const struct tg_packet *syn, uint64_t addrs,
				  const struct tg_service *svc, struct tg_cookie cookie)
{
	uint8_t *ip = frame + TG_ETH_HDR_LEN, *tcp = frame + tg_fast_syn_l4(family);
	uint32_t tcp_len = TG_TCP_HDR_LEN + (ts ? 20 : 12), i;
	uint32_t ports = syn->ports << 16 | syn->ports >> 16;
	uint32_t isn = tg_swap32(cookie.isn), ack = tg_swap32(syn->seq + 1);
	uint32_t w3 = TG_WIRE32(tcp_len / 4 << 4, TG_TCP_SYN | TG_TCP_ACK, 0, 0) |
		      (uint32_t)tg_swap16(svc->window) << 16;
	uint32_t mss = TG_WIRE32(TG_TCPOPT_MSS, 4, 0, 0) |
		       (uint32_t)tg_swap16(family == 4 ? svc->mss_v4 : svc->mss_v6) << 16;
	uint32_t wscale = TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_WSCALE, 3, svc->wscale);
	uint64_t sum = (uint64_t)ports + isn + ack + w3 + mss + wscale +
		       TG_WIRE32(0, TG_IPPROTO_TCP, 0, tcp_len);

	tg_store32(tcp, ports);
	tg_store32(tcp + TG_TCP_SEQ, isn);
	tg_store32(tcp + TG_TCP_ACKED, ack);
	tg_store32(tcp + TG_TCP_DOFF, w3);
	tg_store32(tcp + TG_TCP_HDR_LEN, mss);
	if (ts) {
		uint32_t tsval = tg_swap32(cookie.tsval), tsecr = tg_load32(tcp + TG_TCP_HDR_LEN + 8);

		/* SACK-permitted and the head of the timestamps are there already. */
		sum += (uint64_t)TG_WIRE32(TG_TCPOPT_SACK_OK, 2, TG_TCPOPT_TIMESTAMP, 10) + tsval +
		       tsecr;
		tg_store32(tcp + TG_TCP_HDR_LEN + 8, tsval);
		tg_store32(tcp + TG_TCP_HDR_LEN + 12, tsecr);
		tg_store32(tcp + TG_TCP_HDR_LEN + 16, wscale);
	} else {
		uint32_t sack = TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_SACK_OK, 2);

		sum += sack;
		tg_store32(tcp + TG_TCP_HDR_LEN + 4, sack);
		tg_store32(tcp + TG_TCP_HDR_LEN + 8, wscale);
	}
	if (family == 4) {
		uint32_t w0 = TG_WIRE32(0x45, 0, 0, TG_IPV4_HDR_LEN + tcp_len);
		uint32_t w1 = TG_WIRE32(0, 0, 0x40, 0);
		uint32_t w2 = TG_WIRE32(TG_SYNACK_TTL, TG_IPPROTO_TCP, 0, 0);

		addrs = syn->src.d[0] + syn->dst.d[0]; /* cheaper than to keep it */
		tg_store32(ip, w0);
		tg_store32(ip + TG_IPV4_ID, w1);
		tg_store32(ip + TG_IPV4_TTL,
			   w2 | (uint32_t)tg_csum_finish_words((uint64_t)w0 + w1 + w2 + addrs) << 16);
		tg_store32(ip + TG_IPV4_SRC, syn->dst.w[0]);
		tg_store32(ip + TG_IPV4_DST, syn->src.w[0]);
	} else {
		tg_store32(ip, tg_flow_word(isn, svc->flow_key));
		tg_store32(ip + TG_IPV6_LEN, TG_WIRE32(0, tcp_len, TG_IPPROTO_TCP, TG_SYNACK_TTL));
		for (i = 0; i < 2; i++) {
			tg_store64(ip + TG_IPV6_SRC + 8 * i, syn->dst.d[i]);
			tg_store64(ip + TG_IPV6_DST + 8 * i, syn->src.d[i]);
		}
	}
	tg_store32(tcp + TG_TCP_SUM, tg_csum_finish_words(sum + addrs)); /* urgent pointer 0 */
	tg_ethernet_reflect(frame);
}

#endif
