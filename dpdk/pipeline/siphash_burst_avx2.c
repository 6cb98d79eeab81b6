/* SPDX-License-Identifier: Apache-2.0
 *
 * siphash_burst.h in AVX2: four messages to a register, two registers at once
 * (the rounds of one fill the waits of the other). The rounds are those of
 * core/siphash.h, lane by lane; the known answers hold them together.
 */
#ifdef __x86_64__
#include <immintrin.h>

#include "siphash_burst.h"

typedef uint64_t u64x4 __attribute__((vector_size(32)));

struct lanes {
	u64x4 v0, v1, v2, v3;
};

/* By 32 bits: one shuffle. */
#define ROTL(x, n)                                                                                 \
	((n) == 32 ? (u64x4)_mm256_shuffle_epi32((__m256i)(x), 0xb1)                               \
		   : (x) << (n) | (x) >> (64 - (n)))

static inline __attribute__((always_inline)) void sip_round(struct lanes *s)
{
	TG_SIPHASH_ROUND(s, ROTL);
}

static inline __attribute__((always_inline)) struct lanes sip_begin(const struct tg_siphash_batch *b,
								    uint32_t i)
{
	return (struct lanes){
		*(const u64x4 *)&b->begin[0][i],
		*(const u64x4 *)&b->begin[1][i],
		*(const u64x4 *)&b->begin[2][i],
		*(const u64x4 *)&b->begin[3][i],
	};
}

static inline __attribute__((always_inline)) void sip_end(const struct lanes *s, uint64_t *out)
{
	*(u64x4 *)out = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

void tg_siphash_burst_avx2(struct tg_siphash_batch *b)
{
	uint32_t i, w, r;

	for (i = 0; i < b->n; i += 8) {
		struct lanes p = sip_begin(b, i);
		struct lanes q = sip_begin(b, i + 4);

		for (w = 0; w < b->words; w++) {
			u64x4 mp = *(const u64x4 *)&b->m[w][i];
			u64x4 mq = *(const u64x4 *)&b->m[w][i + 4];

			p.v3 ^= mp;
			q.v3 ^= mq;
			sip_round(&p);
			sip_round(&q);
			sip_round(&p);
			sip_round(&q);
			p.v0 ^= mp;
			q.v0 ^= mq;
		}
		p.v2 ^= 0xff;
		q.v2 ^= 0xff;
		for (r = 0; r < 4; r++) {
			sip_round(&p);
			sip_round(&q);
		}
		sip_end(&p, &b->out[i]);
		sip_end(&q, &b->out[i + 4]);
	}
}
#endif
