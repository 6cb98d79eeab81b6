/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the older cookie layouts hash: the connection's addresses and ports, followed by what the
 * layout adds. One message order for all of them (numbers little-endian, addresses and ports as on
 * the wire):
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

/* Every hash of these layouts goes through one function. Where code size
 * matters more than speed, define this as `static` with noinline. */
#ifndef TG_TUPLE_FN
#define TG_TUPLE_FN TG_INLINE
#endif

/* Two SipHash keys: K1 and K2 of `linux` and `hybrid`, K_0 and K_1 of `freebsd`. */
struct tg_key_pair {
	struct tg_siphash_key k[2];
};

#define TG_TUPLE_EXTRA_MAX_LEN 5

/* SipHash-2-4 of the tuple and `extra_len` bytes of `extra` (none, or at least four). One loop
 * absorbs every word: a zero word after the last one amounts to two rounds, so two of them are
 * SipHash's four final rounds. */
TG_TUPLE_FN uint64_t tg_tuple_siphash64(const struct tg_packet *pkt, const struct tg_siphash_key *key,
					uint64_t extra, uint32_t extra_len)
{
	struct tg_siphash s = tg_siphash_begin(key);
	uint64_t m[8] = {0};
	uint32_t n = 0, addr_len = 8, i;

	if (pkt->family == 4) {
		m[n++] = (uint64_t)pkt->dst.w[0] << 32 | pkt->src.w[0];
	} else {
		addr_len = 32;
		m[n++] = pkt->src.d[0];
		m[n++] = pkt->src.d[1];
		m[n++] = pkt->dst.d[0];
		m[n++] = pkt->dst.d[1];
	}
	m[n] = pkt->ports;
	if (extra_len) {
		m[n++] |= extra << 32;
		m[n] = extra >> 32;
	}
	m[n++] |= TG_SIPHASH_LEN(addr_len + 4 + extra_len);
	for (i = 0; i < n + 2; i++) {
		if (i == n)
			s.v2 ^= 0xff;
		tg_siphash_word(&s, m[i]);
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* Nothing extra. The low half of the 64-bit SipHash is the 32-bit hash. */
TG_INLINE uint32_t tg_tuple_siphash(const struct tg_packet *pkt, const struct tg_siphash_key *key)
{
	return (uint32_t)tg_tuple_siphash64(pkt, key, 0, 0);
}

/* Extra: one 32-bit number. */
TG_INLINE uint32_t tg_tuple_siphash_u32(const struct tg_packet *pkt, uint32_t extra,
					const struct tg_siphash_key *key)
{
	return (uint32_t)tg_tuple_siphash64(pkt, key, extra, 4);
}

/* Extra: one 32-bit number and one byte. */
TG_INLINE uint32_t tg_tuple_siphash_u40(const struct tg_packet *pkt, uint32_t extra, uint8_t more,
					const struct tg_siphash_key *key)
{
	return (uint32_t)tg_tuple_siphash64(pkt, key, extra | (uint64_t)more << 32, 5);
}

#endif
