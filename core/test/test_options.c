/* SPDX-License-Identifier: Apache-2.0
 *
 * The TCP option parser and writer: what is accepted, what ends the list, and that
 * neither ever leaves its room.
 */
#include "../options_known.h"
#include "../signed.h"
#include "test.h"

static struct tg_tcp_options parse(const void *bytes, uint32_t len)
{
	struct tg_options_cursor *c = malloc(sizeof(*c));
	struct tg_tcp_options o;

	assert_non_null(c);
	memset(c, 0x08, sizeof(*c)); /* beyond len: would read as timestamps */
	c->at = 0;
	c->len = len;
	if (len <= TG_TCP_OPTIONS_MAX_LEN)
		memcpy(c->bytes, bytes, len);
	o = tg_tcp_options_parse(c);
	assert_true(c->at <= TG_TCP_OPTIONS_MAX_LEN);
	free(c);
	return o;
}

#define PARSE(bytes) parse("" bytes "", sizeof("" bytes "") - 1)

static void nothing_said(void **state)
{
	struct tg_tcp_options o = PARSE("");

	(void)state;
	assert_int_equal(o.mss, 0);
	assert_int_equal(o.wscale, TG_WSCALE_NONE);
	assert_false(o.sack_ok);
	assert_false(o.ts_ok);
}

static void as_linux_sends_them(void **state)
{
	struct tg_tcp_options o = PARSE(
		"\x02\x04\x05\xb4\x04\x02\x08\x0a\x11\x22\x33\x44\x00\x00\x00\x00"
		"\x01\x03\x03\x07");

	(void)state;
	assert_int_equal(o.mss, 1460);
	assert_int_equal(o.wscale, 7);
	assert_true(o.sack_ok);
	assert_true(o.ts_ok);
	assert_int_equal(o.tsval, 0x11223344);
	assert_int_equal(o.tsecr, 0);
}

static void window_scale_bounds(void **state)
{
	(void)state;
	assert_int_equal(PARSE("\x03\x03\x00").wscale, 0); /* 0 is an offer, not absence */
	assert_int_equal(PARSE("\x03\x03\x0e").wscale, 14);
	assert_int_equal(PARSE("\x03\x03\x0f").wscale, 14); /* RFC 7323 2.3: as 14 */
	assert_int_equal(PARSE("\x03\x03\xff").wscale, 14);
	assert_int_equal(PARSE("\x03\x04\x07\x00").wscale, TG_WSCALE_NONE); /* wrong length */
}

static void wrong_lengths_are_skipped(void **state)
{
	/* MSS of length 3, timestamps of 4, window scale of 4, SACK-permitted of 3 */
	struct tg_tcp_options o = PARSE("\x02\x03\xff\x08\x04\x01\x02\x03\x04\x03\x01\x04\x03\x00");

	(void)state;
	assert_int_equal(o.mss, 0);
	assert_false(o.ts_ok);
	assert_false(o.sack_ok);
	assert_int_equal(o.wscale, TG_WSCALE_NONE);
	assert_int_equal(PARSE("\x02\x03\xff\x04\x03\x01\x03\x03\x05").wscale,
			 5); /* what follows counts */
}

static void lies_end_the_list(void **state)
{
	(void)state;
	assert_int_equal(PARSE("\x03\x03\x05\x02\x00\x05\xb4").mss, 0);
	assert_int_equal(PARSE("\x03\x03\x05\x02\x00\x05\xb4").wscale, 5); /* what stood before counts */
	assert_int_equal(PARSE("\xfd\x01\x02\x04\x05\xb4").mss, 0);
	assert_int_equal(PARSE("\xfd\x07\x02\x04\x05\xb4").mss, 0); /* one past the end */
	assert_int_equal(PARSE("\xfd\x06\x02\x04\x05\xb4").mss, 0); /* hidden inside */
	assert_int_equal(PARSE("\xfd\x02\x02\x04\x05\xb4").mss, 1460);
	assert_int_equal(PARSE("\x00\x02\x02\x04\x05\xb4").mss, 0); /* end of list */
	assert_false(PARSE("\x08\x0a\x01\x02\x03\x04\x05\x06\x07").ts_ok);
	assert_int_equal(PARSE("\x02").mss, 0);
	assert_int_equal(PARSE("\x02\x04\x05").mss, 0);
}

static void repeated_options_last_counts(void **state)
{
	struct tg_tcp_options o = PARSE("\x02\x04\x05\xb4\x02\x04\x02\x18\x03\x03\x07\x03\x03\x02");

	(void)state;
	assert_int_equal(o.mss, 536);
	assert_int_equal(o.wscale, 2);
	assert_int_equal(PARSE("\x02\x04\x05\xb4\x02\x04\x00\x00").mss, 1460); /* 0 is no MSS */
}

static void longer_than_tcp_allows(void **state)
{
	(void)state;
	assert_int_equal(parse("", 41).mss, 0);
	assert_int_equal(parse("", UINT32_MAX).mss, 0);
}

/* A list truncated anywhere never yields more than its beginning does. */
static void cut_everywhere(void **state)
{
	static const uint8_t all[] = {2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2,
				      3, 4, 0, 0,    0, 0, 1, 3,  3, 7};
	uint32_t len;

	(void)state;
	for (len = 0; len <= sizeof(all); len++) {
		struct tg_tcp_options o = parse(all, len);

		assert_int_equal(o.mss, len >= 4 ? 1460 : 0);
		assert_int_equal(o.sack_ok, len >= 6);
		assert_int_equal(o.ts_ok, len >= 16);
		assert_int_equal(o.wscale, len >= 20 ? 7 : TG_WSCALE_NONE);
	}
}

static void forty_one_byte_options(void **state)
{
	uint8_t nops[40];

	(void)state;
	memset(nops, 1, sizeof(nops));
	memcpy(nops + 37, "\x03\x03\x09", 3);
	assert_int_equal(parse(nops, 40).wscale, 9);
}

static void aligned_timestamps(void **state)
{
	uint32_t tsval = 7, tsecr = 8;

	(void)state;
	assert_true(tg_tcp_timestamps_aligned(TG_WIRE32(1, 1, 8, 10), TG_WIRE32(1, 2, 3, 4),
					      TG_WIRE32(5, 6, 7, 8), &tsval, &tsecr));
	assert_int_equal(tsval, 0x01020304);
	assert_int_equal(tsecr, 0x05060708);
	assert_false(tg_tcp_timestamps_aligned(TG_WIRE32(1, 8, 10, 1), 0, 0, &tsval, &tsecr));
	assert_false(tg_tcp_timestamps_aligned(TG_WIRE32(4, 2, 8, 10), 0, 0, &tsval, &tsecr));
	assert_int_equal(tsval, 0x01020304); /* left alone */
}

#define MD5                                                                                        \
	"\x13\x12"                                                                                 \
	"0123456789abcdef"
#define AO16                                                                                       \
	"\x1d\x10"                                                                                 \
	"0123456789abcd"
#define NOPS16 "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1"

/* Linux 6.18 with TCP-MD5 and without TCP-AO: test/host sends it each of these. */
static void signatures(void **state)
{
	(void)state;
	assert_int_equal(PARSE("\x02\x04\x05\xb4").auth, TG_AUTH_NONE);
	assert_int_equal(PARSE(MD5 "\1\1").auth, TG_AUTH_MD5);
	assert_int_equal(PARSE("\1\1" MD5).auth, TG_AUTH_MD5);
	assert_int_equal(PARSE(AO16).auth, TG_AUTH_AO);
	assert_int_equal(PARSE("\x1d\x05\1\1\x07\1\1\1").auth, TG_AUTH_AO);
	assert_int_equal(PARSE(AO16 AO16).auth, TG_AUTH_TWO_AO);
	assert_int_equal(PARSE(AO16 "\x1d\x05\1\1\x07"
				    "\x1d\x05\1\1\x07")
				 .auth,
			 TG_AUTH_TWO_AO);
	assert_int_equal(PARSE(AO16 "\x1d\x05\1\1\x07"
				    "\1\1\1"
				    "\x1d\x05\1\1\x07"
				    "\1\1\1\1\1\1\1")
				 .auth,
			 TG_AUTH_MALFORMED);
	/* where kernels do not look */
	assert_int_equal(PARSE("\x13\x02\1\1").auth, TG_AUTH_NONE);
	assert_int_equal(PARSE("\x1d\x02\1\1").auth, TG_AUTH_NONE);
	assert_int_equal(PARSE("\x1d\x04\1\1").auth, TG_AUTH_NONE);
	assert_int_equal(PARSE("\1\1\1\x13\x02"
			       "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1")
				 .auth,
			 TG_AUTH_NONE);
	assert_int_equal(PARSE("\x13").auth, TG_AUTH_NONE);
	assert_int_equal(PARSE("\0\1" MD5).auth, TG_AUTH_NONE);
	assert_int_equal(PARSE("\1\1\1\xfd\x30"
			       "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1")
				 .auth,
			 TG_AUTH_NONE);
	/* where they look */
	assert_int_equal(PARSE("\x13\x02" NOPS16).auth, TG_AUTH_MALFORMED);
	assert_int_equal(PARSE("\x1d\x04" NOPS16).auth, TG_AUTH_MALFORMED);
	assert_int_equal(PARSE("\xfd\x30" NOPS16).auth, TG_AUTH_MALFORMED);
	assert_int_equal(PARSE("\xfd\x01" NOPS16).auth, TG_AUTH_MALFORMED);
	assert_int_equal(PARSE(MD5 MD5).auth, TG_AUTH_MALFORMED);
	assert_int_equal(PARSE(MD5 AO16).auth, TG_AUTH_MALFORMED);
	assert_int_equal(PARSE(AO16 MD5).auth, TG_AUTH_MALFORMED);
	/* once wrong, wrong whatever follows */
	assert_int_equal(PARSE("\x13\x02" MD5).auth, TG_AUTH_MALFORMED);
	assert_int_equal(PARSE("\xfd\x04\1\1\x13\x02" NOPS16 AO16).auth, TG_AUTH_MALFORMED);
}

/* Only signed SYNs use the allowance, and only where the service passes them. */
static void what_becomes_of_signed_syns(void **state)
{
	static const struct {
		uint32_t auth, cost_us;
		enum tg_verdict first, second;
		enum tg_counter counts[2];
	} cases[] = {
		{TG_AUTH_NONE, 1000, TG_REPLY, TG_REPLY, {TG_COUNT_NOTHING, TG_COUNT_NOTHING}},
		{TG_AUTH_TWO_AO, 1000, TG_REPLY, TG_REPLY, {TG_COUNT_NOTHING, TG_COUNT_NOTHING}},
		{TG_AUTH_NONE, TG_SIGNED_DROP, TG_REPLY, TG_REPLY, {TG_COUNT_NOTHING, TG_COUNT_NOTHING}},
		{TG_AUTH_MALFORMED,
		 TG_SIGNED_ANSWER,
		 TG_DROP,
		 TG_DROP,
		 {TG_COUNT_drop_auth_option, TG_COUNT_drop_auth_option}},
		{TG_AUTH_MALFORMED,
		 200000,
		 TG_DROP,
		 TG_DROP,
		 {TG_COUNT_drop_auth_option, TG_COUNT_drop_auth_option}},
		{TG_AUTH_MD5,
		 TG_SIGNED_ANSWER,
		 TG_REPLY,
		 TG_REPLY,
		 {TG_COUNT_signed_answered, TG_COUNT_signed_answered}},
		{TG_AUTH_AO,
		 TG_SIGNED_DROP,
		 TG_DROP,
		 TG_DROP,
		 {TG_COUNT_drop_signed, TG_COUNT_drop_signed}},
		{TG_AUTH_MD5, 200000, TG_PASS, TG_REPLY, {TG_COUNT_pass_signed, TG_COUNT_signed_excess}},
		{TG_AUTH_AO,
		 0xfffffffe,
		 TG_PASS,
		 TG_REPLY,
		 {TG_COUNT_pass_signed, TG_COUNT_signed_excess}},
	};
	uint32_t i, n;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tg_allowance a = {0};

		for (n = 0; n < 2; n++) {
			struct tg_decision d = tg_signed_judge_at(cases[i].auth, cases[i].cost_us,
								  &a, 1ULL << 62);

			assert_int_equal(d.verdict, n ? cases[i].second : cases[i].first);
			assert_int_equal(d.counter, cases[i].counts[n]);
		}
		assert_int_equal(a.last_ns != 0, cases[i].first == TG_PASS);
	}
}

/* What is written is what is read, for every combination; into exactly the room
 * that was announced, and refused if one byte is missing. */
/* options_known.h: every layout of its table is known, says what the parser says, and is
 * known no more when a byte that matters is another. */
static void layouts_that_are_known(void **state)
{
	static const struct {
		uint32_t len;
		uint8_t bytes[24];
		uint32_t matters; /* a byte without which it is something else */
	} layouts[] = {
		{0, {0}, 0},
		{4, {2, 4, 2, 0x18}, 1},
		{8, {2, 4, 5, 0xb4, 1, 1, 4, 2}, 6},
		{8, {2, 4, 5, 0xb4, 1, 3, 3, 2}, 5},
		{12, {2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2}, 10},
		{12, {2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 15}, 9},
		{20, {2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7}, 17},
		{20, {2, 4, 5, 0xb4, 1, 3, 3, 6, 4, 2, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0}, 10},
		{24, {2, 4, 5, 0xb4, 1, 3, 3, 6, 1, 1, 8, 10, 9, 8, 7, 6, 0, 0, 0, 1, 4, 2, 0, 0}, 20},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		struct tg_tcp_options o = parse(layouts[i].bytes, layouts[i].len), known;
		uint8_t other[24];

		assert_true(tg_tcp_options_known(layouts[i].bytes, layouts[i].len, &known));
		assert_true(known.mss == o.mss && known.wscale == o.wscale &&
			    known.sack_ok == o.sack_ok && known.ts_ok == o.ts_ok &&
			    known.tsval == o.tsval && known.tsecr == o.tsecr);
		memcpy(other, layouts[i].bytes, sizeof(other));
		other[layouts[i].matters] = 77;
		if (layouts[i].len)
			assert_false(tg_tcp_options_known(other, layouts[i].len, &known));
	}
}

static void write_then_read(void **state)
{
	uint32_t n;

	(void)state;
	for (n = 0; n < 16 * 4; n++) {
		struct tg_tcp_options in = {.mss = (uint16_t)(n * 997 + 1),
					    .wscale = n & 15,
					    .sack_ok = n >> 4 & 1,
					    .ts_ok = n >> 5 & 1,
					    .tsval = 0xa1b2c3d4,
					    .tsecr = 0x01020304},
				      out;
		uint32_t len = tg_tcp_options_len(&in);
		uint8_t *room = malloc(len);
		struct tg_writer w = {room, room + len}, cut = {room, room + len - 1};
		uint64_t sum = 5;

		assert_true(len % 4 == 0 && len <= 20);
		assert_true(tg_tcp_options_write(&w, &in, &sum));
		assert_true(w.at == w.end);
		assert_int_equal(tg_csum_fold(sum), tg_csum_fold(tg_csum_add(5, room, len)));
		out = parse(room, len);
		assert_int_equal(out.mss, in.mss);
		assert_int_equal(out.wscale, in.wscale);
		assert_int_equal(out.sack_ok, in.sack_ok);
		assert_int_equal(out.ts_ok, in.ts_ok);
		if (in.ts_ok) {
			assert_int_equal(out.tsval, in.tsval);
			assert_int_equal(out.tsecr, in.tsecr);
		}
		assert_false(tg_tcp_options_write(&cut, &in, &sum));
		free(room);
	}
}

int tg_test_options(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_said),
		cmocka_unit_test(as_linux_sends_them),
		cmocka_unit_test(window_scale_bounds),
		cmocka_unit_test(wrong_lengths_are_skipped),
		cmocka_unit_test(lies_end_the_list),
		cmocka_unit_test(repeated_options_last_counts),
		cmocka_unit_test(longer_than_tcp_allows),
		cmocka_unit_test(cut_everywhere),
		cmocka_unit_test(forty_one_byte_options),
		cmocka_unit_test(aligned_timestamps),
		cmocka_unit_test(signatures),
		cmocka_unit_test(what_becomes_of_signed_syns),
		cmocka_unit_test(layouts_that_are_known),
		cmocka_unit_test(write_then_read),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
