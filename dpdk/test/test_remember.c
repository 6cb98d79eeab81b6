/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is remembered: sources that have completed handshakes, with their destinations; nobody whose address may be
 * forged, and nobody at all where it is off.
 */
#include "talk.h"
#include "tests.h"

static uint8_t f[TALK_FRAME_MAX];

static struct talk client(uint8_t family, uint16_t port, uint32_t number)
{
	return (struct talk){.family = family,
			     .port = port,
			     .number = number,
			     .client_isn = 1000 * number,
			     .server_isn = 77 * number};
}

static void handshake(struct harness *h, const struct talk *t)
{
	uint32_t isn;

	harness_forget(h);
	talk_put(h, f, talk_syn(f, t), TG_TO_SERVER);
	isn = talk_caught(h, 0).seq;
	talk_put(h, f, talk_segment(f, t, TG_TO_SERVER, t->client_isn + 1, isn + 1, TG_TCP_ACK, 0),
		 TG_TO_SERVER);
}

/* The pairs that are remembered; *of: the last one's slot. */
static uint32_t remembered(const struct harness *h, const struct tg_proven **of)
{
	uint32_t i, n = 0;

	for (i = 0; i < TG_PROVEN_SLOTS; i++) {
		if (!h->w->proven[i].handshakes)
			continue;
		*of = &h->w->proven[i];
		n++;
	}
	return n;
}

static void who(uint8_t family, uint16_t port)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = client(family, port, 5);
	const struct tg_proven *p = NULL;
	struct tg_packet pkt = {0};
	uint32_t i, len;

	talk_services(h);
	handshake(h, &t);
	CHECK_EQ(remembered(h, &p), 0, "off: nobody");
	harness_line(h, "remember 1 47");
	for (i = 0; i < 20; i++) { /* forged */
		talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
		talk_put(h, f,
			 talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1, i * 2654435761U,
				      TG_TCP_ACK, 0),
			 TG_TO_SERVER);
	}
	CHECK_EQ(remembered(h, &p), 0, "forged: nobody");
	for (i = 0; i < 3; i++) {
		t.client_isn += 100000;
		harness_tick(h, 10);
		handshake(h, &t);
	}
	CHECK_EQ(remembered(h, &p), 1, "one pair");
	if (p) {
		len = talk_syn(f, &t);
		(void)tg_packet_parse(&pkt, f, f + len);
		CHECK(tg_proven_is_of(p, &pkt), "its addresses");
		CHECK_EQ(p->handshakes, 3, "handshakes");
		CHECK_EQ(p->unmarked, 3, "without the codepoint");
		CHECK_EQ(p->last_ns, h->w->now_ns, "the last");
		CHECK_EQ(p->last_ns - p->first_ns, 20000000, "since the first");
		CHECK_EQ(p->turn_before, p->turn_after, "not torn");
	}
	harness_line(h, "remember 0 0");
	t.client_isn += 100000;
	handshake(h, &t);
	CHECK_EQ(p ? p->handshakes : 0, 3, "off again: as it was");
	harness_free(h);
}

/* Of two pairs in one slot, the more active one stays; it leaves when the other has made up for what it had. */
static void one_slot(void)
{
	struct tg_packet a = {.family = 4}, b = {.family = 4};
	struct tg_proven p = {0};
	uint32_t i;

	a.src.w[0] = 1, b.src.w[0] = 2;
	for (i = 0; i < 3; i++)
		tg_proven_count(&p, &a, false, true, 10 + i);
	tg_proven_count(&p, &b, true, true, 20);
	CHECK(tg_proven_is_of(&p, &a) && !p.invalid && p.credit == 3,
	      "what is not proven takes nothing");
	for (i = 0; i < 3; i++)
		tg_proven_count(&p, &b, false, false, 30);
	CHECK(tg_proven_is_of(&p, &a) && p.handshakes == 3 && !p.unmarked, "still the first one's");
	tg_proven_count(&p, &b, false, false, 40);
	CHECK(tg_proven_is_of(&p, &b) && p.handshakes == 1 && p.unmarked == 1 && p.first_ns == 40 &&
		      p.turn_before == 2 && p.turn_after == 2,
	      "the other one's");
	tg_proven_count(&p, &b, true, true, 50);
	CHECK(p.invalid == 1 && p.last_ns == 40, "a segment of no connection");
}

static void lines(void)
{
	static const char *const bad[] = {"remember",       "remember 1",    "remember 2 0",
					  "remember 1 256", "remember 1 -1", "remember 1 47 0"};
	struct tg_config *c = tg_config_new();
	char text[64];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "%s", bad[i]);
		CHECK(tg_config_line(c, text) != NULL, "%s", bad[i]);
	}
	tg_config_free(c);
}

void test_remember(void)
{
	who(4, 80);
	who(6, 80);
	who(4, 86);
	who(6, 86);
	one_slot();
	lines();
}
