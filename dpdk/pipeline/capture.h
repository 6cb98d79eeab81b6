/* SPDX-License-Identifier: Apache-2.0
 *
 * `tidegate capture` on one core: a burst function around the one that the processor has chosen. It gives
 * that one each frame that is looked at alone, and all others as they come. Counters that have moved meanwhile are
 * the frame's: nobody else writes this core's.
 *
 * Without a capture, nothing of it is in the path: the worker's burst function is then the other one.
 *
 * Must never: change a frame, or what happens to it; wait for who reads what was captured.
 */
#ifndef TG_DPDK_CAPTURE_H
#define TG_DPDK_CAPTURE_H

#include <stdatomic.h>

#include "../core/capture.h"
#include "worker.h"

#define TG_CAPTURE_RING 1024 /* events on their way to a reader; a power of two */

/* What all cores share. */
struct tg_capture {
	struct tg_capture_settings settings;
	_Atomic int64_t left; /* as in struct tg_capture_counts */
	_Atomic uint64_t lost, beyond;
};

/* One core's part. */
struct tg_capturing {
	struct tg_capture *all;
	void (*burst)(struct tg_worker *w, struct rte_mbuf **m, uint32_t n,
		      uint16_t port); /* around which it is */
	uint32_t (*transmit)(struct tg_worker *w, uint16_t port, struct rte_mbuf **m, uint32_t n);
	struct tg_capture_turn turn;
	uint16_t port; /* by which the frame in hand came */
	bool back, on; /* something was sent there, or elsewhere */
	uint32_t waiting; /* frames for their next hop */
	uint32_t services[TG_CAPTURE_SERVICES];
	struct tg_counter_row before[TG_CAPTURE_SERVICES];
	struct tg_capture_event event;
	_Atomic uint32_t head, tail; /* of the ring: the core's; the reader's */
	struct tg_capture_event ring[TG_CAPTURE_RING];
};

/* Between bursts: the worker captures from now on, or (NULL) no longer. */
void tg_capture_turn_to(struct tg_worker *w, struct tg_capturing *c);

/* For the reader: the oldest event, which stays until it is taken; NULL: there is none. */
const struct tg_capture_event *tg_capturing_oldest(struct tg_capturing *c);
void tg_capturing_take(struct tg_capturing *c);

#endif
