/* SPDX-License-Identifier: Apache-2.0
 *
 * What must not hurt: frames in pieces, larger than a buffer, held by others; no
 * buffers; a port that takes nothing; checksums that were left to a device.
 */
#include <stdlib.h>

#include "../bench/traffic.h"
#include "talk.h"
#include "tests.h"

static uint8_t f[TALK_FRAME_MAX + 64];

/* The frame in pieces of `step` bytes. */
static struct rte_mbuf *chain(struct harness *h, const uint8_t *frame, uint32_t len, uint32_t step)
{
	struct rte_mbuf *head = NULL;
	uint32_t at;

	for (at = 0; at < len; at += step) {
		struct rte_mbuf *m = harness_roomy(h, frame + at, len - at < step ? len - at : step);

		if (!head)
			head = m;
		else
			rte_pktmbuf_chain(head, m);
	}
	return head;
}

static void pieces(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024), *whole = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = 4, .ts = true, .port = 80, .number = 3, .client_isn = 9};
	uint32_t len, step;
	struct rte_mbuf *m;

	talk_services(h);
	talk_services(whole);
	len = talk_syn(f, &t);
	talk_put(whole, f, len, TG_TO_SERVER);
	for (step = 1; step < len; step++) {
		m = chain(h, f, len, step);
		harness_burst(h, &m, 1, 0);
		CHECK(h->caught_n == 1 && h->caught[0].len == whole->caught[0].len &&
			      memcmp(h->caught[0].frame, whole->caught[0].frame, h->caught[0].len) ==
				      0,
		      "a SYN in pieces of %u", step);
		CHECK_EQ(harness_leaked(h), 0, "buffers");
		harness_forget(h);
	}
	harness_free(h);
	harness_free(whole);
}

static void jumbo(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = 4, .port = 99, .number = 3, .client_isn = 9};
	static uint8_t big[9000];
	struct rte_mbuf *m;

	talk_services(h);
	(void)talk_segment(big, &t, TG_TO_SERVER, 1, 2, TG_TCP_ACK, 0);
	tg_store16(big + 16, tg_swap16(9000 - 14));
	m = chain(h, big, 9000, 2000);
	harness_burst(h, &m, 1, 0);
	CHECK(h->caught_n == 1 && h->caught[0].len == 9000 &&
		      memcmp(h->caught[0].frame, big, 9000) == 0,
	      "a jumbo frame goes on as it came");
	harness_forget(h);
	h->w->ports[1].max_frame = 1522;
	m = chain(h, big, 9000, 2000);
	harness_burst(h, &m, 1, 0);
	CHECK_EQ(h->caught_n, 0, "but not by a port that cannot");
	CHECK_EQ(harness_count(h, 0, TG_COUNT_drop_no_route), 1, "counted");
	/* A SYN of 9,000 bytes is answered like any other. */
	t.port = 80;
	(void)talk_syn(big, &t);
	tg_store16(big + 16, tg_swap16(9000 - 14));
	tg_store16(big + 24, 0);
	tg_store16(big + 24, tg_csum_finish(tg_csum_add(0, big + 14, 20)));
	tg_store16(big + 50, 0);
	tg_store16(big + 50,
		   tg_csum_finish(tg_csum_add(TG_WIRE32(0, 6, (9000 - 34) >> 8, (9000 - 34) & 255),
					      big + 26, 9000 - 26)));
	m = chain(h, big, 9000, 300);
	harness_burst(h, &m, 1, 0);
	CHECK_EQ(talk_caught(h, 0).flags, TG_TCP_SYN | TG_TCP_ACK, "a SYN with much data");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

static void shared(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = 4, .port = 80, .number = 3, .client_isn = 9};
	uint32_t len = talk_syn(f, &t);
	struct rte_mbuf *m;

	talk_services(h);
	m = harness_roomy(h, f, len);
	rte_mbuf_refcnt_update(m, 1); /* the buffer is shared */
	harness_burst(h, &m, 1, 0);
	CHECK_EQ(h->caught_n, 1, "answered");
	CHECK(memcmp(rte_pktmbuf_mtod(m, void *), f, len) == 0, "but not in the other's frame");
	rte_pktmbuf_free(m);
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

/* Every conversation again, with the last buffers of the pool taken. */
static void exhausted(void)
{
	struct harness *h = harness_new(NULL, 255, 1024);
	struct talk t = {
		.family = 6, .ts = true, .port = 85, .number = 3, .client_isn = 9, .server_isn = 77};
	struct rte_mbuf *taken[256], *m;
	struct tg_cookie cookie = talk_cookie(&t);
	uint32_t n, i;

	talk_services(h);
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 10, cookie.isn + 1, TG_TCP_ACK, 5),
		 TG_TO_SERVER);
	harness_forget(h);
	m = harness_frame(h, f, talk_synack(f, &t));
	for (n = 0; n < 256 && (taken[n] = rte_pktmbuf_alloc(h->w->pool)); n++)
		;
	CHECK(n > 0, "buffers to take");
	harness_burst(h, &m, 1, 1);
	CHECK(harness_count(h, 0, TG_COUNT_drop_no_buffer) > 0, "counted");
	for (i = 0; i < n; i++)
		rte_pktmbuf_free(taken[i]);
	harness_forget(h);
	/* The server sends its SYN-ACK again, and all is well. */
	talk_put(h, f, talk_synack(f, &t), TG_TO_CLIENT);
	CHECK_EQ(talk_caught(h, 0).ack, t.server_isn + 1, "the ACK, after all");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

static void blocked(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct rte_mbuf *m[100];
	struct talk t = {.family = 4, .port = 80, .client_isn = 9};
	uint32_t i;

	talk_services(h);
	h->blocked = true; /* a link that is down looks the same */
	for (i = 0; i < 100; i++) {
		t.number = i;
		m[i] = harness_frame(h, f, talk_syn(f, &t));
	}
	harness_burst(h, m, 100, 0);
	CHECK_EQ(harness_count(h, 0, TG_COUNT_drop_tx_full), 100, "counted");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	h->blocked = false;
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 1, "and it is forwarded");
	harness_free(h);
}

static void left_checksum(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = 4, .ts = true, .port = 99, .number = 3};
	uint32_t len = talk_segment(f, &t, TG_TO_SERVER, 1, 2, TG_TCP_ACK, 33);
	struct rte_mbuf *m;

	talk_services(h);
	tg_store16(f + 14 + 20 + 16, 0x1234);
	m = harness_frame(h, f, len);
	m->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_NONE;
	harness_burst(h, &m, 1, 0);
	(void)talk_caught(h, 0); /* checks it */
	harness_free(h);
}

void test_bad(void)
{
	pieces();
	jumbo();
	shared();
	exhausted();
	blocked();
	left_checksum();
}
