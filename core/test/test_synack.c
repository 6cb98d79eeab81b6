/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer: that both checksums verify, that it fills exactly the announced room
 * and no byte more, and what is agreed for which offer. Bytes are in vectors/.
 */
#include "test.h"

static const struct tg_service full = {
	.mss_v4 = 1460,
	.mss_v6 = 1440,
	.window = 65535,
	.wscale = 7,
	.sack = 1,
	.timestamps = 1,
	.ecn = 1,
	.mode = TG_MODE_ALWAYS,
};

static struct tg_packet random_syn(uint64_t *seed, uint8_t family)
{
	struct tg_packet syn = {.family = family, .flags = TG_TCP_SYN};
	uint32_t i, words = family == 4 ? 1 : 4;

	for (i = 0; i < words; i++) {
		syn.src.w[i] = (uint32_t)tg_splitmix(seed);
		syn.dst.w[i] = (uint32_t)tg_splitmix(seed);
	}
	syn.ports = (uint32_t)tg_splitmix(seed);
	syn.seq = (uint32_t)tg_splitmix(seed);
	return syn;
}

/* 16-bit one's-complement sum, big-endian, carried at once. */
static uint32_t sum_be(uint32_t sum, const uint8_t *p, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < len; i++) {
		sum += i & 1 ? p[i] : (uint32_t)p[i] << 8;
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return sum;
}

static void check_sums(const uint8_t *ip, uint32_t len, uint8_t family)
{
	uint32_t head = family == 4 ? 20 : 40, sum;

	if (family == 4)
		assert_int_equal(sum_be(0, ip, 20), 0xffff);
	sum = sum_be(0, ip + (family == 4 ? 12 : 8), family == 4 ? 8 : 32);
	sum += 6 + (len - head);
	assert_int_equal(sum_be((sum & 0xffff) + (sum >> 16), ip + head, len - head), 0xffff);
}

static void checksums_and_room(void **state)
{
	uint64_t seed = 1071, n;

	(void)state;
	for (n = 0; n < 50000; n++) {
		struct tg_packet syn = random_syn(&seed, n & 1 ? 6 : 4);
		struct tg_tcp_options offered = {.mss = (uint16_t)n,
						 .wscale = n >> 1 & 15,
						 .sack_ok = n >> 5 & 1,
						 .ts_ok = n >> 6 & 1,
						 .tsval = (uint32_t)tg_splitmix(&seed)};
		struct tg_synack a = tg_synack_agree(&syn, &offered, &full);
		struct tg_cookie c = {(uint32_t)tg_splitmix(&seed), (uint32_t)tg_splitmix(&seed)};
		uint32_t len = tg_synack_len(&syn, &a);
		uint8_t *room = malloc(len);

		assert_true(tg_synack_write((struct tg_writer){room, room + len}, &syn, &a, c));
		check_sums(room, len, syn.family);
		free(room);
	}
}

static void too_little_room(void **state)
{
	uint64_t seed = 1;
	int family;

	(void)state;
	for (family = 4; family <= 6; family += 2) {
		struct tg_packet syn = random_syn(&seed, (uint8_t)family);
		struct tg_tcp_options offered = {
			.mss = 1460, .wscale = 7, .sack_ok = true, .ts_ok = true};
		struct tg_synack a = tg_synack_agree(&syn, &offered, &full);
		uint32_t len;

		for (len = 0; len < tg_synack_len(&syn, &a); len++) {
			uint8_t *room = malloc(len ? len : 1);

			assert_false(tg_synack_write((struct tg_writer){room, room + len}, &syn, &a,
						     (struct tg_cookie){1, 2}));
			free(room);
		}
	}
}

/* RFC 7323, RFC 2018: nothing that was not offered, nothing that the service forbids. */
static void only_what_both_want(void **state)
{
	struct tg_packet syn = {.family = 4, .flags = TG_TCP_SYN};
	uint32_t n;

	(void)state;
	for (n = 0; n < 256; n++) {
		struct tg_tcp_options offered = {.mss = 1460,
						 .wscale = n & 1 ? 0 : TG_WSCALE_NONE,
						 .sack_ok = n >> 1 & 1,
						 .ts_ok = n >> 2 & 1};
		struct tg_service svc = full;
		struct tg_synack a;
		bool ecn_setup = n >> 3 & 1;

		svc.wscale = n >> 4 & 1 ? 5 : TG_WSCALE_NONE;
		svc.sack = n >> 5 & 1;
		svc.timestamps = n >> 6 & 1;
		svc.ecn = n >> 7 & 1;
		syn.flags = TG_TCP_SYN | (ecn_setup ? TG_TCP_ECE | TG_TCP_CWR : 0);
		a = tg_synack_agree(&syn, &offered, &svc);
		assert_int_equal(a.options.wscale, n & 1 && n >> 4 & 1 ? 5 : TG_WSCALE_NONE);
		assert_int_equal(a.options.sack_ok, (n >> 1 & 1) && svc.sack);
		assert_int_equal(a.options.ts_ok, (n >> 2 & 1) && svc.timestamps);
		assert_int_equal(a.ecn, ecn_setup && svc.ecn);
		/* the cookie keeps the client's shift, not ours, and only if agreed */
		assert_int_equal(tg_cookie_wscale(a.option_bits),
				 n & 1 && n >> 4 & 1 ? 0 : TG_WSCALE_NONE);
	}
}

static void ecn_only_for_a_proper_setup(void **state)
{
	static const struct {
		uint8_t flags, ip_ecn;
		bool agreed;
	} t[] = {
		{TG_TCP_ECE | TG_TCP_CWR, 0, true},
		{TG_TCP_ECE, 0, false},
		{TG_TCP_CWR, 0, false},
		{0, 0, false},
		{TG_TCP_ECE | TG_TCP_CWR, 1, false},
		{TG_TCP_ECE | TG_TCP_CWR, 2, false},
		{TG_TCP_ECE | TG_TCP_CWR, 3, false},
	};
	struct tg_tcp_options offered = {.wscale = TG_WSCALE_NONE};
	uint32_t i;

	(void)state;
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct tg_packet syn = {
			.family = 6, .flags = TG_TCP_SYN | t[i].flags, .ip_ecn = t[i].ip_ecn};

		assert_int_equal(tg_synack_agree(&syn, &offered, &full).ecn, t[i].agreed);
	}
}

/* A SYN whose IP header promises more than the frame holds: the kernel would drop it. */
static void lying_length_is_malformed(void **state)
{
	struct tg_packet syn = {.family = 4,
				.flags = TG_TCP_SYN,
				.l3_off = 14,
				.l4_off = 34,
				.l4_len = 20,
				.tcp_hdr_len = 20};

	(void)state;
	syn.src.w[0] = TG_WIRE32(192, 0, 2, 1);
	assert_int_equal(tg_host_judge_syn(&syn, TG_PARSE_TCP, 54).verdict, TG_REPLY);
	assert_int_equal(tg_host_judge_syn(&syn, TG_PARSE_TCP, 60).verdict, TG_REPLY); /* padding */
	assert_int_equal(tg_host_judge_syn(&syn, TG_PARSE_TCP, 53).counter, TG_COUNT_drop_malformed);
	syn.l4_len = 21;
	assert_int_equal(tg_host_judge_syn(&syn, TG_PARSE_TCP, 54).counter, TG_COUNT_drop_malformed);
}

int tg_test_synack(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums_and_room),
		cmocka_unit_test(too_little_room),
		cmocka_unit_test(only_what_both_want),
		cmocka_unit_test(ecn_only_for_a_proper_setup),
		cmocka_unit_test(lying_length_is_malformed),
	};

	return cmocka_run_group_tests_name("synack", tests, NULL, NULL);
}
