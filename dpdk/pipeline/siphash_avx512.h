/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash in AVX-512: the rounds of core/siphash.h for eight messages at once, lane by lane,
 * rotations in one instruction. For batches (siphash_burst_avx512.c) and for numbers that stand
 * in registers already (fast_wide.h).
 */
#ifndef TG_DPDK_SIPHASH_AVX512_H
#define TG_DPDK_SIPHASH_AVX512_H

#include <immintrin.h>

#include "../core/siphash.h"

typedef uint64_t tg_u64x8 __attribute__((vector_size(64)));

struct tg_siphash_lanes {
	tg_u64x8 v0, v1, v2, v3;
};

#define TG_ROTL64X8(x, n) ((tg_u64x8)_mm512_rol_epi64((__m512i)(x), n))

TG_INLINE void tg_siphash_lanes_round(struct tg_siphash_lanes *s)
{
	TG_SIPHASH_ROUND(s, TG_ROTL64X8);
}

/* k0 and k1 of each lane. */
TG_INLINE struct tg_siphash_lanes tg_siphash_lanes_begin(__m512i k0, __m512i k1)
{
	return (struct tg_siphash_lanes){
		(tg_u64x8)k0 ^ TG_SIPHASH_V0,
		(tg_u64x8)k1 ^ TG_SIPHASH_V1,
		(tg_u64x8)k0 ^ TG_SIPHASH_V2,
		(tg_u64x8)k1 ^ TG_SIPHASH_V3,
	};
}

/* Absorbs a word of each in `rounds` rounds: 2, or 1 of SipHash-1-3. */
TG_INLINE void tg_siphash_lanes_word(struct tg_siphash_lanes *s, __m512i m, const uint32_t rounds)
{
	uint32_t r;

	s->v3 ^= (tg_u64x8)m;
	for (r = 0; r < rounds; r++)
		tg_siphash_lanes_round(s);
	s->v0 ^= (tg_u64x8)m;
}

/* The hash from the four words of state. */
TG_INLINE __m512i tg_siphash_lanes_out(const struct tg_siphash_lanes *s)
{
	return (__m512i)(s->v0 ^ s->v1 ^ s->v2 ^ s->v3);
}

#endif
