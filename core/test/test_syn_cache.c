/* SPDX-License-Identifier: Apache-2.0
 *
 * The SYN cache: who gets which place, what is kept and answered, when it is sent
 * again, which ACKs it accepts; and that places shared by threads are never mixed.
 */
#include "test.h"
#include "../proxy.h"

#include <pthread.h>

static const struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};

static struct tg_packet random_syn(uint64_t *seed, uint8_t family)
{
	struct tg_packet p = {.family = family, .seq = (uint32_t)tg_test_random(seed),
			      .ports = (uint32_t)tg_test_random(seed), .flags = TG_TCP_SYN,
			      .l3_off = TG_ETH_HDR_LEN};
	int i;

	for (i = 0; i < (family == 4 ? 1 : 4); i++) {
		p.src.w[i] = (uint32_t)tg_test_random(seed);
		p.dst.w[i] = (uint32_t)tg_test_random(seed);
	}
	return p;
}

static const struct tg_service svc = {.mss_v4 = 1460, .mss_v6 = 1440, .wscale = 8, .sack = 1,
				      .timestamps = 1, .ecn = 1};

/* As a plane does it. The place's number. */
static uint32_t keep(struct tg_half_bucket *b, const struct tg_packet *syn,
		     const struct tg_tcp_options *offered, uint64_t now_ns)
{
	static const uint8_t frame[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0};
	struct tg_synack a = tg_synack_agree(syn, offered, &svc);
	uint64_t hash = tg_half_hash(syn, &key), head = 0;
	uint32_t slot = tg_half_victim(b, TG_HALF_TICK(now_ns), &head);

	if (slot == TG_HALF_WAYS || !tg_half_swap(&b->heads[slot], head, TG_HALF_BUSY))
		return TG_HALF_WAYS;
	tg_half_fill(&b->halves[slot], syn, offered, &a, tg_half_isn(hash, now_ns), frame);
	tg_half_publish(&b->heads[slot], tg_half_head(hash, TG_HALF_TICK(now_ns), 1));
	return slot;
}

/* Held to SipHash over bytes laid out here one by one. */
static void hashes(void **state)
{
	uint64_t seed = 5;
	int n, i;

	(void)state;
	for (n = 0; n < 1000; n++) {
		uint8_t family = n & 1 ? 6 : 4, bytes[36];
		struct tg_packet p = random_syn(&seed, family);
		int len = family == 4 ? 4 : 16;

		for (i = 0; i < len; i++) {
			bytes[i] = (uint8_t)(p.src.w[i / 4] >> (8 * (i % 4)));
			bytes[len + i] = (uint8_t)(p.dst.w[i / 4] >> (8 * (i % 4)));
		}
		for (i = 0; i < 4; i++)
			bytes[2 * len + i] = (uint8_t)(p.ports >> (8 * i));
		assert_int_equal(tg_half_hash(&p, &key),
				 tg_siphash24(&key, bytes, (size_t)(2 * len + 4)));
	}
}

/* Nothing that is sent tells the bucket: ISNs of one bucket are spread evenly over
 * the values of their low and of their high byte. */
static void isn_hides_the_bucket(void **state)
{
	uint32_t low[256] = {0}, high[256] = {0}, in_bucket = 0, i;
	uint64_t seed = 9;

	(void)state;
	while (in_bucket < 25600) {
		struct tg_packet p = random_syn(&seed, 4);
		uint64_t hash = tg_half_hash(&p, &key);

		if (tg_half_index(hash, 63) != 17)
			continue;
		in_bucket++;
		low[tg_half_isn(hash, 0) & 255]++;
		high[tg_half_isn(hash, 0) >> 24]++;
	}
	for (i = 0; i < 256; i++) { /* 100 each; 6 sigma */
		assert_in_range(low[i], 40, 160);
		assert_in_range(high[i], 40, 160);
	}
}

static void oldest_goes(void **state)
{
	struct tg_half_bucket b = {.heads = {0}};
	struct tg_tcp_options o = {.mss = 1460, .wscale = TG_WSCALE_NONE};
	struct tg_packet syns[3 * TG_HALF_WAYS];
	uint64_t seed = 3, head = 0;
	/* The ticks wrap between the first and the last. */
	uint64_t start = ((1ULL << 32) - 10) << 20;
	uint32_t i, slot;

	(void)state;
	for (i = 0; i < 3 * TG_HALF_WAYS; i++) {
		uint64_t now = start + ((uint64_t)i << 20);

		syns[i] = random_syn(&seed, 4);
		slot = tg_half_victim(&b, TG_HALF_TICK(now), &head);
		assert_int_equal(tg_half_lives(head, TG_HALF_TICK(now)), i >= TG_HALF_WAYS);
		assert_int_equal(slot, i % TG_HALF_WAYS); /* in turn: oldest first */
		assert_int_equal(keep(&b, &syns[i], &o, now), slot);
	}
	for (i = 0; i < 3 * TG_HALF_WAYS; i++) {
		slot = tg_half_find(&b, tg_half_hash(&syns[i], &key), &syns[i], &head);
		assert_int_equal(slot, i < 2 * TG_HALF_WAYS ? TG_HALF_WAYS : i % TG_HALF_WAYS);
	}
	/* Who has expired is the oldest, and nobody's loss. */
	assert_false(tg_half_lives(b.heads[0], (uint32_t)b.heads[0] + TG_HALF_LIFE));
	/* Places in which others write are left alone. */
	for (i = 0; i < TG_HALF_WAYS; i++)
		b.heads[i] = TG_HALF_BUSY;
	assert_int_equal(tg_half_victim(&b, 1, &head), TG_HALF_WAYS);
	assert_int_equal(tg_half_find(&b, ~0ULL, &syns[0], &head), TG_HALF_WAYS);
}

static void back_off(void **state)
{
	static const uint32_t seconds[] = {1, 3, 7};
	uint64_t head = tg_half_head(0xabcdef0123456789ULL, 5000, 1);
	uint32_t i, tick;

	(void)state;
	for (i = 0; i < 3; i++) {
		tick = 5000 + seconds[i] * TG_HALF_SECOND;
		assert_false(tg_half_is_due(head, tick - 1));
		assert_true(tg_half_is_due(head, tick));
		head = tg_half_again(head, tick);
		assert_int_equal(tg_half_sent(head), 2 + i);
	}
	for (tick = 5000; tick < 5000 + 2 * TG_HALF_LIFE; tick += 100)
		assert_false(tg_half_is_due(head, tick)); /* four times are enough */
	assert_int_equal(head >> TG_HALF_TAG_SHIFT, 0xabcdef0123456789ULL >> TG_HALF_TAG_SHIFT);
	head = tg_half_again(tg_half_head(1, 5000, 1), 5000 + 4 * TG_HALF_SECOND);
	assert_int_equal(tg_half_sent(head), 3); /* 1 s was missed: once for 1 and 3 */
	head = tg_half_done(tg_half_head(0xabcdef0123456789ULL, 5000, 1), 5010);
	assert_false(tg_half_is_due(head, 5000 + 2 * TG_HALF_SECOND));
	assert_false(tg_half_lives(head, 5010));
	assert_int_equal(head >> TG_HALF_TAG_SHIFT, 0xabcdef0123456789ULL >> TG_HALF_TAG_SHIFT);
	assert_false(tg_half_is_due(0, 99999999));
	assert_false(tg_half_is_due(TG_HALF_BUSY, 99999999));
}

/* All that the SYN offered comes back, in the answer or in the flow. */
static void answers(void **state)
{
	uint64_t seed = 11, n, head = 0;

	(void)state;
	for (n = 0; n < 4096; n++) {
		struct tg_half_bucket b = {.heads = {0}};
		struct tg_packet syn = random_syn(&seed, n & 1 ? 6 : 4), ack = syn;
		struct tg_tcp_options o = {.mss = (uint16_t)tg_test_random(&seed), .sack_ok = n & 2,
					   .ts_ok = n & 4, .tsval = (uint32_t)tg_test_random(&seed),
					   .wscale = n & 8 ? (uint8_t)(n >> 8) % 15 : TG_WSCALE_NONE};
		struct tg_ack said = {.ts_ok = o.ts_ok, .tsval = o.tsval + 1};
		struct tg_segment s, to_server;
		struct tg_flow f;
		struct tg_half *h;

		syn.flags |= n & 16 ? TG_TCP_ECE | TG_TCP_CWR : 0;
		assert_int_equal(keep(&b, &syn, &o, n << 24), 0);
		assert_int_equal(tg_half_find(&b, tg_half_hash(&syn, &key), &syn, &head), 0);
		h = &b.halves[0];
		s = tg_half_answer(h);
		assert_int_equal(s.ack, syn.seq + 1);
		assert_int_equal(s.family, syn.family);
		assert_int_equal(s.options.ts_ok, o.ts_ok);
		assert_int_equal(s.options.sack_ok, o.sack_ok);
		assert_int_equal(s.options.wscale, n & 8 ? 8 : TG_WSCALE_NONE);
		assert_int_equal(!!(s.flags & TG_TCP_ECE), !!(n & 16));
		assert_memory_equal(&s.dst, &syn.src, 16);
		assert_memory_equal(h->link, ((uint8_t[]){7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 8, 0}), 14);
		ack.flags = TG_TCP_ACK;
		ack.seq++;
		ack.ack = s.seq + 1;
		said.cookie = (struct tg_cookie){s.seq, s.options.tsval};
		assert_true(tg_half_accepts(h, &ack, &said));
		f = tg_flow_of_half(h, &said, 500, 1);
		to_server = tg_flow_syn(&ack, &f, f.client_isn, false);
		assert_int_equal(to_server.seq, syn.seq);
		assert_int_equal(to_server.options.mss, o.mss ? o.mss : n & 1 ? 1220 : 536);
		assert_int_equal(to_server.options.wscale, o.wscale);
		assert_int_equal(to_server.options.sack_ok, o.sack_ok);
		assert_int_equal(to_server.options.ts_ok, o.ts_ok);
		assert_int_equal(!!(to_server.flags & TG_TCP_CWR), !!(n & 16));
		ack.ack++;
		assert_false(tg_half_accepts(h, &ack, &said));
		ack.ack--;
		ack.seq++;
		assert_false(tg_half_accepts(h, &ack, &said));
		ack.seq--;
		said.cookie.tsval++;
		assert_int_equal(tg_half_accepts(h, &ack, &said), !o.ts_ok);
		ack.flags = TG_TCP_RST;
		assert_true(tg_half_refused(h, &ack));
		ack.seq++;
		assert_false(tg_half_refused(h, &ack));
	}
}

/* ---- threads ---- */

#define TURNS 200000

static struct tg_half_bucket shared;

/* Writes connections whose numbers can be told from each other's, reads whichever
 * are there, and counts what does not belong together. */
static void *writer(void *arg)
{
	uint64_t seed = (uint64_t)(uintptr_t)arg, head = 0;
	uintptr_t mixed = 0;
	uint32_t n, slot;

	for (n = 0; n < TURNS; n++) {
		struct tg_tcp_options o = {.wscale = TG_WSCALE_NONE};
		struct tg_packet syn = {.family = 4, .l3_off = 14};
		uint64_t hash;

		syn.seq = (uint32_t)(tg_test_random(&seed) % 64);
		syn.ports = syn.seq; /* few tuples, so that threads meet */
		syn.src.w[0] = syn.dst.w[0] = syn.seq;
		hash = tg_half_hash(&syn, &key);
		o.mss = (uint16_t)(syn.seq + 1);
		keep(&shared, &syn, &o, (uint64_t)n << 20);
		slot = tg_half_find(&shared, hash, &syn, &head);
		if (slot < TG_HALF_WAYS) {
			struct tg_half copy = shared.halves[slot];

			if (tg_half_still(&shared.heads[slot], head))
				mixed += copy.client_isn != syn.seq || copy.client_mss != syn.seq + 1;
		}
	}
	return (void *)mixed;
}

static void threads_never_mix(void **state)
{
	pthread_t threads[4];
	uintptr_t i;
	void *mixed;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, writer, (void *)(i + 1)), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &mixed), 0);
		assert_null(mixed);
	}
}

int tg_test_syn_cache(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes),      cmocka_unit_test(isn_hides_the_bucket),
		cmocka_unit_test(oldest_goes), cmocka_unit_test(back_off),
		cmocka_unit_test(answers),     cmocka_unit_test(threads_never_mix),
	};

	return cmocka_run_group_tests_name("SYN cache", tests, NULL, NULL);
}
