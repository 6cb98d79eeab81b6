/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture: what is reported of each frame, which frames are chosen, and that neither frames nor what becomes of
 * them are changed.
 */
#include "capture.h"
#include "talk.h"
#include "tests.h"

#define MANY 40 /* SYNs in a burst */

static uint8_t f[TALK_FRAME_MAX];
static struct tg_capture all;
static struct tg_capturing *core;

static void begin(struct harness *h, int64_t left)
{
	core = tg_pages_get(sizeof(*core));
	if (!core)
		abort();
	memset(&all, 0, sizeof(all));
	all.settings.sample = 1;
	all.settings.any_reason = 1;
	all.settings.verdicts = ~0U;
	all.left = left;
	core->all = &all;
	tg_capture_turn_to(h->w, core);
}

static void end(struct harness *h)
{
	tg_capture_turn_to(h->w, NULL);
	tg_pages_put(core, sizeof(*core));
}

static struct talk client(uint32_t number)
{
	return (struct talk){.family = 4,
			     .port = 80,
			     .number = number,
			     .client_isn = 1000 * number,
			     .server_isn = 77};
}

static uint32_t events(void)
{
	return core->head - core->tail;
}

/* The next event: its verdict, and these reasons, in order. */
static void want(uint8_t verdict, uint32_t service, uint32_t len, const enum tg_counter *reasons,
		 uint32_t n)
{
	const struct tg_capture_event *e = tg_capturing_oldest(core);
	uint32_t i;

	CHECK(e != NULL, "an event");
	if (!e)
		return;
	CHECK_EQ(e->verdict, verdict, "verdict");
	CHECK_EQ(e->service, service, "service");
	CHECK_EQ(e->hook, TG_CAPTURE_DPDK, "hook");
	CHECK_EQ(e->len, len, "length");
	CHECK_EQ(e->kept, len, "bytes");
	CHECK(memcmp(e->frame, f, len) == 0, "the frame as it came");
	CHECK_EQ(e->reasons, n, "reasons");
	for (i = 0; i < n; i++)
		CHECK_EQ(e->reason[i], reasons[i], "reason");
	tg_capturing_take(core);
}

static void put(struct harness *h, uint32_t len, enum tg_direction dir)
{
	talk_put(h, f, len, dir);
}

/* A connection in set-up: each frame with what was decided about it. */
static void connection(void)
{
	static const enum tg_counter syn[] = {TG_COUNT_syn, TG_COUNT_cookie_sent},
				     ack[] = {TG_COUNT_cookie_valid, TG_COUNT_flow_opened},
				     ready[] = {TG_COUNT_flow_ready},
				     bad[] = {TG_COUNT_syn, TG_COUNT_drop_flags};
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = client(3);
	uint32_t isn, len;

	talk_services(h);
	begin(h, 100);
	len = talk_syn(f, &t);
	put(h, len, TG_TO_SERVER);
	isn = talk_caught(h, 0).seq;
	want(TG_CAPTURE_TX, 1, len, syn, 2);
	len = talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1, isn + 1, TG_TCP_ACK, 0);
	put(h, len, TG_TO_SERVER);
	want(TG_CAPTURE_REDIRECT, 1, len, ack, 2);
	len = talk_synack(f, &t);
	put(h, len, TG_TO_CLIENT);
	want(TG_CAPTURE_REDIRECT, 1, len, ready, 1);
	len = talk_segment(f, &t, TG_TO_SERVER, 1, 1, TG_TCP_SYN | TG_TCP_FIN, 0);
	put(h, len, TG_TO_SERVER);
	want(TG_CAPTURE_DROP, 1, len, bad, 2);
	CHECK_EQ(events(), 0, "no more");
	end(h);
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

/* First data that waits for the server is held. */
static void held(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = client(4);
	const struct tg_capture_event *e;
	uint32_t isn;

	t.port = 85; /* first_data: store */
	talk_services(h);
	put(h, talk_syn(f, &t), TG_TO_SERVER);
	isn = talk_caught(h, 0).seq;
	put(h, talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1, isn + 1, TG_TCP_ACK, 0),
	    TG_TO_SERVER);
	begin(h, 100);
	put(h, talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1, isn + 1, TG_TCP_ACK, 10),
	    TG_TO_SERVER);
	e = tg_capturing_oldest(core);
	CHECK(e && e->verdict == TG_CAPTURE_HOLD, "held");
	end(h);
	harness_free(h);
}

static void syns(struct harness *h, uint32_t first)
{
	struct rte_mbuf *m[MANY];
	struct talk t;
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		t = client(first + i);
		m[i] = harness_frame(h, f, talk_syn(f, &t));
	}
	harness_burst(h, m, MANY, 0);
}

/* The same SYNs with and without a capture, on the fast path, of all or of some: the same answers in the same order. */
static void unchanged(uint32_t sample)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	void (*burst)(struct tg_worker *w, struct rte_mbuf **m, uint32_t n,
		      uint16_t port) = h->w->burst;
	uint32_t i, same = 0;

	h->roomy = true;
	talk_services(h);
	syns(h, 1);
	begin(h, 1000);
	all.settings.sample = sample;
	syns(h, 1);
	CHECK_EQ(events(), MANY / sample, "captured");
	end(h);
	CHECK(h->w->burst == burst && !h->w->capture, "nothing is left of it");
	CHECK_EQ(h->caught_n, 2 * MANY, "answers");
	for (i = 0; h->caught_n == 2 * MANY && i < MANY; i++)
		same += h->caught[i].len == h->caught[MANY + i].len &&
			h->caught[i].port == h->caught[MANY + i].port &&
			memcmp(h->caught[i].frame, h->caught[MANY + i].frame, h->caught[i].len) == 0;
	CHECK_EQ(same, MANY, "the same answers");
	CHECK_EQ(h->w->fast.syns, 2 * MANY, "on the fast path");
	harness_free(h);
}

/* One SYN under these settings: whether it is captured. */
static bool takes(struct harness *h)
{
	struct talk t = client(9);
	uint32_t before = events();

	put(h, talk_syn(f, &t), TG_TO_SERVER);
	return events() != before;
}

static void chosen(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct tg_capture_settings *s = &all.settings;
	struct talk t = client(9);
	struct tg_packet pkt = {0};
	uint32_t i, len = talk_syn(f, &t);

	(void)tg_packet_parse(&pkt, f, f + len);
	talk_services(h);
	begin(h, 100);
	s->net_family = 4;
	s->net_len = 24;
	s->net = tg_addr_mask(pkt.src, 4, 24);
	CHECK(takes(h), "from the prefix");
	s->net = tg_addr_mask(pkt.dst, 4, 24);
	CHECK(takes(h), "to the prefix");
	s->net.w[0] ^= 1;
	CHECK(!takes(h), "another prefix");
	s->net_family = 6;
	CHECK(!takes(h), "another family");
	s->net_family = 0;
	s->port_be = tg_swap16(80);
	CHECK(takes(h), "the port");
	s->port_be = tg_swap16(81);
	CHECK(!takes(h), "another port");
	s->port_be = 0;
	s->any_reason = 0;
	s->reasons[TG_COUNT_cookie_sent / 64] = 1ULL << TG_COUNT_cookie_sent % 64;
	CHECK(takes(h), "the reason");
	s->reasons[TG_COUNT_cookie_sent / 64] = 0;
	s->reasons[TG_COUNT_cookie_valid / 64] |= 1ULL << TG_COUNT_cookie_valid % 64;
	CHECK(!takes(h), "another reason");
	s->any_reason = 1;
	s->verdicts = 1U << TG_CAPTURE_DROP;
	CHECK(!takes(h), "another verdict");
	s->verdicts = 1U << TG_CAPTURE_TX;
	CHECK(takes(h), "the verdict");
	all.left = 2;
	for (i = 0; i < 5; i++)
		CHECK_EQ(takes(h), i < 2, "as many as are wanted");
	end(h);
	harness_free(h);
}

/* Beyond the budget nothing is looked at, and what a reader does not take is lost; both are counted, and no frame is. */
static void bounds(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	uint32_t i;

	talk_services(h);
	begin(h, 1 << 20);
	for (i = 0; i < 20; i++) /* 800 SYNs in one window */
		syns(h, 1);
	CHECK_EQ(events(), TG_CAPTURE_BUDGET, "within the budget");
	CHECK_EQ(all.beyond, 20 * MANY - TG_CAPTURE_BUDGET, "beyond");
	for (i = 0; i < 60; i++) {
		harness_tick(h, 20);
		syns(h, 1);
	}
	CHECK_EQ(events(), TG_CAPTURE_RING, "a full ring");
	CHECK_EQ(all.lost, TG_CAPTURE_BUDGET + 60 * MANY - TG_CAPTURE_RING, "lost");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_cookie_sent), 80 * MANY, "answers");
	for (i = 0; tg_capturing_oldest(core); i++)
		tg_capturing_take(core);
	CHECK_EQ(i, TG_CAPTURE_RING, "read");
	end(h);
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

void test_capture(void)
{
	connection();
	held();
	unchanged(1);
	unchanged(4);
	chosen();
	bounds();
}
