/* SPDX-License-Identifier: Apache-2.0
 *
 * The plain variant of siphash_burst.h: core/siphash.h, message by message.
 */
#include "siphash_burst.h"

void tg_siphash_burst_scalar(struct tg_siphash_batch *b)
{
	uint32_t i, w;

	for (i = 0; i < b->n; i++) {
		struct tg_siphash_key key = {b->k0[i], b->k1[i]};
		struct tg_siphash s = tg_siphash_begin(&key);

		for (w = 0; w + 1 < b->words; w++)
			tg_siphash_word(&s, b->m[w][i]);
		b->out[i] = tg_siphash_end(&s, b->m[w][i]);
	}
}
