/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit of what one source begins, against an exact bucket for each source: that no source ever
 * gets more, how seldom one gets less, that this depends on a secret key, and that the memory is what it is.
 */
#include "test.h"
#include "../source_limit.h"

#define NS 1000000000ULL

struct sketch {
	uint64_t cells[TG_LIMIT_CELLS];
	struct tg_siphash_key key;
};

static struct sketch *sketch_new(uint64_t seed)
{
	struct sketch *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->key = (struct tg_siphash_key){tg_splitmix(&seed), tg_splitmix(&seed)};
	return s;
}

static void cells_of(struct sketch *s, uint64_t prefix, uint64_t *cells[TG_LIMIT_ROWS])
{
	uint64_t hash = tg_limit_hash(4, prefix, &s->key);
	uint32_t row;

	for (row = 0; row < TG_LIMIT_ROWS; row++)
		cells[row] = &s->cells[tg_limit_cell(hash, row)];
}

static bool sketch_take(struct sketch *s, uint64_t prefix, uint64_t cost, uint64_t now)
{
	uint64_t *cells[TG_LIMIT_ROWS];

	cells_of(s, prefix, cells);
	return tg_limit_take(cells, cost, now);
}

/* How many connections the sketch attributes to a source, if no time passes. */
static uint64_t sketch_count(struct sketch *s, uint64_t prefix, uint64_t cost, uint64_t now)
{
	uint64_t *cells[TG_LIMIT_ROWS], least = ~0ULL, level;
	uint32_t row;

	cells_of(s, prefix, cells);
	for (row = 0; row < TG_LIMIT_ROWS; row++) {
		level = tg_limit_level(*cells[row], now);
		least = level < least ? level : least;
	}
	return least / cost;
}

/* The bucket that a source would have alone. */
static bool exact_take(uint64_t *empty, uint64_t cost, uint64_t now)
{
	uint64_t level = *empty > now ? *empty - now : 0;

	if (level + cost > (cost > NS ? cost : NS))
		return false;
	*empty = now + level + cost;
	return true;
}

/* While time stands still it is a count-min sketch: it never counts too little, and counts more than
 * e N / W too much for at most a part of e^-rows of the sources. */
static void limit_error_bound(void **state)
{
	enum { SOURCES = 50000, CONNECTIONS = 400000 };
	const uint64_t cost = 1000, now = 5 * NS; /* a million a second: none is refused */
	uint32_t *exact = calloc(SOURCES, sizeof(*exact)), beyond = 0, wrong = 0, i;
	uint64_t seed = 7, bound, got;
	struct sketch *s = sketch_new(1);

	(void)state;
	assert_non_null(exact);
	for (i = 0; i < CONNECTIONS; i++) {
		/* few have many, and many have few: the product of two uniform numbers */
		uint64_t r = tg_splitmix(&seed);
		uint32_t source = (uint32_t)(((r & 0xffff) * (r >> 16 & 0xffff) >> 16) * SOURCES >>
					     16);

		exact[source]++;
		assert_true(sketch_take(s, source, cost, now));
	}
	bound = (uint64_t)(2.7183 * CONNECTIONS / TG_LIMIT_ROW);
	for (i = 0; i < SOURCES; i++) {
		got = sketch_count(s, i, cost, now);
		if (got < exact[i])
			fail_msg("source %u: %llu counted of %u", i, (unsigned long long)got,
				 exact[i]);
		wrong += got != exact[i];
		beyond += got > exact[i] + bound;
	}
	printf("source limit: %u connections of %u sources: %u counts are too large, %u by more "
	       "than %u (bound: %u sources)\n",
	       CONNECTIONS, SOURCES, wrong, beyond, (uint32_t)bound, (uint32_t)(SOURCES * 0.0183));
	assert_true(wrong > 0); /* there are six times as many sources as cells in a row */
	if (beyond > SOURCES * 0.0183)
		fail_msg("%u of %u counts are too large by more than %u", beyond, SOURCES,
			 (uint32_t)bound);
	free(exact);
	free(s);
}

/* For 20 s, 20,000 sources begin a connection every two seconds, and 1,000 begin as many as they
 * can, ten times what they may. None gets more than a bucket of its own would give; of the honest ones'
 * connections, next to all are admitted. */
static void limit_in_motion(void **state)
{
	enum { HONEST = 20000, GREEDY = 1000, LIMIT = 20, SECONDS = 20 };
	const uint64_t cost = NS / LIMIT;
	uint64_t *exact = calloc(HONEST + GREEDY, sizeof(*exact)), seed = 3, now = NS,
		 end = (1 + SECONDS) * NS;
	uint32_t *got = calloc(HONEST + GREEDY, sizeof(*got)),
		 *could = calloc(HONEST + GREEDY, sizeof(*could));
	uint32_t asked = 0, refused = 0, i, least = ~0U;
	struct sketch *s = sketch_new(2);

	(void)state;
	assert_non_null(exact);
	assert_non_null(got);
	assert_non_null(could);
	while (now < end) {
		uint64_t r = tg_splitmix(&seed);
		/* 10,000 honest connections a second and 200,000 of the greedy ones */
		bool honest = (r >> 32) % 21 == 0;

		now += NS / 210000;
		i = honest ? (uint32_t)r % HONEST : HONEST + (uint32_t)r % GREEDY;
		could[i] += exact_take(&exact[i], cost, now);
		asked += honest;
		if (sketch_take(s, i, cost, now))
			got[i]++;
		else
			refused += honest;
	}
	for (i = 0; i < HONEST + GREEDY; i++)
		if (got[i] > could[i])
			fail_msg("source %u got %u connections, alone it would have got %u", i,
				 got[i], could[i]);
	for (; i-- > HONEST;)
		least = got[i] < least ? got[i] : least;
	printf("source limit: of 1000 greedy sources each got %u to %u of %u connections; of %u of "
	       "20000 honest ones %u were refused\n",
	       least, LIMIT * (SECONDS + 1), LIMIT * (SECONDS + 1), asked, refused);
	assert_true(least >= LIMIT * SECONDS / 2); /* limited, not shut out */
	/* All four cells are a greedy source's with a probability of (1000 / 8192)^4, 1 in 4,500. */
	if (refused > asked / 1000)
		fail_msg("%u of %u honest connections were refused", refused, asked);
	free(exact);
	free(got);
	free(could);
	free(s);
}

/* A limit below one a second, a clock that stands still or steps back. */
static void limit_edges(void **state)
{
	struct sketch *s = sketch_new(4);
	uint32_t i, n;

	(void)state;
	assert_true(sketch_take(s, 1, NS, 100 * NS));
	assert_false(sketch_take(s, 1, NS, 100 * NS));
	assert_false(sketch_take(s, 1, NS, 50 * NS)); /* back: nothing is drained */
	assert_false(sketch_take(s, 1, NS, 101 * NS - 1));
	assert_true(sketch_take(s, 1, NS, 101 * NS));
	assert_true(sketch_take(s, 2, NS, 101 * NS));
	for (i = n = 0; i < 1000; i++)
		n += sketch_take(s, 3, NS / 100, 7 * NS);
	assert_int_equal(n, 100); /* a second's worth at once */
	for (i = n = 0; i < 1000; i++)
		n += sketch_take(s, 3, NS / 100, 7 * NS + i * NS / 1000);
	assert_int_equal(n, 99); /* and as many in the next, of ten times as many */
	free(s);
}

/* A bucket is filled up to a level, never emptied to it. */
static void limit_fill(void **state)
{
	uint64_t cell = 500;

	(void)state;
	tg_limit_fill(&cell, 700, 100);
	assert_int_equal(cell, 700);
	tg_limit_fill(&cell, 600, 100); /* it is fuller already */
	assert_int_equal(cell, 700);
}

/* Who shares cells with whom is the key's secret. */
static void limit_depends_on_the_key(void **state)
{
	struct tg_siphash_key a = {1, 2}, b = {1, 3};
	uint32_t i, row, meet[2] = {0, 0};

	(void)state;
	for (i = 1; i < 1000000; i++) {
		uint64_t h = tg_limit_hash(4, i, &a);

		if (tg_limit_cell(h, 0) != tg_limit_cell(tg_limit_hash(4, 0, &a), 0))
			continue;
		meet[0]++;
		h = tg_limit_hash(4, i, &b);
		meet[1] += tg_limit_cell(h, 0) == tg_limit_cell(tg_limit_hash(4, 0, &b), 0);
		for (row = 0; row < TG_LIMIT_ROWS; row++)
			assert_int_equal(tg_limit_cell(h, row) / TG_LIMIT_ROW, row);
	}
	assert_true(meet[0] > 80 && meet[0] < 170); /* 122 */
	assert_true(meet[1] < 5); /* of them one in 8192 */
	assert_true(tg_limit_hash(4, 5, &a) != tg_limit_hash(6, 5, &a));
}

static void limit_prefixes(void **state)
{
	union tg_addr four = {.w = {TG_WIRE32(198, 51, 100, 201)}};
	union tg_addr six = {.w = {TG_WIRE32(0x20, 1, 0x0d, 0xb8), TG_WIRE32(0x12, 0x34, 0x56, 0x78),
				   TG_WIRE32(1, 2, 3, 4), TG_WIRE32(5, 6, 7, 8)}};
	union tg_addr other = six;
	uint64_t want;

	(void)state;
	assert_int_equal(tg_limit_prefix(4, &four, 32), TG_WIRE32(198, 51, 100, 201));
	assert_int_equal(tg_limit_prefix(4, &four, 28), TG_WIRE32(198, 51, 100, 192));
	assert_int_equal(tg_limit_prefix(4, &four, 24), TG_WIRE32(198, 51, 100, 0));
	assert_int_equal(tg_limit_prefix(4, &four, 9), TG_WIRE32(198, 0, 0, 0));
	assert_int_equal(tg_limit_prefix(4, &four, 8), TG_WIRE32(198, 0, 0, 0));
	assert_int_equal(tg_limit_prefix(6, &six, 64), six.d[0]);
	other.w[1] = TG_WIRE32(0x12, 0x34, 0x56, 0);
	assert_int_equal(tg_limit_prefix(6, &six, 56), other.d[0]);
	other.w[1] = TG_WIRE32(0x10, 0, 0, 0);
	assert_int_equal(tg_limit_prefix(6, &six, 36), other.d[0]);
	want = TG_WIRE32(0x20, 1, 0, 0);
	assert_int_equal(tg_limit_prefix(6, &six, 16), want);
}

int tg_test_source_limit(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limit_error_bound),
		cmocka_unit_test(limit_in_motion),
		cmocka_unit_test(limit_edges),
		cmocka_unit_test(limit_fill),
		cmocka_unit_test(limit_depends_on_the_key),
		cmocka_unit_test(limit_prefixes),
	};

	_Static_assert(sizeof(((struct sketch *)0)->cells) == 256 << 10, "256 KiB, whoever comes");
	return cmocka_run_group_tests_name("source limit", tests, NULL, NULL);
}
