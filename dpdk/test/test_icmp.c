/* SPDX-License-Identifier: Apache-2.0
 *
 * ICMP errors of a router: when one is sent, when none may be, what it says and quotes.
 */
#include "icmp_error.h"
#include "talk.h"
#include "tests.h"

#define MTU 120
#define CLIENT 0 /* ports */
#define SERVER 1

static const uint8_t addr4[4] = {203, 0, 113, 2};
static const uint8_t addr6[16] = {0x20, 1, 0x0d, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
static uint8_t f[TALK_FRAME_MAX];

static struct harness *router(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);

	talk_services(h);
	harness_line(h, "forwarding router");
	harness_line(h, "route 4 24 c6120100000000000000000000000000 1 020000000901");
	harness_line(h, "route 4 0 00000000000000000000000000000000 0 020000000900");
	harness_line(h, "route 6 0 00000000000000000000000000000000 1 020000000901");
	harness_line(h, "link 0 0 cb007102 20010db8000900000000000000000002");
	harness_line(h, "link 1 %u cb007103 20010db8000900000000000000000003", MTU);
	memcpy(h->w->ports[CLIENT].mac, "\x02\0\0\0\0\x01", 6);
	harness_tick(h, 1000);
	return h;
}

/* Checks one ICMP error about frame `was`, and that nothing else came. */
static void error_is(struct harness *h, const uint8_t *was, uint32_t was_len, uint8_t type,
		     uint8_t code, uint32_t mtu)
{
	uint8_t family = was[12] == 0x08 ? 4 : 6;
	uint32_t hdr = family == 4 ? 20 : 40, len, quoted = was_len - 14;
	const uint8_t *d, *ip, *icmp;
	uint64_t sum = 0;

	CHECK_EQ(h->caught_n, 1, "one ICMP error");
	if (h->caught_n != 1)
		return;
	d = h->caught[0].frame, ip = d + 14, icmp = ip + hdr;
	len = h->caught[0].len;
	CHECK_EQ(h->caught[0].port, CLIENT, "back where the packet came from");
	CHECK(memcmp(d, was + 6, 6) == 0 && memcmp(d + 6, was, 6) == 0,
	      "Ethernet addresses change places");
	CHECK_EQ(len, 14 + hdr + 8 + quoted, "it quotes all of a short packet");
	CHECK(memcmp(icmp + 8, was + 14, quoted) == 0, "the quote is the unchanged packet");
	CHECK(icmp[0] == type && icmp[1] == code, "type %u code %u", icmp[0], icmp[1]);
	CHECK_EQ(tg_swap32(tg_load32(icmp + 4)), mtu, "MTU");
	if (family == 4) {
		CHECK(memcmp(ip + 12, addr4, 4) == 0 && memcmp(ip + 16, was + 26, 4) == 0,
		      "addresses");
		CHECK_EQ(tg_csum_fold(tg_csum_add(0, ip, 20)), 0xffff, "IP checksum");
		CHECK_EQ(tg_swap16(tg_load16(ip + 2)), len - 14, "length");
	} else {
		CHECK(memcmp(ip + 8, addr6, 16) == 0 && memcmp(ip + 24, was + 22, 16) == 0,
		      "addresses");
		CHECK_EQ(tg_swap16(tg_load16(ip + 4)), len - 54, "length");
		sum = tg_csum_add(TG_WIRE32(0, 0, (len - 54) >> 8, len - 54), ip + 8, 32) +
		      tg_swap16(58);
	}
	CHECK_EQ(tg_csum_fold(tg_csum_add(sum, icmp, len - 14 - hdr)), 0xffff, "ICMP checksum");
	harness_forget(h);
}

/* A packet of no known connection, and a translated one: both are quoted as
 * their sender knows them. */
static void too_big(uint8_t family, bool translated)
{
	struct harness *h = router();
	struct talk t = {.family = family,
			 .ts = true,
			 .port = translated ? 80 : 99,
			 .number = 3,
			 .client_isn = 9};
	uint32_t len = talk_segment(f, &t, TG_TO_SERVER, 100, 200, TG_TCP_ACK, 100), refused;

	if (family == 4)
		f[20] |= 0x40; /* DF; the checksum does not matter here */
	if (translated) {
		struct tg_flow flow = {.seq_delta = 77777,
				       .ts_delta = 33333,
				       .service = 1,
				       .state = TG_FLOW_READY,
				       .flags = TG_FLOW_TS};
		struct tg_packet pkt = {0};
		struct tg_flow_key key;

		(void)tg_packet_parse(&pkt, f, f + len);
		key = tg_flow_key_of(&pkt, TG_TO_SERVER);
		CHECK(tg_flow_table_insert(&h->w->flows, &key, tg_flow_key_hash(&h->w->flows, &key),
					   tg_presence_flow(&pkt, h->w->presence_salt), &flow),
		      "a place for a flow");
	}
	for (refused = 1; refused <= 2; refused++) {
		h->roomy = refused == 2; /* on the fast path, too */
		talk_put(h, f, len, TG_TO_SERVER);
		error_is(h, f, len, family == 4 ? 3 : 2, family == 4 ? 4 : 0, MTU);
		CHECK_EQ(harness_count(h, 0, TG_COUNT_drop_no_route), refused,
			 "the packet is counted");
	}
	CHECK_EQ(h->w->icmp_errors, 2, "so are the errors");
	len = talk_segment(f, &t, TG_TO_SERVER, 100, 200, TG_TCP_ACK, MTU - (family == 4 ? 52 : 72));
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK(h->caught_n == 1 && h->caught[0].port == SERVER, "one that just fits is forwarded");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

/* Eight segments at once of which one is too long. */
static void one_of_eight(void)
{
	struct harness *h = router();
	struct talk t = {.family = 4, .ts = true, .port = 80, .client_isn = 9};
	struct tg_flow flow = {
		.seq_delta = 77777, .service = 1, .state = TG_FLOW_READY, .flags = TG_FLOW_TS};
	struct rte_mbuf *m[8];
	uint32_t i, len, errors = 0;

	h->roomy = true;
	for (i = 0; i < 8; i++) {
		struct tg_packet pkt = {0};
		struct tg_flow_key key;

		t.number = i + 1;
		len = talk_segment(f, &t, TG_TO_SERVER, 100, 200, TG_TCP_ACK, i == 5 ? 100 : 10);
		f[20] |= 0x40;
		(void)tg_packet_parse(&pkt, f, f + len);
		key = tg_flow_key_of(&pkt, TG_TO_SERVER);
		(void)tg_flow_table_insert(&h->w->flows, &key, tg_flow_key_hash(&h->w->flows, &key),
					   tg_presence_flow(&pkt, h->w->presence_salt), &flow);
		m[i] = harness_frame(h, f, len);
	}
	harness_burst(h, m, 8, CLIENT);
	CHECK_EQ(h->caught_n, 8, "seven segments and an error");
	for (i = 0; i < h->caught_n; i++)
		errors += h->caught[i].port == CLIENT;
	CHECK_EQ(errors, 1, "to its sender");
	harness_free(h);
}

static void ttl(uint8_t family)
{
	struct harness *h = router();
	struct talk t = {.family = family, .port = 99, .number = 3, .client_isn = 9};
	uint32_t len = talk_syn(f, &t);

	f[14 + (family == 4 ? 8 : 7)] = 1;
	talk_put(h, f, len, TG_TO_SERVER);
	error_is(h, f, len, family == 4 ? 11 : 3, 0, 0);
	harness_free(h);
}

/* Packets about which no error is sent, each made from a SYN with an expired TTL. */
static void none(void)
{
	static const struct {
		const char *what;
		uint32_t at; /* byte of the frame */
		uint8_t is;
	} cases[] = {
		{"a group", 30, 224},
		{"a source that is none", 26, 0},
		{"a source that is this host", 26, 127},
		{"a source that is a group", 26, 239},
		{"a later fragment", 21, 5},
		{"an Ethernet group", 0, 0x03},
	};
	struct talk t = {.family = 4, .port = 99, .number = 3, .client_isn = 9};
	struct harness *h = router();
	uint32_t len, i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		len = talk_syn(f, &t);
		f[14 + 8] = 1;
		f[cases[i].at] = cases[i].is;
		talk_put(h, f, len, TG_TO_SERVER);
		CHECK_EQ(h->caught_n, 0, cases[i].what);
	}
	len = talk_syn(f, &t);
	f[14 + 8] = 1, f[14 + 9] = TG_IPPROTO_ICMP, f[34] = 3; /* an ICMP error */
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 0, "an ICMP error");
	f[34] = 8; /* an echo request */
	talk_put(h, f, len, TG_TO_SERVER);
	error_is(h, f, len, 11, 0, 0);
	len = talk_syn(f, &t);
	f[14 + 8] = 1;
	memcpy(f + 30, addr4, 4);
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 0, "a packet for the box itself");
	harness_free(h);
}

static void rate(void)
{
	struct harness *h = router();
	struct talk t = {.family = 4, .port = 99, .number = 3, .client_isn = 9};
	uint32_t len = talk_syn(f, &t), i;

	f[14 + 8] = 1;
	for (i = 0; i < 500; i++)
		talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, TG_ICMP_ERRORS_A_SECOND / 5, "so many at once");
	harness_tick(h, 10);
	for (i = 0; i < 500; i++)
		talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, TG_ICMP_ERRORS_A_SECOND / 5 + TG_ICMP_ERRORS_A_SECOND / 100,
		 "and so many in ten milliseconds");
	CHECK_EQ(harness_count(h, 0, TG_COUNT_drop_no_route), 1000, "all are counted");
	harness_free(h);
}

void test_icmp(void)
{
	int i;

	for (i = 0; i < 4; i++)
		too_big(i & 1 ? 4 : 6, i & 2);
	one_of_eight();
	ttl(4);
	ttl(6);
	none();
	rate();
}
