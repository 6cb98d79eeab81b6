/* SPDX-License-Identifier: Apache-2.0
 *
 * What a proxy decides and makes itself: what it takes a server's answer for, the
 * segments that set a connection up, challenges, what it learns of servers, whitelist
 * and presence bits.
 */
#include "test.h"
#include "../proxy.h"

static void server_answers(void **state)
{
	struct tg_flow f = {.client_isn = 100, .state = TG_FLOW_SETUP};
	static const struct {
		uint8_t flags;
		uint32_t ack;
		enum tg_setup_event want;
	} cases[] = {
		{TG_TCP_SYN | TG_TCP_ACK, 101, TG_SETUP_READY},
		{TG_TCP_SYN | TG_TCP_ACK, 100, TG_SETUP_OTHER},
		{TG_TCP_RST | TG_TCP_ACK, 101, TG_SETUP_REFUSED},
		{TG_TCP_RST | TG_TCP_ACK, 102, TG_SETUP_IGNORE},
		{TG_TCP_RST, 101, TG_SETUP_IGNORE},
		{TG_TCP_ACK, 5000, TG_SETUP_OTHER}, /* challenge ACK, RFC 5961 */
		{TG_TCP_ACK, 101, TG_SETUP_IGNORE},
		{TG_TCP_SYN, 0, TG_SETUP_IGNORE}, /* simultaneous open is nobody's here */
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tg_packet pkt = {.flags = cases[i].flags, .ack = cases[i].ack};

		assert_int_equal(tg_setup_judge(&pkt, f.client_isn), cases[i].want);
	}
}

/* The numbers that a setup passes on: an exact echo of the server's TSval, and a
 * clock for the client that continues its cookie's. */
static void set_up(void **state)
{
	uint32_t bits = tg_cookie_option_bits(1460, 7, true, false);
	struct tg_packet ack = {.family = 4, .seq = 101, .ack = 0x80000001, .ports = 0x50001234};
	struct tg_ack ack_info = {.cookie = {0x80000000, 5000}, .tsval = 77, .ts_ok = true};
	struct tg_flow f = tg_flow_open(&ack, &ack_info, bits, 9, 502, 3, 1000);
	struct tg_segment syn = tg_flow_syn(&ack, &f, f.client_isn, false), s;
	struct tg_packet synack = {.family = 4,
				   .seq = 42,
				   .ack = 101,
				   .ports = 0x12345000,
				   .flags = TG_TCP_SYN | TG_TCP_ACK};
	struct tg_tcp_options o = {
		.mss = 1460, .wscale = 10, .sack_ok = true, .ts_ok = true, .tsval = 900, .tsecr = 77};

	(void)state;
	assert_int_equal(syn.seq, 100);
	assert_int_equal(syn.flags, TG_TCP_SYN);
	assert_int_equal(syn.options.tsval, 77);
	assert_int_equal(syn.options.mss, 1460);
	assert_int_equal(syn.options.wscale, 7);
	tg_flow_ready(&f, &synack, &o, 1);
	assert_int_equal(f.seq_delta, 42 - 0x80000000U);
	assert_int_equal(f.ts_delta, 900 - 5000U);
	assert_int_equal(f.window_down, 1); /* offered 9, uses 10 */
	s = tg_flow_ack(&synack, &f, &o);
	assert_int_equal(s.seq, 101);
	assert_int_equal(s.ack, 43);
	assert_int_equal(s.options.tsecr, 900);
	assert_int_equal(s.options.tsval, 77);
	assert_int_equal(s.window, 502);
	assert_true(s.reflect);
	s = tg_flow_window(&synack, &f, &o, 65160);
	assert_int_equal(s.seq, 0x80000001);
	assert_int_equal(s.ack, 101);
	assert_int_equal(s.options.tsval, 5000);
	assert_int_equal(s.window, 65160 >> 9);
}

/* A server without window scaling, although the client was offered it. */
static void server_without_scaling(void **state)
{
	uint32_t bits = tg_cookie_option_bits(0, 7, false, false);
	struct tg_packet ack = {.family = 4, .seq = 101}, synack = {.seq = 42, .ack = 101};
	struct tg_ack ack_info = {.cookie = {1, 0}};
	struct tg_flow f = tg_flow_open(&ack, &ack_info, bits, 9, 502, 3, 0);
	struct tg_tcp_options o = {.wscale = TG_WSCALE_NONE};

	(void)state;
	tg_flow_ready(&f, &synack, &o, 1);
	assert_int_equal(tg_window_shift(502, f.window_up), 64256);  /* the client's, unscaled */
	assert_int_equal(tg_window_shift(65160, f.window_down), 127); /* the server's, scaled */
}

/* An answer to an expired challenge is recognized by its numbers and its TTL. */
static void challenges(void **state)
{
	struct tg_service svc = {.mss_v4 = 1460, .mss_v6 = 1440, .window = 65535};
	uint64_t seed = 42, n;

	(void)state;
	for (n = 0; n < 10000; n++) {
		uint64_t salt = tg_splitmix(&seed);
		struct tg_packet syn = {.family = 4,
					.src = {{tg_splitmix(&seed) & 0xffffffff}},
					.ports = (uint32_t)salt,
					.seq = (uint32_t)(salt >> 32)};
		struct tg_siphash_key key = {salt, tg_splitmix(&seed)};
		struct tg_segment c = tg_challenge(&syn, &svc, 64, &key, false);
		struct tg_packet ack = syn;

		ack.seq = syn.seq + 1;
		ack.ack = c.seq + 1;
		assert_int_equal(c.ack, syn.seq + 1);
		assert_true(tg_challenge_answered(&ack, 64, &key));
		assert_false(tg_challenge_answered(&ack, 63, &key));
		ack.src.w[0] ^= 1;
		assert_false(tg_challenge_answered(&ack, 64, &key));
		c = tg_challenge(&syn, &svc, 0, &key, true);
		assert_in_range(c.ack - syn.seq, 0x40000000U, 0x7fffffffU); /* never sent */
	}
}

/* For an unknown server a client is offered nothing, for a known one what that supported when
 * it was offered everything. */
static void learning(void **state)
{
	static const struct tg_service svc = {
		.mss_v4 = 1460, .mss_v6 = 1440, .wscale = 7, .sack = 1, .timestamps = 1, .ecn = 1};
	struct tg_packet synack = {.family = 4, .flags = TG_TCP_SYN | TG_TCP_ACK | TG_TCP_ECE};
	struct tg_tcp_options rich = {.mss = 1400, .wscale = 9, .sack_ok = true, .ts_ok = true};
	struct tg_tcp_options poor = {.wscale = TG_WSCALE_NONE};
	struct tg_service advertised = tg_service_advertised(&svc, 0, NULL, 4);
	struct tg_learned l;

	(void)state;
	assert_true(advertised.mss_v4 == 536 && advertised.wscale == TG_WSCALE_NONE &&
		    !advertised.sack && !advertised.timestamps && !advertised.ecn);
	advertised = tg_service_advertised(&svc, TG_FIXED_MSS | TG_FIXED_WSCALE, NULL, 6);
	assert_true(advertised.mss_v6 == 1440 && advertised.wscale == 7 && !advertised.sack);
	l = tg_learn(&synack, &rich, 1000);
	advertised = tg_service_advertised(&svc, 0, &l, 4);
	assert_true(advertised.mss_v4 == 1400 && advertised.wscale == 9 && advertised.sack &&
		    advertised.timestamps && advertised.ecn);
	assert_false(tg_learned_is_stale(&l, 1000 + TG_LEARNED_FRESH_MS - 1));
	assert_true(tg_learned_is_stale(&l, 1000 + TG_LEARNED_FRESH_MS));
	assert_true(tg_learned_is_stale(NULL, 0));
	synack.flags |= TG_TCP_CWR; /* a server that reflects the bits: RFC 3168 section 6.1.1 */
	l = tg_learn(&synack, &poor, 1000);
	advertised = tg_service_advertised(&svc, 0, &l, 4);
	assert_true(advertised.mss_v4 == 536 && advertised.wscale == TG_WSCALE_NONE &&
		    !advertised.sack && !advertised.timestamps && !advertised.ecn);
}

/* The word by which SYNs look servers up says what was learned, and the fast path makes the same of it. */
static void servers_near(void **state)
{
	static const uint16_t mss[] = {536, 1300, 1460, 9000};
	static const uint8_t scales[] = {0, 7, TG_WSCALE_NONE};
	union tg_addr addr = {.d = {0x0100000a, 0}}, other = {.d = {0x0200000a, 0}};
	uint64_t hash = tg_server_hash(&addr, 80, 4, 99);
	struct tg_server_near near = {0};
	uint32_t n;

	(void)state;
	assert_int_equal(tg_server_recalled(&near, hash), 0);
	assert_int_not_equal(hash, tg_server_hash(&addr, 81, 4, 99));
	assert_int_not_equal(hash, tg_server_hash(&addr, 80, 6, 99));
	assert_int_not_equal(hash, tg_server_hash(&addr, 80, 4, 98));
	assert_int_not_equal(hash, tg_server_hash(&other, 80, 4, 99));
	for (n = 0; n < 1U << 15; n++) {
		struct tg_learned l = {.mss = mss[n & 3],
				       .wscale = scales[(n >> 2) % 3],
				       .sack = n >> 4 & 1,
				       .timestamps = n >> 5 & 1,
				       .ecn = n >> 6 & 1};
		struct tg_service svc = {.mss_v4 = 1460,
					 .mss_v6 = 1440,
					 .wscale = n >> 7 & 1 ? TG_WSCALE_NONE : 5,
					 .window = 1000,
					 .sack = n >> 8 & 1,
					 .timestamps = n >> 9 & 1};
		struct tg_proxy_service cfg = {.fixed = (uint8_t)(n >> 10 & 3),
					       .first_data = (uint8_t)(n >> 12 & 1)};
		uint8_t family = n >> 13 & 1 ? 6 : 4;
		bool ts = n >> 14 & 1;
		uint64_t gives = tg_server_gives(&l);
		struct tg_learned back = tg_learned_of(gives);
		struct tg_service slow = tg_proxy_advertised(&svc, &cfg, &l, family), fast;
		bool agrees = slow.sack && (!ts || slow.timestamps) && slow.wscale != TG_WSCALE_NONE;

		near = tg_server_near(hash, gives);
		assert_true(tg_server_recalled(&near, hash) == gives);
		assert_int_equal(tg_server_recalled(&near, hash ^ 1), 0);
		near.check ^= 1ULL << (n & 63); /* half of another write */
		assert_int_equal(tg_server_recalled(&near, hash), 0);
		assert_memory_equal(&back, &l, sizeof(l));
		assert_int_equal(tg_proxy_advertised_fast(&svc, &cfg, gives, family, ts, &fast),
				 agrees);
		if (agrees)
			assert_true(fast.wscale == slow.wscale && fast.window == slow.window &&
				    (family == 4 ? fast.mss_v4 == slow.mss_v4
						 : fast.mss_v6 == slow.mss_v6));
		assert_false(tg_proxy_advertised_fast(&svc, &cfg, 0, family, ts, &fast));
	}
}

/* Every combination of what the client was offered, what was requested, and what was granted. */
static void agreements(void **state)
{
	uint32_t n;

	(void)state;
	for (n = 0; n < 1024; n++) {
		bool asks = n & 256, renewed = n & 512, more = false, less = false;
		struct tg_flow f = {.option_bits = (uint16_t)tg_cookie_option_bits(
					    6, n & 1 ? 7 : TG_WSCALE_NONE, n & 2, n & 4),
				    .flags = (n & 8 ? TG_FLOW_TS : 0) | (asks ? TG_FLOW_ASKS : 0) |
					     (renewed ? TG_FLOW_RENEWED : 0)};
		struct tg_tcp_options o = {
			.wscale = n & 16 ? 9 : TG_WSCALE_NONE, .sack_ok = n & 32, .ts_ok = n & 128};
		struct tg_packet synack = {.family = 4, .flags = n & 64 ? TG_TCP_ECE : 0};
		struct tg_segment syn = tg_flow_syn(&synack, &f, 7, true);
		enum tg_agreement got = tg_flow_agreement(&f, &synack, &o, 0);
		enum tg_setup_next next;
		uint32_t i;

		for (i = 0; i < 4; i++) {
			less |= n >> i & 1 && !(n >> (4 + i) & 1);
			more |= n >> (4 + i) & 1 && !(n >> i & 1);
		}
		assert_int_equal(got, less                        ? TG_GIVES_LESS
				      : (asks || renewed) && more ? TG_GIVES_MORE
								  : TG_AGREES);
		next = tg_setup_next(&f, &synack, &o, 0);
		assert_int_equal(next, !less && !asks && got == TG_AGREES ? TG_SETUP_ACCEPT
				       : !less                            ? TG_SETUP_RENEW
				       : asks || renewed                  ? TG_SETUP_MISMATCH
									  : TG_SETUP_ASK);
		assert_true(tg_flow_renew(&f, next == TG_SETUP_ASK));
		assert_int_equal(!!(f.flags & TG_FLOW_ASKS), next == TG_SETUP_ASK);
		/* a server that uses an option it was not offered is eventually believed */
		while (tg_flow_renew(&f, false))
			;
		assert_int_equal(f.flags, n & 8 ? TG_FLOW_TS : 0);
		assert_int_equal(tg_setup_next(&f, &synack, &o, 0),
				 less ? TG_SETUP_MISMATCH : TG_SETUP_ACCEPT);
		assert_int_equal(syn.options.sack_ok, asks || n & 2);
		assert_int_equal(syn.options.ts_ok, asks || n & 8);
		assert_int_equal(syn.options.wscale, n & 1 ? 7 : asks ? 0 : TG_WSCALE_NONE);
		assert_int_equal(!!(syn.flags & TG_TCP_CWR), asks || n & 4);
	}
}

/* Which SYN-ACKs the client's first segment answers, and which of those that are repeated both packets do. */
static void deferred(void **state)
{
	uint32_t n;

	(void)state;
	for (n = 0; n < 64; n++) {
		bool defers = n & 1, asks = n & 2, heard = n & 4, silent = n & 8, port = n & 16,
		     notify = n & 32;
		struct tg_proxy_service cfg = {.first_data = notify ? TG_FIRST_DATA_NOTIFY
								    : TG_FIRST_DATA_ZERO_WINDOW,
					       .defer_accept = defers};
		struct tg_flow f = {.flags = (uint8_t)((asks ? TG_FLOW_ASKS : 0) |
						       (heard ? TG_FLOW_HEARD : 0))};
		struct tg_flow ready = {.waits = silent ? TG_FLOW_SILENT : TG_FLOW_SETTLED,
					.server_port = 3};

		assert_int_equal(tg_setup_defers(&f, &cfg), defers && !asks && !(heard && notify));
		assert_int_equal(tg_ready_opens_again(&ready, &cfg, port ? 3 : 4),
				 defers && silent && port);
	}
}

/* No key of an IPv6 source equals one of IPv4; every address has two bits of its own in a
 * bitmap, and loses one at each sweep. */
static void whitelist(void **state)
{
	uint64_t seed = 4, n;
	union tg_addr v6 = {.d = {0}}, v4 = {.d = {0}};
	uint32_t len;

	(void)state;
	/* 2001:db8:0:ffff::, whose last two bytes once looked like the tag of IPv4 */
	v6.w[0] = TG_WIRE32(0x20, 0x01, 0x0d, 0xb8);
	v6.w[1] = TG_WIRE32(0, 0, 0xff, 0xff);
	v4.w[0] = v6.w[0];
	assert_true(tg_white_key(&v6, 6, ~0U, ~0ULL) != tg_white_key(&v4, 4, ~0U, ~0ULL));
	for (n = 0; n < 10000; n++) {
		v6.d[0] = tg_splitmix(&seed);
		if ((v6.d[0] & 0xff) != 0xff) /* multicast */
			assert_false(tg_white_key_is_v4(tg_white_key(&v6, 6, 0, ~0ULL)));
		assert_true(tg_white_key_is_v4(tg_white_key(&v6, 4, ~0U, 0)));
	}
	for (len = 8; len <= 32; len++) {
		uint32_t last = (uint32_t)((1ULL << len) - 1);
		struct tg_white_cell a = tg_white_cell(0, len);
		struct tg_white_cell b = tg_white_cell(tg_swap32(1U << (32 - len)), len);
		struct tg_white_cell z = tg_white_cell(0xffffffff, len);

		assert_true(a.word == 0 && a.shift == 0 && b.word == 0 && b.shift == 2);
		assert_true(z.word == last / 32 && z.shift == last % 32 * 2);
	}
	assert_int_equal(tg_white_cell(0xffffffff, 32).word, (1U << 27) - 1); /* of 1 GiB */
	assert_true(tg_white_aged(tg_white_used((struct tg_white_cell){0, 62})) == 1ULL << 62);
	assert_true(tg_white_aged(1ULL << 62) == 0);
	assert_true(tg_white_aged(~0ULL) == 0x5555555555555555ULL);
}

/* Every tuple and source has one place of its own generation, inside the map, and
 * random ones are spread over the whole map. */
static void presence(void **state)
{
	static uint8_t seen[TG_PRESENCE_WORDS];
	uint64_t seed = 21, n;
	uint32_t used = 0;

	(void)state;
	for (n = 0; n < 4 * TG_PRESENCE_WORDS; n++) {
		struct tg_packet syn = {.family = n & 1 ? 6 : 4, .ports = (uint32_t)n}, turned;
		uint32_t hash, word;

		syn.src.d[0] = tg_splitmix(&seed);
		syn.src.d[1] = syn.family == 6 ? tg_splitmix(&seed) : 0;
		syn.dst.d[0] = tg_splitmix(&seed);
		syn.dst.d[1] = syn.family == 6 ? tg_splitmix(&seed) : 0;
		if (syn.family == 4) {
			syn.src.d[0] &= 0xffffffff;
			syn.dst.d[0] &= 0xffffffff;
		}
		hash = tg_presence_flow(&syn, 7);
		assert_int_equal(tg_presence_either(&syn, TG_TO_SERVER, 7), hash);
		turned = syn;
		turned.src = syn.dst;
		turned.dst = syn.src;
		turned.ports = syn.ports << 16 | syn.ports >> 16;
		assert_int_equal(tg_presence_either(&turned, TG_TO_CLIENT, 7), hash);
		word = tg_presence_word(hash, TG_PRESENCE_FLOWS, 0);
		assert_true(word < TG_PRESENCE_WORDS);
		assert_int_equal(tg_presence_word(hash, TG_PRESENCE_FLOWS, 1),
				 word + TG_PRESENCE_WORDS);
		assert_int_equal(tg_presence_word(hash, TG_PRESENCE_SOURCES, 1),
				 word + 3 * TG_PRESENCE_WORDS);
		assert_int_equal(__builtin_popcountll(tg_presence_bit(hash)), 1);
		used += !seen[word];
		seen[word] = 1;
	}
	assert_in_range(used, TG_PRESENCE_WORDS / 100 * 96, TG_PRESENCE_WORDS); /* 98.2 % expected */
}

static void segments(void **state)
{
	uint64_t seed = 793, n;

	(void)state;
	for (n = 0; n < 20000; n++) {
		struct tg_segment s = {
			.family = n & 1 ? 6 : 4,
			.seq = (uint32_t)tg_splitmix(&seed),
			.ack = (uint32_t)tg_splitmix(&seed),
			.kind = n % 3,
			.flags = TG_TCP_ACK,
			.window = (uint16_t)n,
			.ttl = 64,
			.dscp = n & 63,
			.ports = (uint32_t)tg_splitmix(&seed),
			.options = {.mss = 1460, .wscale = n & 15, .ts_ok = n & 2, .sack_ok = n & 4}};
		uint32_t len = tg_segment_len(&s), head = s.family == 4 ? 20 : 40, pseudo;
		uint8_t *room = malloc(len);

		s.src.w[0] = (uint32_t)tg_splitmix(&seed);
		s.dst.w[0] = (uint32_t)tg_splitmix(&seed);
		assert_true(tg_segment_write((struct tg_writer){room, room + len}, &s));
		assert_false(tg_segment_write((struct tg_writer){room, room + len - 1}, &s));
		assert_true(tg_segment_write((struct tg_writer){room, room + len}, &s));
		if (s.family == 4)
			assert_int_equal(tg_test_sum16(room, 20), 0xffff);
		pseudo = tg_test_sum16(room + (s.family == 4 ? 12 : 8), s.family == 4 ? 8 : 32) +
			 6U + len - head;
		pseudo += tg_test_sum16(room + head, len - head);
		pseudo = (pseudo & 0xffff) + (pseudo >> 16);
		assert_int_equal((pseudo & 0xffff) + (pseudo >> 16), 0xffff);
		assert_int_equal(tg_test_be32(room + head + 4), s.seq);
		free(room);
	}
}

/* Only an ACK without data is tried with the number after its own, and only once. */
static void window_probes(void **state)
{
	struct tg_packet pkt = {.l4_len = 32, .tcp_hdr_len = 32, .flags = TG_TCP_ACK};

	(void)state;
	assert_true(tg_may_be_window_probe(&pkt));
	pkt.as_probe = true;
	assert_false(tg_may_be_window_probe(&pkt));
	pkt.as_probe = false;
	pkt.l4_len = 33;
	assert_false(tg_may_be_window_probe(&pkt));
}

/* A flow that has carried something and is not half-closed gets a place of its own; if refused, it
 * tries again in another tick. */
static void wishes(void **state)
{
	struct tg_flow f = {.server_isn = 7000,
			    .seq_delta = 2000,
			    .state = TG_FLOW_READY,
			    .waits = TG_FLOW_SILENT};
	struct tg_packet p = {
		.family = 4, .flags = TG_TCP_ACK, .ack = 5001, .l4_len = 20, .tcp_hdr_len = 20};
	uint32_t tick;

	(void)state;
	assert_int_equal(tg_flow_wish(&f, &p, 1), TG_FLOW_WAITS);
	p.ack = 5002; /* of what the server has sent */
	assert_int_equal(tg_flow_wish(&f, &p, 1), TG_FLOW_SETTLES);
	p.ack = 5001;
	p.l4_len++;
	assert_int_equal(tg_flow_wish(&f, &p, 1), TG_FLOW_SETTLES);
	f.flags = TG_FLOW_CLIENT_FIN;
	assert_int_equal(tg_flow_wish(&f, &p, 1), TG_FLOW_WAITS);
	f.flags = 0;
	for (tick = 0; tick < 300; tick++) {
		f.waits = tg_flow_tick_mark(tick);
		assert_true(f.waits != TG_FLOW_SETTLED && f.waits != TG_FLOW_SILENT);
		assert_int_equal(tg_flow_wish(&f, &p, tick), TG_FLOW_WAITS);
		assert_int_equal(tg_flow_wish(&f, &p, tick + 1), TG_FLOW_SETTLES);
	}
}

int tg_test_proxy(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server_answers),
		cmocka_unit_test(set_up),
		cmocka_unit_test(server_without_scaling),
		cmocka_unit_test(challenges),
		cmocka_unit_test(learning),
		cmocka_unit_test(servers_near),
		cmocka_unit_test(agreements),
		cmocka_unit_test(deferred),
		cmocka_unit_test(whitelist),
		cmocka_unit_test(presence),
		cmocka_unit_test(wishes),
		cmocka_unit_test(segments),
		cmocka_unit_test(window_probes),
	};

	return cmocka_run_group_tests_name("proxy", tests, NULL, NULL);
}
