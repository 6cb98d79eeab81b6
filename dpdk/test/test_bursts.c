/* SPDX-License-Identifier: Apache-2.0
 *
 * A burst is not to be noticed: the same frames, one at a time with scalar hashes
 * and in bursts of any length with any other, come out the same, byte for byte and
 * in order, and are counted the same.
 */
#include <stdlib.h>

#include "../bench/traffic.h"
#include "talk.h"
#include "tests.h"

#define EVENTS 4000
#define TALKS 150

struct event {
	uint8_t frame[TALK_FRAME_MAX + 64];
	uint32_t len;
	enum tg_direction dir;
};

static struct event events[EVENTS];

/* One step of a random conversation; steps come in their order, or nearly. */
static void make_event(struct event *e, struct talk *t, uint32_t *step, uint64_t r)
{
	struct tg_cookie cookie = talk_cookie(t);

	e->dir = TG_TO_SERVER;
	switch ((*step)++ % 8) {
	case 0:
		e->len = talk_syn(e->frame, t);
		break;
	case 1:
		e->len = talk_segment(e->frame, t, TG_TO_SERVER, t->client_isn + 1, cookie.isn + 1,
				      TG_TCP_ACK, 0);
		break;
	case 2:
	case 4:
		e->len = talk_segment(e->frame, t, TG_TO_SERVER, t->client_isn + 1, cookie.isn + 1,
				      TG_TCP_ACK, r % 40);
		break;
	case 3:
		e->dir = TG_TO_CLIENT;
		e->len = talk_synack(e->frame, t);
		break;
	case 5:
		e->dir = TG_TO_CLIENT;
		e->len = talk_segment(e->frame, t, TG_TO_CLIENT, t->server_isn + 1, t->client_isn + 1,
				      r & 64 ? TG_TCP_ACK | TG_TCP_FIN : TG_TCP_ACK, r % 30);
		break;
	case 6:
		e->len = talk_segment(e->frame, t, TG_TO_SERVER, t->client_isn + 9, cookie.isn + 1,
				      r & 64 ? TG_TCP_ACK | TG_TCP_FIN : TG_TCP_RST, 0);
		break;
	default:
		t->client_isn += (uint32_t)r;
		t->server_isn ^= (uint32_t)(r >> 20);
		e->len = talk_syn(e->frame, t);
	}
	if (r >> 32 % 31 == 0) /* some frames are bad */
		e->frame[(r >> 40) % e->len] ^= (uint8_t)(r >> 48);
	if (r >> 33 % 37 == 0)
		e->len -= (uint32_t)(r >> 44) % e->len;
}

static void make_events(uint64_t seed)
{
	static struct talk talks[TALKS];
	static uint32_t steps[TALKS];
	uint32_t i;

	for (i = 0; i < TALKS; i++) {
		uint64_t r = tg_splitmix(&seed);

		talks[i] = (struct talk){.family = r & 1 ? 4 : 6,
					 .ts = r & 2,
					 .number = i,
					 .port = (uint16_t)(80 + i % TALK_SERVICES),
					 .client_isn = (uint32_t)(r >> 8),
					 .server_isn = (uint32_t)(r >> 30)};
		steps[i] = 0;
	}
	for (i = 0; i < EVENTS; i++) {
		uint64_t r = tg_splitmix(&seed);
		uint32_t k = (uint32_t)r % TALKS;

		make_event(&events[i], &talks[k], &steps[k], tg_splitmix(&seed));
		for (; r >> 40 & 1 && i + 1 < EVENTS; r <<= 1, i++) /* some at once */
			make_event(&events[i + 1], &talks[k], &steps[k], tg_splitmix(&seed));
	}
}

/* Puts all events through in bursts of `most` (0: of all lengths). */
static struct harness *run(const char *variant, uint32_t most, uint64_t seed, bool roomy)
{
	struct harness *h = harness_new(variant, 8191, 1024);
	struct rte_mbuf *m[TG_BURST_MAX];
	uint32_t i = 0, n, want;

	h->roomy = roomy;
	talk_services(h);
	while (i < EVENTS) {
		enum tg_direction dir = events[i].dir;

		want = most ? most : 1 + (uint32_t)tg_splitmix(&seed) % TG_BURST_MAX;
		for (n = 0; n < want && i < EVENTS && events[i].dir == dir && (i % 500 || !n);
		     n++, i++)
			m[n] = harness_frame(h, events[i].frame, events[i].len);
		harness_burst(h, m, n, dir == TG_TO_SERVER ? 0 : 1);
		if (i % 500 == 0) { /* time advances, tables swap, at the same events */
			harness_tick(h, 60);
			if (i % 1500 == 0) {
				(void)tg_worker_swap_flows(h->w);
				(void)tg_worker_swap_sources(h->w);
				tg_worker_clean(h->w);
			}
		}
	}
	return h;
}

/* The caught frames of one port, in their order. */
static const struct caught *next_of(const struct harness *h, uint32_t *at, uint16_t port)
{
	for (; *at < h->caught_n; (*at)++)
		if (h->caught[*at].port == port)
			return &h->caught[(*at)++];
	return NULL;
}

static void compare(const struct harness *a, const struct harness *b, const char *what, uint32_t most)
{
	uint16_t port;
	uint32_t id, c;

	CHECK_EQ(b->caught_n, a->caught_n, what);
	CHECK_EQ(harness_leaked(b), 0, "buffers");
	for (port = 0; port < 2; port++) {
		uint32_t i = 0, k = 0, n = 0, different = 0;
		const struct caught *x, *y;

		while ((x = next_of(a, &i, port)) && (y = next_of(b, &k, port))) {
			n++;
			different += x->len != y->len || memcmp(x->frame, y->frame, x->len) != 0;
		}
		CHECK(different == 0, "%s, bursts of %u, port %u: %u of %u frames differ", what,
		      most, port, different, n);
	}
	for (id = 0; id <= TALK_SERVICES; id++)
		for (c = 0; c < TG_COUNTERS; c++)
			CHECK_EQ(harness_count(b, id, c), harness_count(a, id, c), what);
}

void test_bursts(void)
{
	static const uint32_t lengths[] = {1, 1, 7, 7, 64, 64, 128, 128, 0, 0};
	const struct tg_siphash_variant *variant;
	struct harness *one, *many;
	uint64_t seed;
	uint32_t i;

	for (seed = 1; seed <= 3; seed++) {
		make_events(seed);
		one = run("scalar", 1, seed, false); /* no buffer has room: all take the slow path */
		CHECK_EQ(one->w->fast.syns + one->w->fast.segments, 0,
			 "frames that took the fast path");
		CHECK(one->caught_n > EVENTS / 4, "%u frames came out", one->caught_n);
		CHECK(harness_count(one, 1, TG_COUNT_flow_ready) &&
			      harness_count(one, 6, TG_COUNT_store_sent) &&
			      harness_count(one, 2, TG_COUNT_white_added),
		      "all kinds of things happen");
		for (variant = tg_siphash_variants; variant->name; variant++) {
			for (i = 0; variant->works() && i < sizeof(lengths) / sizeof(lengths[0]);
			     i++) {
				many = run(variant->name, lengths[i], seed, i % 2);
				compare(one, many, variant->name, lengths[i]);
				CHECK(!(i % 2) || (many->w->fast.syns > 100 &&
						   many->w->fast.segments > 50),
				      "bursts of %u: %u SYNs and %u segments went the fast path",
				      lengths[i], (uint32_t)many->w->fast.syns,
				      (uint32_t)many->w->fast.segments);
				harness_free(many);
			}
		}
		harness_free(one);
	}
}
