/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * SHA-1 (FIPS 180-4) of short messages. It is here for one reason: Echevarria et al.
 * compares cookies hashed with it to cookies hashed with SipHash. As a keyed
 * prefix over a message of fixed length it still serves; for anything new use
 * siphash.h.
 */
#ifndef TG_SHA1_H
#define TG_SHA1_H

#include "base.h"

#define TG_SHA1_BLOCK_LEN 64

struct tg_sha1 {
	uint32_t h[5];
};

TG_INLINE struct tg_sha1 tg_sha1_begin(void)
{
	return (struct tg_sha1){
		.h = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U, 0xc3d2e1f0U}};
}

#define TG_SHA1_ROTL(x, n) ((x) << (n) | (x) >> (32 - (n)))

/* W_t for t >= 16, kept in a ring of sixteen words. */
TG_INLINE uint32_t tg_sha1_schedule(uint32_t w[16], int t)
{
	uint32_t v = w[(t + 13) & 15] ^ w[(t + 8) & 15] ^ w[(t + 2) & 15] ^ w[t & 15];

	v = TG_SHA1_ROTL(v, 1);
	w[t & 15] = v;
	return v;
}

#define TG_SHA1_STEP(f, constant, word)                                                            \
	do {                                                                                       \
		uint32_t next = TG_SHA1_ROTL(a, 5) + (f) + e + (constant) + (word);                \
		e = d;                                                                             \
		d = c;                                                                             \
		c = TG_SHA1_ROTL(b, 30);                                                           \
		b = a;                                                                             \
		a = next;                                                                          \
	} while (0)

/* Unrolled, the five variables need no moving about and the ring no indices:
 * twice as fast on a Cortex-M3, for 7 KiB of flash instead of 1. */
#ifdef TG_SHA1_UNROLL
#define TG_SHA1_LOOP _Pragma("GCC unroll 80") for
#else
#define TG_SHA1_LOOP for
#endif

/* Absorbs one block; `w` holds its 16 big-endian words and is overwritten. */
TG_INLINE void tg_sha1_block(struct tg_sha1 *s, uint32_t w[16])
{
	uint32_t a = s->h[0], b = s->h[1], c = s->h[2], d = s->h[3], e = s->h[4];
	int t;

	TG_SHA1_LOOP(t = 0; t < 16; t++)
	TG_SHA1_STEP(d ^ (b & (c ^ d)), 0x5a827999U, w[t]);
	TG_SHA1_LOOP(; t < 20; t++)
	TG_SHA1_STEP(d ^ (b & (c ^ d)), 0x5a827999U, tg_sha1_schedule(w, t));
	TG_SHA1_LOOP(; t < 40; t++)
	TG_SHA1_STEP(b ^ c ^ d, 0x6ed9eba1U, tg_sha1_schedule(w, t));
	TG_SHA1_LOOP(; t < 60; t++)
	TG_SHA1_STEP((b & c) | (d & (b | c)), 0x8f1bbcdcU, tg_sha1_schedule(w, t));
	TG_SHA1_LOOP(; t < 80; t++)
	TG_SHA1_STEP(b ^ c ^ d, 0xca62c1d6U, tg_sha1_schedule(w, t));
	s->h[0] += a;
	s->h[1] += b;
	s->h[2] += c;
	s->h[3] += d;
	s->h[4] += e;
}

/* Puts the end mark and the length after `word_count` message words and
 * absorbs what is left, in one block or two. `w` holds the words that have not
 * been absorbed; `total_words` counts the whole message. Whole words only. */
TG_INLINE void tg_sha1_end(struct tg_sha1 *s, uint32_t w[16], uint32_t word_count,
			   uint32_t total_words)
{
	uint32_t i;

	w[word_count] = 0x80000000U;
	for (i = word_count + 1; i < 16; i++)
		w[i] = 0;
	if (word_count > 13) {
		tg_sha1_block(s, w);
		for (i = 0; i < 15; i++)
			w[i] = 0;
	}
	w[15] = total_words * 32;
	tg_sha1_block(s, w);
}

#endif
