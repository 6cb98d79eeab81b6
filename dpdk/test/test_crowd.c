/* SPDX-License-Identifier: Apache-2.0
 *
 * A table that finished handshakes fill: who is served all the same.
 */
#include "talk.h"
#include "tests.h"

#define SERVER 1 /* DPDK port */
#define CROWD 6000 /* of 1,024 places, and 1,024 that wait for one */

static uint8_t f[TALK_FRAME_MAX + 64];

static void client_says(struct harness *h, const struct talk *t, uint32_t data_len)
{
	talk_put(h, f,
		 talk_segment(f, t, TG_TO_SERVER, t->client_isn + 1, talk_cookie(t).isn + 1,
			      TG_TCP_ACK, data_len),
		 TG_TO_SERVER);
}

/* The client completes its handshake with the box, the box its own with the server. */
static bool comes(struct harness *h, const struct talk *t)
{
	bool served;

	client_says(h, t, 0);
	served = h->caught_n == 1 && h->caught[0].port == SERVER &&
		 talk_caught(h, 0).flags == TG_TCP_SYN;
	harness_forget(h);
	if (!served)
		return false;
	talk_put(h, f, talk_synack(f, t), TG_TO_CLIENT);
	served = h->caught_n == 2;
	harness_forget(h);
	return served;
}

/* The client sends a word, and the server receives it with the expected number. */
static bool is_heard(struct harness *h, const struct talk *t)
{
	bool heard;

	client_says(h, t, 5);
	heard = h->caught_n == 1 && h->caught[0].port == SERVER &&
		talk_caught(h, 0).ack == t->server_isn + 1;
	harness_forget(h);
	return heard;
}

static struct talk talk_of(uint8_t family, uint32_t number)
{
	return (struct talk){.family = family,
			     .port = 80,
			     .number = number,
			     .client_isn = number * 7919,
			     .server_isn = number * 104729};
}

static void crowd(uint8_t family, bool word)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk before = talk_of(family, 65000), other = talk_of((uint8_t)(10 - family), 65000);
	uint32_t i, served = 0, heard = 0, others = 0;

	talk_services(h);
	CHECK(comes(h, &before) && is_heard(h, &before), "an established connection");
	for (i = 0; i < CROWD; i++) {
		struct talk t = talk_of(family, i);

		if (comes(h, &t) && word)
			(void)is_heard(h, &t);
		if (i % 2000 == 1999) {
			CHECK(tg_worker_swap_flows(h->w), "swap");
			tg_worker_clean(h->w);
		}
		heard += is_heard(h, &before);
		harness_tick(h, 20);
	}
	CHECK_EQ(heard, CROWD, "established connections stay");
	for (i = 0; i < 100; i++) {
		struct talk t = talk_of(family, 60000 + i), o = talk_of(other.family, 60000 + i);

		served += comes(h, &t) && is_heard(h, &t);
		others += comes(h, &o) && is_heard(h, &o);
	}
	CHECK_EQ(served, 100, "newcomers");
	CHECK_EQ(others, 100, "newcomers of the other family");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_flow_full), 0, "no connection is refused");
	harness_free(h);
}

/* One source fills its own share of the room, not another's. */
static void one_source(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk other = talk_of(4, 300);
	struct tg_packet pkt = {.family = 4, .src.w = {TG_WIRE32(11, 1, 0, 5)}};
	struct tg_flow_table *t = &h->w->flows;
	struct tg_flow flow = {.state = TG_FLOW_READY, .waits = TG_FLOW_SILENT};
	uint32_t n = 0, settled = 0;

	talk_services(h);
	for (pkt.ports = 0; pkt.ports < 5000; pkt.ports++) {
		struct tg_flow_key key = tg_flow_key_of(&pkt, TG_TO_SERVER);
		struct tg_flow_entry *e;

		if (!tg_flow_table_may_wait(t, &key))
			continue;
		e = tg_flow_table_insert(t, &key, tg_flow_key_hash(t, &key), pkt.ports, &flow);
		n += e != NULL;
		settled += e && tg_flow_table_settle(t, e);
		harness_tick(h, 20);
	}
	CHECK(n > 1000, "flows");
	CHECK(settled == tg_share_newcomers(t->max) / 2, "half of what newcomers may have");
	CHECK(comes(h, &other) && is_heard(h, &other), "another source");
	CHECK(!tg_flow_table_is_full(t), "half full");
	harness_free(h);
}

void test_crowd(void)
{
	one_source();
	crowd(4, false);
	crowd(4, true);
	crowd(6, false);
	crowd(6, true);
}
