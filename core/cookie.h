/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The `tidegate` cookie layout: what our SYN-ACK's sequence number (and, with timestamps, its
 * TSval) says, and how the client's ACK is verified.
 *
 * Client without timestamps; everything is in the ISN:
 *
 *    31  30     28 27       24  23   22  21                           0
 *   +---+---------+-----------+----+----+------------------------------+
 *   | P | MSS 3   | wscale 4  |SACK|ECN |           MAC 22             |  ISN
 *   +---+---------+-----------+----+----+------------------------------+
 *
 * Client with timestamps, which must echo our TSval in its TSecr:
 *
 *    31  30                                                           0
 *   +---+--------------------------------------------------------------+
 *   | P |                       MAC 31 (bits 0-30)                      |  ISN
 *   +---+--------------------------------------------------------------+
 *    31                            16 15       12   11   10  9         0
 *   +--------------------------------+-----------+----+----+------------+
 *   |             MSS 16             | wscale 4  |SACK|ECN |   MAC 10   |  TSval
 *   +--------------------------------+-----------+----+----+------------+
 *                                                        (bits 31-40)
 *
 * P is the lowest bit of the epoch. MSS 16 is the client's own number; MSS 3 an index into
 * the table of mss.def. wscale 15 means that the option was absent.
 *
 * The MAC is SipHash-2-4 under the epoch's key of this message (v4: 23 bytes,
 * v6: 47; numbers little-endian, addresses and ports as on the wire):
 *
 *   destination address | epoch 4 | source port 2 | destination port 2 | source address |
 *   client ISN 4 | option bits and form 3
 *
 * What is constant for a server stands first: the hash's state after its first words can be kept
 * (tg_cookie_begin). The option bits are those of the drawing, ECN the lowest: 9 in the plain form,
 * 22 in the other; in bits 22 and 23 stands the form, 1 without timestamps, 2 with. This is version
 * 3; docs/cookie-format.md states what the bits guarantee, and what the versions before were.
 */
#ifndef TG_COOKIE_H
#define TG_COOKIE_H

#include "keys.h"
#include "packet.h"
#include "tcp_options.h"

enum tg_cookie_form {
	TG_COOKIE_PLAIN = 1,
	TG_COOKIE_TS = 2,
};

#define TG_COOKIE_FLAG_BITS 6 /* of both: all but the MSS */
#define TG_COOKIE_PLAIN_OPTION_BITS (3 + TG_COOKIE_FLAG_BITS)
#define TG_COOKIE_MSS_BITS 16 /* with timestamps, highest in TSval */
#define TG_COOKIE_TS_OPTION_BITS (TG_COOKIE_MSS_BITS + TG_COOKIE_FLAG_BITS)
#define TG_COOKIE_FORM_SHIFT 22 /* in the message, above the option bits */
#define TG_COOKIE_OPTIONS_SHIFT 32 /* in the message's last word, above the ISN */
#define TG_COOKIE_PLAIN_MAC_BITS 22
#define TG_COOKIE_TS_ISN_MAC_BITS 31
#define TG_COOKIE_TS_VAL_MAC_BITS 10
#define TG_COOKIE_PLAIN_MAC_MASK ((1U << TG_COOKIE_PLAIN_MAC_BITS) - 1)
#define TG_COOKIE_TS_ISN_MAC_MASK ((1U << TG_COOKIE_TS_ISN_MAC_BITS) - 1)
#define TG_COOKIE_TS_VAL_MAC_MASK ((1U << TG_COOKIE_TS_VAL_MAC_BITS) - 1)
_Static_assert(1 + TG_COOKIE_PLAIN_OPTION_BITS + TG_COOKIE_PLAIN_MAC_BITS == 32, "ISN, plain form");
_Static_assert(1 + TG_COOKIE_TS_ISN_MAC_BITS == 32, "ISN, timestamp form");
_Static_assert(TG_COOKIE_TS_OPTION_BITS + TG_COOKIE_TS_VAL_MAC_BITS == 32, "TSval");
_Static_assert(TG_COOKIE_TS_OPTION_BITS <= TG_COOKIE_FORM_SHIFT, "message");

/* What a connection agrees on in its handshake. */
struct tg_agreed {
	uint16_t mss;   /* the client's; without timestamps rounded down to the table */
	uint8_t wscale; /* the client's shift, or TG_WSCALE_NONE */
	bool sack_ok;
	bool ts_ok;
	bool ecn_ok;
};

struct tg_cookie {
	uint32_t isn;   /* host order */
	uint32_t tsval; /* host order; meaningful if the client uses timestamps */
};

/* The client's MSS, rounded down to an entry of the table. */
TG_INLINE uint32_t tg_mss_index(uint8_t family, uint16_t mss)
{
	if (family == 4)
		return 0
#define TG_MSS(index, v4, v6) +((index) > 0 && mss >= (v4))
#include "mss.def"
#undef TG_MSS
			;
	return 0
#define TG_MSS(index, v4, v6) +((index) > 0 && mss >= (v6))
#include "mss.def"
#undef TG_MSS
		;
}

/* What nearly every client sends: an MTU of 1500. */
#define TG_MSS_COMMON_INDEX 6

TG_INLINE uint16_t tg_mss_value(uint8_t family, uint32_t index)
{
	/* Written as code: a table in memory costs a BPF program a map. */
	switch (index & 7) {
#define TG_MSS(index, v4, v6)                                                                      \
	case index:                                                                                \
		return family == 4 ? (v4) : (v6);
#include "mss.def"
#undef TG_MSS
	}
	return 0; /* there is no other */
}

/* The least that every host must accept: RFC 9293 section 3.7.1, RFC 8200 section 5 less 60. It is
 * also the least that the kernel adopts. */
TG_INLINE uint16_t tg_mss_least(uint8_t family)
{
	return tg_mss_value(family, 0);
}

/* How a cookie records a client's MSS; `mss` 0: the client offered none. */
TG_INLINE uint32_t tg_cookie_mss(uint8_t family, uint16_t mss, bool ts_ok)
{
	if (!ts_ok)
		return tg_mss_index(family, mss);
	return mss ? mss : tg_mss_least(family);
}

TG_INLINE uint32_t tg_cookie_option_bits(uint32_t mss, uint8_t wscale, bool sack_ok, bool ecn_ok)
{
	return mss << TG_COOKIE_FLAG_BITS | (uint32_t)wscale << 2 | (uint32_t)sack_ok << 1 |
	       (uint32_t)ecn_ok;
}

/* The client's shift, of option bits in either form. */
TG_INLINE uint8_t tg_cookie_wscale(uint32_t option_bits)
{
	return option_bits >> 2 & 15;
}

TG_INLINE struct tg_agreed tg_cookie_agreed(uint8_t family, uint32_t option_bits, bool ts_ok)
{
	uint32_t mss = option_bits >> TG_COOKIE_FLAG_BITS;

	return (struct tg_agreed){
		.mss = ts_ok ? (uint16_t)mss : tg_mss_value(family, mss),
		.wscale = tg_cookie_wscale(option_bits),
		.sack_ok = option_bits >> 1 & 1,
		.ecn_ok = option_bits & 1,
		.ts_ok = ts_ok,
	};
}

/* Both numbers of the form with timestamps, from the MAC, whose upper part begins at
 * TG_COOKIE_TS_ISN_MAC_BITS. All may be vectors of 64-bit numbers, a cookie in each lane: what is
 * then above 32 bits has to be cut off. */
#define TG_COOKIE_PARITY(epoch) ((uint32_t)((epoch) & 1) << 31)
#define TG_COOKIE_TS_ISN(parity, mac) ((parity) | ((mac) & TG_COOKIE_TS_ISN_MAC_MASK))
#define TG_COOKIE_TS_VAL(option_bits, mac_upper)                                                   \
	((option_bits) << TG_COOKIE_TS_VAL_MAC_BITS | ((mac_upper) & TG_COOKIE_TS_VAL_MAC_MASK))

#define TG_COOKIE_LEN_V4 TG_SIPHASH_LEN(8 + 8 + 7)
#define TG_COOKIE_LEN_V6 TG_SIPHASH_LEN(32 + 8 + 7)

/* The last word of a MAC's message, all but the ISN; and without the length in the top byte. */
TG_INLINE uint64_t tg_cookie_content(uint32_t option_bits, enum tg_cookie_form form)
{
	return (uint64_t)(option_bits | (uint32_t)form << TG_COOKIE_FORM_SHIFT)
	       << TG_COOKIE_OPTIONS_SHIFT;
}

TG_INLINE uint64_t tg_cookie_tail(uint8_t family, uint32_t option_bits, enum tg_cookie_form form)
{
	return tg_cookie_content(option_bits, form) |
	       (family == 4 ? TG_COOKIE_LEN_V4 : TG_COOKIE_LEN_V6);
}

/* The first word of an IPv4 message; the third of an IPv6 one holds the ports in place of the address. */
TG_INLINE uint64_t tg_cookie_first(uint32_t dst, uint64_t epoch)
{
	return dst | epoch << 32;
}

/* The state after the words that the key and the server's address determine. */
TG_INLINE struct tg_siphash tg_cookie_begin(uint8_t family, const union tg_addr *dst,
					    uint64_t epoch, const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_siphash_begin(key);

	if (family == 4) {
		tg_siphash_word(&s, tg_cookie_first(dst->w[0], epoch));
	} else {
		tg_siphash_word(&s, dst->d[0]);
		tg_siphash_word(&s, dst->d[1]);
	}
	return s;
}

/* The 64-bit MAC from which both forms take their bits, from what tg_cookie_begin gave. src is the
 * client. */
TG_INLINE uint64_t tg_cookie_end(struct tg_siphash *s, const struct tg_packet *pkt,
				 uint32_t client_isn, uint32_t option_bits,
				 enum tg_cookie_form form, uint64_t epoch)
{
	uint64_t tail = client_isn | tg_cookie_tail(pkt->family, option_bits, form);

	if (pkt->family == 4) {
		tg_siphash_word(s, pkt->ports | pkt->src.d[0] << 32);
	} else {
		tg_siphash_word(s, (uint32_t)epoch | (uint64_t)pkt->ports << 32);
		tg_siphash_word(s, pkt->src.d[0]);
		tg_siphash_word(s, pkt->src.d[1]);
	}
	return tg_siphash_end(s, tail);
}

TG_INLINE uint64_t tg_cookie_mac(const struct tg_packet *pkt, uint32_t client_isn,
				 uint32_t option_bits, enum tg_cookie_form form, uint64_t epoch,
				 const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_cookie_begin(pkt->family, &pkt->dst, epoch, key);

	return tg_cookie_end(&s, pkt, client_isn, option_bits, form, epoch);
}

/* The words that tg_cookie_mac hashes, for planes that hash many messages at once: three over IPv4,
 * six over IPv6. Not used by tg_cookie_mac itself: a BPF program's stack has no room for them. */
#define TG_COOKIE_WORDS(family) ((family) == 4 ? 3U : 6U)
#define TG_COOKIE_BEGIN_WORDS(family)                                                              \
	((family) == 4 ? 1U : 2U) /* of them, those of tg_cookie_begin */

struct tg_cookie_message {
	uint64_t word[6];
};

TG_INLINE struct tg_cookie_message tg_cookie_message(const struct tg_packet *pkt,
						     uint32_t client_isn, uint32_t option_bits,
						     enum tg_cookie_form form, uint64_t epoch)
{
	uint64_t tail = client_isn | tg_cookie_tail(pkt->family, option_bits, form);
	struct tg_cookie_message m; /* an IPv4 message leaves the other words as they are */

	if (pkt->family == 4) {
		m.word[0] = tg_cookie_first(pkt->dst.w[0], epoch);
		m.word[1] = pkt->ports | pkt->src.d[0] << 32;
		m.word[2] = tail;
	} else {
		m.word[0] = pkt->dst.d[0];
		m.word[1] = pkt->dst.d[1];
		m.word[2] = (uint32_t)epoch | (uint64_t)pkt->ports << 32;
		m.word[3] = pkt->src.d[0];
		m.word[4] = pkt->src.d[1];
		m.word[5] = tail;
	}
	return m;
}

/* The cookie made from a MAC. */
TG_INLINE struct tg_cookie tg_cookie_of_mac(uint64_t mac, uint32_t option_bits, bool ts_ok,
					    uint64_t epoch)
{
	uint32_t parity = TG_COOKIE_PARITY(epoch);

	if (ts_ok)
		return (struct tg_cookie){
			.isn = TG_COOKIE_TS_ISN(parity, (uint32_t)mac),
			.tsval = TG_COOKIE_TS_VAL(option_bits,
						  (uint32_t)(mac >> TG_COOKIE_TS_ISN_MAC_BITS)),
		};
	return (struct tg_cookie){
		.isn = parity | option_bits << TG_COOKIE_PLAIN_MAC_BITS |
		       ((uint32_t)mac & TG_COOKIE_PLAIN_MAC_MASK),
	};
}

/* The cookie for a SYN, from what tg_cookie_begin gave. */
TG_INLINE struct tg_cookie tg_cookie_make_end(struct tg_siphash *s, const struct tg_packet *syn,
					      uint32_t option_bits, bool ts_ok, uint64_t epoch)
{
	uint64_t mac = tg_cookie_end(s, syn, syn->seq, option_bits,
				     ts_ok ? TG_COOKIE_TS : TG_COOKIE_PLAIN, epoch);

	return tg_cookie_of_mac(mac, option_bits, ts_ok, epoch);
}

TG_INLINE struct tg_cookie tg_cookie_make(const struct tg_packet *syn, uint32_t option_bits,
					  bool ts_ok, uint64_t epoch,
					  const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_cookie_begin(syn->family, &syn->dst, epoch, key);

	return tg_cookie_make_end(&s, syn, option_bits, ts_ok, epoch);
}

/* The epoch whose key an ISN names, of the current one and the one before. */
TG_INLINE uint64_t tg_cookie_epoch(uint32_t isn, uint64_t now_epoch)
{
	return (isn >> 31) == (now_epoch & 1) ? now_epoch : now_epoch - 1;
}

/* The option bits that a cookie claims; meaningless until verified. */
TG_INLINE uint32_t tg_cookie_claimed_bits(struct tg_cookie cookie, bool ts_ok)
{
	if (ts_ok)
		return cookie.tsval >> TG_COOKIE_TS_VAL_MAC_BITS;
	return cookie.isn >> TG_COOKIE_PLAIN_MAC_BITS & ((1U << TG_COOKIE_PLAIN_OPTION_BITS) - 1);
}

/* True if `cookie` carries the bits of `mac`, compared in constant time. */
TG_INLINE bool tg_cookie_has_mac(struct tg_cookie cookie, bool ts_ok, uint64_t epoch, uint64_t mac)
{
	uint32_t diff;

	if (ts_ok)
		diff = ((cookie.isn ^ (uint32_t)mac) & TG_COOKIE_TS_ISN_MAC_MASK) |
		       ((cookie.tsval ^ (uint32_t)(mac >> TG_COOKIE_TS_ISN_MAC_BITS)) &
			TG_COOKIE_TS_VAL_MAC_MASK);
	else
		diff = (cookie.isn ^ (uint32_t)mac) & TG_COOKIE_PLAIN_MAC_MASK;
	return diff == 0 && (cookie.isn >> 31) == (epoch & 1);
}

/* True if `cookie`, which came back in `ack`, is the one made for this client in `epoch`; from what
 * tg_cookie_begin gave. */
TG_INLINE bool tg_cookie_verify_end(struct tg_siphash *s, const struct tg_packet *ack,
				    struct tg_cookie cookie, bool ts_ok, uint64_t epoch)
{
	uint32_t bits = tg_cookie_claimed_bits(cookie, ts_ok);
	uint64_t mac = tg_cookie_end(s, ack, ack->seq - 1, bits,
				     ts_ok ? TG_COOKIE_TS : TG_COOKIE_PLAIN, epoch);

	return tg_cookie_has_mac(cookie, ts_ok, epoch, mac);
}

TG_INLINE bool tg_cookie_verify(const struct tg_packet *ack, struct tg_cookie cookie, bool ts_ok,
				uint64_t epoch, const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_cookie_begin(ack->family, &ack->dst, epoch, key);

	return tg_cookie_verify_end(&s, ack, cookie, ts_ok, epoch);
}

#endif
