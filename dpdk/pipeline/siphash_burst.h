/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4 of many short messages at once. Messages of one number of words
 * stand side by side, so that a vector register holds one word of four or eight
 * of them. Three variants, with the same results: core/siphash.h message by message,
 * AVX2 in four lanes, AVX-512 in eight; which one is chosen once, by the CPU.
 *
 * Each lane begins with a state of its own: that of its key, or one that has absorbed the words
 * that many messages begin with. A batch's next burst mostly needs the same ones, so they stay.
 *
 * Must never: read a lane's words before all lanes of its group are set (unused
 * lanes of the last group are hashed, too, and thrown away).
 */
#ifndef TG_SIPHASH_BURST_H
#define TG_SIPHASH_BURST_H

#include "../core/siphash.h"

#define TG_LANES_MAX 128 /* messages in a batch; a multiple of 8 */
#define TG_WORDS_MAX 6   /* words of a message, the one with the length included */

struct tg_siphash_batch {
	uint32_t n;     /* messages */
	uint32_t words; /* of each, those that `begin` has not absorbed: 1 to TG_WORDS_MAX */
	uint64_t begin[4][TG_LANES_MAX] __attribute__((aligned(64))); /* v0 to v3 */
	uint64_t m[TG_WORDS_MAX][TG_LANES_MAX] __attribute__((aligned(64)));
	uint64_t out[TG_LANES_MAX] __attribute__((aligned(64)));
};

/* The state that a lane begins with. */
TG_INLINE void tg_siphash_lane_begin(struct tg_siphash_batch *b, uint32_t lane,
				     const struct tg_siphash *s)
{
	b->begin[0][lane] = s->v0;
	b->begin[1][lane] = s->v1;
	b->begin[2][lane] = s->v2;
	b->begin[3][lane] = s->v3;
}

typedef void (*tg_siphash_burst_fn)(struct tg_siphash_batch *b);

void tg_siphash_burst_scalar(struct tg_siphash_batch *b);
void tg_siphash_burst_avx2(struct tg_siphash_batch *b);
void tg_siphash_burst_avx512(struct tg_siphash_batch *b);

struct tg_siphash_variant {
	const char *name;
	tg_siphash_burst_fn run;
	bool (*works)(void); /* supported by this CPU */
};

/* Best first; the last one works everywhere. Ends with a NULL name. */
extern const struct tg_siphash_variant tg_siphash_variants[];

/* The named variant, or the best of this CPU if name is NULL. NULL if the name
 * is unknown or the CPU does not support it. */
const struct tg_siphash_variant *tg_siphash_choose(const char *name);

#endif
