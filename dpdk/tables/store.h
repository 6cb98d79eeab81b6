/* SPDX-License-Identifier: Apache-2.0
 *
 * The first data of clients whose server is not ready yet (`first_data: store`):
 * the frames themselves, in a bounded pool. A flow's frames stand in one set of
 * places, found by the flow's hash; a full set keeps no more (the client sends
 * again), and what has waited too long is given up.
 *
 * Must never: hold a frame without a bound in time; walk more than one set.
 */
#ifndef TG_DPDK_STORE_H
#define TG_DPDK_STORE_H

#include <rte_mbuf.h>

#include "../core/base.h"

#define TG_STORE_SETS 256
#define TG_STORE_PLACES 16 /* of a set */
#define TG_STORE_FLOW_MAX 12 /* of one flow: an initial window of ten segments, and two more */
#define TG_STORE_AGE_MS 3000

struct tg_store_place {
	struct rte_mbuf *m; /* NULL: free */
	uint64_t owner;     /* the flow's hash */
	uint32_t seq;
	uint32_t since_ms;
};

struct tg_store {
	struct tg_store_place place[TG_STORE_SETS][TG_STORE_PLACES];
	uint32_t sweep; /* the set to check next */
};

/* Stores a frame. False: no room, the caller keeps the frame. A segment that
 * is already stored is not stored again: true, and the frame is freed. */
bool tg_store_put(struct tg_store *s, uint64_t owner, uint32_t seq, struct rte_mbuf *m,
		  uint32_t now_ms);

/* Removes and returns the flow's frame with the lowest sequence number; NULL: none is left. */
struct rte_mbuf *tg_store_take(struct tg_store *s, uint64_t owner);

/* Frees frames that are too old in the next set; returns how many. */
uint32_t tg_store_sweep(struct tg_store *s, uint32_t now_ms);

void tg_store_free(struct tg_store *s);

#endif
