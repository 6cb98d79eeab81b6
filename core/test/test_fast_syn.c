/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast paths for SYNs against the slow one: whatever they accept, they answer as packet.h,
 * host.h and synack.h would, to the byte; and they do accept what every client sends.
 */
#include "test.h"

#include "../fast_syn_any.h"
#include "../signed.h"

#define FRAME_MAX 160

static const struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
static const uint8_t order_ts[20] = {2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7};
static const uint8_t order_linux[12] = {2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 8};
static const uint8_t order_windows[12] = {2, 4, 5, 180, 1, 3, 3, 8, 1, 1, 4, 2};

/* Fills in the checksums of a SYN without IP options. */
static void put_sums(uint8_t *frame, uint32_t len, uint8_t family)
{
	uint32_t l4 = tg_fast_syn_l4(family);
	uint64_t sum = TG_WIRE32(0, 6, 0, len - l4);

	tg_store16(frame + l4 + 16, 0);
	sum = tg_csum_add(sum, frame + (family == 4 ? 26 : 22), family == 4 ? 8 : 32);
	tg_store16(frame + l4 + 16, tg_csum_finish(tg_csum_add(sum, frame + l4, len - l4)));
	if (family == 4) {
		tg_store16(frame + 24, 0);
		tg_store16(frame + 24, tg_csum_finish(tg_csum_add(0, frame + 14, 20)));
	}
}

/* A SYN as clients send it, with random addresses, ports and numbers. */
static uint32_t make_syn(uint64_t *seed, uint8_t *frame, uint8_t family, bool ts)
{
	uint32_t l4 = tg_fast_syn_l4(family), len = tg_fast_syn_len(family, ts), i;
	const uint8_t *options = tg_splitmix(seed) & 1 ? order_linux : order_windows;

	for (i = 0; i < len; i++)
		frame[i] = (uint8_t)tg_splitmix(seed);
	frame[0] &= 0xfe;
	frame[6] &= 0xfe;
	frame[12] = family == 4 ? 0x08 : 0x86;
	frame[13] = family == 4 ? 0x00 : 0xdd;
	if (family == 4) {
		frame[14] = 0x45;
		frame[16] = 0;
		frame[17] = (uint8_t)(len - 14);
		frame[20] = 0x40;
		frame[21] = 0;
		frame[23] = 6;
		frame[26] = 192;
		frame[30] = 198;
	} else {
		frame[14] = 0x60 | (frame[14] & 15);
		frame[18] = 0;
		frame[19] = (uint8_t)(len - 54);
		frame[20] = 6;
		frame[22] = 0x20;
		frame[38] = 0xfd;
	}
	frame[l4 + 12] = ts ? 0xa0 : 0x80;
	frame[l4 + 13] = TG_TCP_SYN;
	memcpy(frame + l4 + 20, ts ? order_ts : options, ts ? 20 : 12);
	frame[l4 + 22] = (uint8_t)tg_splitmix(seed);
	frame[l4 + 23] = (uint8_t)tg_splitmix(seed) | 1;
	if (ts)
		for (i = 28; i < 36; i++)
			frame[l4 + i] = (uint8_t)tg_splitmix(seed);
	put_sums(frame, len, family);
	return len;
}

/* core/intact.h by byte-wise sums. */
static bool is_intact(const uint8_t *frame, const struct tg_packet *syn)
{
	const uint8_t *ip = frame + syn->l3_off, *tcp = frame + syn->l4_off;

	return (syn->family == 6 ||
		tg_csum_fold(tg_csum_add(0, ip, syn->l4_off - syn->l3_off)) == 0xffff) &&
	       tg_intact_tcp(tg_intact_pseudo(syn), tg_csum_add(0, tcp, syn->l4_len),
			     tg_load16(tcp + 16));
}

/* The answer by the slow path. Returns its length; 0 if the SYN is not answered. */
static uint32_t slow_path(const uint8_t *frame, uint32_t len, const struct tg_service *svc,
			  uint64_t epoch, uint8_t *out)
{
	struct tg_packet syn = {0};
	enum tg_parse_result result = tg_packet_parse(&syn, frame, frame + len);
	struct tg_options_cursor c = {.at = 0};
	struct tg_tcp_options offered;
	struct tg_synack a;
	uint32_t out_len;

	if (result != TG_PARSE_TCP || !tg_host_is_syn(&syn) ||
	    tg_host_judge_syn(&syn, result, len).verdict != TG_REPLY || !is_intact(frame, &syn))
		return 0;
	c.len = (uint32_t)syn.tcp_hdr_len - TG_TCP_HDR_LEN;
	memcpy(c.bytes, frame + syn.l4_off + TG_TCP_HDR_LEN, c.len);
	offered = tg_tcp_options_parse(&c);
	if (tg_signed_judge(offered.auth, TG_SIGNED_ANSWER, false).verdict != TG_REPLY)
		return 0;
	a = tg_synack_agree(&syn, &offered, svc);
	out_len = syn.l3_off + tg_synack_len(&syn, &a);
	memcpy(out, frame, 14);
	assert_true(
		tg_synack_write((struct tg_writer){out + syn.l3_off, out + out_len}, &syn, &a,
				tg_cookie_make(&syn, a.option_bits, a.options.ts_ok, epoch, &key)));
	tg_ethernet_reflect(out);
	return out_len;
}

/* The same by the fast path, which may refuse. */
static uint32_t fast_path(uint8_t *frame, uint32_t len, uint8_t family, bool ts,
			  const struct tg_service *svc, uint64_t epoch)
{
	struct tg_tcp_options offered;
	struct tg_packet syn;
	uint64_t addrs;

	if (len != tg_fast_syn_len(family, ts) || frame[12] != (family == 4 ? 0x08 : 0x86) ||
	    frame[13] != (family == 4 ? 0x00 : 0xdd) ||
	    !tg_fast_syn_read(frame, family, ts, &syn, &offered, &addrs) ||
	    !tg_fast_syn_agrees(svc, ts))
		return 0;
	tg_fast_syn_answer(
		frame, family, ts, &syn, addrs, svc,
		tg_cookie_make(&syn, tg_fast_syn_bits(family, ts, &offered), ts, epoch, &key));
	return len;
}

static uint32_t compare(uint8_t *frame, uint32_t len, uint8_t family, bool ts,
			const struct tg_service *svc, uint64_t epoch)
{
	uint8_t expected[FRAME_MAX];
	uint32_t expected_len = slow_path(frame, len, svc, epoch, expected), n;

	n = fast_path(frame, len, family, ts, svc, epoch);
	if (n) {
		assert_int_equal(n, expected_len);
		assert_memory_equal(frame, expected, n);
	}
	return n;
}

static struct tg_service random_service(uint64_t *seed)
{
	uint64_t r = tg_splitmix(seed);

	return (struct tg_service){
		.mss_v4 = (uint16_t)r,
		.mss_v6 = (uint16_t)(r >> 16),
		.window = (uint16_t)(r >> 32),
		.wscale = r >> 48 & 15,
		.sack = (r >> 52 & 7) != 0,
		.timestamps = (r >> 55 & 7) != 0,
		.ecn = r >> 58 & 1,
		.mode = TG_MODE_ALWAYS,
	};
}

static void as_the_slow_path(void **state)
{
	uint64_t seed = 4987, n, taken = 0;
	uint8_t frame[FRAME_MAX];

	(void)state;
	for (n = 0; n < 400000; n++) {
		uint8_t family = n & 1 ? 6 : 4;
		struct tg_service svc = random_service(&seed);
		bool ts = n & 2;
		uint32_t len = make_syn(&seed, frame, family, ts), spoilt = n >> 2 & 3;

		while (spoilt--) { /* any byte of the headers, any bit */
			uint64_t r = tg_splitmix(&seed);

			frame[r % len] ^= (uint8_t)(1 << (r >> 32 & 7));
		}
		if (n & 1 << 4) /* otherwise most are refused for their checksums alone */
			put_sums(frame, len, family);
		taken += compare(frame, len, family, ts, &svc, tg_splitmix(&seed)) != 0;
	}
	assert_in_range(taken, 100000, 400000);
}

static void takes_what_clients_send(void **state)
{
	static const struct tg_service full = {.mss_v4 = 1460,
					       .mss_v6 = 1440,
					       .window = 65535,
					       .wscale = 7,
					       .sack = 1,
					       .timestamps = 1,
					       .ecn = 1,
					       .mode = TG_MODE_ALWAYS};
	uint64_t seed = 11, n;
	uint8_t frame[FRAME_MAX];

	(void)state;
	for (n = 0; n < 1000; n++) {
		uint8_t family = n & 1 ? 6 : 4;
		uint32_t len = make_syn(&seed, frame, family, n & 2);

		assert_int_not_equal(compare(frame, len, family, n & 2, &full, n), 0);
	}
}

/* ---- SYNs with any options ---- */

/* Words of options as real senders write them, and others. */
static const uint8_t words[][4] = {
	{2, 4, 5, 180}, {1, 3, 3, 7}, {1, 1, 4, 2},   {4, 2, 8, 10},  {1, 1, 8, 10}, {4, 2, 0, 0},
	{0, 0, 0, 0},   {1, 1, 1, 1}, {2, 4, 0, 0},   {1, 3, 3, 99},  {8, 10, 1, 2}, {1, 1, 1, 0},
	{3, 3, 9, 1},   {1, 2, 4, 5}, {19, 18, 3, 4}, {254, 4, 1, 1}, {5, 10, 0, 0}, {0, 4, 2, 1},
	{2, 4, 4, 2},   {4, 2, 0, 9}, {29, 20, 0, 1}, {34, 2, 1, 1},  {1, 4, 2, 1},  {3, 3, 99, 0},
};

/* A SYN with up to 40 bytes of options, in every fourth case up to 29 of data, padded by up to 6. Returns the frame's length. */
static uint32_t make_any(uint64_t *seed, uint8_t *frame, uint8_t family)
{
	static const uint8_t flags[8] = {TG_TCP_SYN,
					 TG_TCP_SYN,
					 TG_TCP_SYN,
					 TG_TCP_SYN | TG_TCP_ECE | TG_TCP_CWR,
					 TG_TCP_SYN | TG_TCP_PSH,
					 TG_TCP_SYN | TG_TCP_ECE,
					 TG_TCP_SYN | TG_TCP_URG,
					 TG_TCP_SYN | TG_TCP_RST};
	uint32_t l4 = tg_fast_syn_l4(family), n = (uint32_t)(tg_splitmix(seed) % 11), i, len;

	make_syn(seed, frame, family, true);
	for (i = 0; i < 4 * n; i += 4)
		memcpy(frame + l4 + 20 + i, words[tg_splitmix(seed) % (sizeof(words) / 4)], 4);
	len = l4 + 20 + 4 * n;
	for (i = tg_splitmix(seed) & 3 ? 0 : tg_splitmix(seed) % 30; i > 0; i--)
		frame[len++] = (uint8_t)tg_splitmix(seed);
	frame[l4 + 12] = (uint8_t)((5 + n) << 4 | (tg_splitmix(seed) & 1));
	frame[l4 + 13] = flags[tg_splitmix(seed) & 7];
	if (family == 4)
		frame[17] = (uint8_t)(len - 14);
	else
		frame[19] = (uint8_t)(len - 54);
	put_sums(frame, len, family);
	for (i = 0; i < tg_splitmix(seed) % 7; i++)
		frame[len++] = (uint8_t)tg_splitmix(seed);
	return len;
}

/* What tg_any_syn_rest says of a frame; what it accepts is what the slow path accepts, and says the same. */
static enum tg_any_syn compare_any(const uint8_t *frame, uint32_t len, uint8_t family)
{
	struct tg_packet any = {0}, syn = {0};
	struct tg_tcp_options offered, parsed;
	struct tg_options_cursor c = {.at = 0};
	struct tg_any_options read;
	enum tg_any_syn what;
	uint32_t data;

	if (len < tg_any_syn_len(family) || !tg_any_syn_may_be(frame, family) ||
	    !tg_any_syn_head(frame, family, &any))
		return TG_ANY_SYN_LEFT;
	if (tg_any_syn_data_len(&any) && any.l4_off + any.l4_len > len)
		return TG_ANY_SYN_LEFT; /* its data are not there */
	data = (uint32_t)tg_csum_add(0, frame + any.l4_off + any.tcp_hdr_len,
				     tg_any_syn_data_len(&any));
	what = tg_any_syn_rest(frame, frame + len, family, &any, data, &offered, &read);
	if (what == TG_ANY_SYN_LEFT)
		return what;
	assert_int_equal(tg_packet_parse(&syn, frame, frame + len), TG_PARSE_TCP);
	assert_memory_equal(&any, &syn, sizeof(syn));
	assert_true(tg_host_is_syn(&syn));
	assert_int_equal(tg_host_judge_syn(&syn, TG_PARSE_TCP, len).verdict, TG_REPLY);
	assert_true(is_intact(frame, &syn));
	c.len = (uint32_t)syn.tcp_hdr_len - TG_TCP_HDR_LEN;
	memcpy(c.bytes, frame + syn.l4_off + TG_TCP_HDR_LEN, c.len);
	parsed = tg_tcp_options_parse(&c);
	if (what == TG_ANY_SYN_READ) {
		assert_int_equal(offered.mss, parsed.mss);
		assert_int_equal(offered.wscale, parsed.wscale);
		assert_int_equal(offered.sack_ok, parsed.sack_ok);
		assert_int_equal(offered.ts_ok, parsed.ts_ok);
		assert_int_equal(offered.auth, parsed.auth);
		if (parsed.ts_ok)
			assert_int_equal(offered.tsval, parsed.tsval);
	}
	return what;
}

static void any_as_the_slow_path(void **state)
{
	uint64_t seed = 20, n, said[3] = {0};
	uint8_t frame[FRAME_MAX];

	(void)state;
	for (n = 0; n < 400000; n++) {
		uint8_t family = n & 1 ? 6 : 4;
		uint32_t len = make_any(&seed, frame, family), spoilt = n >> 1 & 1;

		while (spoilt--) { /* any bit of the headers before the options */
			uint64_t r = tg_splitmix(&seed);

			frame[r % tg_any_syn_len(family)] ^= (uint8_t)(1 << (r >> 32 & 7));
			if (n & 1 << 2)
				put_sums(frame, len, family);
		}
		said[compare_any(frame, len, family)]++;
	}
	assert_in_range(said[TG_ANY_SYN_LEFT], 80000, 300000);
	assert_in_range(said[TG_ANY_SYN_STRANGE], 20000, 300000);
	assert_in_range(said[TG_ANY_SYN_READ], 20000, 300000);
}

/* What systems and tools send beside the two common forms: none of it may need the parser. */
static void any_takes_what_clients_send(void **state)
{
	static const struct {
		uint32_t len;
		uint8_t options[40];
	} kinds[] = {
		{0, {0}}, /* most tools */
		{4, {2, 4, 5, 180}}, /* scanners */
		{8, {2, 4, 5, 180, 1, 1, 4, 2}}, /* old Windows */
		{24, {2, 4, 5, 180, 1, 3, 3, 6, 1, 1, 8, 10,
		      1, 2, 3, 4,   0, 0, 0, 0, 4, 2, 0, 0}}, /* macOS */
		{20, {2, 4, 5, 180, 1, 3, 3, 6, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0}}, /* FreeBSD */
		{12, {2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 8}},
		{40, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
		      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	};
	uint64_t seed = 12;
	uint8_t frame[FRAME_MAX];
	uint32_t i;

	(void)state;
	for (i = 0; i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint8_t family = i & 1 ? 6 : 4;
		uint32_t l4 = tg_fast_syn_l4(family), len = l4 + 20 + kinds[i / 2].len;

		make_any(&seed, frame, family);
		memcpy(frame + l4 + 20, kinds[i / 2].options, kinds[i / 2].len);
		frame[l4 + 12] = (uint8_t)((len - l4) << 2);
		frame[l4 + 13] = TG_TCP_SYN;
		frame[family == 4 ? 17 : 19] = (uint8_t)(family == 4 ? len - 14 : len - 54);
		put_sums(frame, len, family);
		assert_int_equal(compare_any(frame, len, family), TG_ANY_SYN_READ);
		assert_int_equal(compare_any(frame, len - 1, family), TG_ANY_SYN_LEFT);
	}
}

int tg_test_fast_syn(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_slow_path),
		cmocka_unit_test(takes_what_clients_send),
		cmocka_unit_test(any_as_the_slow_path),
		cmocka_unit_test(any_takes_what_clients_send),
	};

	return cmocka_run_group_tests_name("common_syn", tests, NULL, NULL);
}
