/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4 of many short messages at once. Messages of one number of words
 * stand side by side, so that a vector register holds one word of four or eight
 * of them. Three variants, with the same results: core/siphash.h message by message,
 * AVX2 in four lanes, AVX-512 in eight; which one is chosen once, by the CPU.
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
	uint32_t words; /* of each, 1 to TG_WORDS_MAX */
	uint64_t k0[TG_LANES_MAX] __attribute__((aligned(64)));
	uint64_t k1[TG_LANES_MAX] __attribute__((aligned(64)));
	uint64_t m[TG_WORDS_MAX][TG_LANES_MAX] __attribute__((aligned(64)));
	uint64_t out[TG_LANES_MAX] __attribute__((aligned(64)));
};

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
