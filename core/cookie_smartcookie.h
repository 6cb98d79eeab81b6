/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The `smartcookie` cookie layout (SmartCookie, sections 5 to 7): the one that a switch
 * can compute. HalfSipHash-2-4 of four words, so 2 * 4 + 4 = 12 rounds for IPv4.
 *
 *    31  30     28 27       24 23                               0
 *   +---+---------+-----------+----------------------------------+
 *   | P | MSS 3   | wscale 4  |         HalfSipHash 24           |  ISN
 *   +---+---------+-----------+----------------------------------+
 *
 * P is the lowest bit of the epoch; MSS and wscale as in cookie.h. The hash is
 * HalfSipHash-2-4 (32 bits, the low 24 of them) of this message, every field a
 * little-endian number, so that a switch feeds the words as they stand in its
 * header registers:
 *
 *   source address | destination address | source port << 16 | destination port |
 *   low 24 bits of the client's ISN
 *
 * v4: 4 + 4 + 4 + 3 = 15 bytes; v6: 16 + 16 + 4 + 3 = 39 bytes, an address being its four words
 * from the left. 15 bytes and the length in the last word's top byte are the paper's "16-byte (w =
 * 4 word) input" and HalfSipHash as it is published. MSS and wscale are not hashed, as in the
 * paper: a client that changes them gets only what it could have offered in its SYN.
 *
 * The key of epoch n is a separate key, never a part of the SipHash key: 64 bits can be searched,
 * and must reveal nothing about the other layout.
 *
 *   key of n = first 8 bytes of ChaCha20(key = secret, block 0,
 *              nonce = "TGH1" || n as 64-bit little-endian)
 *
 * Restored: MSS and window scale. Lost: SACK, timestamps, ECN, which a gate with
 * this layout must not offer.
 */
#ifndef TG_COOKIE_SMARTCOOKIE_H
#define TG_COOKIE_SMARTCOOKIE_H

#include "cookie.h"
#include "halfsiphash.h"

#define TG_SMART_HASH_BITS 24
#define TG_SMART_WSCALE_SHIFT 24
#define TG_SMART_MSS_SHIFT 28
#define TG_SMART_PARITY_SHIFT 31
_Static_assert(1 + 3 + 4 + TG_SMART_HASH_BITS == 32, "ISN");

#define TG_SMART_HASH_MASK ((1U << TG_SMART_HASH_BITS) - 1)
#define TG_SMART_V4_LEN 15 /* bytes hashed */
#define TG_SMART_V6_LEN 39

TG_INLINE struct tg_halfsiphash_key tg_smart_key_derive(const uint8_t secret[TG_SECRET_LEN],
							uint64_t epoch)
{
	uint8_t nonce[12] = {'T', 'G', 'H', '1'};
	uint32_t block[16];
	int i;

	for (i = 0; i < 8; i++)
		nonce[4 + i] = (uint8_t)(epoch >> (8 * i));
	tg_chacha20_block(block, secret, 0, nonce);
	return (struct tg_halfsiphash_key){.k0 = block[0], .k1 = block[1]};
}

/* The whole 32-bit hash. `pkt` comes from the client. */
TG_INLINE uint32_t tg_smart_hash(const struct tg_packet *pkt, uint32_t client_isn,
				 const struct tg_halfsiphash_key *key)
{
	struct tg_halfsiphash s = tg_halfsiphash_begin(key);
	uint32_t words = pkt->family == 4 ? 1 : 4;
	uint32_t len = pkt->family == 4 ? TG_SMART_V4_LEN : TG_SMART_V6_LEN;
	uint32_t i;

	for (i = 0; i < words; i++)
		tg_halfsiphash_word(&s, tg_swap32(pkt->src.w[i]));
	for (i = 0; i < words; i++)
		tg_halfsiphash_word(&s, tg_swap32(pkt->dst.w[i]));
	tg_halfsiphash_word(&s, tg_swap32(pkt->ports));
	return tg_halfsiphash_end(&s, (client_isn & 0xffffffU) | len << 24);
}

/* The ISN for a SYN; `option_bits` from tg_cookie_option_bits in the plain form, of which
 * only MSS and wscale count. */
TG_INLINE uint32_t tg_smart_make(const struct tg_packet *syn, uint32_t option_bits, uint64_t epoch,
				 const struct tg_halfsiphash_key *key)
{
	return (uint32_t)(epoch & 1) << TG_SMART_PARITY_SHIFT |
	       (option_bits >> TG_COOKIE_FLAG_BITS & 7) << TG_SMART_MSS_SHIFT |
	       (uint32_t)tg_cookie_wscale(option_bits) << TG_SMART_WSCALE_SHIFT |
	       (tg_smart_hash(syn, syn->seq, key) & TG_SMART_HASH_MASK);
}

/* The option bits that an ISN claims. */
TG_INLINE uint32_t tg_smart_claimed_bits(uint32_t isn)
{
	return tg_cookie_option_bits(isn >> TG_SMART_MSS_SHIFT & 7,
				     isn >> TG_SMART_WSCALE_SHIFT & 15, false, false);
}

/* True if what `ack` acknowledges is the cookie made for this client in `epoch`
 * (which tg_cookie_epoch names). */
TG_INLINE bool tg_smart_verify(const struct tg_packet *ack, uint64_t epoch,
			       const struct tg_halfsiphash_key *key)
{
	uint32_t isn = ack->ack - 1;
	uint32_t diff = (tg_smart_hash(ack, ack->seq - 1, key) ^ isn) & TG_SMART_HASH_MASK;

	return diff == 0 && isn >> TG_SMART_PARITY_SHIFT == (epoch & 1);
}

#endif
