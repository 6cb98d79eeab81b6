/* SPDX-License-Identifier: Apache-2.0
 *
 * talk.h.
 */
#include "talk.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests.h"

static const struct tg_siphash_key key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};

static const struct {
	int strategy, first_data;
} services[TALK_SERVICES] = {
	{TG_STRATEGY_COOKIE, TG_FIRST_DATA_ZERO_WINDOW},
	{TG_STRATEGY_AUTH_COOKIE, 0},
	{TG_STRATEGY_AUTH_FULL, 0},
	{TG_STRATEGY_AUTH_WRONG, 0},
	{TG_STRATEGY_AUTH_TTL, 0},
	{TG_STRATEGY_COOKIE, TG_FIRST_DATA_STORE},
	{TG_STRATEGY_CACHE, TG_FIRST_DATA_ZERO_WINDOW},
	{TG_STRATEGY_COOKIE, TG_FIRST_DATA_NOTIFY},
};

/* A single prefix, compared with the whole address. */
static struct tg_list_block one_denied(const uint32_t first[4], uint8_t len)
{
	struct tg_list_block b = {{0}};
	int i;

	for (i = 0; i < 4; i++) {
		uint32_t bits = len <= 32 * i ? 0 : len - 32u * (uint32_t)i;

		b.word[TG_LIST_ONE_MASK + i] = bits >= 32 ? ~0U : ~(~0U >> bits);
		b.word[TG_LIST_ONE_ADDR + i] = first[i] & b.word[TG_LIST_ONE_MASK + i];
	}
	b.word[TG_LIST_ONE_INSIDE] = (uint32_t)TG_LISTED_DENY << 30;
	return b;
}

void talk_deny(struct harness *h, uint32_t addr_be, uint8_t len, uint8_t len6)
{
	const uint32_t four[4] = {tg_swap32(addr_be)}, six[4] = {0x20010db8};
	struct tg_list_block blocks[3] = {{{0}}};
	char path[] = "/tmp/tg-lists-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");

	blocks[0].word[TG_LIST_AT_MAGIC] = TG_LIST_MAGIC;
	blocks[0].word[TG_LIST_AT_WIDE4] = blocks[0].word[TG_LIST_AT_WIDE6] = 1;
	blocks[0].word[TG_LIST_AT_ROOT4] = (uint32_t)TG_LISTED_MORE << 30 | 1;
	blocks[0].word[TG_LIST_AT_ROOT6] = (uint32_t)TG_LISTED_MORE << 30 | 2;
	blocks[1] = one_denied(four, len);
	blocks[2] = one_denied(six, len6);
	if (!file || fwrite(blocks, sizeof(blocks), 1, file) != 1 || fclose(file))
		abort();
	harness_line(h, "lists %s", path);
	(void)remove(path);
}

static struct tg_segment segment(const struct talk *t, enum tg_direction dir);

void talk_know_server(struct harness *h, uint8_t family, uint16_t port)
{
	struct talk t = {.family = family, .port = port};
	struct tg_segment s = segment(&t, TG_TO_SERVER);
	struct tg_server_key key = {.addr = s.dst, .port_be = tg_swap16(port), .family = family};
	struct tg_learned l = {
		.asked_ms = h->now_ms, .mss = 1400, .wscale = 9, .sack = 1, .timestamps = 1};

	tg_servers_put(&h->w->servers, &key, &l);
}

void talk_services(struct harness *h)
{
	int i;

	harness_line(h, "epoch %llu", TALK_EPOCH);
	harness_line(h, "key %llu 000102030405060708090a0b0c0d0e0f", TALK_EPOCH);
	for (i = 0; i < TALK_SERVICES; i++) {
		harness_line(h, "service %d 1460 1440 64240 7 1 1 1 2 %d %d 0 %u 0 0 %u", i + 1,
			     services[i].strategy, services[i].first_data, TG_SIGNED_ANSWER,
			     0x9e3779b1U + 2U * (uint32_t)i); /* of flow labels */
		harness_line(h, "port %d %d", 80 + i, i + 1);
		talk_know_server(h, 4, (uint16_t)(80 + i));
		talk_know_server(h, 6, (uint16_t)(80 + i));
	}
}

void talk_automate(struct harness *h, uint32_t id, int mode, int verify)
{
	harness_line(h, "service %u 1460 1440 64240 7 1 1 1 %d %u %u 0 0 1 %d", id, mode,
		     h->config->proxy_cfg[id].strategy, h->config->proxy_cfg[id].first_data, verify);
}

static struct tg_segment segment(const struct talk *t, enum tg_direction dir)
{
	union tg_addr client = {.w = {TG_WIRE32(11, 1, t->number >> 8, t->number)}};
	union tg_addr server = {.w = {TG_WIRE32(198, 18, 1, 1)}};
	uint32_t ports = tg_swap16(20000 + t->number % 30000) | (uint32_t)tg_swap16(t->port) << 16;

	if (t->family == 6) {
		client.w[3] = client.w[0];
		client.w[0] = TG_WIRE32(0x20, 1, 0x0d, 0xb8);
		client.w[1] = t->number;
		server.w[0] = TG_WIRE32(0x20, 1, 0x0d, 0xb9);
	}
	return (struct tg_segment){
		.src = dir == TG_TO_SERVER ? client : server,
		.dst = dir == TG_TO_SERVER ? server : client,
		.ports = dir == TG_TO_SERVER ? ports : ports << 16 | ports >> 16,
		.l3_off = TG_ETH_HDR_LEN,
		.window = 501,
		.family = t->family,
		.ttl = 60,
	};
}

static uint32_t write(uint8_t *frame, const struct tg_segment *s, uint32_t data_len)
{
	static const uint8_t eth[2][12] = {{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2},
					   {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}};
	uint32_t len = TG_ETH_HDR_LEN + tg_segment_len(s), i;
	uint8_t *tcp = frame + TG_ETH_HDR_LEN + tg_segment_ip_len(s);
	uint64_t sum;

	memcpy(frame, eth[tg_swap16((uint16_t)s->ports) < 100], 12);
	tg_store16(frame + 12, s->family == 4 ? TG_ETHERTYPE_IPV4 : TG_ETHERTYPE_IPV6);
	(void)tg_segment_write((struct tg_writer){frame + TG_ETH_HDR_LEN, frame + TALK_FRAME_MAX}, s);
	for (i = 0; i < data_len; i++)
		frame[len + i] = (uint8_t)(s->seq + i);
	if (!data_len)
		return len;
	if (s->family == 4) {
		uint8_t *ip = frame + TG_ETH_HDR_LEN;
		uint16_t was = tg_load16(ip + 2), is = tg_swap16(tg_swap16(was) + data_len);

		tg_store16(ip + 2, is);
		tg_store16(ip + 10, tg_csum_update16(tg_load16(ip + 10), was, is));
	} else {
		tg_store16(frame + TG_ETH_HDR_LEN + 4, tg_swap16(tg_segment_tcp_len(s) + data_len));
	}
	/* The pseudo-header's length, then the data. */
	sum = (uint16_t)~tg_load16(tcp + 16) + (uint64_t)tg_swap16(data_len);
	tg_store16(tcp + 16, tg_csum_finish(tg_csum_add(sum, frame + len, data_len)));
	return len + data_len;
}

uint32_t talk_segment(uint8_t *frame, const struct talk *t, enum tg_direction dir, uint32_t seq,
		      uint32_t ack, uint8_t flags, uint32_t data_len)
{
	struct tg_segment s = segment(t, dir);

	s.seq = seq;
	s.ack = ack;
	s.flags = flags;
	s.kind = t->ts ? TG_SEGMENT_TIMESTAMPS : TG_SEGMENT_PLAIN;
	s.options.tsval = dir == TG_TO_SERVER ? 1000 : 5000;
	s.options.tsecr = dir == TG_TO_SERVER ? talk_cookie(t).tsval : 1000;
	return write(frame, &s, data_len);
}

uint32_t talk_syn(uint8_t *frame, const struct talk *t)
{
	struct tg_segment s = segment(t, TG_TO_SERVER);

	s.seq = t->client_isn;
	s.flags = TG_TCP_SYN;
	s.kind = TG_SEGMENT_HANDSHAKE;
	s.options = (struct tg_tcp_options){
		.mss = 1460, .wscale = 7, .sack_ok = true, .ts_ok = t->ts, .tsval = 1000};
	return write(frame, &s, 0);
}

uint32_t talk_synack(uint8_t *frame, const struct talk *t)
{
	struct tg_segment s = segment(t, TG_TO_CLIENT);

	s.seq = t->server_isn;
	s.ack = t->client_isn + 1;
	s.flags = TG_TCP_SYN | TG_TCP_ACK;
	s.kind = TG_SEGMENT_HANDSHAKE;
	s.options = (struct tg_tcp_options){
		.mss = 1400, .wscale = 9, .sack_ok = true, .ts_ok = t->ts, .tsval = 5000, .tsecr = 1000};
	return write(frame, &s, 0);
}

struct tg_cookie talk_cookie(const struct talk *t)
{
	struct tg_segment s = segment(t, TG_TO_SERVER);
	struct tg_packet syn = {.src = s.src,
				.dst = s.dst,
				.ports = s.ports,
				.seq = t->client_isn,
				.family = t->family};

	return tg_cookie_make(
		&syn, tg_cookie_option_bits(tg_cookie_mss(t->family, 1460, t->ts), 7, true, false),
		t->ts, TALK_EPOCH, &key);
}

void talk_put(struct harness *h, const uint8_t *frame, uint32_t len, enum tg_direction dir)
{
	struct rte_mbuf *m = harness_frame(h, frame, len);

	CHECK(m, "a buffer");
	if (m)
		harness_burst(h, &m, 1, dir == TG_TO_SERVER ? 0 : 1);
}

struct tg_packet talk_caught(const struct harness *h, uint32_t i)
{
	struct tg_packet pkt = {0};
	const struct caught *c = &h->caught[i];
	uint64_t sum = 0;
	int k;

	CHECK(i < h->caught_n, "frame %u of %u", i, h->caught_n);
	if (i >= h->caught_n)
		return pkt;
	CHECK_EQ(tg_packet_parse(&pkt, c->frame, c->frame + c->len), TG_PARSE_TCP, "caught frame");
	CHECK_EQ(pkt.l4_off + pkt.l4_len, c->len, "caught length");
	if (pkt.family == 4)
		CHECK_EQ(tg_csum_fold(tg_csum_add(0, c->frame + pkt.l3_off, 20)), 0xffff,
			 "IP checksum");
	for (k = 0; k < 4; k++)
		sum += (uint64_t)pkt.src.w[k] + pkt.dst.w[k];
	sum += TG_WIRE32(0, TG_IPPROTO_TCP, pkt.l4_len >> 8, pkt.l4_len);
	CHECK_EQ(tg_csum_fold(tg_csum_add(sum, c->frame + pkt.l4_off, pkt.l4_len)), 0xffff,
		 "TCP checksum");
	return pkt;
}

void talk_compare(const struct harness *a, const struct harness *b, const char *what)
{
	uint32_t i, c, id, different = 0, first = 0;

	CHECK_EQ(b->caught_n, a->caught_n, what);
	CHECK_EQ(harness_leaked(b), 0, "buffers");
	for (i = 0; i < a->caught_n && i < b->caught_n; i++) {
		const struct caught *x = &a->caught[i], *y = &b->caught[i];

		if (x->port == y->port && x->len == y->len && memcmp(x->frame, y->frame, x->len) == 0)
			continue;
		first = different++ ? first : i;
	}
	CHECK(different == 0, "%s: %u of %u frames differ, the first is %u", what, different,
	      a->caught_n, first);
	for (id = 0; id <= TALK_SERVICES; id++)
		for (c = 0; c < TG_COUNTERS; c++)
			CHECK_EQ(harness_count(b, id, c), harness_count(a, id, c), what);
}
