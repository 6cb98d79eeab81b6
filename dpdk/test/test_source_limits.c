/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of proven sources: what is begun and held above them is reported, dropped or reset, by several cores
 * together; who is named; what swaps and new limits change.
 */
#include "talk.h"
#include "tests.h"

#define CLIENT 0 /* DPDK ports */
#define SERVER 1

static uint8_t f[TALK_FRAME_MAX];

/* A client of 11.1.0.0/16, or of 2001:db8::/32, at service `port`: 80 cookie, 86 cache. */
static struct talk talk_of(uint8_t family, uint16_t port, uint32_t number)
{
	return (struct talk){.family = family,
			     .port = port,
			     .number = number,
			     .client_isn = 1000 * number,
			     .server_isn = 77 * number};
}

static bool has_rst(const struct harness *h)
{
	return h->caught_n == 1 && h->caught[0].port == CLIENT &&
	       talk_caught(h, 0).flags & TG_TCP_RST;
}

/* The client's handshake, up to its ACK. Returns the proxy's number. */
static uint32_t prove(struct harness *h, const struct talk *t)
{
	uint32_t isn;

	harness_forget(h);
	talk_put(h, f, talk_syn(f, t), TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 1, "answers to a SYN");
	isn = talk_caught(h, 0).seq;
	harness_forget(h);
	talk_put(h, f, talk_segment(f, t, TG_TO_SERVER, t->client_isn + 1, isn + 1, TG_TCP_ACK, 0),
		 TG_TO_SERVER);
	return isn;
}

/* What becomes of a new connection: the server is asked (1), it is reset (-1), nothing (0). */
static int begin(struct harness *h, const struct talk *t)
{
	(void)prove(h, t);
	if (h->caught_n == 1 && h->caught[0].port == SERVER)
		return talk_caught(h, 0).flags == TG_TCP_SYN ? 1 : 9;
	return has_rst(h) ? -1 : h->caught_n ? 9 : 0;
}

static void data(struct harness *h, const struct talk *t, uint32_t isn, uint8_t flags)
{
	talk_put(h, f, talk_segment(f, t, TG_TO_SERVER, t->client_isn + 1, isn + 1, flags, 10),
		 TG_TO_SERVER);
}

/* A connection that has carried data. False: it was refused. */
static bool hold(struct harness *h, const struct talk *t, uint32_t *isn)
{
	*isn = prove(h, t);
	if (h->caught_n != 1 || h->caught[0].port != SERVER)
		return false;
	talk_put(h, f, talk_synack(f, t), TG_TO_CLIENT);
	/* It waits until the server has acknowledged data. */
	data(h, t, *isn, TG_TCP_ACK | TG_TCP_PSH);
	talk_put(h, f,
		 talk_segment(f, t, TG_TO_CLIENT, t->server_isn + 1, t->client_isn + 11, TG_TCP_ACK,
			      0),
		 TG_TO_CLIENT);
	talk_put(h, f, talk_segment(f, t, TG_TO_SERVER, t->client_isn + 11, *isn + 1, TG_TCP_ACK, 5),
		 TG_TO_SERVER);
	return true;
}

static void let_go(struct harness *h, const struct talk *t, uint32_t isn)
{
	talk_put(h, f, talk_segment(f, t, TG_TO_SERVER, t->client_isn + 11, isn + 1, TG_TCP_RST, 0),
		 TG_TO_SERVER);
	harness_forget(h);
}

static uint64_t over(const struct harness *h, uint32_t id)
{
	return harness_count(h, id, TG_COUNT_over_source_limit);
}

/* One bucket's worth at once, then by time; each action; cookie and cache; addresses of one prefix together. */
static void new_ones(uint8_t family, uint16_t port)
{
	static const int becomes[] = {
		[TG_LIMIT_REPORT] = 1, [TG_LIMIT_DROP] = 0, [TG_LIMIT_RESET] = -1};
	struct harness *h = harness_new(NULL, 1023, 1024);
	uint32_t id = port - 79U, number = 0, action, i, begun;
	struct talk t;

	talk_services(h);
	for (action = TG_LIMIT_REPORT; action <= TG_LIMIT_RESET; action++) {
		uint64_t before = over(h, id),
			 dropped = harness_count(h, id, TG_COUNT_drop_source_limit);

		harness_line(h, "source-limits 100000000 0 16 32 %u", action); /* ten a second */
		harness_tick(h, 5000);
		for (i = begun = 0; i < 15; i++) {
			int what;

			t = talk_of(family, port, ++number);
			what = begin(h, &t);
			CHECK_EQ(what, i < 10 ? 1 : becomes[action], "connection");
			begun += what == 1;
		}
		CHECK_EQ(over(h, id) - before, 5, "above the limit");
		CHECK_EQ(harness_count(h, id, TG_COUNT_drop_source_limit) - dropped,
			 action == TG_LIMIT_DROP ? 5 : 0, "of these, dropped");
		harness_tick(h, 100);
		if (action == TG_LIMIT_DROP) { /* what the client sends again makes the connection */
			harness_forget(h);
			talk_put(h, f,
				 talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1,
					      port == 80 ? talk_cookie(&t).isn + 1 : 0, TG_TCP_ACK, 0),
				 TG_TO_SERVER);
			if (port == 80)
				CHECK(h->caught_n == 1 && h->caught[0].port == SERVER, "again");
		}
	}
	harness_line(h, "source-limits 0 0 32 64 0");
	for (i = 0; i < 30; i++) {
		t = talk_of(family, port, ++number);
		CHECK_EQ(begin(h, &t), 1, "no limit");
	}
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

/* A SYN, and an ACK with a wrong number, take nothing of a source's allowance; an allowed source is exempt. */
static void forged_and_allowed(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = talk_of(4, 80, 3);
	uint32_t i;

	talk_services(h);
	harness_line(h, "source-limits 1000000000 0 32 64 1"); /* one a second */
	for (i = 0; i < 40; i++) {
		talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
		talk_put(h, f,
			 talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1, i * 2654435761U,
				      TG_TCP_ACK, 0),
			 TG_TO_SERVER);
	}
	harness_forget(h);
	CHECK_EQ(begin(h, &t), 1, "its own");
	CHECK_EQ(over(h, 1), 0, "nothing above");
	talk_deny(h, TG_WIRE32(11, 1, 0, 0), 24, 32);
	for (i = 1; i < 3; i++)
		h->config->sources->blocks[i].word[TG_LIST_ONE_INSIDE] = (uint32_t)TG_LISTED_ALLOW
									 << 30;
	for (i = 0; i < 10; i++) {
		t.client_isn++;
		CHECK_EQ(begin(h, &t), 1, "of an allowed source");
	}
	CHECK_EQ(over(h, 1), 0, "nothing above");
	harness_line(h, "lists");
	t.client_isn++;
	CHECK_EQ(begin(h, &t), 0, "no longer allowed");
	CHECK_EQ(over(h, 1), 1, "counted");
	harness_free(h);
}

/* Two cores share the buckets, and what a source holds. */
static struct harness *core_beside(struct harness *first)
{
	struct harness *h = harness_new(NULL, 1023, 1024);

	tg_pages_put(h->w->limits, sizeof(*h->w->limits));
	h->w->own_limits = false;
	h->w->limits = h->w->flows.held.all = first->w->limits;
	talk_services(h);
	return h;
}

static void of_all_cores(void)
{
	struct harness *a = harness_new(NULL, 1023, 1024), *b;
	uint32_t i, isn, begun = 0;
	struct talk t;

	talk_services(a);
	b = core_beside(a);
	harness_line(a, "source-limits 100000000 0 16 32 1");
	harness_line(b, "source-limits 100000000 0 16 32 1");
	for (i = 1; i <= 30; i++) {
		t = talk_of(4, 80, i);
		begun += begin(i & 1 ? a : b, &t) == 1;
	}
	CHECK_EQ(begun, 10, "as many as one core alone would admit");

	harness_line(a, "source-limits 0 4 16 32 2");
	harness_line(b, "source-limits 0 4 16 32 2");
	for (i = 100; i < 104; i++) {
		t = talk_of(4, 80, i);
		CHECK(hold(i & 1 ? a : b, &t, &isn), "one that it may hold");
	}
	t = talk_of(4, 80, 110);
	CHECK_EQ(begin(a, &t), -1, "one more, on one core");
	CHECK_EQ(begin(b, &t), -1, "one more, on the other");
	t = talk_of(6, 80, 110);
	CHECK_EQ(begin(b, &t), 1, "another source");

	/* One core forgets: two swaps without a segment. */
	for (i = 0; i < 2; i++) {
		CHECK(tg_worker_swap_flows(a->w), "swap");
		tg_worker_clean(a->w);
		harness_tick(a, 1);
	}
	t = talk_of(4, 80, 111);
	CHECK_EQ(begin(b, &t), 1, "a place of those that are forgotten");
	harness_free(b);
	harness_free(a);
}

/* What a source holds is right after ends, swaps, and new limits. */
static void held(uint8_t family)
{
	struct harness *h = harness_new(NULL, 4095, 1024);
	struct talk t[8], more = talk_of(family, 80, 50);
	uint32_t isn[8], i, k;

	talk_services(h);
	harness_line(h, "source-limits 0 8 16 32 2");
	for (i = 0; i < 8; i++) {
		t[i] = talk_of(family, 80, i + 1);
		CHECK(hold(h, &t[i], &isn[i]), "connection");
	}
	CHECK_EQ(begin(h, &more), -1, "one more");
	for (k = 0; k < 4; k++) { /* they move with every swap */
		CHECK(tg_worker_swap_flows(h->w), "swap");
		tg_worker_clean(h->w);
		harness_tick(h, 1);
		for (i = 0; i < 8; i++)
			data(h, &t[i], isn[i], TG_TCP_ACK);
		CHECK_EQ(begin(h, &more), -1, "one more, after a swap");
	}
	let_go(h, &t[0], isn[0]);
	CHECK(hold(h, &more, &isn[0]), "one for one that has ended");
	t[0] = more;
	more = talk_of(family, 80, 60);
	CHECK_EQ(begin(h, &more), -1, "and no more");
	CHECK_EQ(over(h, 1), 6, "counted");

	/* No limit, and the limit again, counted anew: what was there counts when it moves. */
	harness_line(h, "source-limits 0 0 16 32 2");
	let_go(h, &t[1], isn[1]);
	h->config->limits.era++;
	tg_limits_begin(h->w->limits, h->config->limits.era);
	harness_line(h, "source-limits 0 8 16 32 2");
	CHECK_EQ(tg_limits_held_by(h->w->limits, h->config->limits.era, 0), 0, "nothing");
	let_go(h, &t[2], isn[2]);
	CHECK(tg_worker_swap_flows(h->w), "swap");
	tg_worker_clean(h->w);
	harness_tick(h, 1);
	for (i = 3; i < 8; i++)
		data(h, &t[i], isn[i], TG_TCP_ACK);
	data(h, &t[0], isn[0], TG_TCP_ACK);
	for (i = 0; i < 2; i++) {
		t[1 + i] = talk_of(family, 80, 70 + i);
		CHECK(hold(h, &t[1 + i], &isn[1 + i]), "a place of one that ended uncounted");
	}
	more = talk_of(family, 80, 80);
	CHECK_EQ(begin(h, &more), -1, "and no more");
	harness_free(h);
}

static void named(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = talk_of(4, 80, 9);
	const struct tg_over *o;
	uint32_t i, n = 0;

	talk_services(h);
	harness_line(h, "source-limits 1000000000 0 24 64 0");
	for (i = 0; i < 5; i++, t.client_isn++)
		(void)begin(h, &t);
	for (i = 0; i < TG_OVER_SLOTS; i++) {
		o = &h->w->over[i];
		if (!o->over)
			continue;
		n++;
		CHECK(o->family == 4 && o->len == 24 && o->over == 4 && !o->over_held &&
			      o->turn_before == o->turn_after && o->last_ns == h->w->now_ns,
		      "what is noted of it");
		CHECK_EQ(o->prefix & 0xff000000, 0, "its /24");
	}
	CHECK_EQ(n, 1, "named");
	harness_free(h);
}

static void lines(void)
{
	static const char *const bad[] = {
		"source-limits",
		"source-limits 1 2 3 4",
		"source-limits 1000000001 0 32 64 0",
		"source-limits 0 0 33 64 0",
		"source-limits 0 0 0 64 0",
		"source-limits 0 0 32 65 0",
		"source-limits 0 0 32 64 3",
		"source-limits 0 4294967295 32 64 0",
		"source-limits 0 0 32 64 0 0",
	};
	struct tg_config *c = tg_config_new();
	char text[64];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "%s", bad[i]);
		CHECK(tg_config_line(c, text) != NULL, "%s", bad[i]);
	}
	tg_config_free(c);
}

void test_source_limits(void)
{
	new_ones(4, 80);
	new_ones(6, 80);
	new_ones(4, 86);
	new_ones(6, 86);
	forged_and_allowed();
	of_all_cores();
	held(4);
	held(6);
	named();
	lines();
}
