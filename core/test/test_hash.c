/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes and key schedule against answers of other people's implementations.
 */
#include "../halfsiphash.h"
#include "halfsiphash_vectors.h"
#include "known_answers.h"
#include "test.h"

static uint64_t siphash13(const struct tg_siphash_key *key, const uint8_t *data, size_t len)
{
	struct tg_siphash s = tg_siphash_begin(key);
	uint64_t tail = (uint64_t)len << 56;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8)
		tg_siphash13_word(&s, tg_load64(data + i));
	for (; i < len; i++)
		tail |= (uint64_t)data[i] << (8 * (i % 8));
	return tg_siphash13_end(&s, tail);
}

static void siphash_reference_list(void **state)
{
	struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
	uint8_t message[64];
	size_t i;

	(void)state;
	/* Appendix A of the SipHash paper: the 15-byte message, transcribed. */
	assert_true(tg_ka_siphash[15] == 0xa129ca6149be45e5ULL);
	for (i = 0; i < 64; i++)
		message[i] = (uint8_t)i;
	for (i = 0; i < 64; i++) {
		uint8_t *exact = tg_test_exact(message, i);

		if (tg_siphash24(&key, exact, i) != tg_ka_siphash[i])
			fail_msg("SipHash-2-4 of %zu bytes", i);
		if (siphash13(&key, exact, i) != tg_ka_siphash13[i])
			fail_msg("SipHash-1-3 of %zu bytes", i);
		free(exact);
	}
}

static void siphash_by_words_is_the_same(void **state)
{
	struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
	struct tg_siphash s = tg_siphash_begin(&key);

	(void)state;
	tg_siphash_word(&s, 0x0706050403020100ULL);
	assert_true(tg_siphash_end(&s, 15ULL << 56 | 0x0e0d0c0b0a0908ULL) == tg_ka_siphash[15]);
}

static void halfsiphash_reference_list(void **state)
{
	struct tg_halfsiphash_key key = {0x03020100U, 0x07060504U};
	uint8_t message[64];
	size_t i;

	(void)state;
	for (i = 0; i < 64; i++)
		message[i] = (uint8_t)i;
	for (i = 0; i < 64; i++) {
		uint8_t *exact = tg_test_exact(message, i);

		if (tg_halfsiphash24(&key, exact, i) != tg_load32(tg_ka_halfsiphash[i]))
			fail_msg("HalfSipHash-2-4 of %zu bytes", i);
		free(exact);
	}
}

/* RFC 8439 section 2.3.2: state words after the block function, transcribed. */
static void chacha20_rfc8439(void **state)
{
	static const uint32_t rfc[16] = {
		0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033,
		0x9aaa2204, 0x4e6cd4c3, 0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9,
		0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2,
	};
	static const uint8_t nonce[12] = {0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0};
	uint8_t key[32];
	uint32_t block[16], i;

	(void)state;
	for (i = 0; i < 32; i++)
		key[i] = (uint8_t)i;
	tg_chacha20_block(block, key, 1, nonce);
	for (i = 0; i < 16; i++) {
		assert_int_equal(block[i], rfc[i]);
		assert_int_equal(block[i], tg_load32(tg_ka_chacha20 + 4 * i));
	}
}

/* The same answers as in internal/keys/schedule_test.go. */
static void key_schedule(void **state)
{
	static const char *agreed_with_go[] = {
		"553dadedd45640952d26bc35c7bfa46c",
		"b7597cfb37f1d67dd562622f4dafdb7f",
		"7cb4e3e9828ceb18da2637a879ed396d",
	};
	uint8_t secret[TG_SECRET_LEN];
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	for (i = 0; i < 3; i++) {
		struct tg_siphash_key k = tg_epoch_key_derive(secret, tg_ka_keys[i].epoch);
		char hex[33];

		for (j = 0; j < 16; j++)
			sprintf(hex + 2 * j, "%02x",
				(unsigned)((j < 8 ? k.k0 >> 8 * j : k.k1 >> 8 * (j - 8)) & 0xff));
		assert_string_equal(hex, agreed_with_go[i]);
		assert_true(k.k0 == tg_load64(tg_ka_keys[i].key));
		assert_true(k.k1 == tg_load64(tg_ka_keys[i].key + 8));
	}
	assert_int_equal(tg_ka_keys[2].epoch >> 32, 1); /* the whole 64-bit number counts */
}

int tg_test_hash(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_reference_list),
		cmocka_unit_test(siphash_by_words_is_the_same),
		cmocka_unit_test(halfsiphash_reference_list),
		cmocka_unit_test(chacha20_rfc8439),
		cmocka_unit_test(key_schedule),
	};

	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
