/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections through each strategy, segment by segment.
 */
#include "talk.h"
#include "tests.h"

#define CLIENT 0 /* DPDK ports */
#define SERVER 1

static uint8_t f[TALK_FRAME_MAX + 64];

/* SYN, cookie, ACK: the box opens the connection to the server. */
static struct tg_cookie open_cookie(struct harness *h, const struct talk *t, bool zero_window)
{
	struct tg_cookie cookie = talk_cookie(t);
	struct tg_packet pkt;

	talk_put(h, f, talk_syn(f, t), TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 1, "answers to a SYN");
	pkt = talk_caught(h, 0);
	CHECK_EQ(h->caught[0].port, CLIENT, "port of the SYN-ACK");
	CHECK_EQ(pkt.flags, TG_TCP_SYN | TG_TCP_ACK, "flags of the SYN-ACK");
	CHECK_EQ(pkt.seq, cookie.isn, "cookie");
	CHECK_EQ(pkt.ack, t->client_isn + 1, "ack of the SYN-ACK");
	CHECK_EQ(tg_load16(h->caught[0].frame + pkt.l4_off + 14) == 0, zero_window, "zero window");
	harness_forget(h);
	return cookie;
}

static void finish_cookie(struct harness *h, const struct talk *t, struct tg_cookie cookie)
{
	struct tg_packet pkt;

	talk_put(h, f,
		 talk_segment(f, t, TG_TO_SERVER, t->client_isn + 1, cookie.isn + 1, TG_TCP_ACK, 0),
		 TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 1, "the SYN to the server");
	pkt = talk_caught(h, 0);
	CHECK_EQ(h->caught[0].port, SERVER, "port of the SYN");
	CHECK_EQ(pkt.flags, TG_TCP_SYN, "flags of the SYN");
	CHECK_EQ(pkt.seq, t->client_isn, "the client's own ISN");
	harness_forget(h);
	talk_put(h, f, talk_synack(f, t), TG_TO_CLIENT);
	CHECK_EQ(h->caught_n, 2, "ACK and window");
	pkt = talk_caught(h, h->caught[0].port == SERVER ? 0 : 1);
	CHECK_EQ(pkt.flags, TG_TCP_ACK, "the server's ACK");
	CHECK_EQ(pkt.ack, t->server_isn + 1, "acknowledges its SYN");
	pkt = talk_caught(h, h->caught[0].port == SERVER ? 1 : 0);
	CHECK_EQ(pkt.seq, cookie.isn + 1, "the window's sequence number");
	harness_forget(h);
}

static void translate_both(struct harness *h, const struct talk *t, struct tg_cookie cookie)
{
	struct tg_packet pkt;

	talk_put(h, f,
		 talk_segment(f, t, TG_TO_SERVER, t->client_isn + 1, cookie.isn + 1,
			      TG_TCP_ACK | TG_TCP_PSH, 33),
		 TG_TO_SERVER);
	pkt = talk_caught(h, 0);
	CHECK_EQ(pkt.ack, t->server_isn + 1, "ack, translated");
	CHECK_EQ(pkt.seq, t->client_isn + 1, "seq, untouched");
	harness_forget(h);
	talk_put(h, f,
		 talk_segment(f, t, TG_TO_CLIENT, t->server_isn + 1, t->client_isn + 34, TG_TCP_ACK,
			      7),
		 TG_TO_CLIENT);
	pkt = talk_caught(h, 0);
	CHECK_EQ(pkt.seq, cookie.isn + 1, "seq, translated");
	CHECK_EQ(pkt.ack, t->client_isn + 34, "ack, untouched");
	harness_forget(h);
}

static void close_both(struct harness *h, const struct talk *t, struct tg_cookie cookie)
{
	uint64_t before = harness_count(h, t->port - 79, TG_COUNT_flow_closed);

	talk_put(h, f,
		 talk_segment(f, t, TG_TO_SERVER, t->client_isn + 34, cookie.isn + 8,
			      TG_TCP_ACK | TG_TCP_FIN, 0),
		 TG_TO_SERVER);
	talk_put(h, f,
		 talk_segment(f, t, TG_TO_CLIENT, t->server_isn + 8, t->client_isn + 35,
			      TG_TCP_ACK | TG_TCP_FIN, 0),
		 TG_TO_CLIENT);
	talk_put(h, f,
		 talk_segment(f, t, TG_TO_SERVER, t->client_isn + 35, cookie.isn + 9, TG_TCP_ACK, 0),
		 TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 3, "FIN, FIN, ACK");
	CHECK_EQ(harness_count(h, t->port - 79, TG_COUNT_flow_closed), before + 1, "closed");
	harness_forget(h);
	/* A retransmission is still translated. */
	talk_put(h, f,
		 talk_segment(f, t, TG_TO_CLIENT, t->server_isn + 8, t->client_isn + 35,
			      TG_TCP_ACK | TG_TCP_FIN, 0),
		 TG_TO_CLIENT);
	CHECK_EQ(talk_caught(h, 0).seq, cookie.isn + 8, "a late FIN, translated");
	harness_forget(h);
}

static void cookie_connection(uint8_t family, bool ts)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = family,
			 .ts = ts,
			 .port = 80,
			 .number = 7,
			 .client_isn = 0xfffffff0,
			 .server_isn = 0x00000010};
	struct tg_cookie cookie;
	int retransmit;

	talk_services(h);
	for (retransmit = 0; retransmit < 3; retransmit++) { /* the same port, at once */
		cookie = open_cookie(h, &t, true);
		finish_cookie(h, &t, cookie);
		translate_both(h, &t, cookie);
		/* A SYN on a live connection is left to the server. */
		talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
		CHECK_EQ(h->caught[0].port, SERVER, "a SYN on a live connection");
		harness_forget(h);
		close_both(h, &t, cookie);
		t.client_isn += 0x12345678;
		t.server_isn += 0x87654321;
	}
	CHECK_EQ(harness_count(h, 1, TG_COUNT_flow_ready), 3, "ready");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

static void setup_events(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {
		.family = 4, .ts = true, .port = 80, .number = 9, .client_isn = 5, .server_isn = 6};
	struct tg_cookie cookie;
	uint32_t len;

	talk_services(h);
	cookie = open_cookie(h, &t, true);
	len = talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1, cookie.isn + 1, TG_TCP_ACK, 0);
	talk_put(h, f, len, TG_TO_SERVER);
	harness_forget(h);
	/* Too early, then late enough: the SYN goes again. */
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 0, "early");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_flow_early), 1, "early");
	harness_tick(h, 150);
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(talk_caught(h, 0).flags, TG_TCP_SYN, "the SYN is retransmitted");
	harness_forget(h);
	/* An older connection at the server: reset, and again. */
	talk_put(h, f, talk_segment(f, &t, TG_TO_CLIENT, 77, 88, TG_TCP_ACK, 0), TG_TO_CLIENT);
	CHECK_EQ(h->caught_n, 2, "RST and SYN");
	CHECK_EQ(talk_caught(h, 0).flags, TG_TCP_RST, "RST");
	CHECK_EQ(talk_caught(h, 1).flags, TG_TCP_SYN, "SYN");
	CHECK(h->caught[0].port == SERVER && h->caught[1].port == SERVER, "both to the server");
	harness_forget(h);
	/* Refused: the client hears it. */
	talk_put(h, f,
		 talk_segment(f, &t, TG_TO_CLIENT, 0, t.client_isn + 1, TG_TCP_RST | TG_TCP_ACK, 0),
		 TG_TO_CLIENT);
	CHECK_EQ(talk_caught(h, 0).seq, cookie.isn + 1, "a RST the client believes");
	CHECK_EQ(h->caught[0].port, CLIENT, "to the client");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_flow_refused), 1, "refused");
	CHECK_EQ(h->w->flows.swap.active->used, 0, "the flow is gone");
	harness_free(h);
}

static void auth_connection(int strategy)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = strategy % 2 ? 4 : 6,
			 .port = (uint16_t)(80 + strategy),
			 .number = 11,
			 .client_isn = 500,
			 .server_isn = 6};
	uint32_t isn, id = (uint32_t)strategy + 1;
	struct tg_packet pkt;

	talk_services(h);
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	pkt = talk_caught(h, 0);
	CHECK_EQ(pkt.flags, TG_TCP_SYN | TG_TCP_ACK, "the challenge");
	CHECK_EQ(pkt.ack == t.client_isn + 1, strategy != TG_STRATEGY_AUTH_WRONG,
		 "what it acknowledges");
	isn = pkt.seq;
	harness_forget(h);
	if (strategy == TG_STRATEGY_AUTH_WRONG) {
		talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, pkt.ack, 0, TG_TCP_RST, 0),
			 TG_TO_SERVER);
		CHECK_EQ(h->caught[0].port, SERVER, "the RST is forwarded");
	} else {
		talk_put(h, f,
			 talk_segment(f, &t, TG_TO_SERVER, t.client_isn + 1, isn + 1, TG_TCP_ACK, 0),
			 TG_TO_SERVER);
		CHECK_EQ(talk_caught(h, 0).flags, TG_TCP_RST, "so that the client retries");
		CHECK_EQ(h->caught[0].port, CLIENT, "to the client");
	}
	CHECK_EQ(harness_count(h, id, TG_COUNT_white_added), 1, "whitelisted");
	harness_forget(h);
	t.number += 1U << 16; /* another port, the same address */
	if (t.family == 4)
		talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	else
		t.number -= 1U << 16, talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	CHECK_EQ(h->caught[0].port, SERVER, "its next SYN goes to the server");
	CHECK_EQ(harness_count(h, id, TG_COUNT_forward_white), 1, "as a whitelisted source's");
	harness_forget(h);
	/* Two swaps in which it is silent, and it is forgotten. */
	CHECK(tg_worker_swap_sources(h->w), "a swap");
	tg_worker_clean(h->w);
	CHECK(tg_worker_swap_sources(h->w), "a swap");
	tg_worker_clean(h->w);
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	CHECK_EQ(h->caught[0].port, CLIENT, "challenged a second time");
	harness_free(h);
}

/* An unknown server is asked by the first client that verifies. */
static void unknown_server(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {
		.family = 4, .ts = false, .port = 80, .number = 5, .client_isn = 50, .server_isn = 60};
	struct tg_server_key key;
	struct tg_packet pkt;
	uint32_t isn;

	talk_services(h);
	memset(&h->w->servers, 0, sizeof(h->w->servers));
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	pkt = talk_caught(h, 0);
	key = tg_server_key(&pkt, true);
	isn = pkt.seq;
	CHECK_EQ(pkt.tcp_hdr_len, 24, "offered the minimum: an MSS");
	harness_forget(h);
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 51, isn + 1, TG_TCP_ACK, 0), TG_TO_SERVER);
	pkt = talk_caught(h, 0);
	CHECK_EQ(pkt.tcp_hdr_len, 40, "a SYN that offers everything");
	harness_forget(h);
	CHECK(pkt.seq != 50, "whose number the client does not know");
	t.ts = true;
	talk_put(h, f, talk_synack(f, &t), TG_TO_CLIENT);
	CHECK_EQ(harness_count(h, 1, TG_COUNT_server_asked), 0,
		 "an answer to the client's own number is not the server's");
	harness_forget(h);
	t.client_isn = pkt.seq;
	talk_put(h, f, talk_synack(f, &t), TG_TO_CLIENT);
	t.client_isn = 50;
	CHECK_EQ(h->caught_n, 2, "reset, and a second SYN");
	CHECK_EQ(talk_caught(h, 0).flags, TG_TCP_RST, "RST");
	CHECK_EQ(talk_caught(h, 1).tcp_hdr_len, 24, "a SYN with what the client agreed on");
	CHECK_EQ(harness_count(h, 1, TG_COUNT_server_asked), 1, "asked");
	harness_forget(h);
	CHECK(tg_servers_find(&h->w->servers, &key) &&
		      tg_servers_find(&h->w->servers, &key)->wscale == 9,
	      "and known from then on");
	t.number = 6; /* the next client */
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	CHECK_EQ(talk_caught(h, 0).tcp_hdr_len, 40, "is offered all of it");
	harness_free(h);
}

static void cache_connection(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {
		.family = 6, .ts = false, .port = 86, .number = 5, .client_isn = 50, .server_isn = 60};
	uint32_t isn, i;

	talk_services(h);
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	isn = talk_caught(h, 0).seq;
	harness_forget(h);
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	CHECK_EQ(talk_caught(h, 0).seq, isn, "the identical SYN-ACK");
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cache_known), 1, "known");
	harness_forget(h);
	for (i = 0; i < 8000 && !h->caught_n; i++)
		harness_tick(h, 1);
	CHECK(i > 900 && h->caught_n == 1, "retransmitted after %u ms", i);
	CHECK_EQ(talk_caught(h, 0).seq, isn, "the same");
	CHECK_EQ(h->caught[0].port, CLIENT, "where it came from");
	harness_forget(h);
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 51, isn, TG_TCP_ACK, 0), TG_TO_SERVER);
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cache_invalid), 1, "a wrong number");
	harness_forget(h);
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 51, isn + 1, TG_TCP_ACK, 0), TG_TO_SERVER);
	CHECK_EQ(talk_caught(h, 0).flags, TG_TCP_SYN, "the SYN to the server");
	harness_forget(h);
	talk_put(h, f, talk_synack(f, &t), TG_TO_CLIENT);
	CHECK_EQ(h->caught_n, 2, "ACK and window");
	harness_forget(h);
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 51, isn + 1, TG_TCP_ACK, 9), TG_TO_SERVER);
	CHECK_EQ(talk_caught(h, 0).ack, t.server_isn + 1, "translated");
	harness_forget(h);
	for (i = 0; i < 1000; i++) { /* a flood evicts; it does not grow */
		t.number = 100 + i;
		talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
		harness_forget(h);
	}
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cache_kept), 1001, "every SYN is answered");
	CHECK_EQ(harness_leaked(h), 0, "buffers");
	harness_free(h);
}

/* Who finds his bucket full gets a cookie, and nobody loses his place. The same cookie is worth nothing
 * to a cache that has given none. */
static void cache_full(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024), *fresh;
	struct talk t = {
		.family = 6, .ts = false, .port = 86, .number = 1, .client_isn = 50, .server_isn = 60};
	uint32_t first, isn, i, last;

	talk_services(h);
	talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
	first = talk_caught(h, 0).seq;
	for (i = 0; i < 40000; i++) {
		harness_forget(h);
		t.number = (uint16_t)(2 + i);
		talk_put(h, f, talk_syn(f, &t), TG_TO_SERVER);
		CHECK_EQ(h->caught_n, 1, "every SYN is answered");
	}
	last = t.number;
	isn = talk_caught(h, 0).seq;
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cache_kept), 4096, "the cache is full");
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cookie_sent), 40001 - 4096, "the others got cookies");
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cache_evicted), 0, "nobody was evicted");
	harness_forget(h);
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 51, isn + 3, TG_TCP_ACK, 9), TG_TO_SERVER);
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cookie_invalid), 1, "another number");
	harness_forget(h);
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 51, isn + 1, TG_TCP_ACK, 9), TG_TO_SERVER);
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cookie_valid), 1, "the cookie's number");
	CHECK_EQ(talk_caught(h, 0).flags & TG_TCP_SYN, TG_TCP_SYN, "the SYN to the server");
	harness_forget(h);
	t.number = 1;
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 51, first + 1, TG_TCP_ACK, 9), TG_TO_SERVER);
	CHECK_EQ(harness_count(h, 7, TG_COUNT_cache_valid), 1, "the first still has its place");
	harness_free(h);
	fresh = harness_new(NULL, 1023, 1024);
	talk_services(fresh);
	t.number = (uint16_t)last;
	talk_put(fresh, f, talk_segment(f, &t, TG_TO_SERVER, 51, isn + 1, TG_TCP_ACK, 9),
		 TG_TO_SERVER);
	CHECK_EQ(harness_count(fresh, 7, TG_COUNT_cookie_valid), 0, "a cookie that was not given");
	CHECK_EQ(harness_count(fresh, 7, TG_COUNT_cache_invalid), 1, "goes to the server");
	harness_free(fresh);
}

static void notify(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {
		.family = 4, .ts = true, .port = 87, .number = 5, .client_isn = 50, .server_isn = 60};
	uint32_t isn, i;

	talk_services(h);
	isn = open_cookie(h, &t, false).isn;
	talk_put(h, f, talk_segment(f, &t, TG_TO_SERVER, 51, isn + 1, TG_TCP_ACK, 9), TG_TO_SERVER);
	harness_forget(h);
	talk_put(h, f, talk_synack(f, &t), TG_TO_CLIENT);
	CHECK_EQ(h->caught_n, 5, "an ACK, and a window four times");
	for (i = 0; i < 5; i++)
		if (h->caught[i].port == CLIENT)
			CHECK_EQ(talk_caught(h, i).ack, 51, "the client's data are missing");
	CHECK_EQ(harness_count(h, 8, TG_COUNT_flow_notified), 1, "notified");
	harness_free(h);
}

static void router(void)
{
	struct harness *h = harness_new(NULL, 1023, 1024);
	struct talk t = {.family = 4, .port = 99, .number = 3, .client_isn = 1};
	static const uint8_t box0[6] = {2, 0, 0, 0, 0, 1}, next[6] = {2, 0, 0, 0, 9, 9};
	uint8_t arp[60] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0,  2, 8, 6,
			   0,    1,    8,    0,    6,    4,    0, 1, 2, 0, 0,  0, 0, 2,
			   10,   0,    0,    2,    0,    0,    0, 0, 0, 0, 10, 0, 0, 1};
	uint32_t len;

	memcpy(h->w->ports[0].mac, box0, 6);
	harness_line(h, "forwarding router");
	harness_line(h, "address 0 0a000001");
	harness_line(h, "route 4 0 00000000000000000000000000000000 0 020000000002");
	harness_line(h, "route 4 24 c6120100000000000000000000000000 1 020000000909");
	len = talk_syn(f, &t);
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 1, "routed");
	CHECK_EQ(h->caught[0].port, 1, "by the longer prefix");
	CHECK(memcmp(h->caught[0].frame, next, 6) == 0, "to the next hop");
	CHECK_EQ(h->caught[0].frame[14 + 8], 59, "TTL");
	(void)talk_caught(h, 0); /* checksums */
	harness_forget(h);
	f[14 + 8] = 1;
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK(h->caught_n == 1 && h->caught[0].port == 0,
	      "a TTL that is used up, of which its sender is told");
	harness_forget(h);
	f[0] = 4;
	talk_put(h, f, len, TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 0, "another host's frame");
	CHECK_EQ(harness_count(h, 0, TG_COUNT_drop_no_route), 2, "both counted");
	talk_put(h, arp, sizeof(arp), TG_TO_SERVER);
	CHECK_EQ(h->caught_n, 1, "ARP is answered");
	CHECK(h->caught[0].frame[21] == 2 && memcmp(h->caught[0].frame + 22, box0, 6) == 0 &&
		      h->caught[0].frame[31] == 1 &&
		      memcmp(h->caught[0].frame + 32, arp + 22, 10) == 0,
	      "rightly");
	harness_free(h);
}

void test_flows(void)
{
	int i;

	for (i = 0; i < 4; i++)
		cookie_connection(i & 1 ? 4 : 6, i & 2);
	setup_events();
	unknown_server();
	cache_connection();
	cache_full();
	notify();
	for (i = TG_STRATEGY_AUTH_COOKIE; i <= TG_STRATEGY_AUTH_TTL; i++)
		auth_connection(i);
	router();
}
