/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * SipHash-2-4, 64-bit output (Aumasson, Bernstein: "SipHash: a fast
 * short-input PRF", 2012), and its faster sibling SipHash-1-3. Word-wise, so that a caller who already holds its
 * message in registers never writes it to memory.
 */
#ifndef TG_SIPHASH_H
#define TG_SIPHASH_H

#include "base.h"

struct tg_siphash_key {
	uint64_t k0; /* bytes 0-7 of the key, little-endian */
	uint64_t k1; /* bytes 8-15 */
};

struct tg_siphash {
	uint64_t v0, v1, v2, v3;
};

/* BPF has no rotation. From C, clang 19 generates one with more copies than necessary: this may go
 * when the instruction ceilings (internal/bench) hold without it. */
#ifdef __bpf__
#define TG_ROTL64(x, n)                                                                            \
	({                                                                                         \
		uint64_t tg_rot_ = (x), tg_high_;                                                  \
		asm("%1 = %0\n%0 <<= %2\n%1 >>= %3\n%0 |= %1"                                      \
		    : "+r"(tg_rot_), "=&r"(tg_high_)                                               \
		    : "i"(n), "i"(64 - (n)));                                                      \
		tg_rot_;                                                                           \
	})
#else
#define TG_ROTL64(x, n) ((x) << (n) | (x) >> (64 - (n)))
#endif

/* The initial words of state, without the key. */
#define TG_SIPHASH_V0 0x736f6d6570736575ULL
#define TG_SIPHASH_V1 0x646f72616e646f6dULL
#define TG_SIPHASH_V2 0x6c7967656e657261ULL
#define TG_SIPHASH_V3 0x7465646279746573ULL

/* One round. The words of state may be vectors, of one message in each lane: `rotl` rotates
 * them. */
#define TG_SIPHASH_ROUND(s, rotl)                                                                  \
	do {                                                                                       \
		(s)->v0 += (s)->v1;                                                                \
		(s)->v1 = rotl((s)->v1, 13) ^ (s)->v0;                                             \
		(s)->v0 = rotl((s)->v0, 32);                                                       \
		(s)->v2 += (s)->v3;                                                                \
		(s)->v3 = rotl((s)->v3, 16) ^ (s)->v2;                                             \
		(s)->v0 += (s)->v3;                                                                \
		(s)->v3 = rotl((s)->v3, 21) ^ (s)->v0;                                             \
		(s)->v2 += (s)->v1;                                                                \
		(s)->v1 = rotl((s)->v1, 17) ^ (s)->v2;                                             \
		(s)->v2 = rotl((s)->v2, 32);                                                       \
	} while (0)

/* The last word of a message holds its length in bytes in the top byte. */
#define TG_SIPHASH_LEN(bytes) ((uint64_t)(bytes) << 56)
/* Such a word for two addresses and the ports. */
#define TG_TUPLE_TAIL(family, ports) ((ports) | TG_SIPHASH_LEN((family) == 4 ? 12 : 36))

#ifdef __bpf__
/* The same, every word in its place: clang 19 compiles the macro to 35 instructions for these 32,
 * most of the others copies for sums. May go as TG_ROTL64 may. */
TG_INLINE void tg_siphash_round(struct tg_siphash *s)
{
	uint64_t t;

	asm("%[v0] += %[v1]\n"
	    "%[t] = %[v1]\n%[v1] <<= 13\n%[t] >>= 51\n%[v1] |= %[t]\n%[v1] ^= %[v0]\n"
	    "%[t] = %[v0]\n%[v0] <<= 32\n%[t] >>= 32\n%[v0] |= %[t]\n"
	    "%[v2] += %[v3]\n"
	    "%[t] = %[v3]\n%[v3] <<= 16\n%[t] >>= 48\n%[v3] |= %[t]\n%[v3] ^= %[v2]\n"
	    "%[v0] += %[v3]\n"
	    "%[t] = %[v3]\n%[v3] <<= 21\n%[t] >>= 43\n%[v3] |= %[t]\n%[v3] ^= %[v0]\n"
	    "%[v2] += %[v1]\n"
	    "%[t] = %[v1]\n%[v1] <<= 17\n%[t] >>= 47\n%[v1] |= %[t]\n%[v1] ^= %[v2]\n"
	    "%[t] = %[v2]\n%[v2] <<= 32\n%[t] >>= 32\n%[v2] |= %[t]"
	    : [v0] "+r"(s->v0), [v1] "+r"(s->v1), [v2] "+r"(s->v2), [v3] "+r"(s->v3), [t] "=&r"(t));
}
#else
TG_INLINE void tg_siphash_round(struct tg_siphash *s)
{
	TG_SIPHASH_ROUND(s, TG_ROTL64);
}
#endif

TG_INLINE struct tg_siphash tg_siphash_begin(const struct tg_siphash_key *key)
{
	return (struct tg_siphash){
		.v0 = key->k0 ^ TG_SIPHASH_V0,
		.v1 = key->k1 ^ TG_SIPHASH_V1,
		.v2 = key->k0 ^ TG_SIPHASH_V2,
		.v3 = key->k1 ^ TG_SIPHASH_V3,
	};
}

/* Absorbs 8 message bytes, given as a little-endian word. */
TG_INLINE void tg_siphash_word(struct tg_siphash *s, uint64_t m)
{
	s->v3 ^= m;
	tg_siphash_round(s);
	tg_siphash_round(s);
	s->v0 ^= m;
}

/* Ends the message. `tail` holds its last 0-7 bytes, little-endian, and the
 * whole length in bytes (mod 256) in the top byte. */
TG_INLINE uint64_t tg_siphash_end(struct tg_siphash *s, uint64_t tail)
{
	tg_siphash_word(s, tail);
	s->v2 ^= 0xff;
	tg_siphash_round(s);
	tg_siphash_round(s);
	tg_siphash_round(s);
	tg_siphash_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* SipHash-1-3: one round a word and three at the end, half the cost. No known attack reveals the
 * key or another output; its margin is smaller, so it is for values of low worth: numbers of which
 * 32 bits are visible. MACs that open connections are SipHash-2-4. */
TG_INLINE void tg_siphash13_word(struct tg_siphash *s, uint64_t m)
{
	s->v3 ^= m;
	tg_siphash_round(s);
	s->v0 ^= m;
}

TG_INLINE uint64_t tg_siphash13_end(struct tg_siphash *s, uint64_t tail)
{
	tg_siphash13_word(s, tail);
	s->v2 ^= 0xff;
	tg_siphash_round(s);
	tg_siphash_round(s);
	tg_siphash_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* Hash of `len` bytes; not for packet paths. */
TG_INLINE uint64_t tg_siphash24(const struct tg_siphash_key *key, const uint8_t *data, size_t len)
{
	struct tg_siphash s = tg_siphash_begin(key);
	uint64_t tail = TG_SIPHASH_LEN(len);
	size_t i;

	for (i = 0; i + 8 <= len; i += 8)
		tg_siphash_word(&s, tg_load64(data + i));
	for (; i < len; i++)
		tail |= (uint64_t)data[i] << (8 * (i % 8));
	return tg_siphash_end(&s, tail);
}

#endif
