/* SPDX-License-Identifier: Apache-2.0
 *
 * A router's tables, packets whose next hop is not known yet, and packets that are cut.
 */
#include <stdio.h>

#include "frame.h"
#include "talk.h"
#include "tests.h"

#define CLIENT 0 /* ports */
#define SERVER 1

static uint8_t f[TALK_FRAME_MAX];

static struct harness *router(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);

	talk_services(h);
	harness_line(h, "forwarding router");
	harness_line(h, "link 0 0 cb007102 20010db8000900000000000000000002");
	harness_line(h, "link 1 0 cb007103 20010db8000900000000000000000003");
	memcpy(h->w->ports[CLIENT].mac, "\x02\0\0\0\0\x01", 6);
	harness_tick(h, 1000);
	return h;
}

static uint32_t segment(uint8_t family, uint32_t data_len)
{
	struct talk t = {.family = family, .port = 99, .number = 3, .client_isn = 9};

	return talk_segment(f, &t, TG_TO_SERVER, 100, 200, TG_TCP_ACK, data_len);
}

/* The next hop is requested once, a few packets wait, and are sent when it is resolved. */
static void waits(uint8_t family)
{
	struct harness *h = router();
	uint32_t len = segment(family, 10), i, asked = 0;
	struct tg_ask ask;

	harness_line(
		h, "gateway %u 0 00000000000000000000000000000000 1 6 fe800000000000000000000000000009",
		family);
	for (i = 0; i < 6; i++)
		talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 0, "nothing is sent to an unresolved neighbour");
	CHECK_EQ(harness_count(h, 0, TG_COUNT_drop_no_neighbour), 2, "four wait");
	while (tg_asks_take(&h->w->waiting.asks, &ask))
		asked++;
	CHECK(asked == 1 && ask.family == 6 && ask.port == SERVER && !ask.host,
	      "asked for once: %u", asked);
	harness_line(h, "neighbour 6 fe800000000000000000000000000009 0 020000000908");
	CHECK_EQ(h->caught_n, 0, "a neighbour of another port is another");
	harness_line(h, "neighbour 6 fe800000000000000000000000000009 1 020000000909");
	CHECK_EQ(h->caught_n, 4, "they go on");
	CHECK(h->caught_n && memcmp(h->caught[0].frame, "\x02\0\0\0\x09\x09", 6) == 0 &&
		      h->caught[0].port == SERVER,
	      "to it");
	harness_forget(h);
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 1, "and so do later ones");
	harness_forget(h);
	harness_line(h, "neighbour 6 fe800000000000000000000000000009 1 000000000000");
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 0, "until it is none any more");
	harness_tick(h, TG_WAIT_MS);
	CHECK(h->caught_n == 1 && h->caught[0].port == CLIENT, "its sender gets an ICMP error");
	CHECK_EQ(h->caught_n ? h->caught[0].frame[14 + (family == 4 ? 20 : 40)] : 0,
		 family == 4 ? 3 : 1, "unreachable");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

/* A scan of a prefix fills only the places of this prefix. */
static void scanned(void)
{
	struct harness *h = router();
	uint32_t len = segment(4, 10), i, asked = 0;
	struct tg_ask ask;

	harness_line(h, "onlink 4 24 c6330000000000000000000000000000 1");
	harness_line(h, "onlink 4 24 c6330100000000000000000000000000 1");
	for (i = 0; i < 200; i++) {
		memcpy(f + 30, (uint8_t[]){198, 51, 0, (uint8_t)(i + 1)}, 4);
		talk_put(h, f, len, TG_TO_SERVER);
	}
	while (tg_asks_take(&h->w->waiting.asks, &ask))
		asked++;
	CHECK_EQ(asked, TG_WAIT_A_ROUTE, "so many of one prefix are asked for");
	memcpy(f + 30, (uint8_t[]){198, 51, 1, 1}, 4);
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK(tg_asks_take(&h->w->waiting.asks, &ask) && ask.host, "and of another still");
	harness_free(h); /* aborts if waiting buffers are not freed */
}

/* More routes than any small table, longest prefix first; a copy is a table of its own. */
static void many(void)
{
	struct tg_config *b = tg_config_new(), *copy;
	union tg_addr a = {{0, 0}};
	const struct tg_route *r;
	char line[128];
	uint32_t i;

	for (i = 0; i < 3000; i++) {
		snprintf(line, sizeof(line),
			 "route 4 24 0a%02x%02x00000000000000000000000000 %u 0200000000%02x",
			 i >> 8, i & 255, i & 1, i & 255);
		CHECK(!tg_config_line(b, line), "a route");
	}
	strcpy(line, "route 4 16 0a010000000000000000000000000000 7 020000000077");
	CHECK(!tg_config_line(b, line), "a wider one");
	copy = tg_config_copy(b);
	strcpy(line, "local 4 32 0a000105000000000000000000000000");
	CHECK(!tg_config_line(copy, line), "one in the copy");
	for (i = 0; i < 3000; i++) {
		a.w[0] = TG_WIRE32(10, i >> 8, i, 5);
		r = tg_config_route(b, &a, 4);
		CHECK(r && r->prefix_len == 24 && r->mac[5] == (i & 255), "route %u", i);
	}
	a.w[0] = TG_WIRE32(10, 0, 1, 5);
	r = tg_config_route(copy, &a, 4);
	CHECK(r && r->kind == TG_ROUTE_LOCAL, "the longest of the copy");
	a.w[0] = TG_WIRE32(11, 0, 1, 5);
	CHECK(!tg_config_route(b, &a, 4), "none");
	strcpy(line, "key 5 0011223344556677x");
	CHECK(strcmp(tg_config_line_name(line), "key") == 0 && tg_config_line(b, line),
	      "a bad key is refused");
	strcpy(line, "00112233 5");
	CHECK(tg_config_line_name(line)[0] == 0, "an unknown line has no name");
	tg_config_free(b);
	tg_config_free(copy);
}

/* A packet too long for the next link is fragmented, if allowed. */
static void cut(void)
{
	struct harness *h = router();
	uint32_t len = segment(4, 100), i, data = 0;

	harness_line(h, "route 4 0 00000000000000000000000000000000 1 020000000901");
	harness_line(h, "link 1 100 cb007103 20010db8000900000000000000000003");
	f[20] &= 0xbf; /* no DF */
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 2, "two pieces");
	for (i = 0; i < h->caught_n; i++) {
		const uint8_t *ip = h->caught[i].frame + 14;

		CHECK(h->caught[i].len <= 114 && tg_swap16(tg_load16(ip + 2)) == h->caught[i].len - 14,
		      "piece %u: length", i);
		CHECK_EQ(tg_csum_fold(tg_csum_add(0, ip, 20)), 0xffff, "checksum");
		CHECK_EQ(tg_swap16(tg_load16(ip + 6)), i ? 10U : 0x2000U, "place");
		CHECK(memcmp(ip + 20, f + 34 + data, h->caught[i].len - 34) == 0, "data");
		data += h->caught[i].len - 34;
	}
	CHECK_EQ(data, len - 34, "all of it");
	harness_forget(h);
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

void test_router(void)
{
	waits(4);
	waits(6);
	scanned();
	many();
	cut();
}
