/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of common segments against the slow one: whatever it accepts, it reads as packet.h,
 * tcp_options.h and host.h do, to the bit, and an edge judges alike; and it does accept what every
 * client sends.
 */
#include "test.h"

#include "../fast_segment.h"
#include "../edge.h"

#define FRAME_MAX 160

static const struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
static const uint64_t now_epoch = 77;

/* A segment as peers send it, with random addresses, ports, numbers and flags; a third has
 * timestamps, a third other options. Returns its length. */
static uint32_t make_segment(uint64_t *seed, uint8_t *frame, uint8_t family)
{
	static const uint8_t flags[] = {0x10, 0x10, 0x18, 0x11, 0x04, 0x14,
					0x12, 0x01, 0x00, 0x02, 0x30};
	uint32_t l4 = tg_fast_segment_len(family) - TG_TCP_HDR_LEN, i, options, len;
	uint64_t r = tg_splitmix(seed);

	options = r % 3 == 0 ? 0 : r % 3 == 1 ? 12 : 4 * (uint32_t)(r >> 8 & 7);
	len = l4 + TG_TCP_HDR_LEN + options + (r >> 16 & 1 ? (uint32_t)(r >> 17 & 31) : 0);
	for (i = 0; i < FRAME_MAX; i++)
		frame[i] = (uint8_t)tg_splitmix(seed);
	frame[12] = family == 4 ? 0x08 : 0x86;
	frame[13] = family == 4 ? 0x00 : 0xdd;
	if (family == 4) {
		frame[14] = 0x45;
		frame[16] = 0;
		frame[17] = (uint8_t)(len - 14);
		frame[20] = r >> 24 & 1 ? 0x40 : 0;
		frame[21] = 0;
		frame[23] = 6;
	} else {
		frame[14] = 0x60 | (frame[14] & 15);
		frame[18] = 0;
		frame[19] = (uint8_t)(len - 54);
		frame[20] = 6;
	}
	frame[l4 + 12] = (uint8_t)((TG_TCP_HDR_LEN + options) / 4 << 4);
	frame[l4 + 13] = flags[(r >> 32) % sizeof(flags)];
	if (r % 3 == 1)
		memcpy(frame + l4 + 20, "\1\1\10\12", 4);
	return len;
}

/* The ACK's contents, by the slow path. */
static bool long_read(const uint8_t *frame, uint32_t len, const struct tg_packet *pkt,
		      struct tg_ack *ack)
{
	struct tg_options_cursor c = {.at = 0};
	struct tg_tcp_options o;

	if (!tg_host_ack_is_whole(pkt, len))
		return false;
	c.len = (uint32_t)pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	memcpy(c.bytes, frame + pkt->l4_off + TG_TCP_HDR_LEN, c.len);
	o = tg_tcp_options_parse(&c);
	*ack = tg_host_read_ack(pkt, &o);
	return true;
}

static enum tg_edge_finding finding(const struct tg_packet *pkt, const struct tg_ack *ack)
{
	uint64_t epoch = tg_cookie_epoch(ack->cookie.isn, now_epoch);

	return tg_cookie_verify(pkt, ack->cookie, ack->ts_ok, epoch, &key) ? TG_EDGE_VERIFIED
									   : TG_EDGE_UNKNOWN;
}

/* Turns the frame's ACK into one with a valid cookie. */
static void make_genuine(uint8_t *frame, uint8_t family, uint64_t r)
{
	uint8_t *tcp = frame + tg_fast_segment_len(family) - TG_TCP_HDR_LEN;
	bool ts = tcp[12] >> 4 >= 8 && !memcmp(tcp + 20, "\1\1\10\12", 4);
	struct tg_packet pkt;
	struct tg_cookie c;

	tg_fast_segment_read(frame, family, &pkt);
	pkt.seq--;
	c = tg_cookie_make(&pkt, (uint32_t)r & 511, ts, now_epoch - (r >> 60 & 1), &key);
	tg_store32(tcp + 8, tg_swap32(c.isn + 1));
	if (ts)
		tg_store32(tcp + 28, tg_swap32(c.tsval));
}

/* 0: the fast path refused it; 1: it parsed the packet; 2: and the ACK; 3: which verifies. */
static int compare(const uint8_t *frame, uint32_t len, uint8_t family)
{
	struct tg_packet pkt = {0}, expected = {0};
	struct tg_ack ack, ack_info;

	if (len < tg_fast_segment_len(family) || !tg_fast_segment_is(frame, family))
		return 0;
	tg_fast_segment_read(frame, family, &pkt);
	assert_int_equal(tg_packet_parse(&expected, frame, frame + len), TG_PARSE_TCP);
	assert_false(tg_host_is_syn(&expected));
	assert_memory_equal(&pkt, &expected, sizeof(pkt));
	if (!tg_fast_segment_ack(frame, frame + len, len, &pkt, &ack)) {
		/* Then its options are read, in this many bytes, or the slow path decides. */
		bool whole = long_read(frame, len, &expected, &ack_info);
		uint32_t options = (uint32_t)pkt.tcp_hdr_len - TG_TCP_HDR_LEN;

		assert_int_equal(tg_fast_segment_options_len(&pkt, len), whole ? options : 0);
		assert_true(!whole || options);
		return 1;
	}
	assert_true(long_read(frame, len, &expected, &ack_info));
	assert_int_equal(ack.ts_ok, ack_info.ts_ok);
	assert_int_equal(ack.cookie.isn, ack_info.cookie.isn);
	if (ack.ts_ok) {
		assert_int_equal(ack.tsval, ack_info.tsval);
		assert_int_equal(ack.cookie.tsval, ack_info.cookie.tsval);
	}
	assert_int_equal(finding(&pkt, &ack), finding(&expected, &ack_info));
	return finding(&pkt, &ack) == TG_EDGE_VERIFIED ? 3 : 2;
}

static void as_the_slow_path(void **state)
{
	uint64_t seed = 5151, n, counts[4] = {0};
	uint8_t frame[FRAME_MAX];

	(void)state;
	for (n = 0; n < 400000; n++) {
		uint8_t family = n & 1 ? 6 : 4;
		uint32_t len = make_segment(&seed, frame, family), spoilt = n >> 1 & 3;
		uint64_t r = tg_splitmix(&seed);

		if (n & 8)
			make_genuine(frame, family, r);
		if (n & 16)
			len = (uint32_t)(r >> 16) % (len + 1); /* cut */
		while (spoilt--) { /* any byte of the headers, any bit */
			r = tg_splitmix(&seed);
			frame[r % 110] ^= (uint8_t)(1 << (r >> 32 & 7));
		}
		counts[compare(frame, len, family)]++;
	}
	for (n = 0; n < 4; n++)
		assert_in_range(counts[n], 10000, 390000);
}

/* No option, or timestamps in the layouts of Linux, Windows, macOS and FreeBSD, with or without data. */
static void takes_what_clients_send(void **state)
{
	uint64_t seed = 12, n, taken = 0;
	uint8_t frame[FRAME_MAX];

	(void)state;
	for (n = 0; taken < 2000; n++) {
		uint8_t family = n & 1 ? 6 : 4;
		uint32_t len = make_segment(&seed, frame, family);
		const uint8_t *tcp = frame + tg_fast_segment_len(family) - TG_TCP_HDR_LEN;

		if ((tcp[13] & 0x12) == 2 ||
		    (tcp[12] >> 4 != 5 && (tcp[12] >> 4 < 8 || memcmp(tcp + 20, "\1\1\10\12", 4))))
			continue;
		assert_in_range(compare(frame, len, family), 2, 3);
		taken++;
	}
}

int tg_test_fast_segment(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_slow_path),
		cmocka_unit_test(takes_what_clients_send),
	};

	return cmocka_run_group_tests_name("common_segment", tests, NULL, NULL);
}
