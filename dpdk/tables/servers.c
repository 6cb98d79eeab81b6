/* SPDX-License-Identifier: Apache-2.0
 *
 * What one core knows of servers.
 */
#include "servers.h"

#include "mix.h"

static struct tg_server_entry *tg_servers_set(struct tg_servers *s, const struct tg_server_key *k)
{
	return s->set[tg_addr_mix(&k->addr, k->port_be) >> 52 & (TG_SERVER_SETS - 1)];
}

static bool tg_server_is(const struct tg_server_entry *e, const struct tg_server_key *k)
{
	return e->used && e->key.addr.d[0] == k->addr.d[0] && e->key.addr.d[1] == k->addr.d[1] &&
	       e->key.port_be == k->port_be && e->key.family == k->family;
}

struct tg_learned *tg_servers_find(struct tg_servers *s, const struct tg_server_key *k)
{
	struct tg_server_entry *e = tg_servers_set(s, k);
	int i;

	for (i = 0; i < TG_SERVER_WAYS; i++)
		if (tg_server_is(&e[i], k))
			return &e[i].learned;
	return NULL;
}

void tg_servers_put(struct tg_servers *s, const struct tg_server_key *k, const struct tg_learned *l)
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

void tg_servers_remove(struct tg_servers *s, const struct tg_server_key *k)
{
	struct tg_server_entry *e = tg_servers_set(s, k);
	int i;

	for (i = 0; i < TG_SERVER_WAYS; i++)
		if (tg_server_is(&e[i], k))
			e[i].used = 0;
}
