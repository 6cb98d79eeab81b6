/* SPDX-License-Identifier: Apache-2.0
 *
 * Allow and deny lists: a denied source's SYNs are dropped, whatever else is known of it, and nothing
 * else is; a table that is none is refused; one that is broken harms nobody.
 */
#include "../bench/traffic.h"
#include "talk.h"
#include "tests.h"

#define BLOCKS 40

static uint8_t f[TALK_FRAME_MAX];

/* What becomes of the client's SYN to a service: frames sent to port 0 (1: back), or -1. */
static int syn(struct harness *h, uint8_t family, uint32_t number, uint16_t port)
{
	struct talk t = {
		.family = family, .ts = true, .port = port, .number = number, .client_isn = 9};
	int to = -1;

	harness_forget(h);
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	if (h->caught_n == 1)
		to = h->caught[0].port;
	return to;
}

/* The clients of talk.c are 11.1.x.y; these are denied from 11.1.2.0 to 11.1.3.255. */
static void denied_are_dropped(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	uint32_t i, roomy;

	talk_services(h);
	talk_deny(h, TG_WIRE32(11, 1, 2, 0), 23, 32);
	for (roomy = 0; roomy < 2; roomy++) {
		h->roomy = roomy;
		for (i = 1; i <= TALK_SERVICES; i++) {
			uint16_t port = (uint16_t)(79 + i);

			CHECK_EQ(syn(h, 4, 0x1ff, port), 0, "the last before");
			CHECK_EQ(syn(h, 4, 0x200, port), -1, "the first");
			CHECK_EQ(syn(h, 4, 0x3ff, port), -1, "the last");
			CHECK_EQ(syn(h, 4, 0x400, port), 0, "the first behind");
			CHECK_EQ(syn(h, 6, 0x200, port), -1, "of the other family");
			CHECK_EQ(harness_count(h, i, TG_COUNT_drop_denied), 3 * (roomy + 1),
				 "counted");
			CHECK_EQ(harness_count(h, i, TG_COUNT_syn), 5 * (roomy + 1), "counted");
		}
	}
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	CHECK(h->w->fast.syns > 0, "the fast path answers the others");

	harness_line(h, "service 1 1460 1440 64240 7 1 1 1 1 0 0 0"); /* monitor */
	CHECK_EQ(syn(h, 4, 0x200, 80), 1, "goes on");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_would_drop), 1, "counted");
	harness_line(h, "service 1 1460 1440 64240 7 1 1 1 0 0 0 0"); /* off */
	CHECK_EQ(syn(h, 4, 0x200, 80), 1, "goes on");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_would_drop), 1, "not counted");
	harness_line(h, "clear");
	talk_services(h);
	CHECK_EQ(syn(h, 4, 0x200, 80), -1, "`clear` keeps the lists");
	harness_line(h, "lists");
	CHECK_EQ(syn(h, 4, 0x200, 80), 0, "no lists");
	harness_free(h);
}

/* Neither the whitelist nor a live flow helps a SYN; segments that are none are not looked up. */
static void known_sources_too(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = 4, .port = 81, .number = 0x201, .client_isn = 9};
	struct tg_packet pkt = {.src = {.w = {TG_WIRE32(11, 1, 2, 1)}}, .family = 4};

	talk_services(h);
	(void)tg_whitelist_put(&h->w->white, tg_white_key(&pkt.src, 4, ~0U, ~0ULL));
	CHECK_EQ(syn(h, 4, 0x201, 81), 1, "of a verified client: forwarded");
	talk_deny(h, TG_WIRE32(11, 1, 2, 0), 23, 32);
	CHECK_EQ(syn(h, 4, 0x201, 81), -1, "dropped");
	harness_forget(h);
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 10, 10, TG_TCP_ACK, 20), TG_TO_SERVER);
	CHECK(h->caught_n == 1 && h->caught[0].port == 1, "a segment goes on");
	harness_free(h);
}

/* The change is a new table: a configuration that was copied before keeps its own. */
static void configurations_share(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	union tg_addr a = {.w = {TG_WIRE32(11, 1, 2, 1)}};
	struct tg_config *before, *copy;

	talk_services(h);
	before = tg_config_copy(h->config);
	talk_deny(h, TG_WIRE32(11, 1, 2, 0), 23, 32);
	copy = tg_config_copy(h->config);
	harness_line(h, "lists");
	CHECK(!tg_config_denies(before, 4, &a), "before");
	CHECK(tg_config_denies(copy, 4, &a), "meanwhile");
	CHECK(!tg_config_denies(h->config, 4, &a), "now");
	tg_config_free(before);
	CHECK(tg_config_denies(copy, 4, &a), "still");
	tg_config_free(copy);
	harness_free(h);
}

/* Any blocks at all: answers may be wrong, and end. The sanitizer sees accesses outside. */
static void broken_tables(void)
{
	static struct tg_list_block blocks[BLOCKS];
	struct tg_source_table t = {.n = BLOCKS, .blocks = blocks};
	uint64_t seed = 5, kinds[4] = {0};
	uint32_t round, i, n;

	for (round = 0; round < 2000; round++) {
		for (i = 0; i < BLOCKS; i++)
			for (n = 0; n < TG_LIST_WORDS; n++)
				blocks[i].word[n] = (uint32_t)tg_splitmix(&seed) >>
							    (round % 3 ? 0 : 26) |
						    (round & 1 ? 3U << 30 | (uint32_t)(round % 8) << 27
							       : 0);
		blocks[0].word[TG_LIST_AT_MAGIC] = TG_LIST_MAGIC;
		blocks[0].word[TG_LIST_AT_WIDE4] = blocks[0].word[TG_LIST_AT_WIDE6] = round % 4;
		for (i = 0; i < 20; i++) {
			union tg_addr a = {.d = {tg_splitmix(&seed), tg_splitmix(&seed)}};

			kinds[tg_source_table_says(&t, i & 1 ? 4 : 6, &a)]++;
		}
	}
	CHECK_EQ(kinds[TG_LISTED_MORE], 0, "never an answer");
	CHECK(kinds[TG_LISTED_DENY] && kinds[TG_LISTED_ALLOW] && kinds[TG_LISTED_NONE],
	      "all kinds");
}

void test_lists(void)
{
	denied_are_dropped();
	known_sources_too();
	configurations_share();
	broken_tables();
}
