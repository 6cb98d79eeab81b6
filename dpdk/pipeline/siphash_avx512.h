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

struct tg_siphash_lanes {
	__m512i v0, v1, v2, v3;
};

TG_INLINE void tg_siphash_lanes_round(struct tg_siphash_lanes *s)
{
	s->v0 = _mm512_add_epi64(s->v0, s->v1);
	s->v1 = _mm512_xor_si512(_mm512_rol_epi64(s->v1, 13), s->v0);
	s->v0 = _mm512_rol_epi64(s->v0, 32);
	s->v2 = _mm512_add_epi64(s->v2, s->v3);
	s->v3 = _mm512_xor_si512(_mm512_rol_epi64(s->v3, 16), s->v2);
	s->v0 = _mm512_add_epi64(s->v0, s->v3);
	s->v3 = _mm512_xor_si512(_mm512_rol_epi64(s->v3, 21), s->v0);
	s->v2 = _mm512_add_epi64(s->v2, s->v1);
	s->v1 = _mm512_xor_si512(_mm512_rol_epi64(s->v1, 17), s->v2);
	s->v2 = _mm512_rol_epi64(s->v2, 32);
}

/* k0 and k1 of each lane. */
TG_INLINE struct tg_siphash_lanes tg_siphash_lanes_begin(__m512i k0, __m512i k1)
{
	return (struct tg_siphash_lanes){
		_mm512_xor_si512(k0, _mm512_set1_epi64(0x736f6d6570736575LL)),
		_mm512_xor_si512(k1, _mm512_set1_epi64(0x646f72616e646f6dLL)),
		_mm512_xor_si512(k0, _mm512_set1_epi64(0x6c7967656e657261LL)),
		_mm512_xor_si512(k1, _mm512_set1_epi64(0x7465646279746573LL)),
	};
}

/* Absorbs a word of each in `rounds` rounds: 2, or 1 of SipHash-1-3. */
TG_INLINE void tg_siphash_lanes_word(struct tg_siphash_lanes *s, __m512i m, const uint32_t rounds)
{
	uint32_t r;

	s->v3 = _mm512_xor_si512(s->v3, m);
	for (r = 0; r < rounds; r++)
		tg_siphash_lanes_round(s);
	s->v0 = _mm512_xor_si512(s->v0, m);
}

/* What the four words of state give in the end. */
TG_INLINE __m512i tg_siphash_lanes_out(const struct tg_siphash_lanes *s)
{
	return _mm512_ternarylogic_epi64(_mm512_xor_si512(s->v0, s->v1), s->v2, s->v3, 0x96);
}

#endif
