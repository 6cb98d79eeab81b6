/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Every other SYN without IP options, extension headers and VLAN tags, read at once: with any TCP
 * options in any order, or none, with ECN, padded, with data. Who attacks chooses what its SYNs look like, so these
 * must cost little more than those of fast_syn.h. What is not of this form is left to packet.h, which gives
 * the same results for these SYNs, only slower (test_fast_syn.c).
 *
 * `family` is a constant at each call: every case becomes straight-line code.
 */
#ifndef TG_FAST_SYN_ANY_H
#define TG_FAST_SYN_ANY_H

#include "fast_syn.h"

/* Bytes from the start of the frame to the end of the fixed TCP header. */
TG_INLINE uint32_t tg_any_syn_len(uint8_t family)
{
	return tg_fast_syn_l4(family) + TG_TCP_HDR_LEN;
}

/* True if the frame, of which tg_any_syn_len bytes are there, may be one; it costs less than to ask the rest. */
TG_INLINE bool tg_any_syn_may_be(const uint8_t *frame, uint8_t family)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN, *tcp = frame + tg_fast_syn_l4(family);

	return tg_load16(frame + TG_ETH_TYPE) ==
		       (family == 4 ? TG_ETHERTYPE_IPV4 : TG_ETHERTYPE_IPV6) &&
	       ip[family == 4 ? TG_IPV4_PROTO : TG_IPV6_NEXT] == TG_IPPROTO_TCP &&
	       (tcp[TG_TCP_FLAGS] & (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_FIN | TG_TCP_RST)) ==
		       TG_TCP_SYN;
}

/* True if the headers are those of such a SYN, as far as its options; then `syn` is what tg_packet_parse
 * makes of it. The frame, of which tg_any_syn_len bytes are there, is one that tg_any_syn_may_be is true for. */
TG_INLINE bool tg_any_syn_head(const uint8_t *frame, uint8_t family, struct tg_packet *syn)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN, *tcp = frame + tg_fast_syn_l4(family);
	uint32_t len = tg_swap16(tg_load16(ip + (family == 4 ? TG_IPV4_LEN : TG_IPV6_LEN)));
	const uint32_t before = family == 4 ? TG_IPV4_HDR_LEN
					    : 0; /* bytes that `len` counts before the segment */

	syn->tcp_hdr_len = (uint8_t)((tcp[TG_TCP_DOFF] >> 4) * 4);
	if (syn->tcp_hdr_len < TG_TCP_HDR_LEN || len < before + syn->tcp_hdr_len)
		return false;
	syn->l4_len = len - before;
	if (family == 4) {
		if (ip[0] != 0x45 || (tg_load16(ip + TG_IPV4_FRAG) & tg_swap16(0x3fff)) != 0)
			return false;
		syn->ip_ecn = ip[TG_IPV4_TOS] & 3;
		syn->ip_dscp = ip[TG_IPV4_TOS] >> 2;
		syn->src.d[0] = tg_load32(ip + TG_IPV4_SRC);
		syn->dst.d[0] = tg_load32(ip + TG_IPV4_DST);
		syn->src.d[1] = syn->dst.d[1] = 0;
	} else {
		if ((ip[0] & 0xf0) != 0x60)
			return false;
		syn->ip_ecn = ip[TG_IPV6_TCLASS] >> 4 & 3;
		syn->ip_dscp = (uint8_t)((ip[0] & 0xf) << 2 | ip[TG_IPV6_TCLASS] >> 6);
		syn->src.d[0] = tg_load64(ip + TG_IPV6_SRC);
		syn->src.d[1] = tg_load64(ip + TG_IPV6_SRC + 8);
		syn->dst.d[0] = tg_load64(ip + TG_IPV6_DST);
		syn->dst.d[1] = tg_load64(ip + TG_IPV6_DST + 8);
	}
	syn->family = family;
	syn->l3_off = TG_ETH_HDR_LEN;
	syn->l4_off = tg_fast_syn_l4(family);
	syn->flags = tcp[TG_TCP_FLAGS];
	syn->ports = tg_load32(tcp);
	syn->seq = tg_swap32(tg_load32(tcp + TG_TCP_SEQ));
	syn->ack = tg_swap32(tg_load32(tcp + TG_TCP_ACKED));
	syn->group_frame = frame[0] & 1;
	syn->group_sender = frame[TG_ETH_SRC] & 1;
	syn->as_probe = false;
	return true;
}

/* What words of options say so far. */
struct tg_any_options {
	uint64_t sum; /* of the segment's words */
	uint32_t field; /* its checksum */
	uint32_t stamps; /* words of timestamps that are still to come */
	uint32_t ended, strange; /* there is a word that only tg_tcp_options_parse understands */
};

/* Reads the word at byte `at` of `len`: what real senders put into one. It says nothing that tg_tcp_option_next would not
 * (tg_tcp_option_word). */
TG_INLINE void tg_any_syn_word(struct tg_any_options *read, uint32_t word, uint32_t at,
			       uint32_t len, struct tg_tcp_options *o)
{
	read->sum += word;
	if (read->stamps) {
		if (read->stamps == 2)
			o->tsval = tg_swap32(word);
		read->stamps--;
	} else if (read->ended) {
	} else if ((word & 0xffff) == TG_WIRE32(TG_TCPOPT_MSS, 4, 0, 0) && word >> 16 != 0) {
		o->mss = tg_swap16(word >> 16);
	} else if ((word & 0xffffff) == TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_WSCALE, 3, 0)) {
		o->wscale = word >> 24 > TG_WSCALE_MAX ? TG_WSCALE_MAX : (uint8_t)(word >> 24);
	} else if (word == TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_SACK_OK, 2)) {
		o->sack_ok = true;
	} else if ((word == TG_WIRE32(TG_TCPOPT_SACK_OK, 2, TG_TCPOPT_TIMESTAMP, 10) ||
		    word == TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_TIMESTAMP, 10)) &&
		   at + 12 <= len) {
		if ((word & 0xff) == TG_TCPOPT_SACK_OK)
			o->sack_ok = true;
		o->ts_ok = true;
		read->stamps = 2;
	} else if ((word & 0xffffff) == TG_WIRE32(TG_TCPOPT_SACK_OK, 2, TG_TCPOPT_EOL, 0)) {
		o->sack_ok = true;
		read->ended = true;
	} else if ((word & 0xff) == TG_TCPOPT_EOL) {
		read->ended = true;
	} else if (word != TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_NOP)) {
		read->strange = true;
	}
}

enum tg_any_syn {
	TG_ANY_SYN_LEFT, /* one for packet.h: its options are not all before `end`, a checksum is wrong, or
			       tg_host_judge_syn would not answer it */
	TG_ANY_SYN_STRANGE, /* to be answered, but its options have to be parsed */
	TG_ANY_SYN_READ, /* to be answered; and `offered` says what it offers */
};

/* Bytes of data behind its options. */
TG_INLINE uint32_t tg_any_syn_data_len(const struct tg_packet *syn)
{
	return syn->l4_len - syn->tcp_hdr_len;
}

/* What such a SYN is, of whose frame tg_any_syn_len bytes are before `end`. `data`: the sum of the words of its data. `read`:
 * memory; if it is a map's, a BPF verifier does not follow each of its values through all words. */
TG_INLINE enum tg_any_syn tg_any_syn_rest(const uint8_t *frame, const uint8_t *end, uint8_t family,
					  const struct tg_packet *syn, uint32_t data,
					  struct tg_tcp_options *offered, struct tg_any_options *read)
{
	const uint8_t *ip = frame + TG_ETH_HDR_LEN, *tcp = frame + tg_fast_syn_l4(family);
	uint32_t len = (uint32_t)syn->tcp_hdr_len - TG_TCP_HDR_LEN, i;
	uint64_t pseudo;

	if (tg_packet_is_group(syn) || tg_packet_source_is_bogus(syn))
		return TG_ANY_SYN_LEFT;
	pseudo = family == 4 ? tg_intact_words(ip + TG_IPV4_SRC, 2)
			     : tg_intact_words(ip + TG_IPV6_SRC, 8);
	if (family == 4 && tg_csum_fold_words(pseudo + tg_intact_words(ip, 3)) != 0xffff)
		return TG_ANY_SYN_LEFT;
	pseudo += TG_WIRE32(0, TG_IPPROTO_TCP, syn->l4_len >> 8, syn->l4_len);
	TG_HIDE(pseudo); /* added up here; else clang keeps the words */
	read->field = tg_load16(tcp + TG_TCP_SUM);
	read->sum = data + tg_intact_words(tcp, TG_TCP_HDR_LEN / 4);
	read->stamps = read->ended = read->strange = 0;
	*offered = (struct tg_tcp_options){.wscale = TG_WSCALE_NONE};
	TG_BARRIER();
#ifdef __bpf__
#pragma clang loop unroll(full)
#endif
	for (i = 0; i < TG_TCP_OPTIONS_MAX_LEN; i += 4) {
		const uint8_t *at = tcp + TG_TCP_HDR_LEN + i;

		if (i >= len)
			break;
		if (at + 4 > end)
			return TG_ANY_SYN_LEFT;
		tg_any_syn_word(read, tg_load32(at), i, len, offered);
		TG_BARRIER();
	}
	TG_BARRIER(); /* from here on nothing depends on where the loop ended */
	if (!tg_intact_tcp(pseudo, read->sum, (uint16_t)read->field))
		return TG_ANY_SYN_LEFT;
	return read->strange ? TG_ANY_SYN_STRANGE : TG_ANY_SYN_READ;
}

#endif
