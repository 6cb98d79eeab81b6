/* SPDX-License-Identifier: Apache-2.0
 *
 * The incremental checksum against full recomputation, over all 65,536 residues.
 *
 * The full sum is computed independently here: 16-bit big-endian words, end-around carry after
 * each. A header is {word, filler, field}; the filler is solved for, so that each of the 65,536
 * field values comes about.
 */
#include "test.h"

/* One's-complement sum of big-endian words, carried word by word. */
static uint16_t sum_slow(const uint16_t *words, size_t n)
{
	uint32_t sum = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		sum += words[i];
		if (sum > 0xffff)
			sum -= 0xffff;
	}
	return (uint16_t)sum;
}

static void rfc1624_example(void **state)
{
	(void)state;
	/* RFC 1624 section 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285; HC' = 0x0000. */
	assert_int_equal(tg_csum_update16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

static void rfc1071_example(void **state)
{
	static const uint8_t data[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

	(void)state;
	/* RFC 1071 section 3: the sum is ddf2, here in memory order. */
	assert_int_equal(tg_swap16(tg_csum_fold(tg_csum_add(0, data, sizeof(data)))), 0xddf2);
	assert_int_equal(tg_csum_add(0, (const uint8_t *)"\x12", 1), 0x12);
}

/* Every field value, every sort of change: after the update the header must verify,
 * and the field must equal the recomputed one. Not tested: a header of nothing but
 * zeros, where the two zeros of one's complement differ; no packet has one. */
static void update16_every_residue(void **state)
{
	static const uint16_t words[] = {0x0000, 0x0001, 0x00ff, 0x0100, 0x5555, 0x7fff,
					 0x8000, 0x8001, 0xaaaa, 0xfffe, 0xffff};
	uint32_t filler, i, j;

	(void)state;
	for (filler = 0; filler < 65536; filler++) {
		for (i = 0; i < 11; i++) {
			uint16_t h[2] = {words[i], (uint16_t)filler};
			uint16_t field = (uint16_t)~sum_slow(h, 2);

			for (j = 0; j < 11; j++) {
				uint16_t to[2] = {words[j], (uint16_t)filler}, got, want;
				uint16_t check[3];

				got = tg_csum_update16(field, words[i], words[j]);
				want = (uint16_t)~sum_slow(to, 2);
				check[0] = to[0];
				check[1] = to[1];
				check[2] = got;
				if (!(to[0] | to[1]))
					continue;
				if (sum_slow(check, 3) != 0xffff)
					fail_msg("field %04x, %04x -> %04x: %04x does not verify",
						 field, words[i], words[j], got);
				if (got != want)
					fail_msg("field %04x, %04x -> %04x: %04x, want %04x", field,
						 words[i], words[j], got, want);
			}
		}
	}
}

/* Every new word for some fields, among them the two zeros. */
static void update16_every_word(void **state)
{
	static const uint16_t fields[] = {0x0000, 0x0001, 0x1234, 0x7fff, 0x8000, 0xfffe, 0xffff};
	uint32_t f, from, to;

	(void)state;
	for (f = 0; f < 7; f++)
		for (from = 0; from < 65536; from += 257)
			for (to = 0; to < 65536; to++) {
				/* the filler that turns `from` into this field */
				uint16_t parts[2] = {(uint16_t)~fields[f], (uint16_t)~from};
				uint16_t check[3] = {(uint16_t)to, sum_slow(parts, 2), 0};

				check[2] = tg_csum_update16(fields[f], (uint16_t)from, (uint16_t)to);
				if (sum_slow(check, 3) != 0xffff)
					fail_msg("field %04x, %04x -> %04x", fields[f], from, to);
			}
}

static void update32_every_residue(void **state)
{
	static const uint32_t words[] = {0,          1,          0xffff,     0x10000,
					 0xffff0000, 0x7fffffff, 0x80000000, 0xdeadbeef,
					 0xfffffffe, 0xffffffff};
	uint32_t filler, i, j;

	(void)state;
	for (filler = 1; filler < 65536; filler++)
		for (i = 0; i < 10; i++)
			for (j = 0; j < 10; j++) {
				uint16_t old[3] = {(uint16_t)words[i], (uint16_t)(words[i] >> 16),
						   (uint16_t)filler};
				uint16_t now[3] = {(uint16_t)words[j], (uint16_t)(words[j] >> 16),
						   (uint16_t)filler};
				uint16_t field = (uint16_t)~sum_slow(old, 3);

				if (tg_csum_update32(field, words[i], words[j]) !=
				    (uint16_t)~sum_slow(now, 3))
					fail_msg("field %04x, %08x -> %08x", field, words[i],
						 words[j]);
			}
}

/* tg_csum_finish over sums of every size that 64 bits hold. */
static void fold_large_sums(void **state)
{
	uint64_t seed = 1624, i;

	(void)state;
	for (i = 0; i < 1000000; i++) {
		uint64_t sum = tg_splitmix(&seed) >> (i % 64);
		uint16_t words[4] = {(uint16_t)sum, (uint16_t)(sum >> 16), (uint16_t)(sum >> 32),
				     (uint16_t)(sum >> 48)};

		if (tg_csum_fold(sum) != sum_slow(words, 4))
			fail_msg("sum %016llx", (unsigned long long)sum);
	}
	assert_int_equal(tg_csum_fold(UINT64_MAX), 0xffff);
	assert_int_equal(tg_csum_fold(0), 0);
}

/* tg_csum_fold_words wherever a carry may be left: about 2^32 times each number, and about the most
 * that so many words add up to. */
static void fold_sums_of_words(void **state)
{
	const uint64_t most = 65535 * 0xffffffffULL;
	uint64_t seed = 1071, n, i;

	(void)state;
	for (n = 0; n < 65535; n++) {
		uint64_t at[] = {n << 32, n * 0xffffffffULL, (n << 32) + 0xffff0000, most - n,
				 tg_splitmix(&seed) % most};

		for (i = 0; i < 5 * sizeof(at) / sizeof(at[0]); i++) {
			uint64_t sum = at[i / 5] + i % 5 - 2;

			if (sum <= most && tg_csum_fold_words(sum) != tg_csum_fold(sum))
				fail_msg("sum %llx", (unsigned long long)sum);
		}
	}
}

int tg_test_checksum(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rfc1624_example),        cmocka_unit_test(rfc1071_example),
		cmocka_unit_test(update16_every_residue), cmocka_unit_test(update16_every_word),
		cmocka_unit_test(update32_every_residue), cmocka_unit_test(fold_large_sums),
		cmocka_unit_test(fold_sums_of_words),
	};

	return cmocka_run_group_tests_name("checksum", tests, NULL, NULL);
}
