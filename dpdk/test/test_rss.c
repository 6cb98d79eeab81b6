/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys by which frames are spread, against DPDK's own Toeplitz hash: both directions on one core, every
 * queue as often as any other; and what no such key can do.
 */
#include <rte_thash.h>

#include "rss.h"
#include "../bench/traffic.h"
#include "tests.h"

#define ENTRIES (1U << TG_RSS_INDEX_BITS)

static uint32_t hash4(uint16_t pattern, uint32_t a, uint32_t b)
{
	uint8_t key[TG_RSS_KEY_MAX];
	uint32_t tuple[2] = {a, b};

	tg_rss_fill(key, pattern);
	return rte_softrss(tuple, 2, key);
}

static uint32_t hash6(uint16_t pattern, const uint32_t a[4], const uint32_t b[4])
{
	uint8_t key[TG_RSS_KEY_MAX];
	uint32_t tuple[8] = {a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]};

	tg_rss_fill(key, pattern);
	return rte_softrss(tuple, 8, key);
}

/* A pattern that may be drawn, from some place on. */
static uint16_t even_from(uint16_t pattern)
{
	while (!tg_rss_is_even(pattern))
		pattern++;
	return pattern;
}

static void same_both_ways(void)
{
	uint64_t seed = 5;
	uint32_t wrong = 0, n, i;

	for (n = 0; n < 2000; n++) {
		uint16_t pattern = even_from((uint16_t)tg_splitmix(&seed));
		uint32_t a[4], b[4];

		for (i = 0; i < 4; i++) {
			a[i] = (uint32_t)tg_splitmix(&seed);
			b[i] = (uint32_t)tg_splitmix(&seed);
		}
		wrong += hash4(pattern, a[0], b[0]) != hash4(pattern, b[0], a[0]);
		wrong += hash6(pattern, a, b) != hash6(pattern, b, a);
	}
	CHECK_EQ(wrong, 0, "hashes that differ by direction");
}

/* The count of the most frequent entry among the clients of one network. */
static uint32_t most_hit(uint16_t pattern, uint32_t network, uint32_t clients)
{
	uint32_t hits[ENTRIES] = {0}, most = 0, i;

	for (i = 0; i < clients; i++) {
		uint32_t n = ++hits[hash4(pattern, network + i, 0xc6336407) & (ENTRIES - 1)];

		most = n > most ? n : most;
	}
	return most;
}

/* Each key that may be drawn spreads a /24 and a /16 evenly. Not all of those with 6 to 10 ones do:
 * 0x5555 has four hashes in all. */
static void spread_evenly(void)
{
	uint32_t drawn = 0, pattern, bad = 0;
	uint64_t seed = 9;

	for (pattern = 0; pattern < 1 << 16; pattern++) {
		if (!tg_rss_is_even((uint16_t)pattern))
			continue;
		drawn++;
		bad += most_hit((uint16_t)pattern, 0xcb007100, 256) != 256 / ENTRIES;
		if (drawn % 512 == 0)
			bad += most_hit((uint16_t)pattern, (uint32_t)tg_splitmix(&seed) & 0xffff0000,
					65536) != 65536 / ENTRIES;
	}
	CHECK_EQ(drawn, 18432, "keys that may be drawn");
	CHECK_EQ(bad, 0, "keys that leave queues empty");
	CHECK(!tg_rss_is_even(0x5555) && !tg_rss_is_even(0) && !tg_rss_is_even(0xffff),
	      "keys of few hashes are not drawn");
	CHECK_EQ(most_hit(0x5555, 0xcb007100, 256), 64, "0x5555 has four hashes for a /24");
}

/* The limit: sources whose halves have the same exclusive or share a core under every key. */
static void one_core_under_every_key(void)
{
	uint32_t pattern, apart = 0;

	for (pattern = 0; pattern < 1 << 16; pattern += 97)
		apart += hash4((uint16_t)pattern, 0x0a000001, 0xc6336407) !=
			 hash4((uint16_t)pattern, 0x0a120013, 0xc6336407);
	CHECK_EQ(apart, 0, "keys that tell 10.0.0.1 from 10.18.0.19");
}

void test_rss(void)
{
	same_both_ways();
	spread_evenly();
	one_core_under_every_key();
}
