/* SPDX-License-Identifier: Apache-2.0
 *
 * harness.h.
 */
#include "harness.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mempool.h>

static void die(const char *why)
{
	fprintf(stderr, "harness: %s\n", why);
	abort();
}

/* A processor of those that this program may use, another one in each process: DPDK binds its thread to it,
 * and on the first one all programs of the tests would meet. */
static int some_cpu(void)
{
	cpu_set_t allowed;
	int cpu, left;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		die("no processors");
	left = getpid() % CPU_COUNT(&allowed);
	for (cpu = 0; !CPU_ISSET(cpu, &allowed) || left--;)
		cpu++;
	return cpu;
}

void harness_eal(void)
{
	static bool done;
	char prefix[32], cpu[16], *args[] = {"test",           "-l",          cpu,
					     "--no-huge",      "--no-shconf", "--no-pci",
					     "--no-telemetry", "-m",          "256",
					     "--file-prefix",  prefix,        "--log-level",
					     "lib.*:error",    NULL};
	char dir[4096];

	if (done)
		return;
	done = true;
	snprintf(prefix, sizeof(prefix), "tg-test-%d", (int)getpid());
	snprintf(cpu, sizeof(cpu), "%d", some_cpu());
	if (rte_eal_init(13, args) < 0)
		die("DPDK does not start");
	snprintf(dir, sizeof(dir), "%s", rte_eal_get_runtime_dir());
	(void)rmdir(dir);
}

static void free_ext(void *addr, void *opaque)
{
	(void)addr;
	free(opaque);
}

struct rte_mbuf *harness_frame(struct harness *h, const uint8_t *frame, uint32_t len)
{
	struct rte_mbuf_ext_shared_info *info;
	struct rte_mbuf *m;
	uint8_t *block;

	if (h->roomy)
		return harness_roomy(h, frame, len);
	m = rte_pktmbuf_alloc(h->w->pool);
	if (!m)
		return NULL;
	/* The shared info precedes the bytes, so that they end where the block does. */
	block = malloc(sizeof(*info) + (len ? len : 1));
	if (!block)
		abort();
	info = (void *)block;
	info->free_cb = free_ext;
	info->fcb_opaque = block;
	rte_mbuf_ext_refcnt_set(info, 1);
	rte_pktmbuf_attach_extbuf(m, block + sizeof(*info), 0, (uint16_t)len, info);
	memcpy(block + sizeof(*info), frame, len);
	m->data_off = 0;
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	return m;
}

struct rte_mbuf *harness_roomy(struct harness *h, const uint8_t *frame, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(h->w->pool);
	void *at = m ? rte_pktmbuf_append(m, (uint16_t)len) : NULL;

	if (at)
		memcpy(at, frame, len);
	return m;
}

static uint32_t transmit(struct tg_worker *w, uint16_t port, struct rte_mbuf **m, uint32_t n)
{
	struct harness *h = w->owner;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (m[i]->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK && !w->tcp_checksum)
			die("a frame is sent that asks its driver for something");
		if (!h->blocked && h->caught_n < CAUGHT_MAX) {
			struct caught *c = &h->caught[h->caught_n++];
			const void *at;

			c->port = port;
			c->len = m[i]->pkt_len;
			c->frame = malloc(c->len ? c->len : 1);
			if (!c->frame)
				abort();
			at = rte_pktmbuf_read(m[i], 0, c->len, c->frame);
			if (at && at != c->frame)
				memcpy(c->frame, at, c->len);
		}
		rte_pktmbuf_free(m[i]);
	}
	return h->blocked ? 0 : n;
}

/* Pools are kept for the next test that needs as many buffers. */
static struct {
	struct rte_mempool *pool;
	uint32_t buffers;
	bool taken;
} kept[16];

static struct rte_mempool *pool_of(uint32_t buffers)
{
	char name[32];
	size_t i;

	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (!kept[i].pool) {
			snprintf(name, sizeof(name), "pool%zu", i);
			kept[i].pool = rte_pktmbuf_pool_create(name, buffers, 0, 0,
							       RTE_MBUF_DEFAULT_BUF_SIZE, 0);
			kept[i].buffers = buffers;
		}
		if (kept[i].buffers == buffers && !kept[i].taken) {
			kept[i].taken = true;
			return kept[i].pool;
		}
	}
	return NULL;
}

static void pool_back(const struct rte_mempool *pool)
{
	size_t i;

	if (rte_mempool_in_use_count(pool))
		die("buffers were not given back");
	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (kept[i].pool == pool)
			kept[i].taken = false;
}

uint32_t harness_halfopens = 4096;

struct harness *harness_new(const char *variant, uint32_t buffers, uint32_t max_flows)
{
	struct harness *h = calloc(1, sizeof(*h));
	struct tg_worker_options o = {
		.max_flows = max_flows,
		.max_sources = 4096,
		.max_halfopens = harness_halfopens,
		.cache_key = {9, 10},
		.ask_key = {13, 14},
		.challenge_key = {0x0123456789abcdefULL, 11},
		.presence_salt = 0xfedcba9876543210ULL,
		.sample_key = 0x13579bdf02468aceULL,
		.table_key = {7, 8},
		.variant = tg_siphash_choose(variant),
	};

	harness_eal();
	if (!h || !o.variant)
		die("no memory, or no such hash");
	o.pool = pool_of(buffers);
	h->w = o.pool ? tg_worker_new(&o) : NULL;
	h->config = tg_config_new();
	if (!h->w || !h->config)
		die("no memory for a worker");
	h->w->ports_n = 2;
	h->w->transmit = transmit;
	h->w->owner = h;
	harness_tick(h, 100000);
	return h;
}

void harness_free(struct harness *h)
{
	const struct rte_mempool *pool = h->w->pool;

	harness_forget(h);
	tg_worker_free(h->w);
	pool_back(pool);
	tg_config_free(h->config);
	free(h);
}

void harness_line(struct harness *h, const char *format, ...)
{
	char text[256];
	const char *err;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	err = tg_config_line(h->config, text);
	if (err)
		die(err);
	harness_tick(h, 0);
}

void harness_tick(struct harness *h, uint32_t ms)
{
	h->now_ms += ms;
	tg_worker_tick(h->w, h->config, h->unix_ns, h->now_ms);
}

void harness_burst(struct harness *h, struct rte_mbuf **m, uint32_t n, uint16_t port)
{
	tg_pipeline_burst(h->w, m, n, port);
}

void harness_forget(struct harness *h)
{
	while (h->caught_n)
		free(h->caught[--h->caught_n].frame);
}

uint64_t harness_count(const struct harness *h, uint32_t id, enum tg_counter c)
{
	return h->w->rows[id].count[c];
}

uint32_t harness_leaked(const struct harness *h)
{
	uint32_t used = rte_mempool_in_use_count(h->w->pool), set, i;

	for (set = 0; set < TG_STORE_SETS; set++)
		for (i = 0; i < TG_STORE_PLACES; i++)
			used -= h->w->store.place[set][i].m != NULL;
	return used;
}
