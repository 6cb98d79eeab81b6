/* SPDX-License-Identifier: Apache-2.0
 *
 * Translation, held to an independent reading of RFC 9293, 7323 and 2018: every
 * field that has to move has moved by the difference, no other byte has changed,
 * and the checksum is right wherever the options lie; and when a flow ends.
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

/* A segment with up to one timestamp and one SACK option at random places. */
static struct segment random_segment(uint64_t *seed, uint8_t flags)
{
	struct segment s = {.ts_at = -1, .sack_at = -1};
	uint64_t r = tg_splitmix(seed);
	uint32_t at = 20, i;
	uint16_t sum;

	for (i = 0; i < 20; i++)
		s.bytes[i] = (uint8_t)tg_splitmix(seed);
	for (i = 0; i < (r & 3); i++)
		s.bytes[at++] = TG_TCPOPT_NOP;
	if (r & 4) {
		s.bytes[at] = TG_TCPOPT_TIMESTAMP;
		s.bytes[at + 1] = 10;
		s.ts_at = (int)at + 2;
		for (i = 0; i < 8; i++)
			s.bytes[at + 2 + i] = (uint8_t)tg_splitmix(seed);
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
			s.bytes[at + 2 + i] = (uint8_t)tg_splitmix(seed);
		at += 2U + 8U * (uint32_t)s.sack_blocks;
	}
	while (at % 4)
		s.bytes[at++] = TG_TCPOPT_NOP;
	s.len = at;
	s.bytes[12] = (uint8_t)(at / 4 << 4);
	s.bytes[13] = flags;
	s.bytes[16] = s.bytes[17] = 0;
	sum = (uint16_t)~tg_test_sum16(s.bytes, at);
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
		uint32_t v_ = tg_test_be32(s->bytes + (at)) + (by);                                \
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
		struct tg_flow f = {.seq_delta = SEQ_DELTA,
				    .ts_delta = TS_DELTA,
				    .flags = n & 2 ? TG_FLOW_TS : 0,
				    .state = TG_FLOW_READY};
		struct segment s = random_segment(&seed, n & 4 ? TG_TCP_ACK : TG_TCP_RST), want = s;

		translate(&s, &f, dir);
		expect(&want, n & 2, dir);
		assert_int_equal(tg_test_sum16(s.bytes, s.len), 0xffff);
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
	assert_int_not_equal(tg_test_sum16(s.bytes, s.len), 0xffff);
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
	assert_int_equal(tg_test_be32(tcp + 4), SEQ_DELTA + 5);
	assert_int_equal(tg_test_be32(tcp + 8), 6);
	tg_translate_quoted(tcp, &f, TG_TO_SERVER, &sum); /* was the client's */
	assert_int_equal(tg_test_be32(tcp + 4), SEQ_DELTA + 5);
	assert_int_equal(tg_test_be32(tcp + 8), 6 - SEQ_DELTA);
}

/* What the segment does to a flow, as a plane does it, having come by `port`. */
static enum tg_flow_turn meet(struct tg_flow *f, const struct tg_packet *pkt, enum tg_direction dir,
			      uint16_t port)
{
	tg_flow_note_acked(f, pkt, dir, port);
	return tg_flow_track(f, pkt, dir, tg_flow_is_reset(f, pkt, dir, port), port);
}

enum { INSIDE = 3, OUTSIDE = 2 };

/* Both FINs and a bare ACK end a flow; a RST does until somebody goes on. */
static void ends(void **state)
{
	struct tg_flow f = {.flags = TG_FLOW_TS, .server_port = INSIDE};
	struct tg_packet ack = {.flags = TG_TCP_ACK, .l4_len = 32, .tcp_hdr_len = 32};
	struct tg_packet data = {.flags = TG_TCP_ACK, .l4_len = 33, .tcp_hdr_len = 32};
	struct tg_packet fin = {.flags = TG_TCP_ACK | TG_TCP_FIN, .l4_len = 32, .tcp_hdr_len = 32};
	struct tg_packet rst = {.flags = TG_TCP_RST, .l4_len = 20, .tcp_hdr_len = 20};

	(void)state;
	assert_int_equal(meet(&f, &ack, TG_TO_SERVER, OUTSIDE), TG_FLOW_STAYS);
	assert_int_equal(meet(&f, &fin, TG_TO_SERVER, OUTSIDE), TG_FLOW_STAYS);
	assert_int_equal(meet(&f, &ack, TG_TO_CLIENT, INSIDE), TG_FLOW_STAYS); /* half-close */
	assert_int_equal(meet(&f, &data, TG_TO_CLIENT, INSIDE), TG_FLOW_STAYS);
	assert_int_equal(meet(&f, &fin, TG_TO_CLIENT, INSIDE), TG_FLOW_STAYS);
	assert_int_equal(meet(&f, &ack, TG_TO_SERVER, OUTSIDE), TG_FLOW_ENDS);
	assert_int_equal(meet(&f, &ack, TG_TO_SERVER, OUTSIDE), TG_FLOW_STAYS); /* once */
	f.flags = TG_FLOW_TS;
	assert_int_equal(meet(&f, &rst, TG_TO_CLIENT, INSIDE), TG_FLOW_ENDS);
	assert_int_equal(meet(&f, &rst, TG_TO_CLIENT, INSIDE), TG_FLOW_STAYS);
	assert_int_equal(meet(&f, &ack, TG_TO_SERVER, OUTSIDE), TG_FLOW_REVIVES);
	assert_int_equal(f.flags, TG_FLOW_TS);
}

/* Who knows addresses and ports, but not the numbers, ends nothing: RFC 5961. Nor does one
 * who sends in the server's name from where the clients are, whatever was sent before. */
static void forgeries_end_nothing(void **state)
{
	struct tg_flow f = {.flags = TG_FLOW_TS, .server_port = INSIDE, .server_acked = 5000};
	struct tg_packet ack = {.flags = TG_TCP_ACK, .ack = 5100, .l4_len = 32, .tcp_hdr_len = 32};
	struct tg_packet lie = {.flags = TG_TCP_ACK, .ack = 777, .l4_len = 32, .tcp_hdr_len = 32};
	struct tg_packet fin = {.flags = TG_TCP_ACK | TG_TCP_FIN, .l4_len = 32, .tcp_hdr_len = 32};
	struct tg_packet rst = {.flags = TG_TCP_RST, .l4_len = 20, .tcp_hdr_len = 20};
	uint32_t i;

	(void)state;
	assert_int_equal(meet(&f, &ack, TG_TO_CLIENT, INSIDE), TG_FLOW_STAYS);
	assert_int_equal(meet(&f, &lie, TG_TO_CLIENT, OUTSIDE), TG_FLOW_STAYS);
	for (i = 0; i < 10000; i++) {
		rst.seq = i;
		assert_int_equal(meet(&f, &rst, TG_TO_CLIENT, OUTSIDE), TG_FLOW_STAYS);
		assert_int_equal(meet(&f, &rst, TG_TO_SERVER, OUTSIDE),
				 i == 5100 ? TG_FLOW_ENDS : TG_FLOW_STAYS);
		f.flags = TG_FLOW_TS;
	}
	meet(&f, &fin, TG_TO_SERVER, OUTSIDE);
	meet(&f, &fin, TG_TO_CLIENT, OUTSIDE);
	assert_int_equal(meet(&f, &ack, TG_TO_SERVER, OUTSIDE), TG_FLOW_STAYS);
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
		cmocka_unit_test(forgeries_end_nothing),
	};

	return cmocka_run_group_tests_name("translation", tests, NULL, NULL);
}
