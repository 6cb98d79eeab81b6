/* SPDX-License-Identifier: Apache-2.0
 *
 * The three variants of siphash_burst.h against the answers of OpenSSL's and the
 * paper's SipHash (core/test/known_answers.h) and against core/siphash.h, in every
 * number of messages and words.
 */
#include "../../core/test/known_answers.h"
#include "../bench/traffic.h"
#include "tests.h"

static struct tg_siphash_batch b;

/* The known answers hash 0, 1, 2, ... bytes 0, 1, 2, ... under the key 0 to 15. */
static void known_answers(const struct tg_siphash_variant *variant)
{
	uint32_t len, w, lane;

	for (len = 0; len < 48; len++) {
		uint8_t bytes[48] = {0};

		for (w = 0; w < len; w++)
			bytes[w] = (uint8_t)w;
		b.n = 5;
		b.words = len / 8 + 1;
		for (lane = 0; lane < b.n; lane++) {
			b.k0[lane] = 0x0706050403020100ULL;
			b.k1[lane] = 0x0f0e0d0c0b0a0908ULL;
			for (w = 0; w < b.words; w++)
				b.m[w][lane] = tg_load64(bytes + 8 * w);
			b.m[len / 8][lane] |= (uint64_t)len << 56;
		}
		variant->run(&b);
		for (lane = 0; lane < b.n; lane++)
			CHECK_EQ(b.out[lane], tg_ka_siphash[len], variant->name);
	}
}

static void like_core(const struct tg_siphash_variant *variant)
{
	uint64_t seed = 3;
	uint32_t n, w, i;

	for (n = 1; n <= TG_LANES_MAX; n++) {
		for (w = 1; w <= TG_WORDS_MAX; w++) {
			uint32_t wrong = 0;

			b.n = n;
			b.words = w;
			for (i = 0; i < TG_LANES_MAX; i++) {
				uint32_t k;

				b.k0[i] = tg_splitmix(&seed);
				b.k1[i] = tg_splitmix(&seed);
				for (k = 0; k < w; k++)
					b.m[k][i] = tg_splitmix(&seed);
			}
			variant->run(&b);
			for (i = 0; i < n; i++) {
				struct tg_siphash_key key = {b.k0[i], b.k1[i]};
				struct tg_siphash s = tg_siphash_begin(&key);
				uint32_t k;

				for (k = 0; k + 1 < w; k++)
					tg_siphash_word(&s, b.m[k][i]);
				wrong += tg_siphash_end(&s, b.m[k][i]) != b.out[i];
			}
			CHECK(wrong == 0, "%s: %u of %u messages of %u words", variant->name, wrong,
			      n, w);
		}
	}
}

void test_hash(void)
{
	const struct tg_siphash_variant *variant;

	for (variant = tg_siphash_variants; variant->name; variant++) {
		if (!variant->works()) {
			printf("skipped: this CPU has no %s\n", variant->name);
			continue;
		}
		known_answers(variant);
		like_core(variant);
	}
	CHECK(tg_siphash_choose("scalar") && tg_siphash_choose(NULL), "there is always a variant");
	CHECK(!tg_siphash_choose("sse1"), "an unknown variant is refused");
}
