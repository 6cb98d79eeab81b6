/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration that cores use: made, copied, freed, and the look-ups that are not inline.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "mix.h"

struct tg_config *tg_config_new(void)
{
	struct tg_config *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->routes = tg_hops_new();
	b->neighbours = tg_hops_new();
	if (!b->routes || !b->neighbours) {
		tg_config_free(b);
		return NULL;
	}
	memset(b->prefix_lens, 255, sizeof(b->prefix_lens));
	b->white_v6_mask = ~0ULL;
	b->white_v4_mask = ~0U;
	b->key_slot_mask = 15;
	b->limits = (struct tg_limit_settings){.era = 1, .v4 = 32, .v6 = 64};
	return b;
}

struct tg_config *tg_config_copy(const struct tg_config *b)
{
	struct tg_config *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	memcpy(copy, b, sizeof(*copy));
	copy->routes->users++;
	copy->neighbours->users++;
	if (copy->sources)
		copy->sources->users++;
	return copy;
}

void tg_config_free(struct tg_config *b)
{
	if (!b)
		return;
	tg_hops_release(b->routes);
	tg_hops_release(b->neighbours);
	tg_source_table_release(b->sources);
	explicit_bzero(b->keys, sizeof(b->keys));
	free(b);
}

uint32_t tg_config_prefix_slot(const struct tg_prefix_key *k)
{
	uint64_t h = tg_addr_mix(&k->addr, (uint64_t)k->port_be << 32 ^ k->prefix_len);

	return (uint32_t)(h >> 40) & (TG_PREFIX_SLOTS - 1);
}

uint32_t tg_config_service_by_prefix(const struct tg_config *b, const struct tg_packet *pkt,
				     uint32_t entry)
{
	const uint8_t *lens = b->prefix_lens[pkt->family == 6];
	const struct tg_route *r;
	int i;

	if (b->own) {
		r = tg_config_route(b, &pkt->dst, pkt->family);
		if (r && r->kind == TG_ROUTE_LOCAL)
			return 0;
	}
	if (!(entry & TG_PORT_HAS_PREFIXES))
		return TG_PORT_SERVICE(entry);
	for (i = 0; i < TG_PREFIX_LENS_MAX && lens[i] <= 128; i++) {
		struct tg_prefix_key key = {.addr = tg_addr_mask(pkt->dst, pkt->family, lens[i]),
					    .port_be = TG_DST_PORT_BE(pkt),
					    .prefix_len = lens[i],
					    .family = pkt->family};
		uint32_t at = tg_config_prefix_slot(&key);

		for (; b->prefixes[at].id; at = (at + 1) & (TG_PREFIX_SLOTS - 1))
			if (memcmp(&b->prefixes[at].key, &key, sizeof(key)) == 0)
				return b->prefixes[at].id == TG_PREFIX_EXEMPT ? 0
									      : b->prefixes[at].id;
	}
	return TG_PORT_SERVICE(entry);
}
