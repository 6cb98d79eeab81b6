/* SPDX-License-Identifier: Apache-2.0
 *
 * The front of the SYN cache: it says that a SYN gets a cookie only where its bucket says so, too, and nearly
 * always where that does.
 */
#include "test.h"
#include "../proxy.h"
#include "../syn_cache_front.h"

static const struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};

#define SALT 0xfedcba9876543210ULL
#define EPOCH_TICKS 60000 /* a minute */

static struct tg_packet client(uint32_t n)
{
	struct tg_packet p = {.family = n & 1 ? 6 : 4,
			      .ports = tg_swap16(80) << 16 | (n * 40503 & 0xffff),
			      .seq = n,
			      .flags = TG_TCP_SYN,
			      .l3_off = TG_ETH_HDR_LEN};

	p.src.w[0] = n * 2654435761U;
	p.dst.w[0] = 0x010200c0;
	return p;
}

static uint32_t home_of(const struct tg_packet *p)
{
	return tg_halfopen_home(p, SALT, &key);
}

/* What the bucket itself decides of a newcomer. */
static bool bucket_is_full(const struct tg_halfopen_bucket *b, const struct tg_packet *syn,
			   uint32_t tick, uint64_t *oldest)
{
	uint64_t head = 0;

	*oldest = 0;
	return tg_halfopen_find(b, tg_halfopen_hash(syn, &key), syn, &head) == TG_HALFOPEN_WAYS &&
	       tg_halfopen_victim(b, tick, oldest) < TG_HALFOPEN_WAYS &&
	       tg_halfopen_lives(*oldest, tick);
}

static void keep(struct tg_halfopen_bucket *b, struct tg_halfopen_front *f,
		 const struct tg_packet *syn, uint32_t tick)
{
	static const uint8_t frame[64];
	struct tg_tcp_options o = {.mss = 1460, .wscale = TG_WSCALE_NONE};
	struct tg_synack a = {.options = o};
	uint64_t head = 0;
	uint32_t slot = tg_halfopen_victim(b, tick, &head);

	tg_halfopen_front_takes(f, slot, home_of(syn));
	tg_halfopen_fill(&b->halfopens[slot], syn, &o, &a, 1, frame);
	tg_halfopen_publish(&b->heads[slot], tg_halfopen_head(tg_halfopen_hash(syn, &key), tick, 1));
}

/* A SYN, as a plane has it. True if the front alone answered. */
static bool arrives(struct tg_halfopen_bucket *b, struct tg_halfopen_front *f,
		    const struct tg_packet *syn, uint32_t tick, uint64_t epoch)
{
	bool says = tg_halfopen_front_is_full(f, home_of(syn), tick, epoch);
	uint64_t oldest, head = 0;
	bool full = bucket_is_full(b, syn, tick, &oldest);

	if (says) {
		assert_true(full);
		assert_true(tg_halfopen_takes_cookie(b, epoch));
		return true;
	}
	if (full) {
		tg_halfopen_gives_cookie(b, epoch);
		tg_halfopen_front_note(f, oldest, epoch);
	} else if (tg_halfopen_find(b, tg_halfopen_hash(syn, &key), syn, &head) == TG_HALFOPEN_WAYS) {
		keep(b, f, syn, tick);
	}
	return false;
}

/* A client's ACK or RST frees its place. */
static void leaves(struct tg_halfopen_bucket *b, struct tg_halfopen_front *f,
		   const struct tg_packet *syn, uint32_t tick, bool done)
{
	uint64_t head = 0;
	uint32_t slot = tg_halfopen_find(b, tg_halfopen_hash(syn, &key), syn, &head);

	if (slot == TG_HALFOPEN_WAYS)
		return;
	b->heads[slot] = done ? tg_halfopen_done(head, tick) : 0;
	tg_halfopen_front_frees(f);
}

/* Clients of one bucket come, come again, complete and reset by chance, while the ticks wrap. */
static void agrees_with_the_bucket(void **state)
{
	struct tg_halfopen_bucket b = {.heads = {0}};
	struct tg_halfopen_front f = {0};
	uint64_t seed = 7, now = UINT32_MAX - 200000ULL, n;
	uint32_t alone = 0, full = 0;

	(void)state;
	for (n = 0; n < 400000; n++) {
		uint64_t r = tg_splitmix(&seed), oldest;
		struct tg_packet syn = client((uint32_t)(r >> 32) % 512);
		uint32_t tick;

		now += r % 100 == 0 ? r >> 20 & 0x3fff : r & 1;
		tick = (uint32_t)now;
		if (r >> 8 & 63) {
			full += bucket_is_full(&b, &syn, tick, &oldest);
			alone += arrives(&b, &f, &syn, tick, now / EPOCH_TICKS);
		} else {
			leaves(&b, &f, &syn, tick, r >> 16 & 1);
		}
	}
	assert_in_range(full, 100000, 390000);
	/* Eight prints of 256, and what had just changed. */
	assert_true(alone > full - full / 10);
	assert_true(alone < full);
}

/* Who has a place is known by a print, in any place; nobody is, but by it. */
static void prints(void **state)
{
	uint64_t seed = 3, n;
	uint32_t i;

	(void)state;
	for (n = 0; n < 100000; n++) {
		uint64_t all = tg_splitmix(&seed);
		uint32_t home = (uint32_t)tg_splitmix(&seed);
		bool has = false;

		if (n & 1) /* close to one that is there: borrows must not be taken for it */
			home = ((uint32_t)(all >> (8 * (n >> 1 & 7))) + (uint32_t)(n >> 4 & 3)) << 24;
		for (i = 0; i < TG_HALFOPEN_WAYS; i++)
			has |= (uint8_t)(all >> (8 * i)) == tg_halfopen_print(home);
		assert_int_equal(tg_halfopen_front_has(all, home), has);
	}
}

/* Buckets and prints are taken evenly, and independently of each other. */
static void spreads(void **state)
{
	uint32_t bucket[64] = {0}, print[256] = {0}, n;

	(void)state;
	for (n = 0; n < 1U << 20; n++) {
		struct tg_packet p = client(n);
		uint32_t home = home_of(&p);

		bucket[home & 63]++;
		if ((home & 63) == 17)
			print[tg_halfopen_print(home)]++;
	}
	for (n = 0; n < 64; n++)
		assert_in_range(bucket[n], 15360, 17408); /* 16,384 each; 8 sigma */
	for (n = 0; n < 256; n++)
		assert_in_range(print[n], 16, 128); /* 64 each */
}

/* Both secrets count. */
static void salts(void **state)
{
	struct tg_siphash_key other = {key.k0 + 1, key.k1};
	struct tg_packet p = client(5);

	(void)state;
	assert_int_not_equal(home_of(&p), tg_halfopen_home(&p, SALT, &other));
	assert_int_not_equal(home_of(&p), tg_halfopen_home(&p, SALT + 1, &key));
	assert_int_not_equal(home_of(&p), tg_presence_flow(&p, SALT));
}

/* Nothing is known at first, nor of another epoch, whatever the clock says. */
static void knows_nothing_at_first(void **state)
{
	struct tg_halfopen_front f = {0};
	uint64_t tick;

	(void)state;
	for (tick = 0; tick <= UINT32_MAX; tick += 0x00fffff1)
		assert_false(tg_halfopen_front_is_full(&f, 1U << 24, (uint32_t)tick, tick));
	tg_halfopen_front_note(&f, 100, 7);
	assert_true(tg_halfopen_front_is_full(&f, 1U << 24, 100, 7));
	assert_false(tg_halfopen_front_is_full(&f, 1U << 24, 100, 8));
	assert_true(tg_halfopen_front_is_full(&f, 1U << 24, 100 + TG_HALFOPEN_LIFE - 1, 7));
	assert_false(tg_halfopen_front_is_full(&f, 1U << 24, 100 + TG_HALFOPEN_LIFE, 7));
}

int tg_test_syn_cache_front(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_bucket),
		cmocka_unit_test(prints),
		cmocka_unit_test(spreads),
		cmocka_unit_test(salts),
		cmocka_unit_test(knows_nothing_at_first),
	};

	return cmocka_run_group_tests_name("syn_cache_front", tests, NULL, NULL);
}
