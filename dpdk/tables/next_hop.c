/* SPDX-License-Identifier: Apache-2.0
 *
 * next_hop.h: open addressing, at most half full.
 */
#include "next_hop.h"

#include <stdlib.h>
#include <string.h>

#include "mix.h"

#define SLOTS_FIRST 64U

static uint32_t slot_of(const struct tg_hops *h, const union tg_addr *a, uint32_t rest)
{
	uint64_t v = tg_addr_mix(a, rest);

	return (uint32_t)(v >> 40 ^ v >> 20) & h->mask;
}

static uint32_t rest_of(uint8_t family, uint8_t prefix_len, uint8_t port)
{
	return (uint32_t)family << 16 | (uint32_t)prefix_len << 8 | port;
}

/* Routes are distinguished by prefix, neighbours also by port, which is their `prefix_len`. */
static const struct tg_route *find(const struct tg_hops *h, const union tg_addr *a, uint8_t family,
				   uint8_t len)
{
	uint32_t at = slot_of(h, a, rest_of(family, len, 0));

	for (; h->slots[at].family; at = (at + 1) & h->mask) {
		const struct tg_route *r = &h->slots[at];

		if (r->addr.d[0] == a->d[0] && r->addr.d[1] == a->d[1] && r->family == family &&
		    r->prefix_len == len)
			return r;
	}
	return NULL;
}

static struct tg_hops *make(uint32_t slots)
{
	struct tg_hops *h = calloc(1, sizeof(*h) + (size_t)slots * sizeof(h->slots[0]));

	if (!h)
		return NULL;
	h->users = 1;
	h->mask = slots - 1;
	memset(h->lens, 255, sizeof(h->lens));
	return h;
}

struct tg_hops *tg_hops_new(void)
{
	return make(SLOTS_FIRST);
}

void tg_hops_release(struct tg_hops *h)
{
	if (h && --h->users == 0)
		free(h);
}

static struct tg_route *place(struct tg_hops *h, const struct tg_route *r)
{
	uint32_t at = slot_of(h, &r->addr, rest_of(r->family, r->prefix_len, 0));

	while (h->slots[at].family)
		at = (at + 1) & h->mask;
	return &h->slots[at];
}

static struct tg_hops *copy(const struct tg_hops *h, uint32_t slots)
{
	struct tg_hops *c = make(slots);
	uint32_t i;

	if (!c)
		return NULL;
	memcpy(c->lens, h->lens, sizeof(c->lens));
	for (i = 0; i <= h->mask; i++) {
		if (!h->slots[i].family || h->slots[i].kind == TG_ROUTE_NONE)
			continue;
		*place(c, &h->slots[i]) = h->slots[i];
		c->n++;
	}
	return c;
}

static void note_len(uint8_t *lens, uint8_t len)
{
	uint32_t i, n;

	for (i = 0; lens[i] != 255 && lens[i] > len; i++)
		;
	if (lens[i] == len)
		return;
	for (n = TG_PREFIX_LENS; n > i; n--)
		lens[n] = lens[n - 1];
	lens[i] = len;
}

/* A table that only the caller holds, with room for one more. */
static struct tg_hops *make_room(struct tg_hops *h)
{
	bool full = 2 * (h->n + 1) > h->mask + 1;
	struct tg_hops *own;

	if (h->users == 1 && !full)
		return h;
	if (h->n >= TG_HOPS_MAX)
		return NULL;
	own = copy(h, full ? 2 * (h->mask + 1) : h->mask + 1);
	if (own)
		tg_hops_release(h);
	return own;
}

static bool put(struct tg_hops **h, const struct tg_route *r)
{
	struct tg_hops *own = make_room(*h);
	struct tg_route *there;
	uint32_t number;

	if (!own)
		return false;
	*h = own;
	there = (struct tg_route *)find(own, &r->addr, r->family, r->prefix_len);
	number = there ? there->number : ++own->n;
	if (!there)
		there = place(own, r);
	*there = *r;
	there->number = number;
	return true;
}

bool tg_hops_put_route(struct tg_hops **h, const struct tg_route *r)
{
	if (!put(h, r))
		return false;
	note_len((*h)->lens[r->family == 6], r->prefix_len);
	return true;
}

bool tg_hops_put_neighbour(struct tg_hops **h, const struct tg_route *r)
{
	struct tg_route n = *r;

	n.prefix_len = r->port;
	return put(h, &n);
}

const struct tg_route *tg_hops_route(const struct tg_hops *h, const union tg_addr *dst, uint8_t family)
{
	const uint8_t *lens = h->lens[family == 6];
	uint32_t i;

	for (i = 0; lens[i] != 255; i++) {
		union tg_addr masked = tg_addr_mask(*dst, family, lens[i]);
		const struct tg_route *r = find(h, &masked, family, lens[i]);

		if (r)
			return r;
	}
	return NULL;
}

const struct tg_route *tg_hops_neighbour(const struct tg_hops *h, const union tg_addr *addr,
					 uint8_t family, uint8_t port)
{
	const struct tg_route *n = find(h, addr, family, port);

	return n && n->kind == TG_ROUTE_MAC ? n : NULL;
}
