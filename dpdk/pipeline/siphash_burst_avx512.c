/* SPDX-License-Identifier: Apache-2.0
 *
 * siphash_burst.h in AVX-512: eight messages to a register; two registers at once while there
 * are more than eight messages.
 */
#ifdef __x86_64__
#include "siphash_avx512.h"
#include "siphash_burst.h"

/* Finishes `count` groups of eight (1 or 2) that are hashed side by side. */
static inline __attribute__((always_inline)) void sip_eights(struct tg_siphash_batch *b, uint32_t i,
							     const uint32_t count)
{
	struct tg_siphash_lanes s[2];
	uint32_t g, w, r;

	for (g = 0; g < count; g++)
		s[g] = (struct tg_siphash_lanes){
			(tg_u64x8)_mm512_load_si512(&b->begin[0][i + 8 * g]),
			(tg_u64x8)_mm512_load_si512(&b->begin[1][i + 8 * g]),
			(tg_u64x8)_mm512_load_si512(&b->begin[2][i + 8 * g]),
			(tg_u64x8)_mm512_load_si512(&b->begin[3][i + 8 * g]),
		};
	for (w = 0; w < b->words; w++)
		for (g = 0; g < count; g++)
			tg_siphash_lanes_word(&s[g], _mm512_load_si512(&b->m[w][i + 8 * g]), 2);
	for (g = 0; g < count; g++)
		s[g].v2 ^= 0xff;
	for (r = 0; r < 4; r++)
		for (g = 0; g < count; g++)
			tg_siphash_lanes_round(&s[g]);
	for (g = 0; g < count; g++)
		_mm512_store_si512(&b->out[i + 8 * g], tg_siphash_lanes_out(&s[g]));
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
