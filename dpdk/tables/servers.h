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

static inline struct tg_server_entry *tg_servers_set(struct tg_servers *s,
						     const struct tg_server_key *k)
{
	uint64_t h = (k->addr.d[0] ^ k->port_be) * TG_MIX1 ^ k->addr.d[1];

	return s->set[h * TG_MIX2 >> 52 & (TG_SERVER_SETS - 1)];
}

static inline bool tg_server_is(const struct tg_server_entry *e, const struct tg_server_key *k)
{
	return e->used && e->key.addr.d[0] == k->addr.d[0] && e->key.addr.d[1] == k->addr.d[1] &&
	       e->key.port_be == k->port_be && e->key.family == k->family;
}

/* NULL if nothing is known. */
static inline struct tg_learned *tg_servers_find(struct tg_servers *s, const struct tg_server_key *k)
{
	struct tg_server_entry *e = tg_servers_set(s, k);
	int i;

	for (i = 0; i < TG_SERVER_WAYS; i++)
		if (tg_server_is(&e[i], k))
			return &e[i].learned;
	return NULL;
}

static inline void tg_servers_put(struct tg_servers *s, const struct tg_server_key *k,
				  const struct tg_learned *l)
{
	struct tg_server_entry *e = tg_servers_set(s, k), *at = &e[0];
	int i;

	for (i = 0; i < TG_SERVER_WAYS; i++) {
		if (!e[i].used || tg_server_is(&e[i], k)) {
			at = &e[i];
			break;
		}
		if ((int32_t)(e[i].learned.asked_ms - at->learned.asked_ms) < 0)
			at = &e[i];
	}
	*at = (struct tg_server_entry){*k, *l, 1};
}

static inline void tg_servers_remove(struct tg_servers *s, const struct tg_server_key *k)
{
	struct tg_server_entry *e = tg_servers_set(s, k);
	int i;

	for (i = 0; i < TG_SERVER_WAYS; i++)
		if (tg_server_is(&e[i], k))
			e[i].used = 0;
}

#endif
