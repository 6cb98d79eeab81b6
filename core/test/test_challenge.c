/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of challenges without a cookie: known answers of an independent writer, an attacker who
 * sees challenges to itself and wants one to somebody else, and how every bit spreads.
 */
#include "test.h"
#include "../proxy.h"
#include "known_answers.h"

static void challenge_known_answers(void **state)
{
	struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(tg_ka_challenges) / sizeof(tg_ka_challenges[0]); i++) {
		struct tg_packet syn = {.family = tg_ka_challenges[i].family,
					.ports = tg_ka_challenges[i].ports};

		memcpy(&syn.src, tg_ka_challenges[i].src, sizeof(syn.src));
		assert_int_equal(tg_challenge_isn(&syn, tg_ka_challenges[i].client_isn,
						  tg_ka_challenges[i].ttl, &key),
				 tg_ka_challenges[i].isn);
	}
}

/* ---- the attack ---- */

#define MUL1 0xbf58476d1ce4e5b9ULL
#define MUL2 0x94d049bb133111ebULL
#define SEEN 3
#define STEPS (1U << 20)

struct seen {
	struct tg_packet syn;
	uint32_t isn;
};

/* The former challenges: each step can be inverted, with a salt of 64 bits. */
static uint64_t old_mix(const struct tg_packet *syn, uint64_t salt)
{
	uint64_t h = syn->src.d[0] * 0x9e3779b97f4a7c15ULL ^ syn->src.d[1];

	h = (h ^ salt) + ((uint64_t)syn->seq << 32 | syn->ports);
	h = (h ^ h >> 32) * MUL1;
	return (h ^ h >> 29) * MUL2;
}

static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd;
	int i;

	for (i = 0; i < 6; i++)
		x *= 2 - odd * x;
	return x;
}

/* The salt under which the old function gives all the observed challenges, if the hidden half of its last product
 * is one of STEPS from `low` on. All 2^32 take seconds. */
static bool recover(const struct seen seen[SEEN], uint32_t low, uint64_t *salt)
{
	const uint64_t un1 = inverse(MUL1), un2 = inverse(MUL2);
	uint64_t h;
	uint32_t i, k;

	for (i = 0; i < STEPS; i++) {
		h = ((uint64_t)seen[0].isn << 32 | (uint32_t)(low + i)) * un2;
		h = (h ^ h >> 29 ^ h >> 58) * un1;
		h = (h ^ h >> 32) - ((uint64_t)seen[0].syn.seq << 32 | seen[0].syn.ports);
		*salt = h ^ seen[0].syn.src.d[0] * 0x9e3779b97f4a7c15ULL ^ seen[0].syn.src.d[1];
		for (k = 0;
		     k < SEEN && (uint32_t)(old_mix(&seen[k].syn, *salt) >> 32) == seen[k].isn; k++)
			;
		if (k == SEEN)
			return true;
	}
	return false;
}

static struct tg_packet syn_of(uint64_t *seed)
{
	struct tg_packet syn = {.family = 4,
				.ports = (uint32_t)tg_splitmix(seed),
				.seq = (uint32_t)tg_splitmix(seed)};

	syn.src.d[0] = tg_splitmix(seed) & 0xffffffff;
	return syn;
}

/* Three challenges reveal the old salt, and with it the challenge to any client; the same attack on
 * the present challenges finds nothing, wherever it begins. */
static void challenges_cannot_be_undone(void **state)
{
	struct tg_siphash_key key = {0x0123456789abcdefULL, 0xfedcba9876543210ULL};
	struct seen old[SEEN], now[SEEN];
	uint64_t seed = 7, salt = 0, found = 0;
	struct tg_packet other;
	int i;

	(void)state;
	for (i = 0; i < SEEN; i++) {
		old[i].syn = now[i].syn = syn_of(&seed);
		old[i].isn = (uint32_t)(old_mix(&old[i].syn, key.k0) >> 32);
		now[i].isn = tg_challenge_isn(&now[i].syn, now[i].syn.seq, 0, &key);
		assert_int_not_equal(old[i].isn, now[i].isn);
	}
	salt = key.k0;
	assert_true(recover(old, (uint32_t)old_mix(&old[0].syn, salt) - STEPS / 2, &found));
	assert_true(found == salt);
	other = syn_of(&seed);
	assert_true(old_mix(&other, found) == old_mix(&other, salt));

	for (i = 0; i < 4; i++)
		assert_false(recover(now, (uint32_t)i << 30, &found));
	assert_false(recover(now, (uint32_t)old_mix(&now[0].syn, key.k0) - STEPS / 2, &found));
	assert_false(recover(now, (uint32_t)old_mix(&now[0].syn, key.k1) - STEPS / 2, &found));
}

/* ---- how bits spread ---- */

#define SAMPLES 4096
#define IN_BITS (128 + 32 + 32 + 8 + 128) /* source, ports, number, TTL, key */

struct in {
	uint64_t src[2];
	uint32_t ports, isn;
	struct tg_siphash_key key;
	uint8_t ttl;
};

static uint32_t isn_of(const struct in *in, uint8_t family)
{
	struct tg_packet syn = {
		.family = family, .ports = in->ports, .src = {.d = {in->src[0], in->src[1]}}};

	return tg_challenge_isn(&syn, in->isn, in->ttl, &in->key);
}

static void flip(struct in *in, uint32_t bit)
{
	if (bit < 128)
		in->src[bit / 64] ^= 1ULL << bit % 64;
	else if (bit < 160)
		in->ports ^= 1U << (bit - 128);
	else if (bit < 192)
		in->isn ^= 1U << (bit - 160);
	else if (bit < 200)
		in->ttl ^= (uint8_t)(1U << (bit - 192));
	else if (bit < 264)
		in->key.k0 ^= 1ULL << (bit - 200);
	else
		in->key.k1 ^= 1ULL << (bit - 264);
}

/* Each bit of the input and of the key flips each bit of the number in half of all
 * cases: six standard deviations for 4,096 samples are 192. */
static void each_bit_spreads(void **state)
{
	static uint32_t changed[IN_BITS][32];
	uint64_t seed = 11;
	uint32_t n, bit, out;
	uint8_t family;

	(void)state;
	for (family = 4; family <= 6; family += 2) {
		memset(changed, 0, sizeof(changed));
		for (n = 0; n < SAMPLES; n++) {
			struct in in = {{tg_splitmix(&seed), family == 6 ? tg_splitmix(&seed) : 0},
					(uint32_t)tg_splitmix(&seed),
					(uint32_t)tg_splitmix(&seed),
					{tg_splitmix(&seed), tg_splitmix(&seed)},
					(uint8_t)tg_splitmix(&seed)};
			uint32_t was;

			in.src[0] &= family == 4 ? 0xffffffffULL : ~0ULL;
			was = isn_of(&in, family);
			for (bit = 0; bit < IN_BITS; bit++) {
				uint32_t diff;

				flip(&in, bit);
				diff = isn_of(&in, family) ^ was;
				flip(&in, bit);
				for (out = 0; out < 32; out++)
					changed[bit][out] += diff >> out & 1;
			}
		}
		for (bit = 0; bit < IN_BITS; bit++)
			for (out = 0; out < 32 && (family == 6 || bit < 32 || bit >= 128); out++)
				if (changed[bit][out] < SAMPLES / 2 - 192 ||
				    changed[bit][out] > SAMPLES / 2 + 192)
					fail_msg("IPv%d: bit %u changes bit %u in %u of %u cases",
						 family, bit, out, changed[bit][out], SAMPLES);
	}
}

int tg_test_challenge(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(challenge_known_answers),
		cmocka_unit_test(challenges_cannot_be_undone),
		cmocka_unit_test(each_bit_spreads),
	};

	return cmocka_run_group_tests_name("challenge", tests, NULL, NULL);
}
