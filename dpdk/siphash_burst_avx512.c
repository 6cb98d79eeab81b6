/* SPDX-License-Identifier: Apache-2.0
 *
 * siphash_burst.h in AVX-512: eight messages to a register, rotations in one
 * instruction; two registers at once while there are more than eight messages.
 * The rounds are those of core/siphash.h, lane by lane.
 */
#ifdef __x86_64__
#include <immintrin.h>

#include "siphash_burst.h"

struct lanes {
	__m512i v0, v1, v2, v3;
};

static inline __attribute__((always_inline)) void sip_round(struct lanes *s)
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

static inline __attribute__((always_inline)) struct lanes sip_begin(const uint64_t *k0,
								     const uint64_t *k1)
{
	__m512i a = _mm512_load_si512(k0), b = _mm512_load_si512(k1);

	return (struct lanes){
		_mm512_xor_si512(a, _mm512_set1_epi64(0x736f6d6570736575LL)),
		_mm512_xor_si512(b, _mm512_set1_epi64(0x646f72616e646f6dLL)),
		_mm512_xor_si512(a, _mm512_set1_epi64(0x6c7967656e657261LL)),
		_mm512_xor_si512(b, _mm512_set1_epi64(0x7465646279746573LL)),
	};
}

static inline __attribute__((always_inline)) void sip_word(struct lanes *s, const uint64_t *at)
{
	__m512i m = _mm512_load_si512(at);

	s->v3 = _mm512_xor_si512(s->v3, m);
	sip_round(s);
	sip_round(s);
	s->v0 = _mm512_xor_si512(s->v0, m);
}

/* Ends `count` groups of eight (1 or 2) that are being hashed side by side. */
static inline __attribute__((always_inline)) void sip_eights(struct tg_siphash_batch *b,
							      uint32_t i, const uint32_t count)
{
	const __m512i ff = _mm512_set1_epi64(0xff);
	struct lanes s[2];
	uint32_t g, w, r;

	for (g = 0; g < count; g++)
		s[g] = sip_begin(&b->k0[i + 8 * g], &b->k1[i + 8 * g]);
	for (w = 0; w < b->words; w++)
		for (g = 0; g < count; g++)
			sip_word(&s[g], &b->m[w][i + 8 * g]);
	for (g = 0; g < count; g++)
		s[g].v2 = _mm512_xor_si512(s[g].v2, ff);
	for (r = 0; r < 4; r++)
		for (g = 0; g < count; g++)
			sip_round(&s[g]);
	for (g = 0; g < count; g++)
		_mm512_store_si512(&b->out[i + 8 * g],
				   _mm512_ternarylogic_epi64(_mm512_xor_si512(s[g].v0, s[g].v1),
							     s[g].v2, s[g].v3, 0x96));
}

void tg_siphash_burst_avx512(struct tg_siphash_batch *b)
{
	uint32_t i = 0;

	for (; i + 8 < b->n; i += 16)
		sip_eights(b, i, 2);
	if (i < b->n)
		sip_eights(b, i, 1);
}
#endif
