/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target on the burst pipeline. The input is a script: bursts of frames,
 * made from conversations and then damaged, or of raw bytes; whole, in pieces, held
 * by others; time, swaps, empty pools and blocked ports between them. The sanitizers
 * watch; afterwards every buffer must be back. Each script is played twice, with the
 * fast path (fast.h) open and shut: what comes out, and every count, must be the same.
 */
#include <stdio.h>
#include <stdlib.h>

#include "talk.h"
#include "tests.h"

struct script {
	const uint8_t *at, *end;
};

static uint32_t byte(struct script *s)
{
	return s->at < s->end ? *s->at++ : 0;
}

static struct harness *h;

static uint32_t make_frame(struct script *s, uint8_t *frame)
{
	uint32_t what = byte(s), who = byte(s), n, len;
	struct talk t = {.family = who & 1 ? 4 : 6,
			 .ts = who & 2,
			 .number = who >> 2 & 7,
			 .port = (uint16_t)(80 + (what >> 4) % TALK_SERVICES),
			 .client_isn = 1000,
			 .server_isn = 2000};
	struct tg_cookie cookie = talk_cookie(&t);

	switch (what & 7) {
	case 0:
		for (len = 0, n = byte(s); len < n; len++) /* raw */
			frame[len] = (uint8_t)byte(s);
		return len;
	case 1:
		len = talk_syn(frame, &t);
		break;
	case 2:
		len = talk_synack(frame, &t);
		break;
	case 3:
		len = talk_segment(frame, &t, TG_TO_SERVER, 1001, cookie.isn + 1, TG_TCP_ACK,
				   byte(s) % 32);
		break;
	case 4:
		len = talk_segment(frame, &t, TG_TO_SERVER, 1001 + byte(s), cookie.isn + 1,
				   (uint8_t)byte(s), byte(s) % 32);
		break;
	case 5:
		len = talk_segment(frame, &t, TG_TO_CLIENT, 2001, 1001, (uint8_t)byte(s),
				   byte(s) % 32);
		break;
	default: /* an ICMP error that quotes a segment */
		len = talk_segment(frame, &t, what & 8 ? TG_TO_SERVER : TG_TO_CLIENT, 2001, 1001,
				   TG_TCP_ACK, 0);
		memmove(frame + 14 + 20 + 8, frame + 14, len - 14);
		len += 28;
		frame[14 + 9] = 1;
		frame[34] = 3;
	}
	for (n = byte(s) % 4; n; n--) /* damage */
		frame[byte(s) % len] = (uint8_t)byte(s);
	if (byte(s) == 1)
		len = byte(s) % len;
	return len;
}

static struct rte_mbuf *make_mbuf(struct script *s)
{
	static uint8_t frame[512];
	uint32_t len = make_frame(s, frame), proxy_cfg = byte(s), at, step;
	struct rte_mbuf *head = NULL, *m;

	if (proxy_cfg % 8 == 2 || proxy_cfg % 8 == 3)
		return harness_roomy(h, frame, len);
	if (proxy_cfg % 8 != 1 || len < 2)
		return harness_frame(h, frame, len);
	step = 1 + byte(s) % len;
	for (at = 0; at < len; at += step) {
		m = harness_frame(h, frame + at, len - at < step ? len - at : step);
		if (!m || (head && rte_pktmbuf_chain(head, m))) {
			rte_pktmbuf_free(m);
			break;
		}
		if (!head)
			head = m;
	}
	return head;
}

static void one_burst(struct script *s, uint32_t n, uint16_t port)
{
	struct rte_mbuf *m[TG_BURST_MAX], *held = NULL;
	uint32_t i, have = 0;

	for (i = 0; i < n && s->at < s->end; i++) {
		m[have] = make_mbuf(s);
		if (!m[have])
			break;
		if (!held && byte(s) == 7) {
			held = m[have];
			rte_mbuf_refcnt_update(held, 1);
		}
		have++;
	}
	harness_burst(h, m, have, port);
	rte_pktmbuf_free(held);
}

/* A flood: SYNs to one service with different sources, one of them perhaps damaged. */
static void one_flood(struct script *s, uint32_t n, uint16_t port)
{
	struct rte_mbuf *m[TG_BURST_MAX];
	uint8_t frame[TALK_FRAME_MAX];
	uint32_t to = byte(s);
	struct talk t = {.family = to & 128 ? 6 : 4,
			 .ts = true,
			 .port = (uint16_t)(80 + to % TALK_SERVICES),
			 .server_isn = 2000};
	uint32_t i, have = 0, len, bad = byte(s), at = byte(s), value = byte(s);

	for (i = 0; i < n; i++) {
		t.number = byte(s) << 3 | i;
		t.client_isn = 1000 + byte(s);
		len = talk_syn(frame, &t);
		if (i == bad)
			frame[at % len] = (uint8_t)value;
		m[have] = harness_roomy(h, frame, len);
		have += m[have] != NULL;
	}
	harness_burst(h, m, have, port);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	harness_eal();
	return 0;
}

/* A digest of the output and the counts. */
static void note(uint64_t *digest, const void *what, size_t len)
{
	const uint8_t *p = what;

	for (; len; len--)
		*digest = (*digest ^ *p++) * 0x100000001b3ULL;
}

static void note_caught(uint64_t *digest)
{
	uint32_t i;

	for (i = 0; i < h->caught_n; i++) {
		note(digest, &h->caught[i].port, sizeof(h->caught[i].port));
		note(digest, &h->caught[i].len, sizeof(h->caught[i].len));
		note(digest, h->caught[i].frame, h->caught[i].len);
	}
}

/* Some services in mode auto: nothing is answered, or the IPv4 server's place, or everything. */
static void automate(uint32_t how)
{
	uint32_t id;

	for (id = 1; id <= TALK_SERVICES; id += 1 + (how & 1)) {
		talk_automate(h, id, how & 2 ? TG_MODE_ALWAYS : TG_MODE_AUTO, (how & 2) || (how & 4));
		if (how & 8)
			harness_line(h, "place %u 1", tg_place_of(TG_WIRE32(198, 18, 1, 1), id));
	}
}

static uint64_t play(const uint8_t *data, size_t size, bool off)
{
	uint64_t digest = 0xcbf29ce484222325ULL;
	struct script s = {data, data + size};
	struct rte_mbuf *taken[256];
	uint32_t n = 0, first = byte(&s), router = first & 1;

	h = harness_new(byte(&s) & 1 ? NULL : "scalar", 255, 1024);
	h->w->fast.off = off;
	talk_services(h);
	if (first & 2)
		automate(first >> 2);
	if (router) {
		harness_line(h, "forwarding router");
		harness_line(h, "link 0 0 cb007102 20010db8000900000000000000000002");
		harness_line(h, "link 1 90 cb007103 20010db8000900000000000000000003");
		harness_line(h, "route 4 0 00000000000000000000000000000000 1 020000000002");
		harness_line(h, "route 6 0 00000000000000000000000000000000 0 020000000002");
		memcpy(h->w->ports[0].mac, "\x02\0\0\0\0\x01", 6);
		memcpy(h->w->ports[1].mac, "\x02\0\0\0\0\x02", 6);
	}
	while (s.at < s.end) {
		uint32_t op = byte(&s);

		switch (op & 7) {
		case 0:
			harness_tick(h, byte(&s) * 20);
			break;
		case 1:
			(void)tg_worker_swap_flows(h->w);
			break;
		case 2:
			(void)tg_worker_swap_sources(h->w);
			break;
		case 3:
			tg_worker_clean(h->w);
			break;
		case 4:
			h->blocked = op & 8;
			while (op & 16 && n < 255 && (taken[n] = rte_pktmbuf_alloc(h->w->pool)))
				n++;
			while (op & 32 && n)
				rte_pktmbuf_free(taken[--n]);
			break;
		case 5:
			one_flood(&s, 1 + (op >> 3), 0);
			break;
		default:
			one_burst(&s, 1 + (op >> 3), op & 1);
		}
		note_caught(&digest);
		harness_forget(h);
	}
	while (n)
		rte_pktmbuf_free(taken[--n]);
#ifdef TG_FUZZ_CANARY
	if (harness_count(h, 1, TG_COUNT_flow_opened)) /* a planted bug: that a flow opens */
		abort();
#endif
	note(&digest, h->w->automatic.places, sizeof(h->w->automatic.places));
	note(&digest, h->w->rows, sizeof(*h->w->rows) * (TALK_SERVICES + 1));
	harness_free(h); /* aborts if a buffer is missing */
	return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t open = play(data, size, false);

	if (open != play(data, size, true)) {
		fprintf(stderr, "the fast path is not the long one\n");
		abort();
	}
	return checks_failed ? (abort(), 0) : 0;
}
