/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests share: DPDK without ports or huge pages, one worker whose sent
 * frames are caught, and buffers of exactly a frame's length, so that the sanitizer
 * sees every byte beyond it.
 */
#ifndef TG_TEST_HARNESS_H
#define TG_TEST_HARNESS_H

#include "pipeline.h"

#define CAUGHT_MAX 4096

struct caught {
	uint16_t port;
	uint32_t len;
	uint8_t *frame; /* malloc'd */
};

struct harness {
	struct tg_worker *w;
	struct tg_config *config;
	uint32_t now_ms;
	uint64_t unix_ns; /* if the worker has no fixed epoch */
	struct caught caught[CAUGHT_MAX];
	uint32_t caught_n;
	bool blocked; /* the transmit queue takes nothing */
	bool roomy; /* harness_frame makes buffers as a card does: the fast path needs them */
};

/* Starts DPDK, once. */
void harness_eal(void);

/* Places of the SYN cache of the next harness. */
extern uint32_t harness_halfopens;

/* A new worker with two ports; buffers: of its pool. `variant`: NULL is the best. */
struct harness *harness_new(const char *variant, uint32_t buffers, uint32_t max_flows);
void harness_free(struct harness *h);

/* Applies a line of config.h; aborts if it is wrong. */
void harness_line(struct harness *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Advances the time, and applies changed lines. */
void harness_tick(struct harness *h, uint32_t ms);

/* The frame in a buffer of exactly its length, or, if `roomy` is set, in one with room. */
struct rte_mbuf *harness_frame(struct harness *h, const uint8_t *frame, uint32_t len);
/* The frame in a buffer with head and tail room, from the worker's pool. */
struct rte_mbuf *harness_roomy(struct harness *h, const uint8_t *frame, uint32_t len);

void harness_burst(struct harness *h, struct rte_mbuf **m, uint32_t n, uint16_t port);
void harness_forget(struct harness *h); /* what was caught */

uint64_t harness_count(const struct harness *h, uint32_t id, enum tg_counter c);

/* Buffers of the worker's pool that are neither free nor kept for a server. */
uint32_t harness_leaked(const struct harness *h);

#endif
