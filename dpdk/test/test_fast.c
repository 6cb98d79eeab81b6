/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path is not to be noticed: frames as all systems lay them out, and as
 * nobody does, come out the same with it and without it, byte for byte and in order,
 * and are counted the same; one by one, eight at once, and compiled for each CPU.
 * And it is taken: a fast path that takes nothing would pass all that.
 */
#include <stdlib.h>

#include "../bench/traffic.h"
#include "fast.h"
#include "talk.h"
#include "tests.h"

#define FRAMES 4000
#define FLOWS 300

/* What the frames meet. */
static enum world {
	EACH_STRATEGY, /* service 1 is of strategy cookie */
	SMALL_CACHE,   /* service 1 is of strategy cache, for which there are few places */
	NO_FLOWS,      /* all services whitelist */
	TWO_SERVERS,   /* as the first, but a flood's SYNs are to two servers, in any order */
	NET_SERVERS,   /* or to the addresses of a network */
	MANY_SERVERS,  /* or to more than the fast path keeps in mind */
	WORLDS
} world;

struct shape {
	uint8_t len;
	uint8_t bytes[40];
};

/* Options as systems send them; then similar ones. */
static const struct shape shapes[] = {
	{20, {2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}},
	{20, {2, 4, 5, 0xb4, 1, 3, 3, 6, 4, 2, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0}},
	{24, {2, 4, 5, 0xb4, 1, 3, 3, 6, 1, 1, 8, 10, 9, 8, 7, 6, 0, 0, 0, 0, 4, 2, 0, 0}},
	{12, {2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2}},
	{12, {2, 4, 5, 0xb4, 1, 1, 4, 2, 1, 3, 3, 7}},
	{8, {2, 4, 5, 0xb4, 1, 1, 4, 2}},
	{8, {2, 4, 5, 0xb4, 1, 3, 3, 2}},
	{4, {2, 4, 2, 0x18}},
	{0, {0}},
	{20, {2, 4, 0, 0, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}},
	{20, {2, 4, 0x23, 0, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 200}},
	{20, {2, 4, 5, 0xb4, 1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}},
	{12, {2, 4, 5, 0xb4, 4, 2, 1, 1, 1, 3, 3, 7}},
	{20, {19, 18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1, 1}},
	{40, {2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7, 34, 2, 1, 1}},
	{8, {2, 9, 5, 0xb4, 1, 3, 3, 2}},
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct made {
	uint8_t bytes[160];
	uint32_t len;
};

static struct made frames[FRAMES];

/* Ethernet and its tags; where IP begins. */
static uint32_t put_ethernet(uint8_t *f, uint8_t family, uint64_t r)
{
	static const uint8_t mac[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
	uint32_t at = 12;

	memcpy(f, mac, 12);
	if (r % 97 == 0)
		f[0] = 0xff; /* to a group */
	if (r % 7 == 0) {
		f[at] = r & 64 ? 0x81 : 0x88, f[at + 1] = r & 64 ? 0x00 : 0xa8, f[at + 2] = 0,
		f[at + 3] = 42;
		at += 4;
	}
	tg_store16(f + at, family == 4 ? TG_ETHERTYPE_IPV4 : TG_ETHERTYPE_IPV6);
	return at + 2;
}

/* The last two bytes of the destination, as on the wire. */
static uint16_t server_of(uint32_t client)
{
	static const uint16_t servers[WORLDS] = {
		[TWO_SERVERS] = 2, [NET_SERVERS] = 200, [MANY_SERVERS] = 50000};
	uint32_t server = servers[world] ? client / 671 % servers[world] : client % 11 == 0;

	return tg_swap16((uint16_t)(0x0101 + server));
}

static uint32_t put_ip(uint8_t *ip, uint8_t family, uint32_t client, uint32_t tcp_len, bool back)
{
	uint8_t *src, *dst;

	if (family == 4) {
		memset(ip, 0, 20);
		ip[0] = 0x45, ip[6] = 0x40, ip[8] = 60, ip[9] = 6;
		tg_store16(ip + 2, tg_swap16(20 + tcp_len));
		src = ip + (back ? 16 : 12), dst = ip + (back ? 12 : 16);
		tg_store32(src,
			   TG_WIRE32(client % 61 == 0 ? client >> 8 : 11, 2, client >> 8, client));
		tg_store32(dst, TG_WIRE32(198, 18, 0, 0));
		tg_store16(dst + 2, server_of(client));
		return 20;
	}
	memset(ip, 0, 40);
	ip[0] = 0x60, ip[6] = 6, ip[7] = 60;
	tg_store16(ip + 4, tg_swap16(tcp_len));
	src = ip + (back ? 24 : 8), dst = ip + (back ? 8 : 24);
	if (client % 61 == 0) {
		src[0] = client / 61 % 2 ? 0xff : 0; /* a group, or no site */
	} else {
		tg_store32(src, TG_WIRE32(0x20, 1, 0x0d, 0xb8));
		tg_store32(src + 4, client); /* a site of its own */
	}
	tg_store32(src + 12, client);
	tg_store32(dst, TG_WIRE32(0x20, 1, 0x0d, 0xb9));
	tg_store32(dst + 12, TG_WIRE32(198, 18, 1, 1));
	if (world >= TWO_SERVERS)
		tg_store16(dst + 14, server_of(client));
	return 40;
}

/* Puts right checksums into a packet without IP options. */
static void put_sums(uint8_t *ip, uint8_t family, uint32_t tcp_len)
{
	uint8_t *tcp = ip + (family == 4 ? 20 : 40);
	uint64_t sum = TG_WIRE32(0, 6, tcp_len >> 8, tcp_len);

	if (family == 4) {
		tg_store16(ip + 10, 0);
		tg_store16(ip + 10, tg_csum_finish(tg_csum_add(0, ip, 20)));
	}
	tg_store16(tcp + 16, 0);
	sum = tg_csum_add(sum, ip + (family == 4 ? 12 : 8), family == 4 ? 8 : 32);
	tg_store16(tcp + 16, tg_csum_finish(tg_csum_add(sum, tcp, tcp_len)));
}

/* A SYN, or something that is not quite one. */
static void make_syn(struct made *m, const struct shape *shape, uint8_t family, uint16_t port,
		     uint64_t r, bool clean)
{
	uint32_t at = put_ethernet(m->bytes, family, clean ? 1 : r >> 3), tcp_len = 20 + shape->len;
	uint8_t *tcp;

	if (!clean && r % 29 == 0)
		tcp_len += 5; /* data */
	at += put_ip(m->bytes + at, family,
		     clean ? (uint32_t)(r >> 20) * 671 + (r % 53 != 0) : (uint32_t)(r >> 20),
		     tcp_len, false);
	tcp = m->bytes + at;
	memset(tcp, 0, tcp_len);
	tg_store16(tcp, tg_swap16(r % 41 == 0 ? 81 : 1024 + (r >> 17) % 60000));
	tg_store16(tcp + 2, tg_swap16(port));
	tg_store32(tcp + 4, (uint32_t)(r >> 11));
	tcp[12] = (uint8_t)((20 + shape->len) / 4 << 4);
	tcp[13] = !clean && r % 31 == 0 ? (uint8_t)(r >> 40) : TG_TCP_SYN;
	memcpy(tcp + 20, shape->bytes, shape->len);
	if (shape->len == 20 && r & 1)
		tg_store32(tcp + 28, (uint32_t)(r >> 5)); /* TSval */
	if (shape->len && r % 3 == 0)
		tg_store16(tcp + 22, (uint16_t)(r >> 23)); /* MSS */
	put_sums(tcp - (family == 4 ? 20 : 40), family, tcp_len);
	if (!clean && r % 19 == 0) { /* a wrong checksum, or one left to a device */
		uint8_t *ip = tcp - (family == 4 ? 20 : 40);
		uint64_t pseudo = tg_csum_add(TG_WIRE32(0, 6, tcp_len >> 8, tcp_len),
					      ip + (family == 4 ? 12 : 8), family == 4 ? 8 : 32);

		if (r & 8)
			tg_store16(tcp + 16, tg_csum_fold(pseudo));
		else
			(r & 16 ? tcp : ip)[r & 16 ? 17 : 10] ^= 1;
	}
	m->len = at + tcp_len + (!clean && r % 23 == 0 ? 6 : 0);
	if (!clean && r % 37 == 0)
		m->bytes[(r >> 30) % m->len] ^= (uint8_t)(r >> 50);
	if (!clean && r % 43 == 0)
		m->len -= (uint32_t)(r >> 44) % m->len;
}

/* A segment of a flow that is ready, or almost. */
static void make_segment(struct made *m, uint32_t flow, uint64_t r, bool clean)
{
	bool back = r & 1, ts = r & 2;
	uint8_t family = flow % 3 ? 4 : 6;
	uint32_t at = put_ethernet(m->bytes, family, clean ? 1 : r >> 3 | 1),
		 tcp_len = (ts ? 32 : 20) + (r >> 5 & 15);
	uint8_t *tcp;

	at += put_ip(m->bytes + at, family, flow * 671 + 1, tcp_len, back);
	tcp = m->bytes + at;
	memset(tcp, 0x5a, tcp_len);
	tg_store16(tcp + (back ? 2 : 0), tg_swap16(2000 + flow));
	tg_store16(tcp + (back ? 0 : 2), tg_swap16(80));
	tg_store32(tcp + 4, (uint32_t)(r >> 11));
	tg_store32(tcp + 8, (uint32_t)(r >> 9));
	tcp[12] = ts ? 8 << 4 : 5 << 4;
	tcp[13] = !clean && r % 19 == 0 ? (uint8_t)(r >> 40) : TG_TCP_ACK;
	tg_store16(tcp + 14, (uint16_t)(r >> 13));
	tg_store16(tcp + 16, r % 5 ? (uint16_t)(r >> 29) : 0xffff);
	if (ts && (clean || r % 17))
		tg_store32(tcp + 20, TG_WIRE32(1, 1, 8, 10));
	m->len = at + tcp_len;
	if (r % (clean ? 397 : 37) == 0)
		m->bytes[(r >> 30) % m->len] ^= (uint8_t)(r >> 50);
}

static void make_frames(uint64_t seed)
{
	uint32_t i;

	for (i = 0; i < FRAMES; i++) {
		uint64_t r = tg_splitmix(&seed), r2 = tg_splitmix(&seed);
		uint32_t block = i / 50 %
				 5; /* a flood; anything; a flood; segments among SYNs; segments */
		bool v6 = (block == 0) == (i / 250 % 2); /* one of the two floods of each round */

		if (block == 0 || block == 2)
			make_syn(&frames[i], &shapes[0], v6 ? 6 : 4, (uint16_t)(80 + i / 200 % 3),
				 r, true);
		else if (block == 1)
			make_syn(&frames[i], &shapes[r2 % SHAPES], r2 >> 20 & 1 ? 4 : 6,
				 (uint16_t)(80 + (r2 >> 8) % (TALK_SERVICES + 1)), r, false);
		else if (block == 4) /* of IPv4 connections, nearly all of which exist */
			make_segment(&frames[i], (uint32_t)(r2 >> 8) % (FLOWS / 3 + 1) * 3 + 1, r,
				     true);
		else if (r2 & 3)
			make_segment(&frames[i], (uint32_t)(r2 >> 8) % (FLOWS + 50), r, false);
		else
			make_syn(&frames[i], &shapes[r2 % SHAPES], 4, 80, r, true);
	}
}

/* Connections that are ready, some of which end; and every seventh of the flood's
 * clients has one, so that its SYN is left to the server. */
static void open_flows(struct harness *h)
{
	uint32_t i;

	for (i = 0; i < FLOWS; i++) {
		struct tg_flow flow = {.seq_delta = i * 77777,
				       .ts_delta = i * 33333,
				       .service = 1,
				       .client_isn = i,
				       .state = i % 20 ? TG_FLOW_READY : TG_FLOW_SETUP,
				       .flags = (uint8_t)((i & 1 ? TG_FLOW_TS : 0) |
							  (i % 23 ? 0 : TG_FLOW_CLOSED)),
				       .window_down = (int8_t)(i % 5 - 2),
				       .window_up = (uint8_t)(i % 3),
				       .server_port = i % 4 ? 0 : 9};
		uint8_t family = i % 3 ? 4 : 6;
		struct tg_packet pkt = {0};
		struct made m;
		struct tg_flow_key key;

		make_segment(&m, i, 2 | 8 << 3, false);
		(void)tg_packet_parse(&pkt, m.bytes, m.bytes + m.len);
		CHECK_EQ(pkt.family, family, "family");
		key = tg_flow_key_of(&pkt, TG_TO_SERVER);
		CHECK(tg_flow_table_insert(&h->w->flows, &key, tg_flow_key_hash(&h->w->flows, &key),
					   tg_presence_flow(&pkt, h->w->presence_salt), &flow),
		      "a place for a flow");
	}
	for (i = 0; i < FRAMES; i += 7) {
		struct tg_flow flow = {.service = 1, .state = TG_FLOW_READY};
		struct tg_packet pkt;
		struct tg_flow_key key;

		if (i / 50 % 5 || tg_packet_parse(&pkt, frames[i].bytes,
						  frames[i].bytes + frames[i].len) != TG_PARSE_TCP)
			continue;
		key = tg_flow_key_of(&pkt, TG_TO_SERVER);
		(void)tg_flow_table_insert(&h->w->flows, &key, tg_flow_key_hash(&h->w->flows, &key),
					   tg_presence_flow(&pkt, h->w->presence_salt), &flow);
		(void)tg_whitelist_put(&h->w->white, tg_white_key(&pkt.src, pkt.family, ~0U, ~0ULL));
	}
}

/* What the second server gives to those services of which every other is told: SYNs to both servers of one are answered
 * together, those to the others cannot be. */
static void know_second_server(struct harness *h)
{
	struct tg_learned l = {
		.asked_ms = h->now_ms, .mss = 1300, .wscale = 5, .sack = 1, .timestamps = 1};
	struct tg_server_key key4 = {.addr = {.w = {TG_WIRE32(198, 18, 1, 2)}}, .family = 4};
	struct tg_server_key key6 = {
		.addr = {.w = {TG_WIRE32(0x20, 1, 0x0d, 0xb9), 0, 0, TG_WIRE32(198, 18, 1, 2)}},
		.family = 6};
	int i;

	for (i = 0; i < TALK_SERVICES; i += 2) {
		key4.port_be = key6.port_be = tg_swap16(80 + i);
		tg_servers_put(&h->w->servers, &key4, &l);
		tg_servers_put(&h->w->servers, &key6, &l);
	}
}

static void open_services(struct harness *h)
{
	uint32_t i;

	if (world != NO_FLOWS) {
		talk_services(h);
		if (world == TWO_SERVERS)
			know_second_server(h);
		if (world == SMALL_CACHE)
			harness_line(h, "service 1 1460 1440 64240 7 1 1 1 2 %d 0 0 0 0 0 %u",
				     TG_STRATEGY_CACHE, 0x9e3779b1U);
		return;
	}
	harness_line(h, "epoch %llu", TALK_EPOCH);
	harness_line(h, "key %llu 000102030405060708090a0b0c0d0e0f", TALK_EPOCH);
	for (i = 1; i <= TALK_SERVICES; i++) { /* one in mode monitor, one off */
		harness_line(h, "service %u 1460 1440 64240 7 1 1 1 %u %u 0 0 0 0 0 %u", i,
			     i < 7 ? 2 : i % 2, TG_STRATEGY_AUTH_COOKIE + i % 4, 0x9e3779b1U + 2 * i);
		harness_line(h, "port %u %u", 79 + i, i);
	}
	for (i = 0; i < FLOWS; i += 2) {
		struct tg_packet pkt = {0};
		struct made m;

		make_segment(&m, i, 2 | 8 << 3, false);
		(void)tg_packet_parse(&pkt, m.bytes, m.bytes + m.len);
		(void)tg_whitelist_put(&h->w->white, tg_white_key(&pkt.src, pkt.family, ~0U, ~0ULL));
	}
}

static struct harness *run(test_pipeline *p, const char *variant, bool off, bool router, uint32_t most)
{
	struct rte_mbuf *m[TG_BURST_MAX];
	uint32_t i = 0, n, places = harness_halfopens;
	struct harness *h;

	harness_halfopens = world == SMALL_CACHE ? 64 : places;
	h = harness_new(variant, 8191, 4096);
	harness_halfopens = places;
	h->roomy = true;
	open_services(h);
	if (most >= 32) /* some of the flood */
		talk_deny(h, TG_WIRE32(11, 2, 64, 0), 21, 36);
	if (most % 32 == 0) { /* every cookie contains the epoch's lowest bit */
		harness_line(h, "key %llu 0f0e0d0c0b0a09080706050403020100", TALK_EPOCH + 1);
		harness_line(h, "epoch %llu", TALK_EPOCH + 1);
	}
	h->w->fast.burst_no = router ? UINT32_MAX - 3 : 1U << 31; /* as after a long time */
	if (router) {
		harness_line(h, "forwarding router");
		harness_line(h, "route 4 0 00000000000000000000000000000000 1 020000000099");
		harness_line(h, "route 6 0 00000000000000000000000000000000 1 020000000098");
		memcpy(h->w->ports[0].mac, "\x02\0\0\0\0\x01", 6);
		memcpy(h->w->ports[1].mac, "\x02\0\0\0\0\x09", 6);
	}
	if (p)
		h->w->burst = p;
	h->w->fast.off = off;
	open_flows(h);
	while (i < FRAMES) {
		for (n = 0; n < most && i < FRAMES; n++, i++)
			m[n] = harness_frame(h, frames[i].bytes, frames[i].len);
		harness_burst(h, m, n, 0);
		if (i % 1000 < most)
			harness_tick(h, 60);
	}
	return h;
}

/* Compares the flows of both. Returns for how many the next number that the server expects is known. */
static uint32_t compare_flows(const struct harness *a, const struct harness *b, const char *what)
{
	const struct tg_flow_table *t = &a->w->flows;
	const struct tg_bucket *buckets = tg_flow_buckets(t->swap.active);
	uint32_t slot, different = 0, known = 0;

	for (slot = 0; slot < t->buckets * TG_BUCKET_SLOTS; slot++) {
		const struct tg_flow *x = &tg_flow_entries(t, t->swap.active)[slot].flow;
		const struct tg_flow *y = &tg_flow_entries(t, b->w->flows.swap.active)[slot].flow;

		if (!buckets[slot / TG_BUCKET_SLOTS].sig[slot % TG_BUCKET_SLOTS])
			continue;
		different += memcmp(x, y, sizeof(*x)) != 0;
		known += x->state == TG_FLOW_READY && x->server_acked != 0;
	}
	CHECK(different == 0, "%s: %u flows differ", what, different);
	return known;
}

/* `wide`: how many SYNs this variant answers at once; 0: one. */
static void same(test_pipeline *p, const char *name, uint32_t wide)
{
	static const uint32_t lengths[] = {1, 7, 8, 32, 64, 128};
	struct harness *slow, *fast;
	uint32_t i, router, known;

	for (router = 0; router < 2; router++) {
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			slow = run(p, i % 2 ? NULL : "scalar", true, router, lengths[i]);
			fast = run(p, i % 2 ? "scalar" : NULL, false, router, lengths[i]);
			talk_compare(slow, fast, name);
			known = compare_flows(slow, fast, name);
			CHECK(known > FLOWS / 3 || world == NO_FLOWS,
			      "%s: of %u flows it is noted what their servers want", name, known);
			CHECK((lengths[i] >= 32) ==
				      (harness_count(fast, 1, TG_COUNT_drop_denied) > 10),
			      "%s, bursts of %u: %llu denied", name, lengths[i],
			      (unsigned long long)harness_count(fast, 1, TG_COUNT_drop_denied));
			CHECK_EQ(slow->w->fast.syns + slow->w->fast.segments, 0,
				 "the fast path is shut");
			CHECK(fast->w->fast.syns > FRAMES / (world == MANY_SERVERS ? 20 : 3) &&
				      fast->w->fast.segments > FRAMES / 20,
			      "%s: %u SYNs and %u segments went the fast path", name,
			      (uint32_t)fast->w->fast.syns, (uint32_t)fast->w->fast.segments);
			CHECK((wide && lengths[i] >= wide) == (fast->w->fast.wides > 0) ||
				      world == MANY_SERVERS,
			      "%s, bursts of %u: %u SYNs were answered together", name, lengths[i],
			      (uint32_t)fast->w->fast.wides);
			CHECK((wide && lengths[i] >= wide) ==
					      (fast->w->fast.wides6 > 0 &&
					       fast->w->fast.wides > fast->w->fast.wides6) ||
				      world == MANY_SERVERS,
			      "%s, bursts of %u: %u of them over IPv6", name, lengths[i],
			      (uint32_t)fast->w->fast.wides6);
			CHECK((wide && lengths[i] >= wide) == (fast->w->fast.wides_mixed > 0) ||
				      (world != TWO_SERVERS && world != NET_SERVERS),
			      "%s, bursts of %u: %u of them to several servers", name, lengths[i],
			      (uint32_t)fast->w->fast.wides_mixed);
			CHECK(!wide || lengths[i] != 32 || world != NET_SERVERS ||
				      fast->w->fast.wides_mixed > FRAMES / 16,
			      "%s, bursts of %u: %u SYNs to a network were answered together", name,
			      lengths[i], (uint32_t)fast->w->fast.wides_mixed);
			CHECK((wide && world != NO_FLOWS) == (fast->w->fast.wide_segments > 100) ||
				      lengths[i] < 8,
			      "%s, bursts of %u: %u segments went eight at once", name, lengths[i],
			      (uint32_t)fast->w->fast.wide_segments);
			CHECK((wide && lengths[i] >= wide && world == NO_FLOWS && !router) ==
				      (fast->w->fast.wide_forwards > 0),
			      "%s, bursts of %u: %u segments were forwarded together", name,
			      lengths[i], (uint32_t)fast->w->fast.wide_forwards);
			CHECK(world != SMALL_CACHE ||
				      (harness_count(fast, 1, TG_COUNT_cache_kept) > 32 &&
				       harness_count(fast, 1, TG_COUNT_cookie_sent) > FRAMES / 20),
			      "%s: %llu SYNs kept, %llu found the cache full", name,
			      (unsigned long long)harness_count(fast, 1, TG_COUNT_cache_kept),
			      (unsigned long long)harness_count(fast, 1, TG_COUNT_cookie_sent));
			harness_free(slow);
			harness_free(fast);
		}
	}
}

void test_fast(void)
{
	uint64_t seed;

	for (seed = 1; seed <= 1 + WORLDS; seed++) { /* the first world twice */
		world = seed < 2 ? EACH_STRATEGY : (enum world)(seed - 2);
		make_frames(seed);
		test_each_pipeline(same);
	}
}
