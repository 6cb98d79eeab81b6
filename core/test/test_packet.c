/* SPDX-License-Identifier: Apache-2.0
 *
 * The packet parser: what each frame is, where its parts stand, and that no byte
 * outside the frame is read (every frame is a heap block of its exact size).
 * Whole frames against verdicts and answers are in vectors/.
 */
#include "test.h"

struct frame {
	uint8_t bytes[512];
	uint32_t len;
};

static void put(struct frame *f, const void *bytes, uint32_t len)
{
	assert_true(f->len + len <= sizeof(f->bytes));
	memcpy(f->bytes + f->len, bytes, len);
	f->len += len;
}

#define PUT(f, text) put(f, text, sizeof(text) - 1)

static struct frame ethernet(const char *tags_and_type, uint32_t len)
{
	struct frame f = {.len = 0};

	PUT(&f, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02");
	put(&f, tags_and_type, len);
	return f;
}

/* 20 bytes, port 1234 to 80, SYN, data offset 5 */
#define TCP_SYN "\x04\xd2\x00\x50\x01\x02\x03\x04\x00\x00\x00\x00\x50\x02\xff\xff\x00\x00\x00\x00"
#define V4_ADDRS "\xc0\x00\x02\x01\xc6\x33\x64\x07"
#define V6_ADDRS                                                                                   \
	"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"                         \
	"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02"

static enum tg_parse_result parse(const struct frame *f, struct tg_packet *pkt)
{
	uint8_t *exact = tg_test_exact(f->bytes, f->len);
	enum tg_parse_result result;

	memset(pkt, 0, sizeof(*pkt));
	result = tg_packet_parse(pkt, exact, exact + f->len);
	free(exact);
	return result;
}

static struct frame v4_syn(void)
{
	struct frame f = ethernet("\x08\x00", 2);

	PUT(&f, "\x45\x00\x00\x28\x00\x00\x40\x00\x40\x06\x00\x00" V4_ADDRS TCP_SYN);
	return f;
}

/* An IPv6 frame whose first next-header is `next` and payload `ext` then a SYN. */
static struct frame v6_syn(uint8_t next, const void *ext, uint32_t ext_len)
{
	struct frame f = ethernet("\x86\xdd", 2);
	uint8_t fixed[8] = {0x60, 0, 0, 0, (uint8_t)((ext_len + 20) >> 8), (uint8_t)(ext_len + 20),
			    next, 64};

	put(&f, fixed, 8);
	PUT(&f, V6_ADDRS);
	put(&f, ext, ext_len);
	PUT(&f, TCP_SYN);
	return f;
}

static void v4_parts(void **state)
{
	struct frame f = v4_syn();
	struct tg_packet p;

	(void)state;
	f.bytes[15] = 47 << 2 | 1;
	assert_int_equal(parse(&f, &p), TG_PARSE_TCP);
	assert_int_equal(p.ip_dscp, 47);
	assert_int_equal(p.ip_ecn, 1);
	assert_int_equal(p.family, 4);
	assert_int_equal(p.l3_off, 14);
	assert_int_equal(p.l4_off, 34);
	assert_int_equal(p.l4_len, 20);
	assert_int_equal(tg_swap16(TG_SRC_PORT_BE(&p)), 1234);
	assert_int_equal(tg_swap16(TG_DST_PORT_BE(&p)), 80);
	assert_int_equal(p.seq, 0x01020304);
	assert_int_equal(p.tcp_hdr_len, 20);
	assert_int_equal(p.flags, TG_TCP_SYN);
	assert_int_equal(p.src.w[0], TG_WIRE32(192, 0, 2, 1));
	assert_int_equal(p.dst.w[0], TG_WIRE32(198, 51, 100, 7));
	assert_false(p.group_frame);
}

static void v6_parts(void **state)
{
	struct frame f = v6_syn(6, "", 0);
	struct tg_packet p;

	(void)state;
	f.bytes[14] |= 0xb; /* codepoint 47, over two bytes */
	f.bytes[15] |= 0xc0;
	f.bytes[15] |= 0x30; /* CE, in the traffic class */
	assert_int_equal(parse(&f, &p), TG_PARSE_TCP);
	assert_int_equal(p.family, 6);
	assert_int_equal(p.l4_off, 54);
	assert_int_equal(p.l4_len, 20);
	assert_int_equal(p.ip_ecn, 3);
	assert_int_equal(p.ip_dscp, 47);
	assert_int_equal(p.src.w[3], TG_WIRE32(0, 0, 0, 1));
	assert_int_equal(p.dst.w[3], TG_WIRE32(0, 0, 0, 2));
}

/* Truncated at every byte: TCP only when all 54 (74) bytes are there; never read beyond. */
static void cut_at_every_byte(void **state)
{
	struct frame whole[2] = {v4_syn(), v6_syn(6, "", 0)};
	uint32_t ip_end[2] = {34, 54}, i, len;

	(void)state;
	for (i = 0; i < 2; i++)
		for (len = 0; len <= whole[i].len; len++) {
			struct frame f = whole[i];
			struct tg_packet p;

			f.len = len;
			assert_int_equal(parse(&f, &p), len == whole[i].len ? TG_PARSE_TCP
							: len >= ip_end[i]  ? TG_PARSE_CUT_TCP
									    : TG_PARSE_OTHER);
		}
}

static void vlan_tags(void **state)
{
	static const struct {
		const char *tags;
		uint32_t len, l3_off;
	} t[] = {
		{"\x81\x00\x00\x05\x08\x00", 6, 18},
		{"\x88\xa8\x00\x05\x08\x00", 6, 18},
		{"\x91\x00\x00\x05\x08\x00", 6, 18},
		{"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00", 10, 22},
		{"\x81\x00\x00\x05\x81\x00\x00\x06\x08\x00", 10, 22},
		{"\x81\x00\x00\x05\x81\x00\x00\x06\x81\x00\x00\x07\x08\x00", 14, 0},
		{"\x81\x00\x00\x05\x81\x00\x00\x06\x81\x00\x00\x07\x88\xa8\x00\x08\x08\x00", 18, 0},
	};
	struct frame untagged = v4_syn();
	struct tg_packet p;
	uint32_t i;

	(void)state;
	for (i = 0; i < 7; i++) {
		struct frame f = ethernet(t[i].tags, t[i].len);

		put(&f, untagged.bytes + 14, untagged.len - 14);
		assert_int_equal(parse(&f, &p), t[i].l3_off ? TG_PARSE_TCP : TG_PARSE_TAGS);
		if (t[i].l3_off) {
			assert_int_equal(p.l3_off, t[i].l3_off);
		} else {
			f.bytes[12 + t[i].len + 9] = 17; /* UDP is nothing of ours */
			assert_int_equal(parse(&f, &p), TG_PARSE_OTHER);
		}
		f.len = 12 + t[i].len - 1; /* cut inside the last tag */
		assert_int_equal(parse(&f, &p), TG_PARSE_OTHER);
	}
}

static void v4_header_lengths(void **state)
{
	struct frame f = v4_syn();
	struct tg_packet p;
	uint32_t ihl;

	(void)state;
	for (ihl = 0; ihl < 5; ihl++) {
		f.bytes[14] = (uint8_t)(0x40 | ihl);
		assert_int_equal(parse(&f, &p), TG_PARSE_OTHER);
	}
	for (ihl = 6; ihl < 16; ihl++) { /* options, but the total length says 40 */
		f.bytes[14] = (uint8_t)(0x40 | ihl);
		assert_int_equal(parse(&f, &p), ihl * 4 > 40 ? TG_PARSE_OTHER : TG_PARSE_CUT_TCP);
	}
	f.bytes[14] = 0x65; /* version 6 under ethertype 0x0800 */
	assert_int_equal(parse(&f, &p), TG_PARSE_OTHER);
}

static void v4_fragments(void **state)
{
	static const struct {
		uint16_t field;
		enum tg_parse_result want;
	} t[] = {
		{0x0000, TG_PARSE_TCP},      {0x4000, TG_PARSE_TCP},     {0x8000, TG_PARSE_TCP},
		{0x2000, TG_PARSE_FRAGMENT}, {0x2001, TG_PARSE_OVERLAY}, {0x0001, TG_PARSE_OVERLAY},
		{0x2002, TG_PARSE_OVERLAY},  {0x0003, TG_PARSE_OTHER},   {0x1fff, TG_PARSE_OTHER},
	};
	struct frame f = v4_syn();
	struct tg_packet p;
	uint32_t i;

	(void)state;
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		f.bytes[20] = (uint8_t)(t[i].field >> 8);
		f.bytes[21] = (uint8_t)t[i].field;
		assert_int_equal(parse(&f, &p), t[i].want);
	}
}

static void v6_extension_headers(void **state)
{
	/* next header is TCP in each; 8 bytes unless said */
	static const struct {
		uint8_t kind;
		const char *bytes;
		uint32_t len;
		enum tg_parse_result want;
	} t[] = {
		{0, "\x06\x00\x01\x04\x00\x00\x00\x00", 8, TG_PARSE_TCP},
		{60, "\x06\x00\x01\x04\x00\x00\x00\x00", 8, TG_PARSE_TCP},
		{60, "\x06\x01\x01\x0c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 16,
		 TG_PARSE_TCP},
		{43, "\x06\x00\x04\x00\x00\x00\x00\x00", 8, TG_PARSE_TCP}, /* no segments left */
		{43, "\x06\x00\x04\x01\x00\x00\x00\x00", 8, TG_PARSE_OTHER}, /* one left */
		{44, "\x06\x00\x00\x00\x00\x00\x00\x01", 8, TG_PARSE_TCP}, /* atomic */
		{44, "\x06\xff\x00\x00\x00\x00\x00\x01", 8, TG_PARSE_TCP}, /* reserved byte ignored */
		{44, "\x06\x00\x00\x01\x00\x00\x00\x01", 8, TG_PARSE_FRAGMENT},
		{44, "\x06\x00\x00\x08\x00\x00\x00\x01", 8, TG_PARSE_OVERLAY},
		{44, "\x06\x00\x00\x11\x00\x00\x00\x01", 8, TG_PARSE_OVERLAY},
		{44, "\x06\x00\x00\x18\x00\x00\x00\x01", 8, TG_PARSE_OTHER},
		{44, "\x3c\x00\x00\x08\x00\x00\x00\x01", 8, TG_PARSE_OTHER},
		{51, "\x06\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 12, TG_PARSE_OTHER},
		{50, "\x06\x00\x00\x00\x00\x00\x00\x00", 8, TG_PARSE_OTHER}, /* ESP */
		{60, "\x06\xff\x00\x00\x00\x00\x00\x00", 8, TG_PARSE_OTHER}, /* beyond the payload */
	};
	struct tg_packet p;
	uint32_t i;

	(void)state;
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct frame f = v6_syn(t[i].kind, t[i].bytes, t[i].len);

		if (parse(&f, &p) != t[i].want)
			fail_msg("case %u: %d", i, parse(&f, &p));
		if (t[i].want == TG_PARSE_TCP) {
			assert_int_equal(p.l4_off, 54 + t[i].len);
			assert_int_equal(p.l4_len, 20);
		}
	}
}

static void v6_chain_length(void **state)
{
	uint8_t chain[8 * 8];
	struct tg_packet p;
	uint32_t n, i;

	(void)state;
	for (n = 1; n <= 8; n++) {
		struct frame f;

		memset(chain, 0, sizeof(chain));
		for (i = 0; i < n; i++) {
			chain[8 * i] = i + 1 == n ? 6 : 60;
			memcpy(chain + 8 * i + 2, "\x01\x04\x00\x00\x00\x00", 6); /* PadN */
		}
		f = v6_syn(60, chain, 8 * n);
		assert_int_equal(parse(&f, &p),
				 n <= TG_IPV6_EXT_MAX ? TG_PARSE_TCP : TG_PARSE_EXT_CHAIN);
	}
}

/* The bytes of all headers together; and what follows them, if it is not TCP. */
static void v6_chain_bytes(void **state)
{
	static const struct {
		uint32_t bytes;
		uint8_t last; /* next header of the chain's end */
		enum tg_parse_result want;
	} t[] = {
		{TG_IPV6_EXT_BYTES_MAX, 6, TG_PARSE_TCP},
		{TG_IPV6_EXT_BYTES_MAX + 8, 6, TG_PARSE_EXT_CHAIN},
		{TG_IPV6_EXT_BYTES_MAX + 8, 60, TG_PARSE_EXT_CHAIN}, /* continues: not parsed */
		{TG_IPV6_EXT_BYTES_MAX + 8, 17, TG_PARSE_OTHER},
		{TG_IPV6_EXT_BYTES_MAX + 8, 50, TG_PARSE_OTHER},
	};
	uint8_t chain[TG_IPV6_EXT_BYTES_MAX + 8];
	struct tg_packet p;
	uint32_t i, first;

	(void)state;
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (first = 8; first < t[i].bytes; first += 8) {
			struct frame f;

			memset(chain, 0, sizeof(chain));
			chain[0] = 60;
			chain[1] = (uint8_t)(first / 8 - 1);
			chain[first] = t[i].last;
			chain[first + 1] = (uint8_t)((t[i].bytes - first) / 8 - 1);
			f = v6_syn(60, chain, t[i].bytes);
			if (parse(&f, &p) != t[i].want)
				fail_msg("case %u, first header of %u: %d", i, first, parse(&f, &p));
			assert_true(t[i].want != TG_PARSE_TCP || p.l4_off <= TG_L4_OFF_MAX);
		}
	}
}

/* RFC 7112: a first fragment holds the whole chain. */
static void v6_first_fragment_cuts_chain(void **state)
{
	static const char chain[] = "\x3c\x00\x00\x01\x00\x00\x00\x01" /* fragment 0, more */
				    "\x06\x01\x01\x0c\0\0\0\0\0\0\0\0\0\0\0\0"; /* 16 bytes of options */
	struct frame f = v6_syn(44, chain, 24);
	struct tg_packet p;
	uint32_t n;

	(void)state;
	assert_int_equal(parse(&f, &p), TG_PARSE_FRAGMENT);
	for (n = 8; n <= 24; n++) {
		f.bytes[19] = (uint8_t)n;
		assert_int_equal(parse(&f, &p), n < 24 ? TG_PARSE_CUT_CHAIN : TG_PARSE_CUT_TCP);
	}
	assert_int_equal(tg_host_judge_parse(TG_PARSE_CUT_CHAIN).verdict, TG_DROP);
}

/* An extension header that ends beyond the payload, with a TCP header there. */
static void v6_extension_beyond_payload(void **state)
{
	struct frame f = v6_syn(60, "\x06\x01\x01\x0c\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	struct tg_packet p;

	(void)state;
	assert_int_equal(parse(&f, &p), TG_PARSE_TCP);
	for (f.bytes[19] = 1; f.bytes[19] < 16; f.bytes[19]++)
		assert_int_equal(parse(&f, &p), TG_PARSE_OTHER);
	f.bytes[19] = 16;
	assert_int_equal(parse(&f, &p), TG_PARSE_CUT_TCP);
}

/* Length 0: Linux uses the frame's length if hop-by-hop options follow. An earlier parser dropped
 * such SYNs, and let ACKs bypass every gate. */
static void v6_no_length(void **state)
{
	static const char options[] = "\x06\0\x01\x04\0\0\0\0";
	static const char fragment[] = "\x2c\0\x01\x04\0\0\0\0\x06\0\0\0\0\0\0\x01";
	struct frame f = v6_syn(6, "", 0);
	struct tg_packet p;
	uint8_t flags;

	(void)state;
	for (flags = TG_TCP_SYN; flags <= TG_TCP_ACK; flags *= 8) {
		f = v6_syn(6, "", 0);
		f.bytes[18] = f.bytes[19] = 0;
		f.bytes[54 + 13] = flags;
		assert_int_equal(parse(&f, &p), TG_PARSE_OTHER); /* ends before TCP */
		f = v6_syn(0, options, 8);
		f.bytes[18] = f.bytes[19] = 0;
		f.bytes[62 + 13] = flags;
		assert_int_equal(parse(&f, &p), TG_PARSE_TCP);
		assert_int_equal(p.l4_off, 62);
		assert_true(tg_packet_is_unmeasured(&p));
		assert_true(p.l4_off + p.l4_len > 65535 + 62);
		tg_packet_measure(&p, f.len + 100000); /* it continues beyond what was parsed */
		assert_int_equal(p.l4_len, f.len - 62 + 100000);
		f.len = 62 + 19;
		assert_int_equal(parse(&f, &p), TG_PARSE_CUT_TCP);
	}
	/* Whole, or a first fragment: Linux accepts neither. */
	for (flags = 0; flags <= 1; flags++) {
		f = v6_syn(0, fragment, 16);
		f.bytes[18] = f.bytes[19] = 0;
		f.bytes[62 + 3] = flags;
		assert_int_equal(parse(&f, &p), TG_PARSE_EXT_CHAIN);
	}
	f = v6_syn(6, "", 0);
	f.bytes[18] = f.bytes[19] = 0xff;
	assert_int_equal(parse(&f, &p), TG_PARSE_TCP);
	tg_packet_measure(&p, f.len);
	assert_int_equal(p.l4_len, 65535);
}

static void sources(void **state)
{
	static const struct {
		uint8_t a[4];
		bool bogus;
	} v4[] = {
		{{192, 0, 2, 1}, false}, {{0, 0, 0, 0}, true},         {{0, 1, 2, 3}, true},
		{{127, 0, 0, 1}, true},  {{127, 9, 9, 9}, true},       {{224, 0, 0, 1}, true},
		{{239, 1, 1, 1}, true},  {{255, 255, 255, 255}, true}, {{198, 51, 100, 7}, true},
		{{1, 0, 0, 0}, false},   {{10, 0, 0, 255}, false},     {{126, 0, 0, 1}, false},
	};
	static const struct {
		uint8_t a[16];
		bool bogus;
	} v6[] = {
		{{0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, false},
		{{0}, true},
		{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, true},
		{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, false},
		{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1}, true}, /* v4-mapped */
		{{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1}, false}, /* NAT64 */
		{{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, true},
		{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, false},
		{{0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, true}, /* land */
	};
	struct tg_packet p;
	struct frame f;
	uint32_t i;

	(void)state;
	for (i = 0; i < sizeof(v4) / sizeof(v4[0]); i++) {
		f = v4_syn();
		memcpy(f.bytes + 26, v4[i].a, 4);
		parse(&f, &p);
		assert_int_equal(tg_packet_source_is_bogus(&p), v4[i].bogus);
	}
	for (i = 0; i < sizeof(v6) / sizeof(v6[0]); i++) {
		f = v6_syn(6, "", 0);
		memcpy(f.bytes + 22, v6[i].a, 16);
		parse(&f, &p);
		if (tg_packet_source_is_bogus(&p) != v6[i].bogus)
			fail_msg("IPv6 source %u", i);
	}
}

static void groups(void **state)
{
	struct tg_packet p;
	struct frame f = v4_syn();

	(void)state;
	parse(&f, &p);
	assert_false(tg_packet_is_group(&p));
	f.bytes[0] = 0x01; /* multicast MAC */
	parse(&f, &p);
	assert_true(tg_packet_is_group(&p));
	f = v4_syn();
	f.bytes[30] = 239;
	parse(&f, &p);
	assert_true(tg_packet_is_group(&p));
	memset(f.bytes + 30, 0xff, 4);
	parse(&f, &p);
	assert_true(tg_packet_is_group(&p));
	f = v6_syn(6, "", 0);
	f.bytes[38] = 0xff;
	parse(&f, &p);
	assert_true(tg_packet_is_group(&p));
}

int tg_test_packet(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(v4_parts),
		cmocka_unit_test(v6_parts),
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(vlan_tags),
		cmocka_unit_test(v4_header_lengths),
		cmocka_unit_test(v4_fragments),
		cmocka_unit_test(v6_extension_headers),
		cmocka_unit_test(v6_chain_length),
		cmocka_unit_test(v6_chain_bytes),
		cmocka_unit_test(v6_first_fragment_cuts_chain),
		cmocka_unit_test(v6_extension_beyond_payload),
		cmocka_unit_test(v6_no_length),
		cmocka_unit_test(sources),
		cmocka_unit_test(groups),
	};

	return cmocka_run_group_tests_name("packet", tests, NULL, NULL);
}
