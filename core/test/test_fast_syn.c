/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path for common SYNs against the slow one: whatever it accepts, it answers as packet.h,
 * host.h and synack.h would, to the byte; and it does accept what every client sends.
 */
#include "test.h"

#include "../fast_syn.h"
#include "../signed.h"

#define FRAME_MAX 128

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

int tg_test_fast_syn(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_slow_path),
		cmocka_unit_test(takes_what_clients_send),
	};

	return cmocka_run_group_tests_name("common_syn", tests, NULL, NULL);
}
