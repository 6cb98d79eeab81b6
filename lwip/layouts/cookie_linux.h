/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The `linux` cookie layout (Echevarria et al., equations 1-7), with either hash:
 *
 *    31            24 23                             0
 *   +----------------+--------------------------------+
 *   | minutes mod 2^8|     (H2 + MSS) mod 2^24        |  + H1 + client ISN
 *   +----------------+--------------------------------+
 *
 * The counter comes round after 256 min. A cookie lives for one to two minutes.
 * Restored: the MSS (2 bits).
 *
 * With SHA-1 (Linux up to 4.12) a hash is the first 32 bits of the digest of
 * key 16 | tuple | [count 4], written as in cookie_tuple.h: one block for IPv4,
 * two for IPv6 with the count. With SipHash (Linux since then) it is the hash
 * of the same tuple under the same 16 bytes as a key.
 */
#ifndef TG_COOKIE_LINUX_H
#define TG_COOKIE_LINUX_H

#include "cookie_counter.h"
#include "sha1.h"

#define TG_LINUX_LOW_BITS 24
#define TG_LINUX_COUNT_BITS 8
#define TG_LINUX_PERIOD_S 60
_Static_assert(TG_LINUX_COUNT_BITS + TG_LINUX_LOW_BITS == 32, "ISN");

/* H1 (with_count false) or H2 by SHA-1. Words go in as they stand on the wire,
 * so little-endian loads are swapped. */
TG_INLINE uint32_t tg_linux_sha1(const struct tg_packet *pkt, bool with_count, uint32_t count,
				 const struct tg_siphash_key *key)
{
	struct tg_sha1 s = tg_sha1_begin();
	uint32_t addr_words = pkt->family == 4 ? 1 : 4;
	uint32_t w[16], n = 0, i;

	w[n++] = tg_swap32((uint32_t)key->k0);
	w[n++] = tg_swap32((uint32_t)(key->k0 >> 32));
	w[n++] = tg_swap32((uint32_t)key->k1);
	w[n++] = tg_swap32((uint32_t)(key->k1 >> 32));
	for (i = 0; i < addr_words; i++)
		w[n++] = tg_swap32(pkt->src.w[i]);
	for (i = 0; i < addr_words; i++)
		w[n++] = tg_swap32(pkt->dst.w[i]);
	w[n++] = tg_swap32(pkt->ports);
	if (with_count)
		w[n++] = tg_swap32(count);
	tg_sha1_end(&s, w, n, n);
	return s.h[0];
}
_Static_assert(4 + 4 + 4 + 1 + 1 <= 15, "the longest message and its end mark fit one array");

/* The cookie for a SYN from its two hashes. */
TG_INLINE uint32_t tg_linux_make(const struct tg_packet *syn, uint32_t h1, uint32_t h2,
				 uint32_t mss_index, uint32_t count)
{
	return tg_counter_make(h1, h2, syn->seq, count, mss_index, TG_LINUX_LOW_BITS);
}

/* The first integrity control: which count the ACK's cookie claims. */
TG_INLINE struct tg_counter_claim tg_linux_claimed(const struct tg_packet *ack, uint32_t h1,
						   uint32_t count)
{
	return tg_counter_claimed(ack->ack - 1, h1, ack->seq - 1, count, TG_LINUX_LOW_BITS);
}

/* The second: `h2` is that of count - claim.age. */
TG_INLINE bool tg_linux_verify(const struct tg_packet *ack, struct tg_counter_claim claim,
			       uint32_t h2, struct tg_agreed *agreed)
{
	uint32_t mss_index = tg_counter_mss_claimed(claim, h2, TG_LINUX_LOW_BITS);

	if (claim.age >= TG_COUNTER_MAX_AGE || mss_index >= TG_COUNTER_MSS_COUNT)
		return false;
	*agreed = tg_counter_agreed(ack->family, mss_index);
	return true;
}

#endif
