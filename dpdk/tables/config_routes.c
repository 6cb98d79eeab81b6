/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that say where packets go: routes, neighbours, the addresses and links of the ports.
 */
#include "config_routes.h"

/* The prefix of all routes: FAMILY LENGTH ADDRESS. Returns what follows, or NULL. */
static const char *read_prefix(const char *args, struct tg_route *r)
{
	uint32_t family, len;
	char hex[33];
	int used;

	memset(r, 0, sizeof(*r));
	if (sscanf(args, "%u %u %32s%n", &family, &len, hex, &used) != 3 ||
	    (family != 4 && family != 6) || len > (family == 4 ? 32 : 128) ||
	    tg_unhex(hex, (uint8_t *)&r->addr, 16))
		return NULL;
	r->family = (uint8_t)family;
	r->prefix_len = (uint8_t)len;
	r->addr = tg_addr_mask(r->addr, r->family, r->prefix_len);
	return args + used;
}

static const char *put_route(struct tg_config *b, const struct tg_route *r)
{
	return tg_hops_put_route(&b->routes, r) ? NULL : "route: there are too many";
}

/* route FAMILY LENGTH ADDRESS DPDK-PORT MAC: the next hop's MAC address is known */
static const char *line_route(struct tg_config *b, const char *args)
{
	const char *rest;
	struct tg_route r;
	uint32_t port;
	char mac[13];

	rest = read_prefix(args, &r);
	if (!rest || !TG_SCAN(rest, 2, "%u %12s", &port, mac) || port >= TG_PORTS_MAX ||
	    tg_unhex(mac, r.mac, 6))
		return TG_LINE_BAD;
	r.port = (uint8_t)port;
	r.kind = TG_ROUTE_MAC;
	return put_route(b, &r);
}

/* gateway FAMILY LENGTH ADDRESS DPDK-PORT FAMILY GATEWAY: the next hop is a neighbour */
static const char *line_gateway(struct tg_config *b, const char *args)
{
	uint32_t port, family;
	const char *rest;
	struct tg_route r;
	char hex[33];

	rest = read_prefix(args, &r);
	if (!rest || !TG_SCAN(rest, 3, "%u %u %32s", &port, &family, hex) || port >= TG_PORTS_MAX ||
	    (family != 4 && family != 6) || tg_unhex(hex, (uint8_t *)&r.gateway, 16))
		return TG_LINE_BAD;
	r.port = (uint8_t)port;
	r.gateway_family = (uint8_t)family;
	r.kind = TG_ROUTE_GATEWAY;
	return put_route(b, &r);
}

/* onlink FAMILY LENGTH ADDRESS DPDK-PORT: hosts with these addresses are neighbours */
static const char *line_onlink(struct tg_config *b, const char *args)
{
	const char *rest;
	struct tg_route r;
	uint32_t port;

	rest = read_prefix(args, &r);
	if (!rest || !TG_SCAN(rest, 1, "%u", &port) || port >= TG_PORTS_MAX)
		return TG_LINE_BAD;
	r.port = (uint8_t)port;
	r.kind = TG_ROUTE_ONLINK;
	return put_route(b, &r);
}

/* local FAMILY LENGTH ADDRESS: this machine's own, or not forwardable by any router */
static const char *line_local(struct tg_config *b, const char *args)
{
	struct tg_route r;
	const char *rest = read_prefix(args, &r);

	if (!rest || *rest)
		return TG_LINE_BAD;
	r.kind = TG_ROUTE_LOCAL;
	b->own = true;
	return put_route(b, &r);
}

/* neighbour FAMILY ADDRESS DPDK-PORT MAC: zeros: there is none */
static const char *line_neighbour(struct tg_config *b, const char *args)
{
	static const uint8_t none[6];
	struct tg_route r = {.kind = TG_ROUTE_MAC};
	uint32_t family, port;
	char hex[33], mac[13];

	if (!TG_SCAN(args, 4, "%u %32s %u %12s", &family, hex, &port, mac) ||
	    (family != 4 && family != 6) || port >= TG_PORTS_MAX ||
	    tg_unhex(hex, (uint8_t *)&r.addr, 16) || tg_unhex(mac, r.mac, 6) || r.mac[0] & 1)
		return TG_LINE_BAD;
	r.family = (uint8_t)family;
	r.port = (uint8_t)port;
	if (memcmp(r.mac, none, 6) == 0)
		r.kind = TG_ROUTE_NONE;
	return tg_hops_put_neighbour(&b->neighbours, &r) ? NULL : "neighbour: there are too many";
}

/* address DPDK-PORT HEX: an IPv4 address of the router itself */
static const char *line_address(struct tg_config *b, const char *args)
{
	uint32_t port;
	uint8_t raw[4];
	char hex[9];

	if (!TG_SCAN(args, 2, "%u %8s", &port, hex) || port >= TG_PORTS_MAX || tg_unhex(hex, raw, 4))
		return TG_LINE_BAD;
	if (b->own_addrs_n == TG_PORTS_MAX)
		return "address: there are too many";
	b->own_addrs[b->own_addrs_n++] = (struct tg_own_addr){tg_load32(raw), port};
	if (!b->links[port].addr4.w[0])
		b->links[port].addr4.w[0] = tg_load32(raw);
	return NULL;
}

/* link PORT MTU ADDRESS4 ADDRESS6 */
static const char *line_link(struct tg_config *b, const char *args)
{
	struct tg_link l = {0};
	uint32_t port;
	char hex4[9], hex6[33];

	if (!TG_SCAN(args, 4, "%u %u %8s %32s", &port, &l.mtu, hex4, hex6) || port >= TG_PORTS_MAX ||
	    tg_unhex(hex4, (uint8_t *)&l.addr4, 4) || tg_unhex(hex6, (uint8_t *)&l.addr6, 16))
		return TG_LINE_BAD;
	b->links[port] = l;
	return NULL;
}

const struct tg_config_word tg_config_routes[] = {
	{"route", line_route}, {"gateway", line_gateway},     {"onlink", line_onlink},
	{"local", line_local}, {"neighbour", line_neighbour}, {"address", line_address},
	{"link", line_link},
};

_Static_assert(sizeof(tg_config_routes) == TG_CONFIG_ROUTES * sizeof(tg_config_routes[0]),
	       "one for each line");
