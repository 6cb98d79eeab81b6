/* SPDX-License-Identifier: Apache-2.0
 *
 * A router's two tables: routes, found by longest prefix, and neighbours, found by port
 * and address. Any number of either: each table grows. A look-up asks once for each
 * different prefix length, longest first; ordinary tables have a handful of them.
 *
 * (DPDK's rte_fib and rte_lpm begin at 32 MiB a table and family, all of which would be
 * rewritten for each change, since what cores read is never changed.)
 *
 * Must never: be changed once a core may read it; configurations share a table, and who wants to
 * change it takes a copy.
 */
#ifndef TG_DPDK_NEXT_HOP_H
#define TG_DPDK_NEXT_HOP_H

#include "../core/service.h"

#define TG_HOPS_MAX (1U << 20) /* entries of one table */
#define TG_PREFIX_LENS (128 + 1)

enum tg_route_kind {
	TG_ROUTE_NONE,   /* an empty place, or a neighbour that is gone */
	TG_ROUTE_MAC,   /* the next hop's MAC address is known; all neighbours are of this kind */
	TG_ROUTE_GATEWAY, /* the next hop is a neighbour */
	TG_ROUTE_ONLINK,  /* the destination is a neighbour */
	TG_ROUTE_LOCAL,   /* this machine, or an address that no router may forward to */
};

/* A route, or a neighbour. */
struct tg_route {
	union tg_addr addr; /* masked */
	union tg_addr gateway;
	uint8_t family;
	uint8_t prefix_len;
	uint8_t port; /* of DPDK */
	uint8_t kind; /* enum tg_route_kind */
	uint8_t mac[6];
	uint8_t gateway_family; /* an IPv4 route may have an IPv6 next hop */
	uint8_t pad;
	uint32_t number; /* in the order of their lines */
};

struct tg_hops {
	uint32_t users; /* configurations that hold it; only the control thread uses it */
	uint32_t n, mask;
	uint8_t lens[2][TG_PREFIX_LENS + 1]; /* IPv4, IPv6: longest first; 255 ends */
	struct tg_route slots[];
};

/* NULL without memory. */
struct tg_hops *tg_hops_new(void);
void tg_hops_release(struct tg_hops *h);
/* Adds a route or replaces the one of the same prefix; neighbours by address and port. A
 * table that other configurations also hold is copied first. False without memory or room:
 * nothing is changed. */
bool tg_hops_put_route(struct tg_hops **h, const struct tg_route *r);
bool tg_hops_put_neighbour(struct tg_hops **h, const struct tg_route *r);

/* NULL: none. */
const struct tg_route *tg_hops_route(const struct tg_hops *h, const union tg_addr *dst,
				     uint8_t family);
const struct tg_route *tg_hops_neighbour(const struct tg_hops *h, const union tg_addr *addr,
					 uint8_t family, uint8_t port);

#endif
