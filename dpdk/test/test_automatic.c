/* SPDX-License-Identifier: Apache-2.0
 *
 * Mode auto: what goes by unanswered, what is answered where, and what is counted for the detector:
 * SYNs, and handshakes of the sample that a client completes; nothing that is forged, denied, or of
 * another mode. Bursts with the fast path open count as those without. The daemon decides: not here.
 */
#include "talk.h"
#include "tests.h"

#define ADDRESSES 4000

static uint8_t f[TALK_FRAME_MAX];

static struct talk client(uint8_t family, uint16_t port, uint32_t number)
{
	return (struct talk){.family = family,
			     .ts = true,
			     .port = port,
			     .number = number,
			     .client_isn = 1000 + number,
			     .server_isn = 70000 + number};
}

/* The port of what was sent for a frame that goes to the server, or -1. */
static int put(struct harness *h, uint32_t len)
{
	harness_forget(h);
	talk_put(h, f, len, TG_TO_SERVER);
	return h->caught_n == 1 ? h->caught[0].port : -1;
}

static int put_syn(struct harness *h, const struct talk *t)
{
	return put(h, talk_syn(f, t));
}

static int put_ack(struct harness *h, const struct talk *t, uint32_t seq, uint32_t ack)
{
	return put(h, talk_segment(f, t, TG_TO_SERVER, seq, ack, TG_TCP_ACK, 0));
}

static const struct tg_place *place(const struct harness *h, uint32_t i)
{
	uint32_t at, n = 0;

	for (at = 0; at < TG_PLACES; at++)
		if (h->w->automatic.places[at].syns && n++ == i)
			return &h->w->automatic.places[at];
	return NULL;
}

/* All SYNs go by; of a sixteenth, whose number is counted sixteenfold, the handshake is seen. */
static void goes_by(uint8_t family)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	uint32_t i, sampled;

	talk_services(h);
	talk_automate(h, 1, TG_MODE_AUTO, 0);
	for (i = 0; i < ADDRESSES; i++) {
		struct talk t = client(family, 80, i);

		CHECK_EQ(put_syn(h, &t), 1, "the SYN goes by");
		harness_forget(h);
		talk_put(h, f, talk_synack(f, &t), TG_TO_CLIENT);
		CHECK(h->caught_n == 1 && h->caught[0].port == 0, "so does the answer");
		CHECK_EQ(put_ack(h, &t, t.client_isn + 1, t.server_isn + 2), 1,
			 "a forged ACK goes on");
		CHECK_EQ(put_ack(h, &t, t.client_isn + 1, t.server_isn + 1), 1, "so does the ACK");
		CHECK_EQ(put_ack(h, &t, t.client_isn + 1, t.server_isn + 1), 1, "and again");
	}
	sampled = (uint32_t)harness_count(h, 1, TG_COUNT_detect_syn);
	CHECK_EQ(harness_count(h, 1, TG_COUNT_syn), ADDRESSES, "each SYN");
	CHECK_EQ(sampled % TG_SAMPLE, 0, "a sample");
	CHECK(sampled > ADDRESSES * 3 / 4 && sampled < ADDRESSES * 5 / 4, "%u of %u SYNs", sampled,
	      ADDRESSES);
	CHECK_EQ(harness_count(h, 1, TG_COUNT_handshake), sampled, "each once, none by a forged ACK");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_cookie_sent), 0, "nothing is answered");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_cookie_invalid), 0, "nothing is checked");
	CHECK(place(h, 0) && !place(h, 1), "one place");
	CHECK_EQ(place(h, 0)->syns, sampled, "the place's SYNs");
	CHECK_EQ(place(h, 0)->handshakes, sampled, "and handshakes");
	CHECK_EQ(place(h, 0)->service, 1, "its service");
	CHECK_EQ(place(h, 0)->family, family, "its family");
	CHECK_EQ(place(h, 0)->prefix,
		 family == 4 ? TG_WIRE32(198, 18, 1, 1) : (uint64_t)TG_WIRE32(0x20, 1, 0x0d, 0xb9),
		 "its prefix");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

/* A flood that nobody completes counts no handshake, whatever ACKs it has. */
static void floods_count_none(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	uint32_t i;

	talk_services(h);
	talk_automate(h, 1, TG_MODE_AUTO, 0);
	for (i = 0; i < ADDRESSES; i++) {
		struct talk t = client(4, 80, i);

		(void)put_syn(h, &t);
		(void)put_ack(h, &t, t.client_isn + 1, t.server_isn + 1); /* before any answer */
		harness_forget(h);
		talk_put(h, f, talk_synack(f, &t), TG_TO_CLIENT);
		(void)put_ack(h, &t, t.client_isn + 2, t.server_isn + 1);
		(void)put(h, talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1, t.server_isn + 1,
					  TG_TCP_RST, 0));
	}
	CHECK(harness_count(h, 1, TG_COUNT_detect_syn) > 0, "SYNs");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_handshake), 0, "handshakes");
	harness_free(h);
}

/* Where a place is on, each SYN is answered and counted, and a client that proves itself completes a
 * handshake; elsewhere they go by. With `verify`, ACKs are checked; what is no cookie goes on. */
static void places_are_answered(void)
{
	static const uint16_t ports[] = {80, 81, 82, 83, 84, 86};
	struct harness *h = harness_new(NULL, 1023, 1024);
	uint32_t i, at;

	talk_services(h);
	for (i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		uint32_t id = ports[i] - 79u;
		struct talk four = client(4, ports[i], id), six = client(6, ports[i], id);

		talk_automate(h, id, TG_MODE_AUTO, 1);
		at = tg_place_of(TG_WIRE32(198, 18, 1, 1), id);
		harness_line(h, "place %u 1", at);
		CHECK_EQ(put_syn(h, &four), 0, "answered");
		CHECK_EQ(put_syn(h, &six), 1, "another place's goes by");
		CHECK_EQ(h->w->automatic.places[at].syns, 1, "counted");
		CHECK_EQ(harness_count(h, id, TG_COUNT_syn), 2, "both");
		four.ts = false; /* a segment that is no answer to a cookie */
		CHECK_EQ(put(h,
			     talk_segment(f, &four, TG_TO_SERVER, 5, 6, TG_TCP_ACK | TG_TCP_PSH, 9)),
			 1, "of an older connection");
		harness_line(h, "place %u 0", at);
		four.number += 100; /* the other has been whitelisted, perhaps */
		CHECK_EQ(put_syn(h, &four), 1, "goes by again");
	}
	CHECK(harness_count(h, 1, TG_COUNT_cookie_invalid) > 0, "ACKs are checked");
	harness_free(h);
}

/* Under the detector's ALWAYS, `syn` is the count of SYNs; handshakes are those proven. */
static void proofs_count(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = client(4, 80, 3), white = client(4, 81, 4);
	struct tg_cookie c;

	talk_services(h);
	talk_automate(h, 1, TG_MODE_ALWAYS, 1);
	talk_automate(h, 2, TG_MODE_ALWAYS, 1);
	CHECK_EQ(put_syn(h, &t), 0, "answered");
	c = talk_cookie(&t);
	CHECK_EQ(put_ack(h, &t, t.client_isn + 1, c.isn + 1), 1, "a SYN to the server");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_flow_opened), 1, "a connection");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_handshake), 1, "by cookie");
	CHECK_EQ(put_syn(h, &white), 0, "answered");
	c = talk_cookie(&white);
	CHECK_EQ(put_ack(h, &white, white.client_isn + 1, c.isn + 1), 0, "reset");
	CHECK_EQ(harness_count(h, 2, TG_COUNT_handshake), 1, "by whitelisting");
	white.client_isn += 9;
	CHECK_EQ(put_syn(h, &white), 1, "forwarded");
	CHECK_EQ(harness_count(h, 2, TG_COUNT_handshake), 2, "of a whitelisted source");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_detect_syn), 0, "`syn` counts these");
	harness_free(h);
}

/* Other modes count nothing for the detector, and denied sources neither count nor pass. */
static void others_do_not(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	uint32_t i;

	talk_services(h);
	harness_line(h, "service 1 1460 1440 64240 7 1 1 1 1 0 0 0"); /* monitor */
	talk_automate(h, 3, TG_MODE_AUTO, 0);
	talk_deny(h, TG_WIRE32(11, 1, 0, 0), 16, 32);
	for (i = 0; i < 200; i++) {
		struct talk monitored = client(4, 80, i), always = client(4, 81, i),
			    denied = client(4, 82, i);

		CHECK_EQ(put_syn(h, &monitored), 1, "monitored");
		(void)put_syn(h, &always);
		CHECK_EQ(put_syn(h, &denied), -1, "denied");
	}
	for (i = 1; i <= 3; i++) {
		CHECK_EQ(harness_count(h, i, TG_COUNT_detect_syn), 0, "of a service");
		CHECK_EQ(harness_count(h, i, TG_COUNT_handshake), 0, "of a service");
	}
	CHECK_EQ(harness_count(h, 3, TG_COUNT_drop_denied), 200, "denied");
	CHECK(!place(h, 0), "no place");
	harness_free(h);
}

/* SYNs to `ADDRESSES` tuples in bursts of 32, as a card delivers them. */
static void play(struct harness *h, bool off, int mode)
{
	struct rte_mbuf *m[32];
	uint32_t i, n = 0;

	talk_services(h);
	talk_automate(h, 1, mode, mode == TG_MODE_ALWAYS);
	h->w->fast.off = off;
	for (i = 0; i < ADDRESSES; i++) {
		struct talk t = client(i % 5 ? 4 : 6, 80, i);

		m[n++] = harness_roomy(h, f, talk_syn(f, &t));
		if (n < 32)
			continue;
		harness_burst(h, m, n, 0);
		harness_forget(h);
		n = 0;
	}
}

static void paths_agree(void)
{
	static const int modes[] = {TG_MODE_AUTO, TG_MODE_ALWAYS};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct harness *fast = harness_new(NULL, 1023, 1024),
			       *slow = harness_new(NULL, 1023, 1024);

		play(fast, false, modes[i]);
		play(slow, true, modes[i]);
		CHECK(memcmp(fast->w->rows, slow->w->rows, 2 * sizeof(*fast->w->rows)) == 0,
		      "rows");
		CHECK(memcmp(fast->w->automatic.places, slow->w->automatic.places,
			     sizeof(fast->w->automatic.places)) == 0,
		      "places");
		CHECK(modes[i] == TG_MODE_AUTO || fast->w->fast.syns > 0, "the fast path is taken");
		CHECK(harness_count(fast, 1, TG_COUNT_syn) > ADDRESSES / 2, "SYNs");
		harness_free(fast);
		harness_free(slow);
	}
}

/* What is in force without an attack is nothing: odd frames are dropped only where SYNs are answered. */
static void enforces(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);

	harness_line(h, "service 1 1460 1440 64240 7 1 1 1 3 0 0 0 0 1 0");
	CHECK(!h->config->enforce && h->config->automatic, "mode auto, calm");
	harness_line(h, "service 1 1460 1440 64240 7 1 1 1 3 0 0 0 0 1 1");
	CHECK(h->config->enforce, "mode auto, answers");
	harness_line(h, "place 1023 1");
	harness_line(h, "clear");
	CHECK(!h->config->enforce && !h->config->automatic, "nothing");
	CHECK(tg_config_place_is_on(h->config, 1023), "`clear` keeps places");
	harness_line(h, "place 1023 0");
	CHECK(!tg_config_place_is_on(h->config, 1023), "off");
	harness_free(h);
}

void test_automatic(void)
{
	goes_by(4);
	goes_by(6);
	floods_count_none();
	places_are_answered();
	proofs_count();
	others_do_not();
	paths_agree();
	enforces();
}
