/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources share room: the places of a table, and the newcomers of one tick.
 */
#include "test.h"
#include "../share.h"

/* Takes a place for a source, if the source is due one. */
static bool share_take(uint32_t *cells, uint64_t first, uint8_t family, uint32_t max)
{
	static const struct tg_siphash_key key = {0x1111222233334444ULL, 0x5555666677778888ULL};
	struct tg_share s = tg_share_of(first, family, &key);
	uint32_t i;

	for (i = 0; i < TG_SHARE_LEVELS && s.level[i]; i++)
		if (!tg_share_admits(i, cells[tg_share_cell(s.level[i], 0)],
				     cells[tg_share_cell(s.level[i], 1)], cells[TG_SHARE_ALL], max))
			return false;
	for (i = 0; i < TG_SHARE_LEVELS && s.level[i]; i++) {
		cells[tg_share_cell(s.level[i], 0)]++;
		cells[tg_share_cell(s.level[i], 1)]++;
	}
	cells[TG_SHARE_ALL]++;
	return true;
}

/* However many sources take all they can, one part in n + 1 is left, and a source that has nothing is
 * admitted; a /48 of IPv6 is one source, however many /64s it has. */
static void shares(void **state)
{
	static uint32_t cells[TG_SHARE_CELLS];
	static const uint32_t many[] = {1, 10, 1000};
	const uint32_t max = 16384;
	uint32_t i, n, turn, left;
	uint64_t prefix;

	(void)state;
	for (i = 0; i < 3; i++) {
		n = many[i];
		memset(cells, 0, sizeof(cells));
		for (turn = 0; turn < 2 * max / n; turn++)
			for (prefix = 0; prefix < n; prefix++)
				share_take(cells, 0x0100000a + (prefix << 16), 4, max);
		left = max - cells[TG_SHARE_ALL];
		assert_in_range(left, max / (n + 1) - 1, max / (n + 1) + 1 + n / 50);
		assert_true(share_take(cells, 0x01020304, 4, max));
	}
	memset(cells, 0, sizeof(cells));
	for (prefix = 0; prefix < 65536; prefix++)
		share_take(cells, 0xffeeddccb820ULL | (prefix >> 8 & 255) << 48 | prefix << 56, 6,
			   max);
	assert_in_range(cells[TG_SHARE_ALL], max / 2 - 1, max / 2 + 1);
	assert_true(share_take(cells, 0x01eeddccb820ULL, 6, max));
	/* one /56 alone gets a third */
	memset(cells, 0, sizeof(cells));
	for (prefix = 0; prefix < 65536; prefix++)
		share_take(cells, 0xffeeddccb820ULL | prefix << 56, 6, max);
	assert_in_range(cells[TG_SHARE_ALL], max / 3 - 1, max / 3 + 1);
	/* decrementing too often leaves zero */
	assert_true(tg_share_admits(0, (uint32_t)-5, 7, (uint32_t)-1, 1));
}

static bool lately_bring(uint32_t *cells, uint64_t first, uint32_t max, uint32_t tick)
{
	static const struct tg_siphash_key key = {0x1111222233334444ULL, 0x5555666677778888ULL};
	struct tg_share s = tg_share_of(first, 4, &key);
	uint32_t *a = &cells[tg_share_cell(s.level[0], 0)], *b = &cells[tg_share_cell(s.level[0], 1)];

	if (!tg_lately_admits(0, *a, *b, cells[TG_SHARE_ALL], max, tick))
		return false;
	*a = tg_lately_add(*a, tick, 1);
	*b = tg_lately_add(*b, tick, 1);
	cells[TG_SHARE_ALL] = tg_lately_add(cells[TG_SHARE_ALL], tick, 1);
	return true;
}

/* The newcomers of one tick are shared as a table is; the next tick starts over; and when the room
 * is used up, a source without newcomers is still admitted. */
static void lately(void **state)
{
	static uint32_t cells[TG_SHARE_CELLS];
	const uint32_t max = 1024;
	uint32_t i, n;

	(void)state;
	for (i = n = 0; i < 3000; i++)
		n += lately_bring(cells, 0x0100000a, max, 0x7ff);
	assert_in_range(n, max / 2, max / 2 + 1);
	for (i = n = 0; i < 3000; i++) /* each brings one; a few share the cells of others */
		n += lately_bring(cells, 0x0200000a + ((uint64_t)i << 16), max, 0x7ff);
	assert_in_range(n, 2950, 3000);
	assert_false(lately_bring(cells, 0x0100000a, max, 0x7ff));
	for (i = n = 0; i < 3000; i++)
		n += lately_bring(cells, 0x0100000a, max, 0x800);
	assert_in_range(n, max / 2, max / 2 + 1);
	/* who leaves is not counted; nobody leaves who did not come */
	assert_int_equal(tg_lately(tg_lately_add(tg_lately_add(0, 5, 1), 5, -1), 5), 0);
	assert_int_equal(tg_lately(tg_lately_add(tg_lately_add(0, 5, 1), 6, -1), 6), 0);
}

int tg_test_share(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares),
		cmocka_unit_test(lately),
	};

	return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
