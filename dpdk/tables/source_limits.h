/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of proven sources (core/source_limit.h): what all cores share, and how many connections each
 * source holds.
 *
 * The buckets of new connections are one sketch for all cores, since the card spreads a source's
 * connections over them. Only the ACK that opens a connection touches them, by compare-and-swap.
 *
 * A source holds its flows that have places of their own. Each generation of a core's flow table counts
 * its flows in a sketch of its own, by plain additions, and in the sum of all cores, by atomic ones. When
 * a generation falls out, the cleaner takes its sketch off the sum.
 *
 * Counts hold for one `era`: who turns a limit of connections at a time on, or changes what a source is, begins
 * a new one. There are two sums, used in turn: that of the next era is cleared while nobody uses it.
 *
 * Must never: count a source that has not carried data; be written for a frame that opens or ends nothing.
 */
#ifndef TG_DPDK_SOURCE_LIMITS_H
#define TG_DPDK_SOURCE_LIMITS_H

#include "../core/source_limit.h"
#include "memory.h"

/* As configured. */
struct tg_limit_settings {
	uint64_t cost_ns; /* 1 s / new connections a second; 0: any number */
	uint32_t held;  /* at a time; 0: any number */
	uint32_t era;
	uint8_t v4, v6; /* bits of an address that make a source */
	uint8_t action; /* enum tg_limit_action */
};

struct tg_limits {
	uint64_t cells[TG_LIMIT_CELLS];
	uint32_t held[2][TG_LIMIT_CELLS]; /* by the lowest bit of the era */
};

/* By what one core's flow table counts. */
struct tg_held_by {
	struct tg_limits *all;
	struct tg_siphash_key key;
	uint32_t era; /* 0: nothing is counted */
	uint8_t v4, v6;
};

/* One generation's sketch. */
struct tg_held_sketch {
	uint32_t era; /* 0: all cells are zero */
	uint32_t pad[15];
	uint32_t cells[TG_LIMIT_CELLS];
};

static inline bool tg_limits_are_on(const struct tg_limit_settings *s)
{
	return s->cost_ns || s->held;
}

/* Whether connections at a time are counted for the same sources under both. */
static inline bool tg_limits_count_alike(const struct tg_limit_settings *was,
					 const struct tg_limit_settings *now)
{
	return !now->held || (was->held && was->v4 == now->v4 && was->v6 == now->v6);
}

static inline uint32_t *tg_limits_held(struct tg_limits *all, uint32_t era)
{
	return all->held[era & 1];
}

static inline uint64_t tg_held_hash(const struct tg_held_by *by, uint8_t family, uint64_t first)
{
	union tg_addr addr = {.d = {first}};

	return tg_limit_hash(family, tg_limit_prefix(family, &addr, family == 4 ? by->v4 : by->v6),
			     &by->key);
}

/* How many connections the source of this hash holds, or more. */
uint32_t tg_limits_held_by(struct tg_limits *all, uint32_t era, uint64_t hash);

/* A flow of a client gets a place of its own in this generation (`n` 1), or leaves it (-1). `first`: the first
 * half of the client's address. */
void tg_held_add(const struct tg_held_by *by, struct tg_held_sketch *s, uint8_t family,
		 uint64_t first, uint32_t n);

/* The core has another era: what a generation has counted no longer holds. */
void tg_held_turn(struct tg_held_sketch *s, uint32_t era);

/* The cleaner's part: takes a generation that has fallen out off the sum. */
void tg_held_retire(struct tg_limits *all, const struct tg_held_sketch *s);

/* Clears the sum of an era that nobody uses yet. */
void tg_limits_begin(struct tg_limits *all, uint32_t era);

#endif
