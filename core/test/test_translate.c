/* SPDX-License-Identifier: Apache-2.0
 *
 * Translation, held to an independent reading of RFC 9293, 7323 and 2018: every
 * field that has to move has moved by the difference, no other byte has changed,
 * and the checksum is right wherever the options lie. Segments that a proxy makes
 * itself, and what it takes a server's answer for.
 */
#include "test.h"
#include "../proxy.h"

#define SEQ_DELTA 0x9abcdef1U
#define TS_DELTA 0xfedcba98U

struct segment {
	uint8_t bytes[60];
	uint32_t len;
	int ts_at, sack_at, sack_blocks; /* offsets of the options' data, -1: none */
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint16_t sum16(const uint8_t *p, uint32_t len)
{
	uint32_t sum = 0, i;

	for (i = 0; i < len; i++) {
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)sum;
}

/* A segment with up to one timestamp and one SACK option at random places. */
static struct segment random_segment(uint64_t *seed, uint8_t flags)
{
	struct segment s = {.ts_at = -1, .sack_at = -1};
	uint64_t r = tg_test_random(seed);
	uint32_t at = 20, i;
	uint16_t sum;

	for (i = 0; i < 20; i++)
		s.bytes[i] = (uint8_t)tg_test_random(seed);
	for (i = 0; i < (r & 3); i++)
		s.bytes[at++] = TG_TCPOPT_NOP;
	if (r & 4) {
		s.bytes[at] = TG_TCPOPT_TIMESTAMP;
		s.bytes[at + 1] = 10;
		s.ts_at = (int)at + 2;
		for (i = 0; i < 8; i++)
			s.bytes[at + 2 + i] = (uint8_t)tg_test_random(seed);
		at += 10;
	}
	for (i = 0; i < (r >> 3 & 1); i++)
		s.bytes[at++] = TG_TCPOPT_NOP;
	if (r & 16) {
		s.sack_blocks = 1 + (int)(r >> 5 & 1) + (r & 4 ? 0 : (int)(r >> 6 & 1));
		s.bytes[at] = TG_TCPOPT_SACK;
		s.bytes[at + 1] = (uint8_t)(2 + 8 * s.sack_blocks);
		s.sack_at = (int)at + 2;
		for (i = 0; i < 8U * (uint32_t)s.sack_blocks; i++)
			s.bytes[at + 2 + i] = (uint8_t)tg_test_random(seed);
		at += 2U + 8U * (uint32_t)s.sack_blocks;
	}
	while (at % 4)
		s.bytes[at++] = TG_TCPOPT_NOP;
	s.len = at;
	s.bytes[12] = (uint8_t)(at / 4 << 4);
	s.bytes[13] = flags;
	s.bytes[16] = s.bytes[17] = 0;
	sum = (uint16_t)~sum16(s.bytes, at);
	s.bytes[16] = (uint8_t)(sum >> 8);
	s.bytes[17] = (uint8_t)sum;
	return s;
}

/* As a plane does it: the fast layout in place, everything else by the cursor. */
static void translate(struct segment *s, const struct tg_flow *f, enum tg_direction dir)
{
	bool ack = s->bytes[13] & TG_TCP_ACK;
	uint64_t sum = 0;

	tg_translate_header(s->bytes, f, dir, &sum);
	if (s->len == 32 && tg_translate_is_aligned(s->bytes + 20)) {
		if (f->flags & TG_FLOW_TS)
			tg_translate_timestamps(s->bytes + 24, f, ack, dir, &sum);
	} else if (s->len > 20) {
		struct tg_options_cursor c = {.len = s->len - 20};

		memcpy(c.bytes, s->bytes + 20, c.len);
		tg_translate_options(&c, f, ack, dir, &sum);
		memcpy(s->bytes + 20, c.bytes, s->len - 20);
	}
	tg_store16(s->bytes + 16, tg_translate_checksum(tg_load16(s->bytes + 16), sum));
}

/* What the segment must be afterwards, said another way. */
static void expect(struct segment *s, bool ts, enum tg_direction dir)
{
	bool ack = s->bytes[13] & TG_TCP_ACK;
	int i;

#define MOVE(at, by)                                                                               \
	do {                                                                                       \
		uint32_t v_ = be32(s->bytes + (at)) + (by);                                        \
		s->bytes[at] = (uint8_t)(v_ >> 24);                                                \
		s->bytes[(at) + 1] = (uint8_t)(v_ >> 16);                                          \
		s->bytes[(at) + 2] = (uint8_t)(v_ >> 8);                                           \
		s->bytes[(at) + 3] = (uint8_t)v_;                                                  \
	} while (0)
	if (dir == TG_TO_CLIENT) {
		MOVE(4, 0U - SEQ_DELTA);
		if (ts && s->ts_at >= 0)
			MOVE(s->ts_at, 0U - TS_DELTA);
		return;
	}
	if (ack)
		MOVE(8, SEQ_DELTA);
	if (ts && ack && s->ts_at >= 0)
		MOVE(s->ts_at + 4, TS_DELTA);
	for (i = 0; i < 2 * s->sack_blocks; i++)
		MOVE(s->sack_at + 4 * i, SEQ_DELTA);
#undef MOVE
}

static void fields_and_checksums(void **state)
{
	uint64_t seed = 7323, n;

	(void)state;
	for (n = 0; n < 200000; n++) {
		enum tg_direction dir = n & 1 ? TG_TO_CLIENT : TG_TO_SERVER;
		struct tg_flow f = {.seq_delta = SEQ_DELTA, .ts_delta = TS_DELTA,
				    .flags = n & 2 ? TG_FLOW_TS : 0, .state = TG_FLOW_READY};
		struct segment s = random_segment(&seed, n & 4 ? TG_TCP_ACK : TG_TCP_RST), want = s;

		translate(&s, &f, dir);
		expect(&want, n & 2, dir);
		assert_int_equal(sum16(s.bytes, s.len), 0xffff);
		memcpy(want.bytes + 16, s.bytes + 16, 2);
		assert_memory_equal(s.bytes, want.bytes, s.len);
	}
}

/* A checksum that was wrong stays wrong: the receiver shall see it. */
static void wrong_checksum_stays_wrong(void **state)
{
	struct tg_flow f = {.seq_delta = SEQ_DELTA, .flags = 0, .state = TG_FLOW_READY};
	uint64_t seed = 1624;
	struct segment s = random_segment(&seed, TG_TCP_ACK);

	(void)state;
	s.bytes[17] ^= 1;
	translate(&s, &f, TG_TO_SERVER);
	assert_int_not_equal(sum16(s.bytes, s.len), 0xffff);
}

/* A lying length ends the list; what stands behind it is not touched. */
static void lying_options(void **state)
{
	struct tg_flow f = {.seq_delta = 1, .ts_delta = 1, .flags = TG_FLOW_TS};
	static const uint8_t lists[][12] = {
		{TG_TCPOPT_TIMESTAMP, 13, 0, 0, 0, 9, 0, 0, 0, 9, 1, 1},
		{TG_TCPOPT_TIMESTAMP, 0, 0, 0, 0, 9, 0, 0, 0, 9, 1, 1},
		{TG_TCPOPT_EOL, TG_TCPOPT_TIMESTAMP, 10, 0, 0, 0, 9, 0, 0, 0, 9, 1},
		{TG_TCPOPT_SACK, 9, 0, 0, 0, 9, 0, 0, 0, 9, 1, 1},
		{TG_TCPOPT_SACK, 18, 0, 0, 0, 9, 0, 0, 0, 9, 1, 1},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct tg_options_cursor c = {.len = 12};
		uint64_t sum = 0;

		memcpy(c.bytes, lists[i], 12);
		tg_translate_options(&c, &f, true, TG_TO_SERVER, &sum);
		assert_memory_equal(c.bytes, lists[i], 12);
	}
}

static void windows(void **state)
{
	(void)state;
	assert_int_equal(tg_window_shift(64, 3), 512);
	assert_int_equal(tg_window_shift(512, -3), 64);
	assert_int_equal(tg_window_shift(7, -3), 0);
	assert_int_equal(tg_window_shift(0x4000, 2), 0xffff); /* cut, not wrapped */
	assert_int_equal(tg_window_shift(0, 14), 0);
}

static void quoted_headers(void **state)
{
	struct tg_flow f = {.seq_delta = SEQ_DELTA};
	uint8_t tcp[12] = {0, 80, 1, 2, 0, 0, 0, 5, 0, 0, 0, 6};
	uint64_t sum = 0;

	(void)state;
	tg_translate_quoted(tcp, &f, TG_TO_CLIENT, &sum); /* was the server's segment */
	assert_int_equal(be32(tcp + 4), SEQ_DELTA + 5);
	assert_int_equal(be32(tcp + 8), 6);
	tg_translate_quoted(tcp, &f, TG_TO_SERVER, &sum); /* was the client's */
	assert_int_equal(be32(tcp + 4), SEQ_DELTA + 5);
	assert_int_equal(be32(tcp + 8), 6 - SEQ_DELTA);
}

/* Both FINs and a bare ACK end a flow; a RST does until somebody goes on. */
static void ends(void **state)
{
	struct tg_flow f = {.flags = TG_FLOW_TS};
	struct tg_packet ack = {.flags = TG_TCP_ACK, .l4_len = 32, .tcp_hdr_len = 32};
	struct tg_packet data = {.flags = TG_TCP_ACK, .l4_len = 33, .tcp_hdr_len = 32};
	struct tg_packet fin = {.flags = TG_TCP_ACK | TG_TCP_FIN, .l4_len = 32, .tcp_hdr_len = 32};
	struct tg_packet rst = {.flags = TG_TCP_RST, .l4_len = 20, .tcp_hdr_len = 20};

	(void)state;
	assert_int_equal(tg_flow_track(&f, &ack, TG_TO_SERVER), TG_FLOW_STAYS);
	assert_int_equal(tg_flow_track(&f, &fin, TG_TO_SERVER), TG_FLOW_STAYS);
	assert_int_equal(tg_flow_track(&f, &ack, TG_TO_CLIENT), TG_FLOW_STAYS); /* half-close */
	assert_int_equal(tg_flow_track(&f, &data, TG_TO_CLIENT), TG_FLOW_STAYS);
	assert_int_equal(tg_flow_track(&f, &fin, TG_TO_CLIENT), TG_FLOW_STAYS);
	assert_int_equal(tg_flow_track(&f, &ack, TG_TO_SERVER), TG_FLOW_ENDS);
	assert_int_equal(tg_flow_track(&f, &ack, TG_TO_SERVER), TG_FLOW_STAYS); /* once */
	f.flags = TG_FLOW_TS;
	assert_int_equal(tg_flow_track(&f, &rst, TG_TO_CLIENT), TG_FLOW_ENDS);
	assert_int_equal(tg_flow_track(&f, &rst, TG_TO_CLIENT), TG_FLOW_STAYS);
	assert_int_equal(tg_flow_track(&f, &ack, TG_TO_SERVER), TG_FLOW_REVIVES);
	assert_int_equal(f.flags, TG_FLOW_TS);
}

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

		assert_int_equal(tg_setup_judge(&pkt, &f), cases[i].want);
	}
}

/* The numbers that a set-up passes on: exact echo of the server's TSval, and a
 * clock for the client that begins where its cookie's did. */
static void set_up(void **state)
{
	uint32_t bits = tg_cookie_option_bits(tg_mss_index(4, 1460), 7, true, false);
	struct tg_packet ack = {.family = 4, .seq = 101, .ack = 0x80000001, .ports = 0x50001234};
	struct tg_ack said = {.cookie = {0x80000000, 5000}, .tsval = 77, .ts_ok = true};
	struct tg_flow f = tg_flow_open(&ack, &said, bits, 9, 502, 3, 1000);
	struct tg_segment syn = tg_flow_syn(&ack, &f, false), s;
	struct tg_packet synack = {.family = 4, .seq = 42, .ack = 101, .ports = 0x12345000,
				   .flags = TG_TCP_SYN | TG_TCP_ACK};
	struct tg_tcp_options o = {.mss = 1460, .wscale = 10, .sack_ok = true, .ts_ok = true,
				   .tsval = 900, .tsecr = 77};

	(void)state;
	assert_int_equal(syn.seq, 100);
	assert_int_equal(syn.flags, TG_TCP_SYN);
	assert_int_equal(syn.options.tsval, 77);
	assert_int_equal(syn.options.mss, 1460);
	assert_int_equal(syn.options.wscale, 7);
	tg_flow_ready(&f, &synack, &o);
	assert_int_equal(f.seq_delta, 42 - 0x80000000U);
	assert_int_equal(f.ts_delta, 900 - 5000U);
	assert_int_equal(f.window_down, 1); /* told 9, uses 10 */
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

/* A server that scales nothing, though the client was told that it does. */
static void server_without_scaling(void **state)
{
	uint32_t bits = tg_cookie_option_bits(0, 7, false, false);
	struct tg_packet ack = {.family = 4, .seq = 101}, synack = {.seq = 42, .ack = 101};
	struct tg_ack said = {.cookie = {1, 0}};
	struct tg_flow f = tg_flow_open(&ack, &said, bits, 9, 502, 3, 0);
	struct tg_tcp_options o = {.wscale = TG_WSCALE_NONE};

	(void)state;
	tg_flow_ready(&f, &synack, &o);
	assert_int_equal(tg_window_shift(502, f.window_up), 64256);  /* the client's, unscaled */
	assert_int_equal(tg_window_shift(65160, f.window_down), 127); /* the server's, scaled */
}

/* A retired challenge's answer is known by its numbers and its TTL. */
static void challenges(void **state)
{
	struct tg_service svc = {.mss_v4 = 1460, .mss_v6 = 1440, .window = 65535};
	uint64_t seed = 42, n;

	(void)state;
	for (n = 0; n < 10000; n++) {
		uint64_t salt = tg_test_random(&seed);
		struct tg_packet syn = {.family = 4, .src = {{tg_test_random(&seed) & 0xffffffff}},
					.ports = (uint32_t)salt, .seq = (uint32_t)(salt >> 32)};
		struct tg_segment c = tg_challenge(&syn, &svc, 64, salt, false);
		struct tg_packet ack = syn;

		ack.seq = syn.seq + 1;
		ack.ack = c.seq + 1;
		assert_int_equal(c.ack, syn.seq + 1);
		assert_true(tg_challenge_answered(&ack, 64, salt));
		assert_false(tg_challenge_answered(&ack, 63, salt));
		ack.src.w[0] ^= 1;
		assert_false(tg_challenge_answered(&ack, 64, salt));
		c = tg_challenge(&syn, &svc, 0, salt, true);
		assert_in_range(c.ack - syn.seq, 0x40000000U, 0x7fffffffU); /* never sent */
	}
}

/* A client is told nothing of a server that nobody knows, and of one that is known
 * what it gave when it was offered everything. */
static void learning(void **state)
{
	static const struct tg_service svc = {.mss_v4 = 1460, .mss_v6 = 1440, .wscale = 7, .sack = 1,
					      .timestamps = 1, .ecn = 1};
	struct tg_packet synack = {.family = 4, .flags = TG_TCP_SYN | TG_TCP_ACK | TG_TCP_ECE};
	struct tg_tcp_options rich = {.mss = 1400, .wscale = 9, .sack_ok = true, .ts_ok = true};
	struct tg_tcp_options poor = {.wscale = TG_WSCALE_NONE};
	struct tg_service told = tg_service_told(&svc, 0, NULL, 4);
	struct tg_learned l;

	(void)state;
	assert_true(told.mss_v4 == 536 && told.wscale == TG_WSCALE_NONE && !told.sack &&
		    !told.timestamps && !told.ecn);
	told = tg_service_told(&svc, TG_FIXED_MSS | TG_FIXED_WSCALE, NULL, 6);
	assert_true(told.mss_v6 == 1440 && told.wscale == 7 && !told.sack);
	l = tg_learn(&synack, &rich, 1000);
	told = tg_service_told(&svc, 0, &l, 4);
	assert_true(told.mss_v4 == 1400 && told.wscale == 9 && told.sack && told.timestamps && told.ecn);
	assert_false(tg_learned_is_stale(&l, 1000 + TG_LEARNED_FRESH_MS - 1));
	assert_true(tg_learned_is_stale(&l, 1000 + TG_LEARNED_FRESH_MS));
	assert_true(tg_learned_is_stale(NULL, 0));
	synack.flags |= TG_TCP_CWR; /* a server that reflects the bits: RFC 3168 section 6.1.1 */
	l = tg_learn(&synack, &poor, 1000);
	told = tg_service_told(&svc, 0, &l, 4);
	assert_true(told.mss_v4 == 536 && told.wscale == TG_WSCALE_NONE && !told.sack &&
		    !told.timestamps && !told.ecn);
}

/* Every combination of what the client was told, what was asked, and what was given. */
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
		struct tg_tcp_options o = {.wscale = n & 16 ? 9 : TG_WSCALE_NONE, .sack_ok = n & 32,
					   .ts_ok = n & 128};
		struct tg_packet synack = {.family = 4, .flags = n & 64 ? TG_TCP_ECE : 0};
		struct tg_segment syn = tg_flow_syn(&synack, &f, true);
		enum tg_agreement got = tg_flow_agreement(&f, &synack, &o, 0);
		uint32_t i;

		for (i = 0; i < 4; i++) {
			less |= n >> i & 1 && !(n >> (4 + i) & 1);
			more |= n >> (4 + i) & 1 && !(n >> i & 1);
		}
		assert_int_equal(got, less ? TG_GIVES_LESS
				      : (asks || renewed) && more ? TG_GIVES_MORE : TG_AGREES);
		tg_flow_renew(&f); /* a server that gives what nobody asks for is believed in the end */
		tg_flow_renew(&f);
		assert_int_equal(f.flags, n & 8 ? TG_FLOW_TS : 0);
		assert_int_equal(syn.options.sack_ok, asks || n & 2);
		assert_int_equal(syn.options.ts_ok, asks || n & 8);
		assert_int_equal(syn.options.wscale, n & 1 ? 7 : asks ? 0 : TG_WSCALE_NONE);
		assert_int_equal(!!(syn.flags & TG_TCP_CWR), asks || n & 4);
	}
}

/* No key of an IPv6 source is one of IPv4; every address has two bits of its own in a
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
		v6.d[0] = tg_test_random(&seed);
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
 * random ones are spread over all of it. */
static void presence(void **state)
{
	static uint8_t seen[TG_PRESENCE_WORDS];
	uint64_t seed = 21, n;
	uint32_t used = 0;

	(void)state;
	for (n = 0; n < 4 * TG_PRESENCE_WORDS; n++) {
		struct tg_packet syn = {.family = n & 1 ? 6 : 4, .ports = (uint32_t)n};
		uint32_t hash, word;

		syn.src.d[0] = tg_test_random(&seed);
		syn.src.d[1] = syn.family == 6 ? tg_test_random(&seed) : 0;
		hash = tg_presence_flow(&syn, 7);
		word = tg_presence_word(hash, TG_PRESENCE_FLOWS, 0);
		assert_true(word < TG_PRESENCE_WORDS);
		assert_int_equal(tg_presence_word(hash, TG_PRESENCE_FLOWS, 1), word + TG_PRESENCE_WORDS);
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
		struct tg_segment s = {.family = n & 1 ? 6 : 4, .seq = (uint32_t)tg_test_random(&seed),
				       .ack = (uint32_t)tg_test_random(&seed), .kind = n % 3,
				       .flags = TG_TCP_ACK, .window = (uint16_t)n, .ttl = 64, .dscp = n & 63,
				       .ports = (uint32_t)tg_test_random(&seed),
				       .options = {.mss = 1460, .wscale = n & 15, .ts_ok = n & 2,
						   .sack_ok = n & 4}};
		uint32_t len = tg_segment_len(&s), head = s.family == 4 ? 20 : 40, pseudo;
		uint8_t *room = malloc(len);

		s.src.w[0] = (uint32_t)tg_test_random(&seed);
		s.dst.w[0] = (uint32_t)tg_test_random(&seed);
		assert_true(tg_segment_write((struct tg_writer){room, room + len}, &s));
		assert_false(tg_segment_write((struct tg_writer){room, room + len - 1}, &s));
		assert_true(tg_segment_write((struct tg_writer){room, room + len}, &s));
		if (s.family == 4)
			assert_int_equal(sum16(room, 20), 0xffff);
		pseudo = sum16(room + (s.family == 4 ? 12 : 8), s.family == 4 ? 8 : 32) + 6U + len - head;
		pseudo += sum16(room + head, len - head);
		pseudo = (pseudo & 0xffff) + (pseudo >> 16);
		assert_int_equal((pseudo & 0xffff) + (pseudo >> 16), 0xffff);
		assert_int_equal(be32(room + head + 4), s.seq);
		free(room);
	}
}

/* Only an ACK without data is tried with the number after its own, and once. */
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

int tg_test_translate(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_and_checksums),
		cmocka_unit_test(wrong_checksum_stays_wrong),
		cmocka_unit_test(lying_options),
		cmocka_unit_test(windows),
		cmocka_unit_test(quoted_headers),
		cmocka_unit_test(ends),
		cmocka_unit_test(server_answers),
		cmocka_unit_test(set_up),
		cmocka_unit_test(server_without_scaling),
		cmocka_unit_test(challenges),
		cmocka_unit_test(learning),
		cmocka_unit_test(agreements),
		cmocka_unit_test(whitelist),
		cmocka_unit_test(presence),
		cmocka_unit_test(segments),
		cmocka_unit_test(window_probes),
	};

	return cmocka_run_group_tests_name("translation", tests, NULL, NULL);
}
