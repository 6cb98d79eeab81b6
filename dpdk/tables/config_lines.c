/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that make a configuration, one function each (docs/dpdk.md lists them).
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char BAD[] = "cannot be read; docs/dpdk.md lists the lines";

/* Exactly `len` bytes, two digits each. */
static int unhex(const char *hex, uint8_t *out, int len)
{
	int n;

	if (strspn(hex, "0123456789abcdefABCDEF") != 2 * (size_t)len || hex[2 * len])
		return -1;
	for (n = 0; n < len; n++)
		if (sscanf(hex + 2 * n, "%2hhx", &out[n]) != 1)
			return -1;
	return 0;
}

/* True if the line is exactly these n values: anything after them is an error, too,
 * such as a key that is too long. */
#define SCAN(args, n, format, ...)                                                                 \
	({                                                                                         \
		int used_ = -1;                                                                    \
		sscanf((args), format "%n", __VA_ARGS__, &used_) == (n) && used_ >= 0 &&           \
			!(args)[used_];                                                            \
	})

/* epoch-length NS */
static const char *line_epoch_length(struct tg_config *b, const char *args)
{
	return SCAN(args, 1, "%" SCNu64, &b->epoch_len_ns) && b->epoch_len_ns ? NULL : BAD;
}

/* verify-ahead NS: how far cookies are verified ahead of the clock */
static const char *line_verify_ahead(struct tg_config *b, const char *args)
{
	return SCAN(args, 1, "%" SCNu64, &b->verify_ahead_ns) ? NULL : BAD;
}

/* epoch N: time stays there; for tests */
static const char *line_epoch(struct tg_config *b, const char *args)
{
	return SCAN(args, 1, "%" SCNu64, &b->fixed_epoch) ? NULL : BAD;
}

/* key-slots N */
static const char *line_key_slots(struct tg_config *b, const char *args)
{
	uint32_t n;

	if (!SCAN(args, 1, "%u", &n) || n == 0 || n > TG_KEY_SLOTS_MAX || n & (n - 1))
		return "key-slots: a power of two, at most 16384";
	b->key_slot_mask = n - 1;
	return NULL;
}

/* key EPOCH HEX */
static const char *line_key(struct tg_config *b, const char *args)
{
	struct tg_epoch_key k;
	uint8_t raw[16];
	char hex[33];

	if (!SCAN(args, 2, "%" SCNu64 " %32s", &k.epoch, hex) || unhex(hex, raw, 16))
		return BAD;
	k.key = (struct tg_siphash_key){tg_load64(raw), tg_load64(raw + 8)};
	b->keys[k.epoch & b->key_slot_mask] = k;
	return NULL;
}

/* stale-keys pass|drop */
static const char *line_stale_keys(struct tg_config *b, const char *args)
{
	b->stale_keys = strcmp(args, "drop") == 0 ? TG_STALE_DROP : TG_STALE_PASS;
	return b->stale_keys == TG_STALE_DROP || strcmp(args, "pass") == 0 ? NULL : BAD;
}

/* white-v6-mask HEX: of the first half of an IPv6 address, as on the wire */
static const char *line_white_mask(struct tg_config *b, const char *args)
{
	uint8_t raw[8];

	if (unhex(args, raw, 8))
		return BAD;
	b->white_v6_mask = tg_load64(raw);
	return NULL;
}

/* white-v4-mask HEX: of an IPv4 address, as on the wire */
static const char *line_white_mask_v4(struct tg_config *b, const char *args)
{
	uint8_t raw[4];

	if (unhex(args, raw, 4))
		return BAD;
	b->white_v4_mask = tg_load32(raw);
	return NULL;
}

/* forwarding bridge|router */
static const char *line_forwarding(struct tg_config *b, const char *args)
{
	b->router = strcmp(args, "router") == 0;
	return b->router || strcmp(args, "bridge") == 0 ? NULL : BAD;
}

/* Reads up to `most` numbers, one space between them. How many; -1: there is something else. */
static int read_numbers(const char *args, uint32_t *v, int most)
{
	int n = 0, used;

	while (n < most && *args >= '0' && *args <= '9' && sscanf(args, "%u%n", &v[n], &used) == 1) {
		n++;
		args += used;
		if (!*args)
			return n;
		if (*args++ != ' ')
			return -1;
	}
	return -1;
}

/* service ID MSS4 MSS6 WINDOW WSCALE SACK TIMESTAMPS ECN MODE STRATEGY FIRST_DATA FIXED [SIGNED_COST_US [AUTOMATIC VERIFY [FLOW_KEY]]] */
static const char *line_service(struct tg_config *b, const char *args)
{
	uint32_t v[16] = {[12] = TG_SIGNED_ANSWER}, i;
	int n = read_numbers(args, v, 16);

	if (n != 12 && n != 13 && n != 15 && n != 16)
		return BAD;
	if (v[0] == 0 || v[0] > TG_SERVICES_MAX || v[8] > TG_MODE_AUTO || v[9] >= TG_STRATEGIES ||
	    v[10] > TG_FIRST_DATA_STORE || v[4] > TG_WSCALE_NONE || (v[1] | v[2] | v[3]) > 65535 ||
	    (v[5] | v[6] | v[7] | v[11]) > 255 || (v[13] | v[14]) > 1 ||
	    (v[8] == TG_MODE_AUTO && !v[13]))
		return "service: a number is out of range";
	b->services[v[0]] = (struct tg_service){
		.mss_v4 = (uint16_t)v[1],
		.mss_v6 = (uint16_t)v[2],
		.window = (uint16_t)v[3],
		.wscale = (uint8_t)v[4],
		.sack = (uint8_t)v[5],
		.timestamps = (uint8_t)v[6],
		.ecn = (uint8_t)v[7],
		.mode = (uint8_t)v[8],
		.signed_cost_us = v[12],
		.automatic = (uint8_t)v[13],
		.verify = (uint8_t)v[14],
		.flow_key = v[15],
	};
	b->proxy_cfg[v[0]] = (struct tg_proxy_service){
		.strategy = (uint8_t)v[9], .first_data = (uint8_t)v[10], .fixed = (uint8_t)v[11]};
	if (v[0] > b->top)
		b->top = v[0];
	if (tg_strategy_translates(v[9]))
		b->flows = true; /* permanent: flows survive changes of their service */
	for (b->enforce = b->automatic = false, i = 1; i <= b->top; i++) {
		b->enforce |= tg_service_verifies(&b->services[i]);
		b->automatic |= b->services[i].automatic;
	}
	return NULL;
}

/* place AT 0|1: whether SYNs to this place (core/automatic.h) are answered */
static const char *line_place(struct tg_config *b, const char *args)
{
	uint32_t v[2];

	if (read_numbers(args, v, 2) != 2 || v[0] >= TG_PLACES || v[1] > 1)
		return BAD;
	b->places_on[v[0] / 64] &= ~(1ULL << (v[0] & 63));
	b->places_on[v[0] / 64] |= (uint64_t)v[1] << (v[0] & 63);
	return NULL;
}

/* port PORT ENTRY */
static const char *line_port(struct tg_config *b, const char *args)
{
	uint32_t port, entry;

	if (!SCAN(args, 2, "%u %u", &port, &entry) || port > 65535)
		return BAD;
	b->ports[port] = entry;
	b->is_protected[port >> 6] &= ~(1ULL << (port & 63));
	b->is_protected[port >> 6] |= (uint64_t)(entry != 0) << (port & 63);
	b->is_protected_fold[port >> 6 & 7] |= (uint64_t)(entry != 0) << (port & 63);
	return NULL;
}

static bool note_prefix_len(uint8_t *lens, uint8_t len)
{
	int i, n;

	for (i = 0; i < TG_PREFIX_LENS_MAX && lens[i] <= 128 && lens[i] > len; i++)
		;
	if (i < TG_PREFIX_LENS_MAX && lens[i] == len)
		return true;
	if (lens[TG_PREFIX_LENS_MAX - 1] <= 128)
		return false;
	for (n = TG_PREFIX_LENS_MAX - 1; n > i; n--)
		lens[n] = lens[n - 1];
	lens[i] = len;
	return true;
}

/* prefix FAMILY LENGTH ADDRESS PORT ID */
static const char *line_prefix(struct tg_config *b, const char *args)
{
	struct tg_prefix_key k = {0};
	uint32_t family, len, port, id, at;
	char hex[33];

	if (!SCAN(args, 5, "%u %u %32s %u %u", &family, &len, hex, &port, &id) ||
	    (family != 4 && family != 6) || len > (family == 4 ? 32 : 128) || port > 65535 ||
	    id > TG_SERVICES_MAX || unhex(hex, (uint8_t *)&k.addr, 16))
		return BAD;
	if (2 * b->prefixes_n >= TG_PREFIX_SLOTS)
		return "prefix: there are too many";
	k.port_be = tg_swap16(port);
	k.prefix_len = (uint8_t)len;
	k.family = (uint8_t)family;
	k.addr = tg_addr_mask(k.addr, k.family, k.prefix_len);
	if (!note_prefix_len(b->prefix_lens[family == 6], k.prefix_len))
		return "prefix: more than 8 different lengths";
	for (at = tg_config_prefix_slot(&k); b->prefixes[at].id;
	     at = (at + 1) & (TG_PREFIX_SLOTS - 1))
		if (memcmp(&b->prefixes[at].key, &k, sizeof(k)) == 0)
			break;
	b->prefixes_n += !b->prefixes[at].id;
	b->prefixes[at].key = k;
	b->prefixes[at].id = id ? id : TG_PREFIX_EXEMPT;
	return NULL;
}

/* The prefix of all routes: FAMILY LENGTH ADDRESS. Returns what follows, or NULL. */
static const char *read_prefix(const char *args, struct tg_route *r)
{
	uint32_t family, len;
	char hex[33];
	int used;

	memset(r, 0, sizeof(*r));
	if (sscanf(args, "%u %u %32s%n", &family, &len, hex, &used) != 3 ||
	    (family != 4 && family != 6) || len > (family == 4 ? 32 : 128) ||
	    unhex(hex, (uint8_t *)&r->addr, 16))
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
	if (!rest || !SCAN(rest, 2, "%u %12s", &port, mac) || port >= TG_PORTS_MAX ||
	    unhex(mac, r.mac, 6))
		return BAD;
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
	if (!rest || !SCAN(rest, 3, "%u %u %32s", &port, &family, hex) || port >= TG_PORTS_MAX ||
	    (family != 4 && family != 6) || unhex(hex, (uint8_t *)&r.gateway, 16))
		return BAD;
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
	if (!rest || !SCAN(rest, 1, "%u", &port) || port >= TG_PORTS_MAX)
		return BAD;
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
		return BAD;
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

	if (!SCAN(args, 4, "%u %32s %u %12s", &family, hex, &port, mac) ||
	    (family != 4 && family != 6) || port >= TG_PORTS_MAX ||
	    unhex(hex, (uint8_t *)&r.addr, 16) || unhex(mac, r.mac, 6) || r.mac[0] & 1)
		return BAD;
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

	if (!SCAN(args, 2, "%u %8s", &port, hex) || port >= TG_PORTS_MAX || unhex(hex, raw, 4))
		return BAD;
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

	if (!SCAN(args, 4, "%u %u %8s %32s", &port, &l.mtu, hex4, hex6) || port >= TG_PORTS_MAX ||
	    unhex(hex4, (uint8_t *)&l.addr4, 4) || unhex(hex6, (uint8_t *)&l.addr6, 16))
		return BAD;
	b->links[port] = l;
	return NULL;
}

/* lists FILE: allow and deny lists, as internal/sourcelist lays them out; without FILE: none */
static const char *line_lists(struct tg_config *b, const char *args)
{
	struct tg_source_table *t = NULL;
	const char *why;

	if (*args) {
		t = tg_source_table_read(args, &why);
		if (!t)
			return why;
	}
	tg_source_table_release(b->sources);
	b->sources = t;
	return NULL;
}

/* remember 0|1 DSCP: whether handshakes of sources are counted, and the true-source codepoint; 255: no packet's */
static const char *line_remember(struct tg_config *b, const char *args)
{
	uint32_t v[2];

	if (read_numbers(args, v, 2) != 2 || v[0] > 1 || v[1] > 255)
		return BAD;
	b->remember = v[0];
	b->true_source = (uint8_t)v[1];
	return NULL;
}

/* source-limits COST_NS HELD BITS4 BITS6 ACTION: core/source_limit.h; zeros for the first two: none */
static const char *line_source_limits(struct tg_config *b, const char *args)
{
	uint32_t held, v4, v6, action;
	uint64_t cost;

	if (!SCAN(args, 5, "%" SCNu64 " %u %u %u %u", &cost, &held, &v4, &v6, &action))
		return BAD;
	if (cost > TG_LIMIT_SAVED_NS || held > INT32_MAX || v4 < 1 || v4 > 32 || v6 < 1 ||
	    v6 > 64 || action > TG_LIMIT_RESET)
		return "a number is out of range";
	b->limits.cost_ns = cost;
	b->limits.held = held;
	b->limits.v4 = (uint8_t)v4;
	b->limits.v6 = (uint8_t)v6;
	b->limits.action = (uint8_t)action;
	return NULL;
}

/* clear: services, ports, prefixes, routes and addresses; numbers keep their
 * meaning, and neighbours, lists, limits and the places that are answered for are kept */
static const char *line_clear(struct tg_config *b, const char *args)
{
	struct tg_hops *none = tg_hops_new();

	if (*args || !none) {
		tg_hops_release(none);
		return *args ? BAD : "out of memory";
	}
	tg_hops_release(b->routes);
	b->routes = none;
	b->own = false;
	memset(b->services, 0, sizeof(b->services));
	memset(b->ports, 0, sizeof(b->ports));
	memset(b->is_protected, 0, sizeof(b->is_protected));
	memset(b->is_protected_fold, 0, sizeof(b->is_protected_fold));
	memset(b->links, 0, sizeof(b->links));
	memset(b->prefixes, 0, sizeof(b->prefixes));
	memset(b->prefix_lens, 255, sizeof(b->prefix_lens));
	b->prefixes_n = b->own_addrs_n = 0;
	b->enforce = b->automatic = false;
	return NULL;
}

static const struct {
	const char *name;
	const char *(*apply)(struct tg_config *b, const char *args);
} lines[] = {
	{"epoch-length", line_epoch_length},
	{"epoch", line_epoch},
	{"key-slots", line_key_slots},
	{"key", line_key},
	{"stale-keys", line_stale_keys},
	{"verify-ahead", line_verify_ahead},
	{"white-v4-mask", line_white_mask_v4},
	{"white-v6-mask", line_white_mask},
	{"forwarding", line_forwarding},
	{"service", line_service},
	{"place", line_place},
	{"port", line_port},
	{"prefix", line_prefix},
	{"route", line_route},
	{"gateway", line_gateway},
	{"onlink", line_onlink},
	{"local", line_local},
	{"neighbour", line_neighbour},
	{"address", line_address},
	{"link", line_link},
	{"lists", line_lists},
	{"source-limits", line_source_limits},
	{"remember", line_remember},
	{"clear", line_clear},
};

const char *tg_config_line_name(const char *line)
{
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (strlen(lines[i].name) == strcspn(line, " ") &&
		    strncmp(line, lines[i].name, strlen(lines[i].name)) == 0)
			return lines[i].name;
	return "";
}

const char *tg_config_line(struct tg_config *b, char *line)
{
	char *args;
	size_t i;

	line[strcspn(line, "\r\n")] = 0;
	if (!line[0] || line[0] == '#')
		return NULL;
	args = strchr(line, ' ');
	if (args)
		*args++ = 0;
	if (args && strpbrk(args, "-+") && strcmp(line, "lists") != 0)
		return BAD; /* sscanf would take -1 for a very large number */
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (strcmp(line, lines[i].name) == 0)
			return lines[i].apply(b, args ? args : "");
	return "is no line this program knows; docs/dpdk.md lists them";
}
