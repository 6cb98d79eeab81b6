/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket filter: that its index spreads real-looking tuples evenly, that it
 * depends on the key and on every part of the tuple, and what a cell says when.
 */
#include "test.h"

#define LINES (TG_FILTER_CELLS / TG_FILTER_LINE_CELLS)

static void keys_of(uint64_t seed, uint64_t keys[TG_FILTER_KEYS])
{
	int i;

	for (i = 0; i < TG_FILTER_KEYS; i++)
		keys[i] = tg_splitmix(&seed);
}

static struct tg_filter_index at(const uint64_t *keys, uint8_t family, uint32_t src, uint16_t sport)
{
	union tg_addr s = {.w = {src}}, d = {.w = {TG_WIRE32(198, 51, 100, 7)}};

	if (family == 6) {
		s = (union tg_addr){.w = {TG_WIRE32(0x20, 1, 0xd, 0xb8), 0, 0, src}};
		d = (union tg_addr){.w = {TG_WIRE32(0x20, 1, 0xd, 0xb8), 1, 0, 1}};
	}
	return tg_filter_index(keys, family, &s, &d,
			       tg_swap16(sport) | (uint32_t)tg_swap16(80) << 16);
}

static void both_cells_in_one_line(void **state)
{
	uint64_t keys[TG_FILTER_KEYS], seed = 5, n;

	(void)state;
	keys_of(1, keys);
	for (n = 0; n < 100000; n++) {
		struct tg_filter_index i = at(keys, n & 1 ? 6 : 4, (uint32_t)tg_splitmix(&seed),
					      (uint16_t)n);

		assert_true(i.first < TG_FILTER_CELLS && i.second < TG_FILTER_CELLS);
		assert_int_equal(i.first / TG_FILTER_LINE_CELLS, i.second / TG_FILTER_LINE_CELLS);
	}
}

/* chi-squared over 1,024 bins of 2^20 tuples that differ in few bits (one client's
 * ports; a /20's addresses). The mean is 1,023, the deviation 45: a multilinear hash
 * may be more even than chance, never much less. */
static void spreads_neighbours_evenly(void **state)
{
	uint64_t keys[TG_FILTER_KEYS], k;
	int family;

	(void)state;
	for (k = 1; k <= 8; k++) {
		keys_of(k, keys);
		for (family = 4; family <= 6; family += 2) {
			static uint32_t bins[1024];
			double chi = 0;
			uint32_t n, i;

			memset(bins, 0, sizeof(bins));
			for (n = 0; n < 1U << 20; n++) {
				uint32_t src = tg_swap32(0xc0000000U | n >> 8);

				bins[at(keys, (uint8_t)family, src, (uint16_t)(n & 255)).first >> 10]++;
			}
			for (i = 0; i < 1024; i++)
				chi += ((double)bins[i] - 1024) * ((double)bins[i] - 1024) / 1024;
			if (chi > 1023 + 6 * 45)
				fail_msg("key %u, IPv%d: chi-squared %.0f", (unsigned)k, family, chi);
		}
	}
}

/* Pairs that collide under one key must not collide under another: an attacker who
 * learns one key's collisions gains nothing. Chance: 2^-16 per pair for the line. */
static void collisions_depend_on_the_key(void **state)
{
	static uint32_t seen[LINES];
	uint64_t a[TG_FILTER_KEYS], b[TG_FILTER_KEYS];
	uint32_t n, pairs = 0, retransmit = 0;

	(void)state;
	keys_of(100, a);
	keys_of(101, b);
	memset(seen, 0xff, sizeof(seen));
	for (n = 0; n < 200000; n++) {
		uint32_t line = at(a, 4, n * 2654435761U, 1000).first / TG_FILTER_LINE_CELLS;

		if (seen[line] != UINT32_MAX) {
			pairs++;
			retransmit += at(b, 4, seen[line] * 2654435761U, 1000).first /
					      TG_FILTER_LINE_CELLS ==
				      at(b, 4, n * 2654435761U, 1000).first / TG_FILTER_LINE_CELLS;
		}
		seen[line] = n;
	}
	assert_true(pairs > 100000);
	if (retransmit > 20) /* expected: 2 */
		fail_msg("%u of %u pairs collide again", retransmit, pairs);
}

/* Every input bit changes the index, for most keys. */
static void every_bit_counts(void **state)
{
	union tg_addr s = {.w = {1, 2, 3, 4}}, d = {.w = {5, 6, 7, 8}};
	int bit, k, same[288] = {0};

	(void)state;
	for (k = 0; k < 64; k++) {
		uint64_t keys[TG_FILTER_KEYS];
		struct tg_filter_index base, other;

		keys_of(1000 + (uint64_t)k, keys);
		base = tg_filter_index(keys, 6, &s, &d, 9);
		for (bit = 0; bit < 288; bit++) {
			union tg_addr s2 = s, d2 = d;
			uint32_t ports = 9;

			if (bit < 128)
				s2.w[bit / 32] ^= 1U << bit % 32;
			else if (bit < 256)
				d2.w[bit / 32 - 4] ^= 1U << bit % 32;
			else
				ports ^= 1U << bit % 32;
			other = tg_filter_index(keys, 6, &s2, &d2, ports);
			same[bit] += other.first == base.first;
		}
	}
	for (bit = 0; bit < 288; bit++)
		assert_true(same[bit] <= 4);
}

/* One bit of the bitmap for each cell, none for two; one of the front for each eight in a row, of one word,
 * and none of them among the bitmap's. */
static void bits_are_one_to_one(void **state)
{
	static uint64_t words[TG_FILTER_ALL_WORDS];
	uint32_t cell;

	(void)state;
	memset(words, 0, sizeof(words));
	for (cell = 0; cell < TG_FILTER_CELLS; cell++) {
		struct tg_filter_index i = {cell, 0};

		assert_true(tg_filter_word(i) >= TG_FILTER_FRONT_WORDS);
		assert_true(tg_filter_word(i) < TG_FILTER_ALL_WORDS);
		assert_false(words[tg_filter_word(i)] & tg_filter_bit(i));
		words[tg_filter_word(i)] |= tg_filter_bit(i);
		assert_true(tg_filter_neighbours(i) & tg_filter_bit(i));
		assert_true(tg_filter_front_word(i) < TG_FILTER_FRONT_WORDS);
		assert_int_equal(tg_filter_front_word(i) * 64 +
					 (uint32_t)__builtin_ctzll(tg_filter_front_bit(i)),
				 cell / 8);
		assert_int_equal(tg_filter_neighbours(i), 0xffULL << cell / 8 % 8 * 8);
	}
}

static void cells(void **state)
{
	(void)state;
	assert_false(tg_filter_cell_hit(0, 100, 5)); /* never used */
	assert_true(tg_filter_cell_hit(TG_FILTER_LIVE_ONE, 100, 5)); /* live */
	assert_true(tg_filter_cell_hit(TG_FILTER_LIVE_ONE | 1, 60000, 5)); /* live, closed once */
	assert_true(tg_filter_cell_hit(100, 100, 5)); /* closed just now */
	assert_true(tg_filter_cell_hit(95, 100, 5));
	assert_false(tg_filter_cell_hit(94, 100, 5));
	assert_true(tg_filter_cell_hit(101, 100, 5)); /* closed by a clock that is ahead */
	assert_true(tg_filter_cell_hit(1, 0xffff, 5));
	assert_false(tg_filter_cell_hit(103, 100, 5));
	assert_true(tg_filter_cell_hit(0xfffe, 2, 5)); /* over the wrap */
	assert_false(tg_filter_cell_hit(0xfff0, 2, 5));
}

static void ticks(void **state)
{
	(void)state;
	assert_int_equal(tg_filter_tick(0), 1); /* 0 means never */
	assert_int_equal(tg_filter_tick((1ULL << 34) - 1), 1);
	assert_int_equal(tg_filter_tick(5ULL << 34), 5);
	assert_int_equal(tg_filter_tick(1ULL << 50), 1); /* wrapped to 0 */
	assert_int_equal(tg_filter_tick((1ULL << 50) + (7ULL << 34)), 7);
}

/* The one segment that may carry a cookie is not settled; nor is another tuple in the same slot. */
static void live_sockets_settle_all_but_the_first_ack(void **state)
{
	struct tg_live l = {.hash = 0x123456789abcdef1ULL, .seq = 1000, .ack = 2000};
	uint64_t seed = 7;
	int i;

	(void)state;
	assert_false(tg_live_knows(&l, l.hash, 1000, 2000));
	assert_true(tg_live_knows(&l, l.hash, 1000, 2001));
	assert_true(tg_live_knows(&l, l.hash, 1001, 2000));
	assert_true(tg_live_knows(&l, l.hash, 1001, 2001));
	assert_false(tg_live_knows(&l, l.hash ^ 2, 1001, 2001));
	assert_false(tg_live_knows(&l, l.hash ^ 1ULL << 63, 1001, 2001));
	l.hash = 0;
	assert_false(tg_live_knows(&l, 0, 1001, 2001));
	for (i = 0; i < 100000; i++)
		assert_true(tg_live_slot(tg_splitmix(&seed)) < TG_LIVE_SLOTS);
}

int tg_test_filter(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(live_sockets_settle_all_but_the_first_ack),
		cmocka_unit_test(both_cells_in_one_line),
		cmocka_unit_test(spreads_neighbours_evenly),
		cmocka_unit_test(collisions_depend_on_the_key),
		cmocka_unit_test(every_bit_counts),
		cmocka_unit_test(bits_are_one_to_one),
		cmocka_unit_test(cells),
		cmocka_unit_test(ticks),
	};

	return cmocka_run_group_tests_name("socket filter", tests, NULL, NULL);
}
