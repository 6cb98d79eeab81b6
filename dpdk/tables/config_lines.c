/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that make a configuration, one function each (docs/dpdk.md lists them); those of
 * config_routes.c are among them.
 */
#include "config_routes.h"

/* epoch-length NS */
static const char *line_epoch_length(struct tg_config *b, const char *args)
{
	return TG_SCAN(args, 1, "%" SCNu64, &b->epoch_len_ns) && b->epoch_len_ns ? NULL : TG_LINE_BAD;
}

/* verify-ahead NS: how far cookies are verified ahead of the clock */
static const char *line_verify_ahead(struct tg_config *b, const char *args)
{
	return TG_SCAN(args, 1, "%" SCNu64, &b->verify_ahead_ns) ? NULL : TG_LINE_BAD;
}

/* epoch N: time stays there; for tests */
static const char *line_epoch(struct tg_config *b, const char *args)
{
	return TG_SCAN(args, 1, "%" SCNu64, &b->fixed_epoch) ? NULL : TG_LINE_BAD;
}

/* key-slots N */
static const char *line_key_slots(struct tg_config *b, const char *args)
{
	uint32_t n;

	if (!TG_SCAN(args, 1, "%u", &n) || n == 0 || n > TG_KEY_SLOTS_MAX || n & (n - 1))
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

	if (!TG_SCAN(args, 2, "%" SCNu64 " %32s", &k.epoch, hex) || tg_unhex(hex, raw, 16))
		return TG_LINE_BAD;
	k.key = (struct tg_siphash_key){tg_load64(raw), tg_load64(raw + 8)};
	b->keys[k.epoch & b->key_slot_mask] = k;
	return NULL;
}

/* stale-keys pass|drop */
static const char *line_stale_keys(struct tg_config *b, const char *args)
{
	b->stale_keys = strcmp(args, "drop") == 0 ? TG_STALE_DROP : TG_STALE_PASS;
	return b->stale_keys == TG_STALE_DROP || strcmp(args, "pass") == 0 ? NULL : TG_LINE_BAD;
}

/* white-v6-mask HEX: of the first half of an IPv6 address, as on the wire */
static const char *line_white_mask(struct tg_config *b, const char *args)
{
	uint8_t raw[8];

	if (tg_unhex(args, raw, 8))
		return TG_LINE_BAD;
	b->white_v6_mask = tg_load64(raw);
	return NULL;
}

/* white-v4-mask HEX: of an IPv4 address, as on the wire */
static const char *line_white_mask_v4(struct tg_config *b, const char *args)
{
	uint8_t raw[4];

	if (tg_unhex(args, raw, 4))
		return TG_LINE_BAD;
	b->white_v4_mask = tg_load32(raw);
	return NULL;
}

/* forwarding bridge|router */
static const char *line_forwarding(struct tg_config *b, const char *args)
{
	b->router = strcmp(args, "router") == 0;
	return b->router || strcmp(args, "bridge") == 0 ? NULL : TG_LINE_BAD;
}

/* service ID MSS4 MSS6 WINDOW WSCALE SACK TIMESTAMPS ECN MODE STRATEGY FIRST_DATA FIXED [SIGNED_COST_US [AUTOMATIC VERIFY [FLOW_KEY]]] */
static const char *line_service(struct tg_config *b, const char *args)
{
	uint32_t v[16] = {[12] = TG_SIGNED_ANSWER}, i;
	int n = tg_scan_numbers(args, v, 16);

	if (n != 12 && n != 13 && n != 15 && n != 16)
		return TG_LINE_BAD;
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
		b->enforce |= tg_service_enforces(&b->services[i]);
		b->automatic |= b->services[i].automatic;
	}
	return NULL;
}

/* place AT 0|1: whether SYNs to this place (core/automatic.h) are answered */
static const char *line_place(struct tg_config *b, const char *args)
{
	uint32_t v[2];

	if (tg_scan_numbers(args, v, 2) != 2 || v[0] >= TG_PLACES || v[1] > 1)
		return TG_LINE_BAD;
	b->places_on[v[0] / 64] &= ~(1ULL << (v[0] & 63));
	b->places_on[v[0] / 64] |= (uint64_t)v[1] << (v[0] & 63);
	return NULL;
}

/* Notes a byte of a protected port in is_protected_bytes. */
static void note_byte(struct tg_config *b, uint8_t byte, bool is)
{
	b->is_protected_bytes[byte & 15] |= (uint8_t)(is << (byte >> 4 & 7));
}

/* port PORT ENTRY */
static const char *line_port(struct tg_config *b, const char *args)
{
	uint32_t port, entry, be;

	if (!TG_SCAN(args, 2, "%u %u", &port, &entry) || port > 65535)
		return TG_LINE_BAD;
	b->ports[port] = entry;
	be = tg_swap16((uint16_t)port);
	b->is_protected[be >> 6] &= ~(1ULL << (be & 63));
	b->is_protected[be >> 6] |= (uint64_t)(entry != 0) << (be & 63);
	b->is_protected_fold[be >> 6 & 7] |= (uint64_t)(entry != 0) << (be & 63);
	note_byte(b, (uint8_t)be, entry != 0);
	note_byte(b, (uint8_t)(be >> 8), entry != 0);
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

	if (!TG_SCAN(args, 5, "%u %u %32s %u %u", &family, &len, hex, &port, &id) ||
	    (family != 4 && family != 6) || len > (family == 4 ? 32 : 128) || port > 65535 ||
	    id > TG_SERVICES_MAX || tg_unhex(hex, (uint8_t *)&k.addr, 16))
		return TG_LINE_BAD;
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

	if (tg_scan_numbers(args, v, 2) != 2 || v[0] > 1 || v[1] > 255)
		return TG_LINE_BAD;
	b->remember = v[0];
	b->true_source = (uint8_t)v[1];
	return NULL;
}

/* source-limits COST_NS HELD BITS4 BITS6 ACTION: core/source_limit.h; zeros for the first two: none */
static const char *line_source_limits(struct tg_config *b, const char *args)
{
	uint32_t held, v4, v6, action;
	uint64_t cost;

	if (!TG_SCAN(args, 5, "%" SCNu64 " %u %u %u %u", &cost, &held, &v4, &v6, &action))
		return TG_LINE_BAD;
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
		return *args ? TG_LINE_BAD : "out of memory";
	}
	tg_hops_release(b->routes);
	b->routes = none;
	b->own = false;
	memset(b->services, 0, sizeof(b->services));
	memset(b->ports, 0, sizeof(b->ports));
	memset(b->is_protected, 0, sizeof(b->is_protected));
	memset(b->is_protected_fold, 0, sizeof(b->is_protected_fold));
	memset(b->is_protected_bytes, 0, sizeof(b->is_protected_bytes));
	memset(b->links, 0, sizeof(b->links));
	memset(b->prefixes, 0, sizeof(b->prefixes));
	memset(b->prefix_lens, 255, sizeof(b->prefix_lens));
	b->prefixes_n = b->own_addrs_n = 0;
	b->enforce = b->automatic = false;
	return NULL;
}

static const struct tg_config_word lines[] = {
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
	{"lists", line_lists},
	{"source-limits", line_source_limits},
	{"remember", line_remember},
	{"clear", line_clear},
};

#define TG_CONFIG_LINES (sizeof(lines) / sizeof(lines[0]))

/* The line that begins with a word of `len` bytes; NULL: there is none. */
static const struct tg_config_word *find(const char *word, size_t len)
{
	const struct tg_config_word *w;
	size_t i;

	for (i = 0; i < TG_CONFIG_LINES + TG_CONFIG_ROUTES; i++) {
		w = i < TG_CONFIG_LINES ? &lines[i] : &tg_config_routes[i - TG_CONFIG_LINES];
		if (strlen(w->name) == len && strncmp(word, w->name, len) == 0)
			return w;
	}
	return NULL;
}

const char *tg_config_line_name(const char *line)
{
	const struct tg_config_word *w = find(line, strcspn(line, " "));

	return w ? w->name : "";
}

const char *tg_config_line(struct tg_config *b, char *line)
{
	const struct tg_config_word *w;
	char *args;

	line[strcspn(line, "\r\n")] = 0;
	if (!line[0] || line[0] == '#')
		return NULL;
	args = strchr(line, ' ');
	if (args)
		*args++ = 0;
	if (args && strpbrk(args, "-+") && strcmp(line, "lists") != 0)
		return TG_LINE_BAD; /* sscanf would take -1 for a very large number */
	w = find(line, strlen(line));
	return w ? w->apply(b, args ? args : "")
		 : "is no line this program knows; docs/dpdk.md lists them";
}
