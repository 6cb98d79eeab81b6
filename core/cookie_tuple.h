/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the older cookie layouts hash: the connection's addresses and ports, and
 * after them whatever the layout adds. One message order for all of them
 * (numbers little-endian, addresses and ports as on the wire):
 *
 *   source address | destination address | source port 2 | destination port 2 |
 *   extra 0-5 bytes
 *
 * The source is the client, in its SYN as in its ACK. IPv4 makes 12 bytes plus
 * the extra ones, IPv6 36 plus the extra ones.
 */
#ifndef TG_COOKIE_TUPLE_H
#define TG_COOKIE_TUPLE_H

#include "packet.h"
#include "siphash.h"

/* Two SipHash keys: K1 and K2 of `linux` and `hybrid`, K_0 and K_1 of `freebsd`. */
struct tg_key_pair {
	struct tg_siphash_key k[2];
};

#define TG_TUPLE_V4_LEN 12
#define TG_TUPLE_V6_LEN 36

/* Absorbs the addresses; returns the length of addresses and ports. */
TG_INLINE uint32_t tg_tuple_begin(struct tg_siphash *s, const struct tg_siphash_key *key,
				  const struct tg_packet *pkt)
{
	*s = tg_siphash_begin(key);
	if (pkt->family == 4) {
		tg_siphash_word(s, (uint64_t)pkt->dst.w[0] << 32 | pkt->src.w[0]);
		return TG_TUPLE_V4_LEN;
	}
	tg_siphash_word(s, pkt->src.d[0]);
	tg_siphash_word(s, pkt->src.d[1]);
	tg_siphash_word(s, pkt->dst.d[0]);
	tg_siphash_word(s, pkt->dst.d[1]);
	return TG_TUPLE_V6_LEN;
}

/* Nothing extra. The low half of the 64-bit SipHash is the 32-bit hash. */
TG_INLINE uint32_t tg_tuple_siphash(const struct tg_packet *pkt, const struct tg_siphash_key *key)
{
	struct tg_siphash s;
	uint64_t len = tg_tuple_begin(&s, key, pkt);

	return (uint32_t)tg_siphash_end(&s, pkt->ports | len << 56);
}

/* Extra: one 32-bit number. */
TG_INLINE uint32_t tg_tuple_siphash_u32(const struct tg_packet *pkt, uint32_t extra,
					const struct tg_siphash_key *key)
{
	struct tg_siphash s;
	uint64_t len = tg_tuple_begin(&s, key, pkt);

	tg_siphash_word(&s, pkt->ports | (uint64_t)extra << 32);
	return (uint32_t)tg_siphash_end(&s, (len + 4) << 56);
}

/* Extra: one 32-bit number and one byte. */
TG_INLINE uint32_t tg_tuple_siphash_u40(const struct tg_packet *pkt, uint32_t extra, uint8_t more,
					const struct tg_siphash_key *key)
{
	struct tg_siphash s;
	uint64_t len = tg_tuple_begin(&s, key, pkt);

	tg_siphash_word(&s, pkt->ports | (uint64_t)extra << 32);
	return (uint32_t)tg_siphash_end(&s, more | (len + 5) << 56);
}

#endif
