/* SPDX-License-Identifier: Apache-2.0
 *
 * What one core of the benchmark has: for each path of the pipeline a worker, its configuration, its tables as a live
 * box or a flood leaves them, and a port with frames that take this path.
 *
 * Must never: measure.
 */
#ifndef TG_BENCH_RIG_H
#define TG_BENCH_RIG_H

#include "driver.h"

#define TG_BENCH_FLOWS 100000 /* connections, sources, or SYNs */

/* TG_BENCH_COOKIE_CARD: the card has checked the checksums. TG_BENCH_COOKIE_TURNS, _NET, _SPREAD: to two servers in turns, to any of 256, and to any of 65,536. _V6: over IPv6. TG_BENCH_CACHE: SYNs that find the cache full of others, as a flood's do; _CACHE_KEEP: that find a place, or have one.
 * The last four: SYNs, and segments of no flow, that go by in mode off, and in mode auto while it counts. */
enum tg_bench_path {
	TG_BENCH_MACSWAP,
	TG_BENCH_AUTH_FULL,
	TG_BENCH_AUTH_COOKIE,
	TG_BENCH_COOKIE,
	TG_BENCH_COOKIE_CARD,
	TG_BENCH_COOKIE_TURNS,
	TG_BENCH_COOKIE_NET,
	TG_BENCH_COOKIE_SPREAD,
	TG_BENCH_COOKIE_V6,
	TG_BENCH_AUTH_FULL_V6,
	TG_BENCH_CACHE,
	TG_BENCH_CACHE_KEEP,
	TG_BENCH_FORWARD,
	TG_BENCH_TRANSLATE,
	TG_BENCH_OFF_SYN,
	TG_BENCH_AUTO_SYN,
	TG_BENCH_OFF_SEGMENT,
	TG_BENCH_AUTO_SEGMENT,
	TG_BENCH_PATHS
};

extern const char *const tg_bench_paths[TG_BENCH_PATHS];

struct tg_bench_rig {
	struct rte_mempool *pool;
	struct tg_mem_port port[TG_BENCH_PATHS];
	struct tg_worker *worker[TG_BENCH_PATHS];
	struct tg_config *config[TG_BENCH_PATHS];
	/* of the slice that runs */
	enum tg_bench_path what;
	uint32_t burst;
	double mpps;
};

/* Ends the program if something is lacking. `only`: this path alone; NULL: all. `lists`: a table of allow and deny lists;
 * NULL: none. */
void tg_bench_rig_make(struct tg_bench_rig *r, uint32_t core, const char *only, const char *lists);

void tg_bench_fail(const char *why) __attribute__((noreturn));

#endif
