/* SPDX-License-Identifier: Apache-2.0
 *
 * A packet costs no system call and no allocation: a child that has only read, write,
 * exit and sigreturn left (seccomp's strict mode; any other call kills it) puts 64,000
 * frames of each kind through, and counts what is taken from the heap meanwhile. Nor does
 * one wait for a page: all are there, before packets come and after each swap.
 */
#include <sanitizer/allocator_interface.h>
#include <stdlib.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../bench/traffic.h"
#include "talk.h"
#include "tests.h"

#define FRAMES 4000
#define FLOWS 1000
#define BURSTS 2000
#define SERVICE_CACHE 7 /* talk_services */

enum sin { NO_SIN, A_CALL, AN_ALLOCATION };
enum end { GOOD, ALLOCATED, NO_SECCOMP };

static uint64_t allocations;

static void on_malloc(const volatile void *p, size_t len)
{
	(void)p, (void)len;
	allocations++;
}

static void on_free(const volatile void *p)
{
	(void)p;
}

static uint32_t transmit(struct tg_worker *w, uint16_t port, struct rte_mbuf **m, uint32_t n)
{
	(void)port;
	tg_mem_port_send(w->owner, m, n);
	return n;
}

static void *volatile kept;

static void __attribute__((noreturn)) child(struct tg_worker *w, struct tg_mem_port *p, enum sin sin)
{
	uint64_t before = allocations;
	struct rte_mbuf *m[32];
	uint32_t i;

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		syscall(SYS_exit, NO_SECCOMP);
	for (i = 0; i < BURSTS; i++)
		tg_pipeline_burst(w, m, tg_mem_port_receive(p, m, 32), 0);
	if (sin == A_CALL)
		syscall(SYS_getppid);
	if (sin == AN_ALLOCATION)
		kept = malloc(1);
	for (;;)
		syscall(SYS_exit, allocations == before ? GOOD : ALLOCATED);
}

static int run(struct tg_worker *w, struct tg_mem_port *p, enum sin sin)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		child(w, p, sin);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "a child");
	return status;
}

/* How many of these bytes' pages are missing. */
static size_t pages_missing(const void *p, size_t len)
{
	size_t pages = (len + 4095) / 4096, i, n = 0;
	unsigned char *there = malloc(pages);

	CHECK(there && mincore((void *)(uintptr_t)p, len, there) == 0, "mincore");
	for (i = 0; i < pages; i++)
		n += !(there[i] & 1);
	free(there);
	return n;
}

static size_t swap_missing(const struct tg_swap *s)
{
	size_t n = 0;
	int i;

	for (i = 0; i < 3; i++)
		n += pages_missing(s->all[i].table, s->table_len) +
		     pages_missing(s->all[i].presence, TG_PRESENCE_LEN);
	return n;
}

/* No packet waits until the kernel has found and zeroed a page: not at the start, and not
 * after tables have been swapped and emptied. */
static void pages_are_there(void)
{
	struct tg_worker_options o = {.max_flows = 1 << 15,
				      .max_sources = 1 << 15,
				      .max_halfopens = 1 << 15,
				      .white_bitmap = true,
				      .variant = tg_siphash_choose(NULL)};
	struct tg_worker *w = tg_worker_new(&o);
	int i;

	CHECK(w != NULL, "memory");
	CHECK(swap_missing(&w->flows.swap) > 0, "this test would see pages that are missing");
	CHECK(tg_worker_populate(w), "pages");
	for (i = 0; i < 4; i++) {
		CHECK_EQ(pages_missing(w, sizeof(*w)), 0, "pages of the worker, and its counts");
		CHECK_EQ(swap_missing(&w->flows.swap), 0, "pages of the flow table");
		CHECK_EQ(swap_missing(&w->white.hash), 0, "pages of the whitelist");
		CHECK_EQ(swap_missing(&w->white.bits), 0, "pages of the bitmap");
		CHECK_EQ(pages_missing(w->cache.buckets,
				       sizeof(*w->cache.buckets) * (w->cache.mask + 1)),
			 0, "pages of the SYN cache");
		((uint8_t *)w->white.bits.active->table)[12345] = 1;
		CHECK(tg_worker_swap_flows(w) && tg_worker_swap_sources(w), "swaps");
		tg_worker_clean(w);
	}
	CHECK_EQ(((uint8_t *)w->white.bits.active->table)[12345], 0, "what has fallen out is empty");
	tg_worker_free(w);
}

static void fill_flows(struct harness *h)
{
	uint32_t i;

	for (i = 0; i < FLOWS; i++) {
		struct tg_packet pkt = tg_traffic_flow(i);
		struct tg_flow_key key = tg_flow_key_of(&pkt, TG_TO_SERVER);
		struct tg_flow flow = {
			.seq_delta = i, .service = 1, .state = TG_FLOW_READY, .flags = TG_FLOW_TS};

		CHECK(tg_flow_table_insert(&h->w->flows, &key, tg_flow_key_hash(&h->w->flows, &key),
					   tg_presence_flow(&pkt, h->w->presence_salt), &flow),
		      "a place for a flow");
	}
}

void test_still(void)
{
	static struct tg_mem_port syns, segments;
	uint32_t service;

	pages_are_there();

	CHECK(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0,
	      "hooks of the heap");
	for (service = 1; service <= SERVICE_CACHE; service++) {
		struct harness *h = harness_new(NULL, 8191, 4096);

		talk_services(h);
		harness_line(h, "port 80 %u", service);
		harness_tick(h, 1);
		h->w->transmit = transmit;
		CHECK(tg_mem_port_init(&syns, h->w->pool, FRAMES, TG_BENCH_STRIDE) &&
			      tg_mem_port_init(&segments, h->w->pool, FRAMES, TG_BENCH_STRIDE),
		      "memory");
		tg_traffic_syns(&syns, service, 1);
		tg_traffic_segments(&segments, FLOWS, service);
		fill_flows(h);
		h->w->owner = &syns;
		CHECK_EQ(run(h->w, &syns, NO_SIN), 0, "SYNs");
		h->w->owner = &segments;
		CHECK_EQ(run(h->w, &segments, NO_SIN), 0, "segments");
		talk_automate(h, service, TG_MODE_AUTO, 0);
		h->w->owner = &syns;
		CHECK_EQ(run(h->w, &syns, NO_SIN), 0, "SYNs that are counted, and go by");
		h->w->owner = &segments;
		CHECK_EQ(run(h->w, &segments, NO_SIN), 0, "segments in mode auto");
		if (service == 1) { /* and this test would see it */
			int status = run(h->w, &segments, A_CALL);

			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
			      "a system call is seen");
			CHECK_EQ(WEXITSTATUS(run(h->w, &segments, AN_ALLOCATION)), ALLOCATED,
				 "an allocation is seen");
		}
		tg_mem_port_free(&syns);
		tg_mem_port_free(&segments);
		harness_free(h);
	}
}
