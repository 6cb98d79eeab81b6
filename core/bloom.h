/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The edge's memory of verified flows: a partitioned Bloom filter, keyed, in several generations
 * (SmartCookie, section 6.3). It answers "may be verified" or "is not", and never the latter for a
 * flow that was inserted within the window.
 *
 * Three partitions of 2^bits positions, one position in each for a flow. At every
 * position stands one bit for each of four generations, side by side, so that one
 * load answers for all of them:
 *
 *    63  60             7   4 3   0
 *   +------+-----------+-----+-----+
 *   | 3210 |    ...    | 3210| 3210|   sixteen positions a word, generation 0 lowest
 *   +------+-----------+-----+-----+
 *
 * In front of the first partition stands a smaller one, laid out likewise, each of whose positions
 * stands for 64 neighbours of the first: "none of them is set" is answered from 8 KiB, which stay in
 * a core's innermost cache while a flood passes through it, instead of from 512 KiB. Of 64 KiB a load
 * took as long as a SipHash. It neither adds nor takes false positives. Up to some
 * thousand flows it answers for most of those that are unknown.
 *
 * Flows are put into the active generation. Every third of the window T_W the
 * next generation is emptied and becomes the active one; so a flow is known for
 * T_W at least and for 4/3 T_W at most after it was last put in.
 *
 * The positions come from a keyed hash of 64 bits, by the double hashing of Kirsch and Mitzenmacher
 * (2006): lo, lo + hi, lo + 2 hi. The hash is the pair of two multiply-shift hashes with keys of
 * their own (Dietzfelbinger et al.; strongly universal, Thorup, "High speed hashing for integers
 * and strings", 2015), then mixed by a bijection, so that consecutive flows do not get consecutive
 * positions. docs/edge.md, "The filter", states what this is worth against which attacker.
 */
#ifndef TG_BLOOM_H
#define TG_BLOOM_H

#include "packet.h"

#define TG_BLOOM_PARTITIONS 3 /* k */
#define TG_BLOOM_GENERATIONS 4
#define TG_BLOOM_BITS 20 /* of the paper: 2^20 positions a partition */
#define TG_BLOOM_BITS_MIN 10
#define TG_BLOOM_BITS_MAX 26
#define TG_BLOOM_WORD_POSITIONS 16
_Static_assert(TG_BLOOM_WORD_POSITIONS *TG_BLOOM_GENERATIONS == 64, "a word is full");

/* One number to begin with for each family, nine to multiply words with. */
#define TG_BLOOM_FACTORS 9
#define TG_BLOOM_KEYS (2 + TG_BLOOM_FACTORS)

struct tg_bloom_key {
	uint64_t k[2][TG_BLOOM_KEYS]; /* of either multiply-shift hash: begin 4, begin 6, factors */
};

/* A position of the front stands for 2^TG_BLOOM_FRONT of partition 0. */
#define TG_BLOOM_FRONT 6

/* 64-bit words of the partitions, after which the front stands, and of a whole filter. */
#define TG_BLOOM_PARTITIONS_WORDS(bits) ((uint32_t)TG_BLOOM_PARTITIONS << ((bits) - 4))
#define TG_BLOOM_WORDS(bits)                                                                       \
	(TG_BLOOM_PARTITIONS_WORDS(bits) + (1U << ((bits) - 4 - TG_BLOOM_FRONT)))

enum tg_bloom_side {
	TG_BLOOM_FROM_CLIENT, /* the packet's source is the client */
	TG_BLOOM_FROM_SERVER,
};

/* The positions of a flow's bits. */
struct tg_bloom_at {
	uint32_t word[TG_BLOOM_PARTITIONS];
	uint8_t shift[TG_BLOOM_PARTITIONS]; /* of generation 0 */
	uint32_t front; /* word of the front */
	uint8_t front_shift;
};

/* Upper half of: begin + the sum of factor times word, modulo 2^64. The words, as on the
 * wire: client address, server address (its first word each, then, for IPv6, the other
 * three each), and between them ports: client's low, server's high. */
TG_INLINE uint64_t tg_bloom_multiply(const uint64_t k[TG_BLOOM_KEYS], uint8_t family,
				     const union tg_addr *client, const union tg_addr *server,
				     uint32_t ports)
{
	uint64_t h = k[2] * client->w[0] + k[3] * server->w[0] + k[4] * ports;

	if (family == 4)
		return (h + k[0]) >> 32;
	h += k[5] * client->w[1] + k[6] * client->w[2] + k[7] * client->w[3] + k[8] * server->w[1] +
	     k[9] * server->w[2] + k[10] * server->w[3];
	return (h + k[1]) >> 32;
}

/* The flow's hash, the same for packets of both directions. */
TG_INLINE uint64_t tg_bloom_hash(const struct tg_packet *pkt, enum tg_bloom_side side,
				 const struct tg_bloom_key *key)
{
	bool back = side == TG_BLOOM_FROM_SERVER;
	const union tg_addr *client = back ? &pkt->dst : &pkt->src;
	const union tg_addr *server = back ? &pkt->src : &pkt->dst;
	uint32_t ports = back ? pkt->ports << 16 | pkt->ports >> 16 : pkt->ports;
	uint64_t h = tg_bloom_multiply(key->k[0], pkt->family, client, server, ports) |
		     tg_bloom_multiply(key->k[1], pkt->family, client, server, ports) << 32;

	h = (h ^ h >> 32) * TG_MIX2;
	return h ^ h >> 29;
}

/* Where a hash's bits stand in partition `i` of a filter of 2^bits positions a partition. */
TG_INLINE void tg_bloom_locate_one(uint64_t hash, uint32_t bits, uint32_t i, uint32_t *word,
				   uint8_t *shift)
{
	uint32_t position = ((uint32_t)hash + i * (uint32_t)(hash >> 32)) & ((1U << bits) - 1);

	*word = (i << (bits - 4)) + (position >> 4);
	*shift = (uint8_t)((position & 15) * TG_BLOOM_GENERATIONS);
}

/* Where they stand in the front. */
TG_INLINE void tg_bloom_locate_front(uint64_t hash, uint32_t bits, uint32_t *word, uint8_t *shift)
{
	uint32_t position = ((uint32_t)hash & ((1U << bits) - 1)) >> TG_BLOOM_FRONT;

	*word = TG_BLOOM_PARTITIONS_WORDS(bits) + (position >> 4);
	*shift = (uint8_t)((position & 15) * TG_BLOOM_GENERATIONS);
}

TG_INLINE struct tg_bloom_at tg_bloom_locate(uint64_t hash, uint32_t bits)
{
	struct tg_bloom_at at;
	uint32_t i;

	for (i = 0; i < TG_BLOOM_PARTITIONS; i++)
		tg_bloom_locate_one(hash, bits, i, &at.word[i], &at.shift[i]);
	tg_bloom_locate_front(hash, bits, &at.front, &at.front_shift);
	return at;
}

/* The generations that have the flow, one bit each; 0: none. The words are those at `at`. */
TG_INLINE uint32_t tg_bloom_known(uint64_t w0, uint64_t w1, uint64_t w2, const struct tg_bloom_at *at)
{
	return (uint32_t)(w0 >> at->shift[0] & w1 >> at->shift[1] & w2 >> at->shift[2]) &
	       ((1U << TG_BLOOM_GENERATIONS) - 1);
}

/* The bit to set in partition `i` for a generation. */
TG_INLINE uint64_t tg_bloom_bit(const struct tg_bloom_at *at, uint32_t i, uint32_t generation)
{
	return 1ULL << (at->shift[i] + (generation & (TG_BLOOM_GENERATIONS - 1)));
}

/* The bit to set in the front. */
TG_INLINE uint64_t tg_bloom_front_bit(const struct tg_bloom_at *at, uint32_t generation)
{
	return 1ULL << (at->front_shift + (generation & (TG_BLOOM_GENERATIONS - 1)));
}

/* The bits of a generation in every word; AND with the complement empties it. */
TG_INLINE uint64_t tg_bloom_plane(uint32_t generation)
{
	return 0x1111111111111111ULL << (generation & (TG_BLOOM_GENERATIONS - 1));
}

/* Upper half of a 128-bit product; the core also runs where there is no such type. */
TG_INLINE uint64_t tg_mul_high(uint64_t a, uint64_t b)
{
	uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
	uint64_t mid = ah * bl + (al * bl >> 32);

	return ah * bh + (mid >> 32) + ((al * bh + (uint32_t)mid) >> 32);
}

/* SmartCookie equation 1, F = (1 - (1 - k/m)^n)^k with m = k 2^bits: the rate of false
 * positives of one generation that holds n flows, in parts per thousand million.
 * Not for packet paths. */
TG_INLINE uint32_t tg_bloom_fp_ppb(uint64_t n, uint32_t bits)
{
	uint64_t empty = UINT64_MAX, base = UINT64_MAX - (UINT64_MAX >> bits), fill, f;

	for (; n; n >>= 1) { /* empty = (1 - 2^-bits)^n, a fraction of 2^64 */
		if (n & 1)
			empty = tg_mul_high(empty, base);
		base = tg_mul_high(base, base);
	}
	fill = UINT64_MAX - empty;
	f = tg_mul_high(tg_mul_high(fill, fill), fill);
	return (uint32_t)(tg_mul_high(f, 1000000000ULL << 32) >> 32);
}

#endif
