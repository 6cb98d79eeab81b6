/* SPDX-License-Identifier: Apache-2.0
 *
 * siphash_burst.h in AVX2: four messages to a register, two registers at once
 * (the rounds of one fill the waits of the other). The rounds are those of
 * core/siphash.h, lane by lane; the known answers hold them together.
 */
#ifdef __x86_64__
#include <immintrin.h>

#include "siphash_burst.h"

struct lanes {
	__m256i v0, v1, v2, v3;
};

#define ROTL(x, n) _mm256_or_si256(_mm256_slli_epi64(x, n), _mm256_srli_epi64(x, 64 - (n)))
#define ROTL32(x) _mm256_shuffle_epi32(x, 0xb1)

static inline __attribute__((always_inline)) void sip_round(struct lanes *s)
{
	s->v0 = _mm256_add_epi64(s->v0, s->v1);
	s->v1 = _mm256_xor_si256(ROTL(s->v1, 13), s->v0);
	s->v0 = ROTL32(s->v0);
	s->v2 = _mm256_add_epi64(s->v2, s->v3);
	s->v3 = _mm256_xor_si256(ROTL(s->v3, 16), s->v2);
	s->v0 = _mm256_add_epi64(s->v0, s->v3);
	s->v3 = _mm256_xor_si256(ROTL(s->v3, 21), s->v0);
	s->v2 = _mm256_add_epi64(s->v2, s->v1);
	s->v1 = _mm256_xor_si256(ROTL(s->v1, 17), s->v2);
	s->v2 = ROTL32(s->v2);
}

static inline __attribute__((always_inline)) struct lanes sip_begin(const uint64_t *k0,
								    const uint64_t *k1)
{
	__m256i a = _mm256_load_si256((const __m256i *)k0);
	__m256i b = _mm256_load_si256((const __m256i *)k1);

	return (struct lanes){
		_mm256_xor_si256(a, _mm256_set1_epi64x(0x736f6d6570736575LL)),
		_mm256_xor_si256(b, _mm256_set1_epi64x(0x646f72616e646f6dLL)),
		_mm256_xor_si256(a, _mm256_set1_epi64x(0x6c7967656e657261LL)),
		_mm256_xor_si256(b, _mm256_set1_epi64x(0x7465646279746573LL)),
	};
}

static inline __attribute__((always_inline)) void sip_end(struct lanes *s, uint64_t *out)
{
	_mm256_store_si256((__m256i *)out, _mm256_xor_si256(_mm256_xor_si256(s->v0, s->v1),
							    _mm256_xor_si256(s->v2, s->v3)));
}

void tg_siphash_burst_avx2(struct tg_siphash_batch *b)
{
	const __m256i ff = _mm256_set1_epi64x(0xff);
	uint32_t i, w, r;

	for (i = 0; i < b->n; i += 8) {
		struct lanes p = sip_begin(&b->k0[i], &b->k1[i]);
		struct lanes q = sip_begin(&b->k0[i + 4], &b->k1[i + 4]);

		for (w = 0; w < b->words; w++) {
			__m256i mp = _mm256_load_si256((const __m256i *)&b->m[w][i]);
			__m256i mq = _mm256_load_si256((const __m256i *)&b->m[w][i + 4]);

			p.v3 = _mm256_xor_si256(p.v3, mp);
			q.v3 = _mm256_xor_si256(q.v3, mq);
			sip_round(&p);
			sip_round(&q);
			sip_round(&p);
			sip_round(&q);
			p.v0 = _mm256_xor_si256(p.v0, mp);
			q.v0 = _mm256_xor_si256(q.v0, mq);
		}
		p.v2 = _mm256_xor_si256(p.v2, ff);
		q.v2 = _mm256_xor_si256(q.v2, ff);
		for (r = 0; r < 4; r++) {
			sip_round(&p);
			sip_round(&q);
		}
		sip_end(&p, &b->out[i]);
		sip_end(&q, &b->out[i + 4]);
	}
}
#endif
