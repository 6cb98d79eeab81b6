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
	const struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
	const struct tg_siphash begin = tg_siphash_begin(&key);
	uint32_t len, w, lane;

	for (len = 0; len < 48; len++) {
		uint8_t bytes[48] = {0};

		for (w = 0; w < len; w++)
			bytes[w] = (uint8_t)w;
		b.n = 5;
		b.words = len / 8 + 1;
		for (lane = 0; lane < b.n; lane++) {
			tg_siphash_lane_begin(&b, lane, &begin);
			for (w = 0; w < b.words; w++)
				b.m[w][lane] = tg_load64(bytes + 8 * w);
			b.m[len / 8][lane] |= (uint64_t)len << 56;
		}
		variant->run(&b);
		for (lane = 0; lane < b.n; lane++)
			CHECK_EQ(b.out[lane], tg_ka_siphash[len], variant->name);
	}
}

/* Lanes whose hash is not core's; each begins after `before` words of its own, under a key of its own. */
static uint32_t wrong_lanes(const struct tg_siphash_variant *variant, uint32_t n, uint32_t words,
			    uint32_t before, uint64_t *seed)
{
	struct tg_siphash begin[TG_LANES_MAX];
	uint32_t i, k, wrong = 0;

	b.n = n;
	b.words = words;
	for (i = 0; i < TG_LANES_MAX; i++) {
		struct tg_siphash_key key = {tg_splitmix(seed), tg_splitmix(seed)};

		begin[i] = tg_siphash_begin(&key);
		for (k = 0; k < before; k++)
			tg_siphash_word(&begin[i], tg_splitmix(seed));
		tg_siphash_lane_begin(&b, i, &begin[i]);
		for (k = 0; k < words; k++)
			b.m[k][i] = tg_splitmix(seed);
	}
	variant->run(&b);
	for (i = 0; i < n; i++) {
		for (k = 0; k + 1 < words; k++)
			tg_siphash_word(&begin[i], b.m[k][i]);
		wrong += tg_siphash_end(&begin[i], b.m[k][i]) != b.out[i];
	}
	return wrong;
}

static void like_core(const struct tg_siphash_variant *variant)
{
	uint64_t seed = 3;
	uint32_t n, w, before;

	for (n = 1; n <= TG_LANES_MAX; n++) {
		for (w = 1; w <= TG_WORDS_MAX; w++) {
			for (before = 0; before < 3; before++) {
				uint32_t wrong = wrong_lanes(variant, n, w, before, &seed);

				CHECK(wrong == 0, "%s: %u of %u messages of %u words after %u",
				      variant->name, wrong, n, w, before);
			}
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
