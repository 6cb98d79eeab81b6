/* SPDX-License-Identifier: Apache-2.0
 *
 * What one core knows of servers (core/servers.h): a bounded table, in sets of four,
 * of which the one that was asked longest ago gives its place. Written only for
 * clients that have verified.
 */
#ifndef TG_DPDK_SERVERS_H
#define TG_DPDK_SERVERS_H

#include <string.h>

#include "../core/servers.h"

#define TG_SERVER_SETS 4096
#define TG_SERVER_WAYS 4

struct tg_server_entry {
	struct tg_server_key key;
	struct tg_learned learned;
	uint32_t used;
} __attribute__((aligned(8)));

struct tg_servers {
	struct tg_server_entry set[TG_SERVER_SETS][TG_SERVER_WAYS];
};

/* NULL if nothing is known. */
struct tg_learned *tg_servers_find(struct tg_servers *s, const struct tg_server_key *k);

void tg_servers_put(struct tg_servers *s, const struct tg_server_key *k, const struct tg_learned *l);

void tg_servers_remove(struct tg_servers *s, const struct tg_server_key *k);

#endif
