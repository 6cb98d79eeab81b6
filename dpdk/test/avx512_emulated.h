/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of wide_avx512.h for processors without AVX-512, so that its paths are tested on all: included
 * before everything else when the pipeline is compiled for a test. Nearly all are SIMDe's, which has neither the ones
 * below nor a processor's speed.
 */
#ifndef TG_DPDK_TEST_AVX512_EMULATED_H
#define TG_DPDK_TEST_AVX512_EMULATED_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <stdint.h>
#include <string.h>

#define TG_AVX512_EMULATED 1

/* A register, and its lanes. */
union tg_emulated {
	simde__m512i reg;
	uint64_t lane[8];
	uint8_t byte[64];
};

static inline simde__mmask8 tg_emulated_less(simde__m512i a, simde__m512i b)
{
	union tg_emulated x = {a}, y = {b};
	simde__mmask8 less = 0;
	int i;

	for (i = 0; i < 8; i++)
		less |= (simde__mmask8)((x.lane[i] < y.lane[i]) << i);
	return less;
}

static inline simde__m512i tg_emulated_gather(simde__m512i place, const void *from, int scale)
{
	union tg_emulated at = {place}, r;
	int i;

	for (i = 0; i < 8; i++)
		memcpy(&r.lane[i], (const uint8_t *)from + at.lane[i] * (uint64_t)scale, 8);
	return r.reg;
}

static inline simde__m512i tg_emulated_srai(simde__m512i a, unsigned int n)
{
	union tg_emulated r = {a};
	int i;

	for (i = 0; i < 8; i++)
		r.lane[i] = (uint64_t)((int64_t)r.lane[i] >> n);
	return r.reg;
}

static inline __m128i tg_emulated_extract(simde__m512i a, int which)
{
	union tg_emulated x = {a};
	__m128i r;

	memcpy(&r, x.byte + 16 * which, sizeof(r));
	return r;
}

static inline simde__m512i tg_emulated_shuffle(simde__m512i a, simde__m512i b, int which)
{
	union tg_emulated x = {a}, y = {b}, r;
	int i;

	for (i = 0; i < 4; i++)
		memcpy(r.byte + 16 * i, (i < 2 ? &x : &y)->byte + 16 * (which >> 2 * i & 3), 16);
	return r.reg;
}

#undef _mm512_cmplt_epu64_mask
#undef _mm512_i64gather_epi64
#undef _mm512_srai_epi64
#undef _mm512_extracti64x2_epi64
#undef _mm512_shuffle_i64x2
#define _mm512_cmplt_epu64_mask tg_emulated_less
#define _mm512_i64gather_epi64 tg_emulated_gather
#define _mm512_srai_epi64 tg_emulated_srai
#define _mm512_extracti64x2_epi64 tg_emulated_extract
#define _mm512_shuffle_i64x2 tg_emulated_shuffle

#endif
