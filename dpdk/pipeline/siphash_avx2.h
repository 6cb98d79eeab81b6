/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash in AVX2: the rounds of core/siphash.h for four messages at once, lane by lane. For batches
 * (siphash_burst_avx2.c) and for numbers that stand in registers already (fast_wide.h).
 */
#ifndef TG_DPDK_SIPHASH_AVX2_H
#define TG_DPDK_SIPHASH_AVX2_H

#include <immintrin.h>

#include "../core/siphash.h"

typedef uint64_t tg_u64x4 __attribute__((vector_size(32)));

struct tg_siphash_lanes {
	tg_u64x4 v0, v1, v2, v3;
};

/* By 16 or 32 bits: one shuffle. */
#define TG_ROTL64X4(x, n)                                                                          \
	((n) == 32   ? (tg_u64x4)_mm256_shuffle_epi32((__m256i)(x), 0xb1)                          \
	 : (n) == 16 ? (tg_u64x4)_mm256_shuffle_epi8((__m256i)(x), TG_ROTL64X4_BY_16)              \
		     : (x) << (n) | (x) >> (64 - (n)))
#define TG_ROTL64X4_BY_16                                                                          \
	_mm256_broadcastsi128_si256(                                                               \
		_mm_set_epi8(13, 12, 11, 10, 9, 8, 15, 14, 5, 4, 3, 2, 1, 0, 7, 6))

TG_INLINE void tg_siphash_lanes_round(struct tg_siphash_lanes *s)
{
	TG_SIPHASH_ROUND(s, TG_ROTL64X4);
}

/* k0 and k1 of each lane. */
TG_INLINE struct tg_siphash_lanes tg_siphash_lanes_begin(__m256i k0, __m256i k1)
{
	return (struct tg_siphash_lanes){
		(tg_u64x4)k0 ^ TG_SIPHASH_V0,
		(tg_u64x4)k1 ^ TG_SIPHASH_V1,
		(tg_u64x4)k0 ^ TG_SIPHASH_V2,
		(tg_u64x4)k1 ^ TG_SIPHASH_V3,
	};
}

/* Absorbs a word of each in `rounds` rounds: 2, or 1 of SipHash-1-3. */
TG_INLINE void tg_siphash_lanes_word(struct tg_siphash_lanes *s, __m256i m, const uint32_t rounds)
{
	uint32_t r;

	s->v3 ^= (tg_u64x4)m;
	for (r = 0; r < rounds; r++)
		tg_siphash_lanes_round(s);
	s->v0 ^= (tg_u64x4)m;
}

/* The hash from the four words of state. */
TG_INLINE __m256i tg_siphash_lanes_out(const struct tg_siphash_lanes *s)
{
	return (__m256i)(s->v0 ^ s->v1 ^ s->v2 ^ s->v3);
}

#endif
