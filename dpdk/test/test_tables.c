/* SPDX-License-Identifier: Apache-2.0
 *
 * Flow table and whitelist: as full as they may be, swapped, refused.
 */
#include "../bench/traffic.h"
#include "tests.h"

#define MANY 100000

static struct tg_flow_key key_of(uint32_t i, uint64_t *hash, const struct tg_flow_table *t)
{
	struct tg_packet pkt = tg_traffic_flow(i);
	struct tg_flow_key key;

	if (i % 3 == 0) {
		pkt.family = 6;
		pkt.src.w[2] = i;
	}
	key = tg_flow_key_of(&pkt, TG_TO_SERVER);
	*hash = tg_flow_key_hash(t, &key);
	return key;
}

static uint32_t count_found(struct tg_flow_table *t, uint32_t from, uint32_t to)
{
	uint32_t i, n = 0;
	uint64_t hash;

	for (i = from; i < to; i++) {
		struct tg_flow_key key = key_of(i, &hash, t);
		struct tg_flow_entry *e = tg_flow_table_find(t, &key, hash);

		n += e && e->flow.client_isn == i;
	}
	return n;
}

static uint32_t insert(struct tg_flow_table *t, uint32_t from, uint32_t to, uint8_t flags)
{
	uint32_t i, n = 0;
	uint64_t hash;

	for (i = from; i < to; i++) {
		struct tg_flow_key key = key_of(i, &hash, t);
		struct tg_flow flow = {.client_isn = i, .state = TG_FLOW_READY, .flags = flags};

		n += tg_flow_table_insert(t, &key, hash, i * 2654435761U, &flow) != NULL;
	}
	return n;
}

static void flow_table(void)
{
	struct tg_flow_table t = {0};
	struct tg_siphash_key key = {1, 2};
	uint64_t hash;

	CHECK(tg_flow_table_init(&t, MANY, key), "memory");
	CHECK_EQ(insert(&t, 0, MANY, 0), MANY, "as many as there is room for");
	CHECK_EQ(count_found(&t, 0, MANY), MANY, "found");
	CHECK_EQ(count_found(&t, MANY, 2 * MANY), 0, "not found");
	CHECK_EQ(insert(&t, MANY, 2 * MANY, 0), MANY / 4, "both families together: then refused");
	CHECK_EQ(count_found(&t, 0, MANY), MANY, "existing flows stay");
	CHECK(tg_swap_turn(&t.swap), "swap");
	CHECK(!tg_swap_turn(&t.swap), "no second swap before the cleaner has run");
	CHECK_EQ(count_found(&t, 0, MANY / 2), MANY / 2, "second chance");
	tg_swap_clean(&t.swap);
	CHECK(tg_swap_turn(&t.swap), "swap");
	CHECK_EQ(count_found(&t, 0, MANY), MANY / 2, "flows in use stay, the others are gone");
	{
		struct tg_flow_key k = key_of(5, &hash, &t);

		tg_flow_table_remove(&t, &k, hash);
	}
	CHECK_EQ(count_found(&t, 0, 10), 9, "removed");
	tg_flow_table_free(&t);
}

static bool front_has(const struct tg_swap *s, uint32_t hash)
{
	return (tg_swap_front(s)[TG_PRESENCE_FRONT_WORD(hash)] & tg_presence_front_bit(hash)) != 0;
}

/* The front answers for both generations, and for none before them. */
static void front_of_both(void)
{
	const uint32_t first = 0x12345678, second = 0x9abcdef0, third = 0x55aa55aa;
	struct tg_swap s = {0};

	CHECK(tg_swap_init(&s, 4096, 0), "memory");
	tg_swap_note(&s, first);
	CHECK(front_has(&s, first) && !front_has(&s, second), "noted in active");
	CHECK(tg_swap_turn(&s), "swap");
	CHECK(front_has(&s, first), "it is in history now");
	tg_swap_note(&s, second);
	CHECK(front_has(&s, first) && front_has(&s, second), "one of each generation");
	tg_swap_clean(&s);
	CHECK(tg_swap_turn(&s), "swap");
	CHECK(front_has(&s, second) && !front_has(&s, first), "the first is gone");
	tg_swap_note(&s, third);
	tg_swap_clean(&s);
	CHECK(tg_swap_turn(&s), "swap");
	CHECK(front_has(&s, third) && !front_has(&s, second), "so is the second");
	tg_swap_clean(&s);
	CHECK(tg_swap_turn(&s), "swap");
	CHECK(!front_has(&s, first) && !front_has(&s, second) && !front_has(&s, third),
	      "nothing is left");
	tg_swap_free(&s);
}

static void ended_flows_make_room(void)
{
	struct tg_flow_table t = {0};
	struct tg_siphash_key key = {1, 2};

	CHECK(tg_flow_table_init(&t, 1024, key), "memory");
	CHECK_EQ(insert(&t, 0, 20000, TG_FLOW_CLOSED), 20000, "ended flows");
	CHECK(t.swap.active->used <= t.room && t.swap.active->used > t.room - 8,
	      "no more than there may be");
	CHECK_EQ(insert(&t, 30000, 31000, 0), 1000, "new ones take their places");
	CHECK(t.swap.active->used <= t.room && t.swap.active->used > t.room - 8,
	      "no more than there may be");
	CHECK_EQ(count_found(&t, 30000, 31000), 1000, "found");
	CHECK(count_found(&t, 20000 - t.room / 2, 20000) > t.room / 2 - 1000,
	      "the oldest are evicted");
	tg_flow_table_free(&t);
}

/* At its limits, of all kinds: every flow finds a bucket. */
static void every_place_taken(void)
{
	struct tg_flow_table t = {0};
	struct tg_siphash_key key = {3, 4};
	uint32_t i, n[3] = {0};
	uint64_t hash;

	CHECK(tg_flow_table_init(&t, 1 << 20, key), "memory");
	CHECK_EQ(t.buckets, 1 << 18, "a million flows in 256 MiB");
	for (i = 0; i < 3000000; i++) {
		struct tg_flow_key k = key_of(i, &hash, &t);
		struct tg_flow flow = {.state = TG_FLOW_READY, .waits = i % 2 ? TG_FLOW_SILENT : 0};

		n[i % 2] += tg_flow_table_insert(&t, &k, hash, i, &flow) != NULL;
	}
	CHECK_EQ(n[0], tg_share_both(1 << 20), "flows with a place of their own");
	CHECK_EQ(n[1], 1500000, "flows that wait");
	CHECK_EQ(t.swap.active->used, tg_share_both(1 << 20) + 2 * t.waiting, "all of them");
	tg_flow_table_free(&t);
}

static uint64_t white_key(uint32_t addr)
{
	union tg_addr src = {.w = {addr}};

	return tg_white_key(&src, 4, ~0U, ~0ULL);
}

static void whitelist(bool bitmap)
{
	struct tg_whitelist l = {0};
	uint32_t i, n = 0, found = 0;

	CHECK(tg_whitelist_init(&l, 1024, bitmap, 77), "memory");
	CHECK(!tg_whitelist_put(&l, 0), "0 is an empty place");
	for (i = 0; i < 4096; i++)
		n += tg_whitelist_put(&l, white_key(i * 77777U));
	CHECK_EQ(n, 4096, "no source is locked out");
	for (i = 0; i < 4096; i++)
		found += tg_whitelist_find(&l, white_key(i * 77777U));
	CHECK(bitmap ? found == n : found >= 1024 && found < 2048, "found");
	CHECK(tg_whitelist_put(&l, white_key(0)) && tg_whitelist_find(&l, white_key(0)),
	      "the newest is there");
	CHECK(tg_whitelist_put(&l, white_key(77777)), "another");
	CHECK(!tg_whitelist_find(&l, white_key(1)), "not found");
	CHECK(tg_whitelist_turn(&l), "swap");
	CHECK(tg_whitelist_find(&l, white_key(0)), "second chance");
	tg_swap_clean(&l.hash);
	if (bitmap)
		tg_swap_clean(&l.bits);
	CHECK(tg_whitelist_turn(&l), "swap");
	CHECK(tg_whitelist_find(&l, white_key(0)), "a source in use stays");
	CHECK(!tg_whitelist_find(&l, white_key(77777)), "an unused one is gone");
	CHECK(tg_whitelist_put(&l, 0x20010db800000001ULL), "an IPv6 prefix");
	CHECK(tg_whitelist_find(&l, 0x20010db800000001ULL), "found");
	tg_whitelist_free(&l);
}

void test_tables(void)
{
	flow_table();
	front_of_both();
	ended_flows_make_room();
	every_place_taken();
	whitelist(false);
	whitelist(true);
}
