/* SPDX-License-Identifier: Apache-2.0
 *
 * The patrol's judgement: what it reads of a frame, the codepoint and its
 * checksum, when filters expire and what they do.
 */
#include "test.h"

#include "../patrol.h"

static void build_v4(uint8_t *frame, uint8_t tos, uint16_t id)
{
	static const uint8_t ip[20] = {0x45, 0, 0,   28, 0, 0, 0,   0,  64, 17,
				       0,    0, 192, 0,  2, 1, 198, 18, 0,  1};

	memset(frame, 0, 42);
	frame[12] = 8;
	memcpy(frame + 14, ip, 20);
	frame[15] = tos;
	frame[18] = (uint8_t)(id >> 8);
	frame[19] = (uint8_t)id;
	tg_store16(frame + 24, tg_csum_finish(tg_csum_add(0, frame + 14, 20)));
}

static void codepoint_every_residue(void **state)
{
	uint32_t id;

	(void)state;
	for (id = 0; id < 65536; id++) {
		uint8_t frame[42], want[42];
		struct tg_patrol_packet pkt = {0};

		build_v4(frame, 0x03, (uint16_t)id);
		build_v4(want, 47 << 2 | 3, (uint16_t)id);
		assert_int_equal(tg_patrol_parse(&pkt, frame, frame + 42), TG_PATROL_IP);
		tg_patrol_set_dscp(frame + 14, &pkt, 47);
		assert_memory_equal(frame, want, 42);
		tg_patrol_set_dscp(frame + 14, &pkt, 0);
		build_v4(want, 3, (uint16_t)id);
		assert_memory_equal(frame, want, 42);
	}
}

static void codepoint_v6(void **state)
{
	uint8_t ip[40] = {0x6a, 0x5c, 0x12, 0x34}; /* class 0xa5, flow 0xc1234 */
	struct tg_patrol_packet pkt = {.family = 6, .tclass = 0xa5};

	(void)state;
	tg_patrol_set_dscp(ip, &pkt, 47); /* 0xbc | 1 */
	assert_int_equal(ip[0], 0x6b);
	assert_int_equal(ip[1], 0xdc);
	assert_int_equal(ip[2], 0x12);
	assert_int_equal(pkt.tclass, 0xbd);
}

static void frames_that_lie(void **state)
{
	uint8_t frame[42];
	struct tg_patrol_packet pkt = {0};
	size_t len;

	(void)state;
	build_v4(frame, 0, 1);
	for (len = 0; len < 42; len++) {
		uint8_t *cut = tg_test_exact(frame, len);

		assert_int_equal(tg_patrol_parse(&pkt, cut, cut + len),
				 len < 34 ? TG_PATROL_BROKEN : TG_PATROL_IP);
		free(cut);
	}
	frame[14] = 0x44; /* header of 16 bytes */
	assert_int_equal(tg_patrol_parse(&pkt, frame, frame + 42), TG_PATROL_BROKEN);
	frame[14] = 0x65;
	assert_int_equal(tg_patrol_parse(&pkt, frame, frame + 42), TG_PATROL_BROKEN);
	frame[12] = 8;
	frame[13] = 6; /* ARP */
	assert_int_equal(tg_patrol_parse(&pkt, frame, frame + 42), TG_PATROL_OTHER);
}

static void filters_expire(void **state)
{
	struct tg_patrol_filter f = {.action = TG_FILTER_BLOCK, .expires_s = 100};

	(void)state;
	assert_int_equal(tg_patrol_ask(&f, 99), TG_FILTER_BLOCK);
	assert_int_equal(tg_patrol_ask(&f, 100), TG_FILTER_NONE);
	f.expires_s = 0;
	assert_int_equal(tg_patrol_ask(&f, 0xffffffff), TG_FILTER_BLOCK);
	f.expires_s = 5; /* beyond the wrap of 32 bits of seconds */
	assert_int_equal(tg_patrol_ask(&f, 0xfffffff0), TG_FILTER_BLOCK);

	/* 2^(4-1) = 8 packets/s over 10 s */
	f = (struct tg_patrol_filter){
		.action = TG_FILTER_BLOCK, .floor_log2 = 4, .window_s = 10, .window_began_s = 50};
	f.packets = 79;
	assert_int_equal(tg_patrol_ask(&f, 59), TG_FILTER_BLOCK); /* its window is not over */
	f.packets = 80;
	assert_int_equal(tg_patrol_ask(&f, 60), TG_FILTER_BLOCK); /* just enough */
	assert_int_equal(f.window_began_s, 60);
	f.packets = 159;
	assert_int_equal(tg_patrol_ask(&f, 70), TG_FILTER_NONE);
	f.packets = 10000; /* it stays expired */
	assert_int_equal(tg_patrol_ask(&f, 71), TG_FILTER_NONE);
}

static void actions(void **state)
{
	(void)state;
	assert_int_equal(tg_patrol_apply(TG_FILTER_BLOCK, true), TG_FILTER_BLOCK);
	assert_int_equal(tg_patrol_apply(TG_FILTER_BLOCK, false), TG_FILTER_BLOCK);
	assert_int_equal(tg_patrol_apply(TG_FILTER_BLOCK_TS0, true), TG_FILTER_NONE);
	assert_int_equal(tg_patrol_apply(TG_FILTER_BLOCK_TS0, false), TG_FILTER_BLOCK_TS0);
	assert_int_equal(tg_patrol_apply(TG_FILTER_CLEAR_TS, true), TG_FILTER_CLEAR_TS);
	assert_int_equal(tg_patrol_apply(TG_FILTER_CLEAR_TS, false), TG_FILTER_NONE);
	assert_int_equal(tg_patrol_apply(TG_FILTER_NONE, false), TG_FILTER_NONE);
}

/* The other bucket's other bucket is the first, in tables of any size; hardly ever are they the same. */
static void buckets_pair_up(void **state)
{
	uint64_t rnd = 7;
	uint32_t i, n, same;

	(void)state;
	for (n = 16; n < 1 << 28; n = n * 3 - 5) {
		for (i = same = 0; i < 1000; i++) {
			uint32_t tag = (uint32_t)tg_splitmix(&rnd),
				 b = (uint32_t)(tg_splitmix(&rnd) % n);
			uint32_t o = tg_patrol_other(b, tag, n);

			assert_true(o < n);
			assert_int_equal(tg_patrol_other(o, tag, n), b);
			same += o == b;
		}
		assert_true(same < 20 + 2000 / n);
	}
}

/* Every /24 of a /14 whose /18s are of all kinds. */
static void sources_of_a_root(void **state)
{
	/* by /18: 0 none, 1 whole, 2 single /24s, 3 single /24s and some allowed in part */
	static const uint8_t kind[16] = {2, 0, 3, 1, 1, 2, 0, 0, 2, 3, 3, 1, 0, 2, 1, 3};
	uint64_t root = 70000ULL << TG_SOURCE_ROOT_FIRST, leaf = 0x8000000000000005;
	uint32_t i, number, leaves = 0;

	(void)state;
	for (i = 0; i < 65536; i++)
		assert_int_equal(tg_bits16(i), __builtin_popcount(i));
	for (i = 0; i < 16; i++) {
		root |= (uint64_t)(kind[i] >= 2) << i;
		root |= (uint64_t)(kind[i] & 1) << (TG_SOURCE_ROOT_FLAGS + i);
	}
	for (i = 0; i < 1024; i++) {
		uint32_t slash24 = 0x123 << 10 | i, k = kind[i >> 6];
		enum tg_source_class class = tg_source_ask_root(root, slash24, &number);
		bool set = leaf >> (i & 63) & 1;

		assert_int_equal(tg_source_root(slash24), 0x123);
		if (k < 2) {
			assert_int_equal(class, k ? TG_SOURCE_ALL : TG_SOURCE_NONE);
			continue;
		}
		assert_int_equal(class, TG_SOURCE_LEAF);
		assert_int_equal(number, 70000 + leaves);
		leaves += (i & 63) == 63;
		class = tg_source_ask_leaf(root, leaf, slash24);
		assert_int_equal(class, set      ? TG_SOURCE_ALL
					: k == 3 ? TG_SOURCE_PART
						 : TG_SOURCE_NONE);
	}
}

int tg_test_patrol(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codepoint_every_residue),
		cmocka_unit_test(codepoint_v6),
		cmocka_unit_test(frames_that_lie),
		cmocka_unit_test(filters_expire),
		cmocka_unit_test(actions),
		cmocka_unit_test(buckets_pair_up),
		cmocka_unit_test(sources_of_a_root),
	};

	return cmocka_run_group_tests_name("patrol", tests, NULL, NULL);
}
