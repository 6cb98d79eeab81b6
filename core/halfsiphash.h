/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * HalfSipHash-2-4, 32-bit output: the 32-bit sibling of SipHash by the same
 * authors. For switches and 32-bit devices; software gates use siphash.h.
 */
#ifndef TG_HALFSIPHASH_H
#define TG_HALFSIPHASH_H

#include "base.h"

struct tg_halfsiphash_key {
	uint32_t k0; /* bytes 0-3 of the key, little-endian */
	uint32_t k1; /* bytes 4-7 */
};

struct tg_halfsiphash {
	uint32_t v0, v1, v2, v3;
};

#define TG_ROTL32(x, n) ((x) << (n) | (x) >> (32 - (n)))

TG_INLINE void tg_halfsiphash_round(struct tg_halfsiphash *s)
{
	s->v0 += s->v1;
	s->v1 = TG_ROTL32(s->v1, 5) ^ s->v0;
	s->v0 = TG_ROTL32(s->v0, 16);
	s->v2 += s->v3;
	s->v3 = TG_ROTL32(s->v3, 8) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = TG_ROTL32(s->v3, 7) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = TG_ROTL32(s->v1, 13) ^ s->v2;
	s->v2 = TG_ROTL32(s->v2, 16);
}

TG_INLINE struct tg_halfsiphash tg_halfsiphash_begin(const struct tg_halfsiphash_key *key)
{
	return (struct tg_halfsiphash){
		.v0 = key->k0,
		.v1 = key->k1,
		.v2 = key->k0 ^ 0x6c796765U,
		.v3 = key->k1 ^ 0x74656462U,
	};
}

/* Absorbs 4 message bytes, given as a little-endian word. */
TG_INLINE void tg_halfsiphash_word(struct tg_halfsiphash *s, uint32_t m)
{
	s->v3 ^= m;
	tg_halfsiphash_round(s);
	tg_halfsiphash_round(s);
	s->v0 ^= m;
}

/* Ends the message: `tail` holds its last 0-3 bytes and the length in the top byte. */
TG_INLINE uint32_t tg_halfsiphash_end(struct tg_halfsiphash *s, uint32_t tail)
{
	tg_halfsiphash_word(s, tail);
	s->v2 ^= 0xff;
	tg_halfsiphash_round(s);
	tg_halfsiphash_round(s);
	tg_halfsiphash_round(s);
	tg_halfsiphash_round(s);
	return s->v1 ^ s->v3;
}

/* Hash of `len` bytes; not for packet paths. */
TG_INLINE uint32_t tg_halfsiphash24(const struct tg_halfsiphash_key *key, const uint8_t *data,
				    size_t len)
{
	struct tg_halfsiphash s = tg_halfsiphash_begin(key);
	uint32_t tail = (uint32_t)len << 24;
	size_t i;

	for (i = 0; i + 4 <= len; i += 4)
		tg_halfsiphash_word(&s, tg_load32(data + i));
	for (; i < len; i++)
		tail |= (uint32_t)data[i] << (8 * (i % 4));
	return tg_halfsiphash_end(&s, tail);
}

#endif
