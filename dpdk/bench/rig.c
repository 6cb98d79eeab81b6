/* SPDX-License-Identifier: Apache-2.0
 *
 * rig.h.
 */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "buffers.h"
#include "intact.h"
#include "traffic.h"

const char *const tg_bench_paths[TG_BENCH_PATHS] = {
	"macswap",      "auth-full",   "auth-cookie",   "cookie",    "cookie-card",
	"cookie-turns", "cookie-net",  "cookie-spread", "cookie-v6", "auth-full-v6",
	"cache",        "cache-keep",  "forward",       "translate", "off-syn",
	"auto-syn",     "off-segment", "auto-segment"};

void tg_bench_fail(const char *why)
{
	fprintf(stderr, "tidegate-dpdk-bench: %s\n", why);
	exit(1);
}

static uint32_t transmit(struct tg_worker *w, uint16_t port, struct rte_mbuf **m, uint32_t n)
{
	(void)port;
	tg_mem_port_send(w->owner, m, n);
	return n;
}

static void line(struct tg_config *config, const char *text)
{
	char copy[256];
	const char *err;

	snprintf(copy, sizeof(copy), "%s", text);
	err = tg_config_line(config, copy);
	if (err)
		tg_bench_fail(err);
}

static struct tg_config *make_config(enum tg_bench_path what, const char *lists)
{
	static const int strategy[TG_BENCH_PATHS] = {
		[TG_BENCH_AUTH_FULL] = TG_STRATEGY_AUTH_FULL,
		[TG_BENCH_AUTH_COOKIE] = TG_STRATEGY_AUTH_COOKIE,
		[TG_BENCH_COOKIE] = TG_STRATEGY_COOKIE,
		[TG_BENCH_COOKIE_CARD] = TG_STRATEGY_COOKIE,
		[TG_BENCH_COOKIE_TURNS] = TG_STRATEGY_COOKIE,
		[TG_BENCH_COOKIE_NET] = TG_STRATEGY_COOKIE,
		[TG_BENCH_COOKIE_SPREAD] = TG_STRATEGY_COOKIE,
		[TG_BENCH_COOKIE_V6] = TG_STRATEGY_COOKIE,
		[TG_BENCH_AUTH_FULL_V6] = TG_STRATEGY_AUTH_FULL,
		[TG_BENCH_CACHE] = TG_STRATEGY_CACHE,
		[TG_BENCH_CACHE_KEEP] = TG_STRATEGY_CACHE,
		[TG_BENCH_FORWARD] = TG_STRATEGY_AUTH_COOKIE,
		[TG_BENCH_TRANSLATE] = TG_STRATEGY_COOKIE,
	};
	bool off = what == TG_BENCH_OFF_SYN || what == TG_BENCH_OFF_SEGMENT;
	bool automatic = what == TG_BENCH_AUTO_SYN || what == TG_BENCH_AUTO_SEGMENT;
	struct tg_config *config = tg_config_new();
	char text[256];

	if (!config)
		tg_bench_fail("out of memory");
	snprintf(text, sizeof(text), "service 1 1460 1440 64240 7 1 1 0 %d %d 0 0 0 %d 0 2654435769",
		 off         ? TG_MODE_OFF
		 : automatic ? TG_MODE_AUTO
			     : TG_MODE_ALWAYS,
		 strategy[what], automatic);
	line(config, text);
	line(config, "port 80 1");
	line(config, "epoch 218750000");
	line(config, "key 218750000 000102030405060708090a0b0c0d0e0f");
	line(config, "key 218749999 101112131415161718191a1b1c1d1e1f");
	if (lists) {
		snprintf(text, sizeof(text), "lists %s", lists);
		line(config, text);
	}
	return config;
}

static void fill_flows(struct tg_worker *w)
{
	uint32_t i;

	for (i = 0; i < TG_BENCH_FLOWS; i++) {
		struct tg_packet pkt = tg_traffic_flow(i);
		struct tg_flow_key key = tg_flow_key_of(&pkt, TG_TO_SERVER);
		struct tg_flow flow = {.seq_delta = i * 77777,
				       .ts_delta = i * 33333,
				       .service = 1,
				       .state = TG_FLOW_READY,
				       .flags = TG_FLOW_TS};

		if (!tg_flow_table_insert(&w->flows, &key, tg_flow_key_hash(&w->flows, &key),
					  tg_presence_flow(&pkt, w->presence_salt), &flow))
			tg_bench_fail("the flow table refused a flow");
	}
}

/* The servers have been probed already: they agree to everything. */
static void know_servers(struct tg_worker *w, uint32_t servers)
{
	struct tg_learned l = {
		.asked_ms = w->now_ms, .mss = 1460, .wscale = 7, .sack = 1, .timestamps = 1};
	struct tg_packet pkt = tg_traffic_flow(0);
	struct tg_server_key key;
	uint32_t i;

	for (i = 0; i < servers; i++) {
		pkt.dst.w[0] = tg_traffic_server(i);
		key = tg_server_key(&pkt, false);
		tg_servers_put(&w->servers, &key, &l);
	}
	pkt.family = 6;
	pkt.dst = tg_traffic_server_v6();
	key = tg_server_key(&pkt, false);
	tg_servers_put(&w->servers, &key, &l);
}

/* How many servers a path's SYNs are to. */
static uint32_t servers_of(enum tg_bench_path what)
{
	return what == TG_BENCH_COOKIE_TURNS    ? 2
	       : what == TG_BENCH_COOKIE_NET    ? 256
	       : what == TG_BENCH_COOKIE_SPREAD ? 65536
						: 1;
}

static void fill_sources(struct tg_worker *w)
{
	uint32_t i;

	for (i = 0; i < TG_BENCH_FLOWS; i++) {
		struct tg_packet pkt = tg_traffic_flow(i);

		if (!tg_whitelist_put(&w->white, tg_white_key(&pkt.src, 4, ~0U, ~0ULL)))
			tg_bench_fail("the whitelist refused a source");
	}
}

/* Every place of the cache is a client's that may still answer. */
static void fill_cache(struct tg_worker *w)
{
	uint64_t state = 5, bucket;
	uint32_t i;

	for (bucket = 0; bucket <= w->cache.mask; bucket++)
		for (i = 0; i < TG_HALFOPEN_WAYS; i++)
			w->cache.buckets[bucket].heads[i] = tg_halfopen_head(
				tg_splitmix(&state), TG_HALFOPEN_TICK(w->now_ns), 1);
}

void tg_bench_rig_make(struct tg_bench_rig *r, uint32_t core, const char *only, const char *lists)
{
	struct tg_worker_options o = {
		.max_flows = 1 << 17,
		.max_sources = 1 << 17,
		.max_halfopens = 1 << 16,
		.challenge_key = {0x0123456789abcdefULL, 11},
		.presence_salt = 0xfedcba9876543210ULL,
		.table_key = {0x1122334455667788ULL, 0x99aabbccddeeff00ULL},
		.sample_key = 0x13579bdf02468aceULL,
	};
	char name[32];
	int i;

	snprintf(name, sizeof(name), "bench%u", core);
	r->pool = tg_buffers_make(name, 16383, 256, SOCKET_ID_ANY);
	if (!r->pool)
		tg_bench_fail("no memory for buffers");
	for (i = 0; i < TG_BENCH_PATHS; i++) {
		if (only && strcmp(only, tg_bench_paths[i]) != 0)
			continue;
		bool live = i == TG_BENCH_FORWARD || i == TG_BENCH_TRANSLATE ||
			    i == TG_BENCH_OFF_SEGMENT || i == TG_BENCH_AUTO_SEGMENT;

		o.variant = tg_siphash_choose(NULL);
		o.pool = r->pool;
		r->config[i] = make_config(i, lists);
		r->worker[i] = tg_worker_new(&o);
		if (!r->worker[i] ||
		    !tg_mem_port_init(&r->port[i], r->pool, TG_BENCH_FLOWS, TG_BENCH_STRIDE))
			tg_bench_fail("out of memory");
		r->worker[i]->ports_n = 2;
		r->worker[i]->transmit = transmit;
		r->worker[i]->owner = &r->port[i];
		tg_worker_tick(r->worker[i], r->config[i], 0, 1000);
		know_servers(r->worker[i], servers_of(i));
		if (i == TG_BENCH_CACHE)
			fill_cache(r->worker[i]);
		if (i == TG_BENCH_TRANSLATE) {
			tg_traffic_segments(&r->port[i], TG_BENCH_FLOWS, 7 + core);
			fill_flows(r->worker[i]);
		} else if (live) {
			tg_traffic_client_segments(&r->port[i], TG_BENCH_FLOWS, 7 + core);
			if (i == TG_BENCH_FORWARD)
				fill_sources(r->worker[i]);
		} else if (i == TG_BENCH_COOKIE_V6 || i == TG_BENCH_AUTH_FULL_V6) {
			tg_traffic_syns_v6(&r->port[i], 7 + core);
		} else {
			tg_traffic_syns(&r->port[i], 7 + core, servers_of(i));
			if (i == TG_BENCH_COOKIE_CARD)
				r->port[i].says = TG_NIC_SAYS_GOOD;
		}
	}
}
