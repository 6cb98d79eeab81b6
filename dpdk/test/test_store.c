/* SPDX-License-Identifier: Apache-2.0
 *
 * `first_data: store`: several segments, out of order, twice, too many, too old.
 */
#include "talk.h"
#include "tests.h"

static uint8_t f[TALK_FRAME_MAX + 64];

static void put_data(struct harness *h, const struct talk *t, uint32_t offset, uint32_t len)
{
	uint32_t n = talk_segment(f, t, TG_TO_SERVER, t->client_isn + 1 + offset,
				  talk_cookie(t).isn + 1, TG_TCP_ACK | TG_TCP_PSH, len);

	talk_put(h, f, n, TG_TO_SERVER);
}

static void in_order(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = 4,
			 .ts = true,
			 .port = 85,
			 .number = 1,
			 .client_isn = 0xfffffff8,
			 .server_isn = 100};
	struct tg_packet pkt;
	uint32_t i;

	talk_services(h);
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	pkt = talk_caught(h, 0);
	CHECK_EQ(tg_swap16(tg_load16(h->caught[0].frame + pkt.l4_off + 14)), 64240, "a real window");
	harness_forget(h);
	put_data(h, &t, 0, 10); /* the ACK was lost: data open the connection */
	CHECK_EQ(talk_caught(h, 0).flags, TG_TCP_SYN, "the SYN to the server");
	CHECK_EQ(h->caught_n, 1, "and nothing else");
	harness_forget(h);
	put_data(h, &t, 20, 10);
	put_data(h, &t, 10, 10);
	put_data(h, &t, 10, 10); /* twice */
	CHECK_EQ(h->caught_n, 0, "kept");
	talk_put(h, f, talk_synack(f, &t), TG_TO_CLIENT);
	CHECK_EQ(h->caught_n, 4, "ACK and three segments");
	CHECK_EQ(talk_caught(h, 0).l4_len, 32, "the bare ACK first");
	for (i = 0; i < 3; i++) {
		pkt = talk_caught(h, 1 + i);
		CHECK_EQ(h->caught[1 + i].port, 1, "to the server");
		CHECK_EQ(pkt.seq, t.client_isn + 1 + 10 * i, "in order");
		CHECK_EQ(pkt.ack, t.server_isn + 1, "translated");
	}
	CHECK_EQ(harness_count(h, 6, TG_COUNT_store_sent), 3, "sent");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

static void bounded(void)
{
	struct harness *h = harness_new(NULL, 16383, 8192);
	struct talk t = {.family = 6, .ts = false, .port = 85, .client_isn = 1000};
	uint32_t i;

	talk_services(h);
	t.number = 5;
	for (i = 0; i < TG_STORE_FLOW_MAX + 5; i++)
		put_data(h, &t, 10 * i, 10);
	CHECK_EQ(harness_count(h, 6, TG_COUNT_store_kept), TG_STORE_FLOW_MAX, "kept of one flow");
	CHECK_EQ(harness_count(h, 6, TG_COUNT_store_full), 5, "not kept");
	harness_forget(h);
	for (i = 0; i < 8000; i++) {
		t.number = 100 + i;
		put_data(h, &t, 0, 10);
		harness_forget(h);
	}
	CHECK(harness_count(h, 6, TG_COUNT_store_kept) <= TG_STORE_SETS * TG_STORE_PLACES,
	      "the pool is bounded");
	CHECK_EQ(harness_count(h, 6, TG_COUNT_flow_opened), 8001,
		 "who finds no place is connected all the same");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_tick(h, TG_STORE_AGE_MS);
	for (i = 0; i < TG_STORE_SETS; i++)
		harness_tick(h, 1);
	CHECK_EQ(harness_count(h, 0, TG_COUNT_store_aged), harness_count(h, 6, TG_COUNT_store_kept),
		 "all grew old");
	CHECK_EQ(rte_mempool_in_use_count(h->w->pool), 0, "and are free");
	harness_free(h);
}

void test_store(void)
{
	in_order();
	bounded();
}
