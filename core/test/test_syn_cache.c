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
	struct tg_packet p = {.family = family,
			      .seq = (uint32_t)tg_splitmix(seed),
			      .ports = (uint32_t)tg_splitmix(seed),
			      .flags = TG_TCP_SYN,
			      .l3_off = TG_ETH_HDR_LEN};
	int i;

	for (i = 0; i < (family == 4 ? 1 : 4); i++) {
		p.src.w[i] = (uint32_t)tg_splitmix(seed);
		p.dst.w[i] = (uint32_t)tg_splitmix(seed);
	}
	return p;
}

static const struct tg_service svc = {
	.mss_v4 = 1460, .mss_v6 = 1440, .wscale = 8, .sack = 1, .timestamps = 1, .ecn = 1};

/* As a plane does it. The place's number. */
static uint32_t keep(struct tg_halfopen_bucket *b, const struct tg_packet *syn,
		     const struct tg_tcp_options *offered, uint64_t now_ns)
{
	static const uint8_t frame[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0};
	struct tg_synack a = tg_synack_agree(syn, offered, &svc);
	uint64_t hash = tg_halfopen_hash(syn, &key), head = 0;
	uint32_t slot = tg_halfopen_victim(b, TG_HALFOPEN_TICK(now_ns), &head);

	if (slot == TG_HALFOPEN_WAYS || !tg_halfopen_swap(&b->heads[slot], head, TG_HALFOPEN_BUSY))
		return TG_HALFOPEN_WAYS;
	tg_halfopen_fill(&b->halfopens[slot], syn, offered, &a, tg_halfopen_isn(hash, now_ns), frame);
	tg_halfopen_publish(&b->heads[slot], tg_halfopen_head(hash, TG_HALFOPEN_TICK(now_ns), 1));
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
		assert_int_equal(tg_halfopen_hash(&p, &key),
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
		uint64_t hash = tg_halfopen_hash(&p, &key);

		if (tg_halfopen_index(hash, 63) != 17)
			continue;
		in_bucket++;
		low[tg_halfopen_isn(hash, 0) & 255]++;
		high[tg_halfopen_isn(hash, 0) >> 24]++;
	}
	for (i = 0; i < 256; i++) { /* 100 each; 6 sigma */
		assert_in_range(low[i], 40, 160);
		assert_in_range(high[i], 40, 160);
	}
}

static void oldest_goes(void **state)
{
	struct tg_halfopen_bucket b = {.heads = {0}};
	struct tg_tcp_options o = {.mss = 1460, .wscale = TG_WSCALE_NONE};
	struct tg_packet syns[3 * TG_HALFOPEN_WAYS];
	uint64_t seed = 3, head = 0;
	/* The ticks wrap between the first and the last. */
	uint64_t start = ((1ULL << 32) - 10) << 20;
	uint32_t i, slot;

	(void)state;
	for (i = 0; i < 3 * TG_HALFOPEN_WAYS; i++) {
		uint64_t now = start + ((uint64_t)i << 20);

		syns[i] = random_syn(&seed, 4);
		slot = tg_halfopen_victim(&b, TG_HALFOPEN_TICK(now), &head);
		assert_int_equal(tg_halfopen_lives(head, TG_HALFOPEN_TICK(now)),
				 i >= TG_HALFOPEN_WAYS);
		assert_int_equal(slot, i % TG_HALFOPEN_WAYS); /* in turn: oldest first */
		assert_int_equal(keep(&b, &syns[i], &o, now), slot);
	}
	for (i = 0; i < 3 * TG_HALFOPEN_WAYS; i++) {
		slot = tg_halfopen_find(&b, tg_halfopen_hash(&syns[i], &key), &syns[i], &head);
		assert_int_equal(slot, i < 2 * TG_HALFOPEN_WAYS ? TG_HALFOPEN_WAYS
								: i % TG_HALFOPEN_WAYS);
	}
	/* Who has expired is the oldest, and nobody's loss. */
	assert_false(tg_halfopen_lives(b.heads[0], (uint32_t)b.heads[0] + TG_HALFOPEN_LIFE));
	/* Places in which others write are left alone. */
	for (i = 0; i < TG_HALFOPEN_WAYS; i++)
		b.heads[i] = TG_HALFOPEN_BUSY;
	assert_int_equal(tg_halfopen_victim(&b, 1, &head), TG_HALFOPEN_WAYS);
	assert_int_equal(tg_halfopen_find(&b, ~0ULL, &syns[0], &head), TG_HALFOPEN_WAYS);
}

/* A bucket takes cookies in the epoch in which it gave one and in the next, and never before. */
static void cookies_are_taken_after_one_was_given(void **state)
{
	static const uint64_t epochs[] = {1, 0x7fff, 0x8000, 0xffff, 0x123456780000ULL};
	struct tg_tcp_options o = {.wscale = TG_WSCALE_NONE};
	struct tg_halfopen_bucket b = {0};
	uint64_t seed = 5, e;
	uint32_t i, j;

	(void)state;
	for (e = 0; e < 0x10000; e++)
		assert_false(tg_halfopen_takes_cookie(&b, e));
	for (i = 0; i < sizeof(epochs) / sizeof(epochs[0]); i++) {
		e = epochs[i];
		tg_halfopen_gives_cookie(&b, e);
		for (j = 0; j < 2 * TG_HALFOPEN_WAYS; j++) { /* newcomers leave the note */
			struct tg_packet syn = random_syn(&seed, 4);

			assert_true(keep(&b, &syn, &o, j << 20) < TG_HALFOPEN_WAYS);
		}
		assert_false(tg_halfopen_takes_cookie(&b, e - 1));
		assert_true(tg_halfopen_takes_cookie(&b, e));
		assert_true(tg_halfopen_takes_cookie(&b, e + 1));
		assert_false(tg_halfopen_takes_cookie(&b, e + 2));
	}
}

static void back_off(void **state)
{
	static const uint32_t seconds[] = {1, 3, 7};
	uint64_t head = tg_halfopen_head(0xabcdef0123456789ULL, 5000, 1);
	uint32_t i, tick;

	(void)state;
	for (i = 0; i < 3; i++) {
		tick = 5000 + seconds[i] * TG_HALFOPEN_SECOND;
		assert_false(tg_halfopen_is_due(head, tick - 1));
		assert_true(tg_halfopen_is_due(head, tick));
		head = tg_halfopen_retransmit(head, tick);
		assert_int_equal(tg_halfopen_sent(head), 2 + i);
	}
	for (tick = 5000; tick < 5000 + 2 * TG_HALFOPEN_LIFE; tick += 100)
		assert_false(tg_halfopen_is_due(head, tick)); /* four times are enough */
	assert_int_equal(head >> TG_HALFOPEN_TAG_SHIFT,
			 0xabcdef0123456789ULL >> TG_HALFOPEN_TAG_SHIFT);
	head = tg_halfopen_retransmit(tg_halfopen_head(1, 5000, 1), 5000 + 4 * TG_HALFOPEN_SECOND);
	assert_int_equal(tg_halfopen_sent(head), 3); /* 1 s was missed: once for 1 and 3 */
	head = tg_halfopen_done(tg_halfopen_head(0xabcdef0123456789ULL, 5000, 1), 5010);
	assert_false(tg_halfopen_is_due(head, 5000 + 2 * TG_HALFOPEN_SECOND));
	assert_false(tg_halfopen_lives(head, 5010));
	assert_int_equal(head >> TG_HALFOPEN_TAG_SHIFT,
			 0xabcdef0123456789ULL >> TG_HALFOPEN_TAG_SHIFT);
	assert_false(tg_halfopen_is_due(0, 99999999));
	assert_false(tg_halfopen_is_due(TG_HALFOPEN_BUSY, 99999999));
}

/* All that the SYN offered comes back, in the answer or in the flow. */
static void answers(void **state)
{
	uint64_t seed = 11, n, head = 0;

	(void)state;
	for (n = 0; n < 4096; n++) {
		struct tg_halfopen_bucket b = {.heads = {0}};
		struct tg_packet syn = random_syn(&seed, n & 1 ? 6 : 4), ack = syn;
		struct tg_tcp_options o = {.mss = (uint16_t)tg_splitmix(&seed),
					   .sack_ok = n & 2,
					   .ts_ok = n & 4,
					   .tsval = (uint32_t)tg_splitmix(&seed),
					   .wscale = n & 8 ? (uint8_t)(n >> 8) % 15 : TG_WSCALE_NONE};
		struct tg_ack ack_info = {.ts_ok = o.ts_ok, .tsval = o.tsval + 1};
		struct tg_segment s, to_server;
		struct tg_flow f;
		struct tg_halfopen *h;

		syn.flags |= n & 16 ? TG_TCP_ECE | TG_TCP_CWR : 0;
		assert_int_equal(keep(&b, &syn, &o, n << 24), 0);
		assert_int_equal(tg_halfopen_find(&b, tg_halfopen_hash(&syn, &key), &syn, &head), 0);
		h = &b.halfopens[0];
		s = tg_halfopen_answer(h);
		assert_int_equal(s.ack, syn.seq + 1);
		assert_int_equal(s.family, syn.family);
		assert_int_equal(s.options.ts_ok, o.ts_ok);
		assert_int_equal(s.options.sack_ok, o.sack_ok);
		assert_int_equal(s.options.wscale, n & 8 ? 8 : TG_WSCALE_NONE);
		assert_int_equal(!!(s.flags & TG_TCP_ECE), !!(n & 16));
		assert_memory_equal(&s.dst, &syn.src, 16);
		assert_memory_equal(h->link,
				    ((uint8_t[]){7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 8, 0}), 14);
		ack.flags = TG_TCP_ACK;
		ack.seq++;
		ack.ack = s.seq + 1;
		ack_info.cookie = (struct tg_cookie){s.seq, s.options.tsval};
		assert_true(tg_halfopen_accepts(h, &ack, &ack_info));
		f = tg_flow_of_halfopen(h, &ack_info, 500, 1);
		to_server = tg_flow_syn(&ack, &f, f.client_isn, false);
		assert_int_equal(to_server.seq, syn.seq);
		assert_int_equal(to_server.options.mss, o.mss ? o.mss : n & 1 ? 1220 : 536);
		assert_int_equal(to_server.options.wscale, o.wscale);
		assert_int_equal(to_server.options.sack_ok, o.sack_ok);
		assert_int_equal(to_server.options.ts_ok, o.ts_ok);
		assert_int_equal(!!(to_server.flags & TG_TCP_CWR), !!(n & 16));
		ack.ack++;
		assert_false(tg_halfopen_accepts(h, &ack, &ack_info));
		ack.ack--;
		ack.seq++;
		assert_false(tg_halfopen_accepts(h, &ack, &ack_info));
		ack.seq -= 2; /* as a window probe */
		ack.tcp_hdr_len = 32;
		ack.l4_len = 32;
		assert_true(tg_halfopen_accepts(h, &ack, &ack_info));
		ack.l4_len = 33;
		assert_false(tg_halfopen_accepts(h, &ack, &ack_info));
		ack.seq++;
		assert_true(tg_halfopen_accepts(h, &ack, &ack_info));
		ack_info.cookie.tsval++;
		assert_int_equal(tg_halfopen_accepts(h, &ack, &ack_info), !o.ts_ok);
		ack.flags = TG_TCP_RST;
		assert_true(tg_halfopen_refused(h, &ack));
		ack.seq++;
		assert_false(tg_halfopen_refused(h, &ack));
	}
}

/* ---- threads ---- */

#define TURNS 200000

static struct tg_halfopen_bucket shared;

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

		syn.seq = (uint32_t)(tg_splitmix(&seed) % 64);
		syn.ports = syn.seq; /* few tuples, so that threads meet */
		syn.src.w[0] = syn.dst.w[0] = syn.seq;
		hash = tg_halfopen_hash(&syn, &key);
		o.mss = (uint16_t)(syn.seq + 1);
		keep(&shared, &syn, &o, (uint64_t)n << 20);
		slot = tg_halfopen_find(&shared, hash, &syn, &head);
		if (slot < TG_HALFOPEN_WAYS) {
			struct tg_halfopen copy = shared.halfopens[slot];

			if (tg_halfopen_still(&shared.heads[slot], head))
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
		cmocka_unit_test(hashes),
		cmocka_unit_test(isn_hides_the_bucket),
		cmocka_unit_test(oldest_goes),
		cmocka_unit_test(back_off),
		cmocka_unit_test(cookies_are_taken_after_one_was_given),
		cmocka_unit_test(answers),
		cmocka_unit_test(threads_never_mix),
	};

	return cmocka_run_group_tests_name("SYN cache", tests, NULL, NULL);
}
