/* SPDX-License-Identifier: Apache-2.0
 *
 * The throughput of the burst pipeline on this machine, in memory, in one run: frames a second of
 * one core by strategy, by burst length, of two cores; the time of a hash, by variant. Writes JSON
 * to stdout; `tidegate-lab bench --role dpdk` shows it.
 *
 * Everything is measured in turn, round by round, so that a slow second affects all of it; medians
 * and ranges are printed. Must never assert a figure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_version.h>

#include "../core/splitmix.h"
#include "rig.h"

#define ROUNDS_MAX 31

static const uint32_t bursts[] = {1, 2, 4, 8, 16, 32, 64, 128};
#define BURSTS (sizeof(bursts) / sizeof(bursts[0]))

static uint32_t rounds = 7, slice_ms = 60;
static const char *only; /* for a profiler: nothing but this */
static uint64_t frames; /* of `only`, as many as that instead of a time; 0: by time. For a profiler that counts instructions */
static const char *lists; /* a table of allow and deny lists; NULL: none */

static struct tg_bench_rig rigs[2];

static void macswap(struct tg_mem_port *p, struct rte_mbuf **m, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		tg_ethernet_reflect(rte_pktmbuf_mtod(m[i], uint8_t *));
	tg_mem_port_send(p, m, n);
}

/* CPU time of this thread, ns: other load on this machine does not affect it. */
static uint64_t core_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* One slice of one core: bursts until the time is over. */
static int run_slice(void *arg)
{
	struct tg_bench_rig *r = arg;
	struct tg_mem_port *p = &r->port[r->what];
	struct tg_worker *w = r->worker[r->what];
	uint64_t hz = rte_get_tsc_hz(), begin = 0, end = 0, warm, now, from = 0, ns = 0;
	struct rte_mbuf *m[TG_BURST_MAX];
	uint32_t n, k;

	warm = rte_rdtsc() + hz / 1000 * (slice_ms / 6);
	for (;;) {
		for (k = 0; k < 512; k += r->burst) {
			n = tg_mem_port_receive(p, m, r->burst);
			if (r->what == TG_BENCH_MACSWAP)
				macswap(p, m, n);
			else
				tg_pipeline_burst(w, m, n, 0);
		}
		now = rte_rdtsc();
		if (!begin && now >= warm) {
			begin = now;
			from = p->sent;
			ns = core_ns();
			end = now + hz / 1000 * slice_ms;
		} else if (begin && now >= end) {
			break;
		}
	}
	r->mpps = (double)(p->sent - from) / (double)(core_ns() - ns) * 1e3;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_spread(double *v, const char *end)
{
	qsort(v, rounds, sizeof(*v), by_value);
	printf("{\"median\": %.4f, \"min\": %.4f, \"max\": %.4f}%s", v[rounds / 2], v[0],
	       v[rounds - 1], end);
}

static double slice(enum tg_bench_path what, uint32_t burst)
{
	rigs[0].what = what;
	rigs[0].burst = burst;
	run_slice(&rigs[0]);
	return rigs[0].mpps;
}

static void measure_only(void)
{
	uint32_t i, n;

	for (i = 0; i < TG_BENCH_PATHS; i++)
		for (n = 0; n < rounds && strcmp(only, tg_bench_paths[i]) == 0; n++) {
			double plain = slice(TG_BENCH_MACSWAP, 32), mpps = slice(i, 32);

			printf("  \"%s\": %.2f, over_macswap: %.3f, frames: %" PRIu64 "\n",
			       tg_bench_paths[i], mpps, mpps / plain, rigs[0].port[i].sent);
		}
}

/* A number of frames in bursts of 32 from a worker's start on: the same instructions each time. */
static void run_frames(void)
{
	struct tg_bench_rig *r = &rigs[0];
	struct rte_mbuf *m[32];
	uint64_t done;
	int i;

	for (i = 0; i < TG_BENCH_PATHS && strcmp(only, tg_bench_paths[i]) != 0; i++)
		;
	if (i == TG_BENCH_PATHS || i == TG_BENCH_MACSWAP)
		tg_bench_fail("--frames needs --only with the name of a path");
	for (done = 0; done < frames; done += 32)
		tg_pipeline_burst(r->worker[i], m, tg_mem_port_receive(&r->port[i], m, 32), 0);
	printf("{\"path\": \"%s\", \"frames\": %" PRIu64 ", \"sent\": %" PRIu64 "}\n", only, done,
	       r->port[i].sent);
}

static void measure_whats(void)
{
	static double v[TG_BENCH_PATHS][ROUNDS_MAX], over[5][ROUNDS_MAX];
	uint32_t i, n;

	for (n = 0; n < rounds; n++) {
		for (i = 0; i < TG_BENCH_PATHS; i++)
			v[i][n] = slice(i, 32);
		over[0][n] = v[TG_BENCH_COOKIE][n] / v[TG_BENCH_MACSWAP][n];
		over[1][n] = v[TG_BENCH_COOKIE][n] / v[TG_BENCH_AUTH_FULL][n];
		over[2][n] = v[TG_BENCH_AUTH_COOKIE][n] / v[TG_BENCH_AUTH_FULL][n];
		over[3][n] = v[TG_BENCH_AUTO_SYN][n] / v[TG_BENCH_OFF_SYN][n];
		over[4][n] = v[TG_BENCH_AUTO_SEGMENT][n] / v[TG_BENCH_OFF_SEGMENT][n];
	}
	printf("  \"mpps_per_core\": {\n");
	for (i = 0; i < TG_BENCH_PATHS; i++) {
		printf("    \"%s\": ", tg_bench_paths[i]);
		print_spread(v[i], i + 1 < TG_BENCH_PATHS ? ",\n" : "\n  },\n");
	}
	printf("  \"cookie_over_macswap\": ");
	print_spread(over[0], ",\n  \"cookie_over_auth_full\": ");
	print_spread(over[1], ",\n  \"auth_cookie_over_auth_full\": ");
	print_spread(over[2], ",\n  \"auto_over_off\": {\"syn\": ");
	print_spread(over[3], ", \"segment\": ");
	print_spread(over[4], "},\n");
}

static void measure_bursts(void)
{
	static const enum tg_bench_path which[] = {TG_BENCH_MACSWAP, TG_BENCH_AUTH_FULL,
						   TG_BENCH_AUTH_COOKIE, TG_BENCH_COOKIE};
	static double v[4][BURSTS][ROUNDS_MAX];
	uint32_t i, k, n;

	for (n = 0; n < rounds; n++)
		for (k = 0; k < BURSTS; k++)
			for (i = 0; i < 4; i++)
				v[i][k][n] = slice(which[i], bursts[k]);
	printf("  \"batch\": {\n");
	for (i = 0; i < 4; i++) {
		printf("    \"%s\": {", tg_bench_paths[which[i]]);
		for (k = 0; k < BURSTS; k++) {
			printf("\"%u\": ", bursts[k]);
			print_spread(v[i][k], k + 1 < BURSTS ? ", " : "}");
		}
		printf("%s", i < 3 ? ",\n" : "\n  },\n");
	}
}

/* The same on two cores at once, each with its own of everything. */
static double both(enum tg_bench_path what, uint32_t other)
{
	rigs[1].what = what;
	rigs[1].burst = 32;
	rte_eal_remote_launch(run_slice, &rigs[1], other);
	slice(what, 32);
	rte_eal_wait_lcore(other);
	return rigs[0].mpps + rigs[1].mpps;
}

static void measure_cores(void)
{
	static const enum tg_bench_path which[] = {TG_BENCH_MACSWAP, TG_BENCH_AUTH_FULL,
						   TG_BENCH_AUTH_COOKIE, TG_BENCH_COOKIE};
	static double one[4][ROUNDS_MAX], two[4][ROUNDS_MAX], over[4][ROUNDS_MAX];
	uint32_t i, n, other = rte_get_next_lcore(-1, 1, 0);

	if (other == RTE_MAX_LCORE) {
		printf("  \"cores\": null,\n");
		return;
	}
	for (n = 0; n < rounds; n++) {
		for (i = 0; i < 4; i++) {
			one[i][n] = slice(which[i], 32);
			two[i][n] = both(which[i], other);
			over[i][n] = two[i][n] / one[i][n];
		}
	}
	printf("  \"cores\": {\n");
	for (i = 0; i < 4; i++) {
		printf("    \"%s\": {\"1\": ", tg_bench_paths[which[i]]);
		print_spread(one[i], ", \"2\": ");
		print_spread(two[i], ", \"two_over_one\": ");
		print_spread(over[i], i < 3 ? "},\n" : "}\n  },\n");
	}
}

static void measure_hash(void)
{
	static struct tg_siphash_batch b;
	static double v[ROUNDS_MAX];
	const struct tg_siphash_key key = {42, 42};
	const struct tg_siphash begin = tg_siphash_begin(&key);
	const struct tg_siphash_variant *variant;
	uint64_t state = 1, from, sum = 0;
	uint32_t i, k, n, turns = 20000;
	bool first = true;

	printf("  \"hash_ns\": {");
	for (variant = tg_siphash_variants; variant->name; variant++) {
		if (!variant->works())
			continue;
		for (n = 0; n < rounds; n++) {
			b.n = 64;
			b.words = 3;
			for (i = 0; i < b.n; i++) {
				tg_siphash_lane_begin(&b, i, &begin);
				for (k = 0; k < 3; k++)
					b.m[k][i] = tg_splitmix(&state);
			}
			from = core_ns();
			for (i = 0; i < turns; i++) {
				variant->run(&b);
				sum += b.m[0][i % 64] = b.out[i % 64];
			}
			v[n] = (double)(core_ns() - from) / turns / b.n;
		}
		printf("%s\"%s\": ", first ? "" : ", ", variant->name);
		first = false;
		print_spread(v, "");
	}
	printf("},\n  \"hash_sum\": %" PRIu64 "\n", sum & 0xff);
}

int main(int argc, char **argv)
{
	char cores[32], prefix[32], *eal[] = {argv[0],          "-l",          cores,
					      "--no-huge",      "--no-shconf", "--no-pci",
					      "--no-telemetry", "-m",          "256",
					      "--file-prefix",  prefix,        "--log-level",
					      "lib.*:error",    NULL};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int i;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
			rounds = (uint32_t)atoi(argv[++i]);
		} else if (strcmp(argv[i], "--slice-ms") == 0 && i + 1 < argc) {
			slice_ms = (uint32_t)atoi(argv[++i]);
		} else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
			only = argv[++i];
		} else if (strcmp(argv[i], "--frames") == 0 && i + 1 < argc) {
			frames = (uint64_t)atoll(argv[++i]);
		} else if (strcmp(argv[i], "--lists") == 0 && i + 1 < argc) {
			lists = argv[++i];
		} else {
			fprintf(stderr, "usage: tidegate-dpdk-bench [--rounds N] [--slice-ms N] "
					"[--only WHAT [--frames N]] [--lists FILE]\n");
			return 2;
		}
	}
	if (rounds < 1 || rounds > ROUNDS_MAX || slice_ms < 6)
		tg_bench_fail("--rounds is 1 to 31, --slice-ms at least 6");
	if (frames && (!only || frames % 32))
		tg_bench_fail("--frames needs --only, and is a multiple of 32");
	snprintf(prefix, sizeof(prefix), "tg-bench-%d", (int)getpid());
	snprintf(cores, sizeof(cores), cpus > 1 ? "0,1" : "0");
	if (rte_eal_init(13, eal) < 0)
		tg_bench_fail("DPDK does not start here; its messages say why");
	(void)rmdir(rte_eal_get_runtime_dir()); /* not probed there */
	tg_bench_rig_make(&rigs[0], 0, frames ? only : NULL, lists);
	if (frames) {
		run_frames();
		return 0;
	}
	if (cpus > 1)
		tg_bench_rig_make(&rigs[1], 1, NULL, lists);
	printf("{\n  \"dpdk\": \"%s\",\n  \"hash\": \"%s\",\n  \"rounds\": %u,\n  \"burst\": 32,\n"
	       "  \"flows\": %u,\n  \"huge_pages\": false,\n",
	       rte_version(), tg_siphash_choose(NULL)->name, rounds, TG_BENCH_FLOWS);
	if (only) {
		measure_only();
		return 0;
	}
	measure_whats();
	measure_bursts();
	measure_cores();
	measure_hash();
	printf("}\n");
	rte_eal_cleanup();
	return 0;
}
