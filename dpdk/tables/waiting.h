/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of a router whose next hop has no MAC address yet: a few wait while whoever runs
 * this program has it resolved (the control thread passes the questions on, control.c).
 * They are kept as they came and looked at again when the configuration has changed.
 *
 * Who scans an on-link prefix for addresses that nobody has fills the places of this
 * prefix alone; gateways, which the configuration names, have places of their own.
 *
 * Must never: ask for the same neighbour more than once in TG_ASK_MS.
 */
#ifndef TG_DPDK_WAITING_H
#define TG_DPDK_WAITING_H

#include <stdatomic.h>
#include <string.h>
#include <rte_mbuf.h>

#include "next_hop.h"

#define TG_WAIT_GATEWAYS 16 /* gateways that are asked for at once, of one core */
#define TG_WAIT_HOSTS 64    /* hosts in on-link prefixes, likewise */
#define TG_WAIT_A_ROUTE 16  /* of these, in one prefix */
#define TG_WAIT_PLACES (TG_WAIT_GATEWAYS + TG_WAIT_HOSTS)
#define TG_WAIT_FRAMES 4    /* for one neighbour; later ones are dropped */
#define TG_WAIT_MS 3000     /* then the frames are given up: so long do kernels ask */
#define TG_ASK_MS 1000     /* then the question is put again, if frames still come */
#define TG_ASKS 128     /* questions on their way to the control thread */

struct tg_wait_place {
	union tg_addr addr; /* of the neighbour */
	uint32_t route;     /* its number */
	uint32_t since_ms, asked_ms;
	uint8_t family, port;
	uint8_t n; /* frames; 0: the place is free */
	struct {
		struct rte_mbuf *m;
		uint16_t came_by;
		uint8_t family;
		bool notify; /* tell its sender if there is no such neighbour */
	} frame[TG_WAIT_FRAMES];
};

/* From the core to the control thread. */
struct tg_asks {
	_Atomic uint32_t head, tail; /* the core's; the control thread's */
	struct tg_ask {
		union tg_addr addr;
		uint8_t family, port;
		bool host; /* in an on-link prefix, not a gateway */
	} ask[TG_ASKS];
};

struct tg_waiting {
	uint32_t used; /* places */
	struct tg_wait_place place[TG_WAIT_PLACES];
	struct tg_asks asks;
};

/* For the control thread. False: there is none. */
bool tg_asks_take(struct tg_asks *a, struct tg_ask *ask);

/* Stores a frame until the neighbour is resolved. A segment of our own (`notify` is false) waits
 * only once: a server that gets its SYN twice would answer twice. False: there is no room, and the caller
 * keeps the frame. */
bool tg_waiting_put(struct tg_waiting *q, const union tg_addr *addr, uint8_t family,
		    const struct tg_route *r, struct rte_mbuf *m, uint16_t came_by,
		    uint8_t frame_family, bool notify, uint32_t now_ms);

/* How many frames wait. */
uint32_t tg_waiting_frames(const struct tg_waiting *q);

void tg_waiting_free(struct tg_waiting *q);

#endif
