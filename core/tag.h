/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The `tagged` protocol between edge and server, on the wire: the tag that an
 * edge puts on a client's segment, and the confirmation that a server sends back.
 * docs/split-protocol.md states what they mean and when they are sent.
 *
 * A tag is a TCP option (RFC 6994, experiment 0x5447) and always the first one, so that no search
 * is needed:
 *
 *    0               8               16                              31
 *   +---------------+---------------+-------------------------------+
 *   |  kind 254     |  length 20    |  0x54 'T'       0x47 'G'      |
 *   +-------+-------+-------+-------+-------------------------------+
 *   | vers 1| what  | wscale|   0   |  edge, 1-255                  |
 *   +-------+-------+-------+-------+-------------------------------+
 *   |  epoch, low 32 bits                                           |
 *   +---------------------------------------------------------------+
 *   |  MAC, 64 bits, little-endian                                  |
 *   |                                                               |
 *   +---------------------------------------------------------------+
 *
 * wscale is the shift that the edge's SYN-ACK announced, 15 if it announced none.
 * Everything else that the server has to know stands in the segment itself: the
 * cookie is ack - 1 (and TSecr), and says what was agreed on.
 *
 * The MAC is SipHash-2-4 under the epoch's tag key of (numbers little-endian,
 * addresses, ports and the tag's second and third word as on the wire; v4: 32
 * bytes, v6: 56):
 *
 *   source | destination | ports 4 | seq 4 | ack 4 | TSecr 4 (0: none) | word 1 | word 2
 *
 * A confirmation is a UDP datagram of 60 bytes to the edge's address:
 *
 *    0               8               16              24              31
 *   +---------------+---------------+-------+-------+---------------+
 *   |  'T'          |  'G'          | vers 2| what 3|  family, 4, 6 |
 *   +---------------+---------------+-------+-------+---------------+
 *   |  edge                         |  0                            |
 *   +-------------------------------+-------------------------------+
 *   |  scratch                      |  0                            |
 *   +-------------------------------+-------------------------------+
 *   |  epoch, low 32 bits                                           |
 *   +-------------------------------+-------------------------------+
 *   |  client's port                |  server's port                |
 *   +-------------------------------+-------------------------------+
 *   |  client's address, 16 bytes; IPv4 in the first 4, then 0      |
 *   |  server's address, 16 bytes, likewise                         |
 *   +---------------------------------------------------------------+
 *   |  MAC, 64 bits, little-endian                                  |
 *   +---------------------------------------------------------------+
 *
 * Its MAC is of the 48 bytes 0-7 and 12-51, under the epoch's confirm key (version 1 had
 * the tag key). Scratch may hold anything: a server
 * makes the datagram out of a TCP segment whose checksum is left to the NIC, and
 * the NIC may write it there.
 *
 * Must never: look further into a segment than its headers; touch ECN.
 */
#ifndef TG_TAG_H
#define TG_TAG_H

#include "checksum.h"
#include "keys.h"
#include "packet.h"

#define TG_TAG_LEN 20
#define TG_TAG_WORDS (TG_TAG_LEN / 4)
#define TG_TAG_OPTION 254 /* RFC 4727 */
#define TG_TAG_VERSION 1
#define TG_TAG_EDGE_MAX 255
#define TG_CONFIRM_VERSION 2
#define TG_CONFIRM_LEN 60
#define TG_CONFIRM_PORT 21575 /* 0x5447 */

enum tg_tag_what {
	TG_TAG_SETUP = 1,   /* the edge has verified the cookie in this segment */
	TG_TAG_PROBE = 2,   /* it has not: does this belong to a live connection? */
	TG_TAG_CONFIRM = 3, /* only in confirmations */
};

struct tg_tag {
	uint32_t epoch; /* low 32 bits */
	uint16_t edge;
	uint8_t what;   /* enum tg_tag_what */
	uint8_t wscale; /* as announced to the client, or TG_WSCALE_NONE */
};

enum tg_tag_result {
	TG_TAG_NONE,    /* no tag here */
	TG_TAG_READ,    /* one of this version, not yet verified */
	TG_TAG_FOREIGN, /* one of another version, or of a kind or edge that does not exist */
	TG_TAG_CUT,     /* one that is longer than the options it stands in */
};

/* Both keys of one epoch, a slot of a ring. Tags and confirmations have one each, or what the
 * MAC of one covers might be read as the other. Map ABI. */
struct tg_tag_epoch {
	uint64_t epoch;
	struct tg_siphash_key tag, confirm;
};
_Static_assert(sizeof(struct tg_tag_epoch) == 40, "map ABI");

TG_INLINE struct tg_siphash_key tg_tag_key_derive(const uint8_t secret[TG_SECRET_LEN], uint64_t epoch)
{
	return tg_key_derive(secret, "TGT1", epoch);
}

TG_INLINE struct tg_siphash_key tg_confirm_key_derive(const uint8_t secret[TG_SECRET_LEN],
						      uint64_t epoch)
{
	return tg_key_derive(secret, "TGC1", epoch);
}

/* The full number of the epoch whose low 32 bits a message carries, if it is the
 * present one or a neighbour of it (clocks may differ by an epoch); else false. */
TG_INLINE bool tg_tag_epoch(uint32_t low, uint64_t now_epoch, uint64_t *epoch)
{
	int32_t ahead = (int32_t)(low - (uint32_t)now_epoch);

	*epoch = now_epoch + (uint64_t)(int64_t)ahead;
	return ahead >= -1 && ahead <= 1;
}

TG_INLINE uint32_t tg_tag_word1(const struct tg_tag *t)
{
	return TG_WIRE32(TG_TAG_VERSION << 4 | t->what, t->wscale << 4, t->edge >> 8, t->edge);
}

/* The MAC of the tag on a segment from the client; tsecr is 0 if it has none. */
TG_INLINE uint64_t tg_tag_mac(const struct tg_packet *pkt, uint32_t tsecr, const struct tg_tag *t,
			      const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_siphash_begin(key);
	uint64_t tail = TG_SIPHASH_LEN(32);

	if (pkt->family == 4) {
		tg_siphash_word(&s, pkt->src.d[0] | pkt->dst.d[0] << 32);
	} else {
		tg_siphash_word(&s, pkt->src.d[0]);
		tg_siphash_word(&s, pkt->src.d[1]);
		tg_siphash_word(&s, pkt->dst.d[0]);
		tg_siphash_word(&s, pkt->dst.d[1]);
		tail = TG_SIPHASH_LEN(56);
	}
	tg_siphash_word(&s, pkt->ports | (uint64_t)pkt->seq << 32);
	tg_siphash_word(&s, pkt->ack | (uint64_t)tsecr << 32);
	tg_siphash_word(&s, tg_tag_word1(t) | (uint64_t)tg_swap32(t->epoch) << 32);
	return tg_siphash_end(&s, tail);
}

/* Writes the tag: five words, as on the wire. */
TG_INLINE void tg_tag_words(uint32_t words[TG_TAG_WORDS], const struct tg_tag *t, uint64_t mac)
{
	words[0] = TG_WIRE32(TG_TAG_OPTION, TG_TAG_LEN, 'T', 'G');
	words[1] = tg_tag_word1(t);
	words[2] = tg_swap32(t->epoch);
	words[3] = (uint32_t)mac;
	words[4] = (uint32_t)(mac >> 32);
}

/* Reads the tag at `at`, where the options of a segment begin, if one is there.
 * `options_len` bytes of options are in the header, and in memory up to `end`. */
TG_INLINE enum tg_tag_result tg_tag_read(const uint8_t *at, uint32_t options_len,
					 const uint8_t *end, struct tg_tag *t, uint64_t *mac)
{
	uint32_t w1;

	if (options_len < 4 || at + 4 > end || at[0] != TG_TAG_OPTION || at[2] != 'T' || at[3] != 'G')
		return TG_TAG_NONE;
	if (at[1] < 8 || options_len < 8 || at + 8 > end)
		return TG_TAG_CUT;
	w1 = tg_load32(at + 4);
	if ((w1 >> 4 & 15) != TG_TAG_VERSION)
		return TG_TAG_FOREIGN;
	if (at[1] != TG_TAG_LEN || options_len < TG_TAG_LEN || at + TG_TAG_LEN > end)
		return TG_TAG_CUT;
	t->what = w1 & 15;
	t->wscale = w1 >> 12 & 15;
	t->edge = tg_swap16(w1 >> 16);
	t->epoch = tg_swap32(tg_load32(at + 8));
	*mac = tg_load32(at + 12) | (uint64_t)tg_load32(at + 16) << 32;
	if ((t->what != TG_TAG_SETUP && t->what != TG_TAG_PROBE) || t->edge == 0 ||
	    t->edge > TG_TAG_EDGE_MAX || (w1 >> 8 & 15) != 0)
		return TG_TAG_FOREIGN;
	return TG_TAG_READ;
}

/* Corrects lengths and checksums of a segment into which a tag was put (`add`), or from which it
 * was taken: the bytes have been moved already. `ip` and `tcp` are its headers (20 or 40, and 20
 * bytes may be written), `words` the tag. A wrong checksum stays wrong. False, with nothing
 * changed, if the lengths do not allow it. */
TG_INLINE bool tg_tag_fix(uint8_t *ip, uint8_t *tcp, uint8_t family,
			  const uint32_t words[TG_TAG_WORDS], bool add, uint32_t l4_len)
{
	uint32_t at = family == 4 ? 2 : 4, i;
	uint16_t was = tg_load16(ip + at), is, doff_was = tg_load16(tcp + TG_TCP_DOFF), doff_is;
	uint32_t len = tg_swap16(was), new_l4_len;
	uint64_t sum = 0;

	if (add ? len + TG_TAG_LEN > 0xffff || (tcp[TG_TCP_DOFF] >> 4) + TG_TAG_WORDS > 15
		: l4_len < TG_TAG_LEN || (tcp[TG_TCP_DOFF] >> 4) < 5 + TG_TAG_WORDS)
		return false;
	if (TG_LIKELY(family == 4 || was)) { /* else the frame's length is the packet's */
		if (!add && len < TG_TAG_LEN)
			return false;
		len = add ? len + TG_TAG_LEN : len - TG_TAG_LEN;
	}
	new_l4_len = add ? l4_len + TG_TAG_LEN : l4_len - TG_TAG_LEN;
	is = tg_swap16(len);
	tg_store16(ip + at, is);
	if (family == 4)
		tg_store16(ip + TG_IPV4_SUM, tg_csum_update16(tg_load16(ip + TG_IPV4_SUM), was, is));
	tcp[TG_TCP_DOFF] = (uint8_t)(add ? tcp[TG_TCP_DOFF] + (TG_TAG_WORDS << 4)
					 : tcp[TG_TCP_DOFF] - (TG_TAG_WORDS << 4));
	doff_is = tg_load16(tcp + TG_TCP_DOFF);
	for (i = 0; i < TG_TAG_WORDS; i++)
		sum += add ? words[i] : (uint32_t)~words[i];
	sum += (uint64_t)(uint16_t)~doff_was + doff_is;
	sum += (uint64_t)(uint16_t)~tg_swap16(l4_len) + tg_swap16(new_l4_len);
	tg_store16(tcp + TG_TCP_SUM,
		   tg_csum_finish((uint64_t)(uint16_t)~tg_load16(tcp + TG_TCP_SUM) + sum));
	return true;
}

/* A confirmation: this connection is live. */
struct tg_confirm {
	union tg_addr client, server;
	uint32_t ports; /* client's low, server's high, as on the wire */
	uint32_t epoch;
	uint16_t edge;
	uint8_t family;
};

TG_INLINE uint64_t tg_confirm_mac(const struct tg_confirm *c, const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_siphash_begin(key);

	tg_siphash_word(&s, TG_WIRE32('T', 'G', TG_CONFIRM_VERSION << 4 | TG_TAG_CONFIRM, c->family) |
				    (uint64_t)TG_WIRE32(c->edge >> 8, c->edge, 0, 0) << 32);
	tg_siphash_word(&s, tg_swap32(c->epoch) | (uint64_t)c->ports << 32);
	tg_siphash_word(&s, c->client.d[0]);
	tg_siphash_word(&s, c->client.d[1]);
	tg_siphash_word(&s, c->server.d[0]);
	tg_siphash_word(&s, c->server.d[1]);
	return tg_siphash_end(&s, TG_SIPHASH_LEN(48));
}

/* Writes TG_CONFIRM_LEN bytes. */
TG_INLINE void tg_confirm_write(uint8_t *out, const struct tg_confirm *c, uint64_t mac)
{
	uint32_t i;

	tg_store32(out, TG_WIRE32('T', 'G', TG_CONFIRM_VERSION << 4 | TG_TAG_CONFIRM, c->family));
	tg_store32(out + 4, TG_WIRE32(c->edge >> 8, c->edge, 0, 0));
	tg_store32(out + 8, 0);
	tg_store32(out + 12, tg_swap32(c->epoch));
	tg_store32(out + 16, c->ports);
	for (i = 0; i < 4; i++) {
		tg_store32(out + 20 + 4 * i, c->client.w[i]);
		tg_store32(out + 36 + 4 * i, c->server.w[i]);
	}
	tg_store32(out + 52, (uint32_t)mac);
	tg_store32(out + 56, (uint32_t)(mac >> 32));
}

/* Reads a datagram's `len` bytes of payload at `p`, in memory up to `end`. As with
 * tags: what is read is not yet verified. */
TG_INLINE enum tg_tag_result tg_confirm_read(const uint8_t *p, uint32_t len, const uint8_t *end,
					     struct tg_confirm *c, uint64_t *mac)
{
	uint32_t i;

	if (len < 4 || p + 4 > end || p[0] != 'T' || p[1] != 'G')
		return TG_TAG_NONE;
	if (p[2] != (TG_CONFIRM_VERSION << 4 | TG_TAG_CONFIRM) || (p[3] != 4 && p[3] != 6))
		return TG_TAG_FOREIGN;
	if (len != TG_CONFIRM_LEN || p + TG_CONFIRM_LEN > end)
		return TG_TAG_CUT;
	c->family = p[3];
	c->edge = tg_swap16(tg_load16(p + 4));
	c->epoch = tg_swap32(tg_load32(p + 12));
	c->ports = tg_load32(p + 16);
	for (i = 0; i < 4; i++) {
		c->client.w[i] = tg_load32(p + 20 + 4 * i);
		c->server.w[i] = tg_load32(p + 36 + 4 * i);
	}
	*mac = tg_load32(p + 52) | (uint64_t)tg_load32(p + 56) << 32;
	return tg_load16(p + 6) == 0 ? TG_TAG_READ : TG_TAG_FOREIGN;
}

/* Compared in constant time: one comparison of two words. */
TG_INLINE bool tg_mac_equal(uint64_t a, uint64_t b)
{
	return (a ^ b) == 0;
}

#endif
