/* SPDX-License-Identifier: Apache-2.0
 *
 * The plain variant of siphash_burst.h: core/siphash.h, message by message.
 */
#include "siphash_burst.h"

void tg_siphash_burst_scalar(struct tg_siphash_batch *b)
{
	uint32_t i, w;

	for (i = 0; i < b->n; i++) {
		struct tg_siphash s = {b->begin[0][i], b->begin[1][i], b->begin[2][i],
				       b->begin[3][i]};

		for (w = 0; w + 1 < b->words; w++)
			tg_siphash_word(&s, b->m[w][i]);
		b->out[i] = tg_siphash_end(&s, b->m[w][i]);
	}
}
