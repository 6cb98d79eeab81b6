/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies of flows that are near, held to the flow table's way: what an entry lets go on is translated
 * to the same bytes, no entry speaks for other segments, and one that several CPUs have written at once
 * speaks for none.
 */
#include "test.h"
#include "../near_flow.h"

#define FRAME_MAX 160

static void random_bytes(uint64_t *seed, void *to, uint32_t len)
{
	uint8_t *p = to;
	uint32_t i;

	for (i = 0; i < len; i++)
		p[i] = (uint8_t)tg_splitmix(seed);
}

/* A common segment: `words` of options, which are timestamps alone if `ts`. */
static uint32_t make_segment(uint64_t *seed, uint8_t *frame, uint8_t family, uint8_t flags,
			     uint32_t words, bool ts)
{
	uint32_t l4 = tg_fast_segment_len(family) - TG_TCP_HDR_LEN,
		 len = l4 + TG_TCP_HDR_LEN + 4 * words;
	uint8_t *ip = frame + TG_ETH_HDR_LEN, *tcp = frame + l4;

	random_bytes(seed, frame, FRAME_MAX);
	if (family == 4) {
		tg_store16(frame + TG_ETH_TYPE, TG_ETHERTYPE_IPV4);
		ip[0] = 0x45;
		tg_store16(ip + TG_IPV4_LEN, tg_swap16((uint16_t)(len - TG_ETH_HDR_LEN)));
		tg_store16(ip + TG_IPV4_FRAG, 0);
		ip[TG_IPV4_PROTO] = TG_IPPROTO_TCP;
	} else {
		tg_store16(frame + TG_ETH_TYPE, TG_ETHERTYPE_IPV6);
		ip[0] = 0x60;
		tg_store16(ip + TG_IPV6_LEN, tg_swap16((uint16_t)(len - l4)));
		ip[TG_IPV6_NEXT] = TG_IPPROTO_TCP;
	}
	tcp[TG_TCP_DOFF] = (uint8_t)((5 + words) << 4);
	tcp[TG_TCP_FLAGS] = flags;
	if (words)
		memset(tcp + TG_TCP_HDR_LEN, TG_TCPOPT_NOP, 4 * words);
	if (ts)
		tg_store32(tcp + TG_TCP_HDR_LEN, TG_WIRE32(1, 1, TG_TCPOPT_TIMESTAMP, 10));
	return len;
}

static struct tg_flow make_flow(uint64_t *seed)
{
	struct tg_flow f;
	uint64_t r = tg_splitmix(seed);

	random_bytes(seed, &f, sizeof(f));
	f.state = TG_FLOW_READY;
	f.flags = r & 1 ? TG_FLOW_TS : 0;
	f.waits = TG_FLOW_SETTLED;
	f.window_up = r & 2 ? (uint8_t)(r >> 8 & 14) : 0;
	f.window_down = r & 4 ? (int8_t)((int)(r >> 16 & 14) - 7) : 0;
	return f;
}

/* What the flow table's way makes of the segment. */
static void long_way(uint8_t *tcp, const struct tg_flow *f, enum tg_direction dir)
{
	uint64_t sum = 0;

	tg_translate_header(tcp, f, dir, &sum);
	if (tcp[TG_TCP_DOFF] >> 4 == 8 && tg_translate_is_aligned(tcp + 20) && f->flags & TG_FLOW_TS)
		tg_translate_timestamps(tcp + 24, f, tcp[TG_TCP_FLAGS] & TG_TCP_ACK, dir, &sum);
	tg_store16(tcp + TG_TCP_SUM, tg_translate_checksum(tg_load16(tcp + TG_TCP_SUM), sum));
}

static void as_the_flow_table(void **state)
{
	uint64_t seed = 811, n, went[3] = {0}, other = 0;
	uint8_t frame[FRAME_MAX], expected[FRAME_MAX];

	(void)state;
	for (n = 0; n < 200000; n++) {
		uint64_t r = tg_splitmix(&seed);
		uint8_t family = r & 1 ? 6 : 4,
			flags = r & 6 ? (uint8_t)(r >> 8 | TG_TCP_ACK) & 0xd8 : (uint8_t)(r >> 8);
		enum tg_direction dir = r & 8 ? TG_TO_CLIENT : TG_TO_SERVER;
		uint32_t words = r & 16 ? 3 : (uint32_t)(r >> 32) % 11, turn = (uint32_t)(r >> 40),
			 len;
		struct tg_flow f = make_flow(&seed), was;
		struct tg_packet pkt = {0};
		struct tg_near_flow e = {0};
		struct tg_near_found is;
		struct tg_near_key k, read;
		enum tg_near_step step;
		uint16_t port = r & 32 ? f.server_port : (uint16_t)(f.server_port + 1);
		uint8_t *tcp = frame + tg_fast_segment_len(family) - TG_TCP_HDR_LEN;
		bool ts;

		len = make_segment(&seed, frame, family, flags, words, words == 3 && r & 64);
		if (!tg_fast_segment_is(frame, family))
			continue;
		assert_int_equal(tg_packet_parse(&pkt, frame, frame + len), TG_PARSE_TCP);
		if (r & 128)
			f.server_acked = pkt.ack;
		k = tg_near_key(&pkt, turn);
		read = tg_near_key_read(frame, family, turn);
		assert_memory_equal(&k, &read, sizeof(k));
		assert_true(tg_near_may_hold(&f));
		tg_near_keep(&e, &k, family, &f, dir);
		is = tg_near_find(&e, &k, family);
		assert_true(is.rest != 0);
		assert_int_equal(tg_near_dir(is.rest), dir);
		assert_int_equal(tg_near_asks(&pkt), words == 0 || words == 3);
		if (!tg_near_form(tcp, frame + len, &ts)) {
			assert_true(words && !(words == 3 && r & 64));
			other++;
			continue;
		}
		step = tg_near_judge(is.rest, flags, pkt.ack, port);
		went[step]++;
		was = f;
		tg_flow_note_acked(&f, &pkt, dir, port);
		assert_true(step != TG_NEAR_TRANSLATE || !memcmp(&f, &was, sizeof(f)));
		if (step == TG_NEAR_ACKED)
			assert_int_equal(f.server_acked, pkt.ack);
		assert_int_equal(step != TG_NEAR_NOT, (flags & 0x17) == TG_TCP_ACK);
		if (step == TG_NEAR_NOT)
			continue;
		assert_int_equal(tg_flow_track(&f, &pkt, dir, false, port), TG_FLOW_STAYS);
		memcpy(expected, frame, sizeof(frame));
		long_way(expected + (tcp - frame), &f, dir);
		tg_near_translate_header(tcp, is, ts);
		assert_memory_equal(frame, expected, sizeof(frame));
	}
	for (n = 0; n < 3; n++)
		assert_in_range(went[n], 2000, 190000);
	assert_in_range(other, 2000, 190000);
}

/* Another tuple, another turn, another family, what was forgotten: nothing. */
static void speaks_for_its_own(void **state)
{
	uint64_t seed = 4, n;
	uint8_t frame[FRAME_MAX];

	(void)state;
	for (n = 0; n < 20000; n++) {
		uint8_t family = n & 1 ? 6 : 4, words = family == 4 ? 1 : 4;
		uint32_t turn = (uint32_t)tg_splitmix(&seed);
		struct tg_flow f = make_flow(&seed);
		struct tg_near_flow e = {0};
		struct tg_near_key k, k2, back;
		struct tg_packet pkt = {0};

		make_segment(&seed, frame, family, TG_TCP_ACK, 0, false);
		tg_fast_segment_read(frame, family, &pkt);
		k = tg_near_key(&pkt, turn);
		tg_near_keep(&e, &k, family, &f, TG_TO_SERVER);
		k2 = k;
		k2.addr[tg_splitmix(&seed) % words] ^= 1ULL << (tg_splitmix(&seed) & 63);
		assert_int_equal(tg_near_find(&e, &k2, family).rest, 0);
		k2 = k;
		k2.ports_turn ^= 1ULL << (tg_splitmix(&seed) & 63);
		assert_int_equal(tg_near_find(&e, &k2, family).rest, 0);
		assert_int_equal(tg_near_find(&e, &k, family ^ 4 ^ 6).rest, 0);
		back = tg_near_key_back(&k, family);
		k2 = tg_near_key_back(&back, family);
		assert_memory_equal(&k, &k2, sizeof(k));
		k2.ports_turn = (uint32_t)k.ports_turn; /* turn 0: a FIN forgets what is of any turn */
		assert_int_equal(tg_near_place(&k, family, 99), tg_near_place(&k2, family, 99));
		tg_near_forget(&e, &back);
		assert_true(tg_near_find(&e, &k, family).rest != 0);
		tg_near_forget(&e, &k2);
		assert_int_equal(tg_near_find(&e, &k, family).rest, 0);
		tg_near_forget(&e, &k2);
		assert_int_equal(tg_near_find(&e, &k, family).rest, 0);
	}
}

/* Any mixture of the words of two entries in one place is one of the two, or none. */
static void torn(void **state)
{
	uint64_t seed = 77, n, mixed, whole = 0;
	uint8_t frame[FRAME_MAX];

	(void)state;
	for (n = 0; n < 20000; n++) {
		uint8_t family = n & 1 ? 6 : 4;
		struct tg_near_flow e[2] = {{.deltas = 0}}, both;
		struct tg_near_key k[2];
		struct tg_packet pkt = {0};
		uint64_t words[2][8], w[8];
		struct tg_near_found is;
		uint32_t i;

		for (i = 0; i < 2; i++) {
			struct tg_flow f = make_flow(&seed);

			if (i == 0 || n & 2) /* else of one flow */
				make_segment(&seed, frame, family, TG_TCP_ACK, 0, false);
			tg_fast_segment_read(frame, family, &pkt);
			k[i] = tg_near_key(&pkt, 5);
			tg_near_keep(&e[i], &k[i], family, &f, TG_TO_CLIENT);
			memcpy(words[i], &e[i], sizeof(e[i]));
		}
		mixed = tg_splitmix(&seed);
		for (i = 0; i < 8; i++)
			w[i] = words[mixed >> i & 1][i];
		memcpy(&both, w, sizeof(both));
		for (i = 0; i < 2; i++) {
			is = tg_near_find(&both, &k[i], family);
			if (!is.rest)
				continue;
			whole++;
			assert_true((is.deltas == e[0].deltas && is.rest == e[0].rest) ||
				    (is.deltas == e[1].deltas && is.rest == e[1].rest));
		}
	}
	assert_in_range(whole, 1000, 30000);
}

static void holds_only_settled_flows(void **state)
{
	uint64_t seed = 3;
	struct tg_flow f = make_flow(&seed);
	uint32_t flag;

	(void)state;
	for (flag = 2; flag < 256; flag <<= 1) {
		f.flags = (uint8_t)flag;
		assert_false(tg_near_may_hold(&f));
	}
	f.flags = TG_FLOW_TS;
	assert_true(tg_near_may_hold(&f));
	f.waits = TG_FLOW_SILENT;
	assert_false(tg_near_may_hold(&f));
	f.waits = TG_FLOW_SETTLED;
	f.state = TG_FLOW_SETUP;
	assert_false(tg_near_may_hold(&f));
}

/* A place is taken from one of an earlier turn at once, from one of this turn now and then. */
static void yields(void **state)
{
	struct tg_near_flow e = {.key.ports_turn = 7ULL << 32 | 1, .rest = 1};
	struct tg_near_key k = {.ports_turn = 7ULL << 32 | 2};
	uint32_t tick, n = 0;

	(void)state;
	for (tick = 0; tick < 64; tick++)
		n += tg_near_yields(&e, &k, 1234, tick);
	assert_int_equal(n, 4);
	e.rest = 0;
	assert_true(tg_near_yields(&e, &k, 1234, 1));
	e.rest = 1;
	k.ports_turn = 8ULL << 32 | 2;
	assert_true(tg_near_yields(&e, &k, 1234, 1));
	k = e.key;
	assert_true(tg_near_yields(&e, &k, 1234, 1));
}

int tg_test_near_flow(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_flow_table),
		cmocka_unit_test(speaks_for_its_own),
		cmocka_unit_test(torn),
		cmocka_unit_test(holds_only_settled_flows),
		cmocka_unit_test(yields),
	};

	return cmocka_run_group_tests_name("near_flow", tests, NULL, NULL);
}
