/* SPDX-License-Identifier: Apache-2.0
 *
 * siphash_burst.h in AVX2: four messages to a register, two registers at once
 * (the rounds of one fill the waits of the other). The rounds are those of
 * core/siphash.h, lane by lane; the known answers hold them together.
 */
#ifdef __x86_64__
#include "siphash_avx2.h"
#include "siphash_burst.h"

static inline __attribute__((always_inline)) struct tg_siphash_lanes sip_begin(
	const struct tg_siphash_batch *b, uint32_t i)
{
	return (struct tg_siphash_lanes){
		*(const tg_u64x4 *)&b->begin[0][i],
		*(const tg_u64x4 *)&b->begin[1][i],
		*(const tg_u64x4 *)&b->begin[2][i],
		*(const tg_u64x4 *)&b->begin[3][i],
	};
}

void tg_siphash_burst_avx2(struct tg_siphash_batch *b)
{
	uint32_t i, w, r;

	for (i = 0; i < b->n; i += 8) {
		struct tg_siphash_lanes p = sip_begin(b, i);
		struct tg_siphash_lanes q = sip_begin(b, i + 4);

		for (w = 0; w < b->words; w++) {
			tg_u64x4 mp = *(const tg_u64x4 *)&b->m[w][i];
			tg_u64x4 mq = *(const tg_u64x4 *)&b->m[w][i + 4];

			p.v3 ^= mp;
			q.v3 ^= mq;
			tg_siphash_lanes_round(&p);
			tg_siphash_lanes_round(&q);
			tg_siphash_lanes_round(&p);
			tg_siphash_lanes_round(&q);
			p.v0 ^= mp;
			q.v0 ^= mq;
		}
		p.v2 ^= 0xff;
		q.v2 ^= 0xff;
		for (r = 0; r < 4; r++) {
			tg_siphash_lanes_round(&p);
			tg_siphash_lanes_round(&q);
		}
		*(__m256i *)&b->out[i] = tg_siphash_lanes_out(&p);
		*(__m256i *)&b->out[i + 4] = tg_siphash_lanes_out(&q);
	}
}
#endif
