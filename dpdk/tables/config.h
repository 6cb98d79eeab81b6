/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of the packet path: settings, keys, services, routes, in one piece
 * that is never changed once the cores have it. A change is a new piece, which
 * each core takes when it next looks at the clock.
 *
 * The piece is made from lines of text (docs/dpdk.md), by the control socket, by a
 * file, by tests and benchmarks alike.
 */
#ifndef TG_DPDK_CONFIG_H
#define TG_DPDK_CONFIG_H

#include "../core/automatic.h"
#include "../core/proxy.h"
#include "source_limits.h"
#include "next_hop.h"
#include "source_table.h"

#define TG_PORTS_MAX 16
#define TG_PREFIX_LENS_MAX 8
#define TG_PREFIX_SLOTS (1U << 15) /* of the table of prefixes; half of them may be used */
#define TG_KEY_SLOTS_MAX (1U << 14)

#define TG_PREFIX_EXEMPT UINT32_MAX

struct tg_prefix_slot {
	struct tg_prefix_key key;
	uint32_t id; /* 0: empty; TG_PREFIX_EXEMPT: protected by no service */
	uint32_t pad;
};

/* A router's port: what its link takes, and the address it gives in ICMP errors. */
struct tg_link {
	union tg_addr addr4, addr6; /* zero: none */
	uint32_t mtu;      /* bytes of an IP packet; 0: as the driver says */
};

struct tg_config {
	uint64_t number; /* of this configuration: 1, 2, ... */
	uint64_t epoch_len_ns;
	uint64_t verify_ahead_ns; /* core/keys.h */
	uint64_t fixed_epoch; /* for tests: if not 0, time stays in this epoch */
	uint64_t white_v6_mask;
	uint32_t white_v4_mask;
	uint32_t key_slot_mask;
	uint8_t stale_keys; /* enum tg_stale_keys */
	bool enforce;     /* SYNs to some service are answered, or were a moment ago */
	bool automatic;     /* some service is in mode auto */
	bool flows;     /* some service is, or was, translated */
	bool router;     /* else a bridge of ports 0 and 1 */
	struct tg_limit_settings limits; /* of proven sources */
	struct tg_source_table *sources; /* allow and deny lists; NULL: none */
	bool own; /* some addresses are this machine's own: they belong to no service, whatever the ports */
	uint8_t prefix_lens[2][TG_PREFIX_LENS_MAX]; /* IPv4, IPv6: longest first; 255 ends */
	bool remember; /* sources that handshakes have proven are counted (core/proven.h) */
	uint8_t true_source; /* the codepoint that marks their packets */
	uint64_t places_on[TG_PLACES / 64]; /* places whose SYNs are answered under mode auto: one bit each */
	uint32_t top; /* highest service number */
	uint32_t prefixes_n;
	uint64_t is_protected[65536 / 64]; /* ports, as on the wire, that have an entry: one bit each */
	uint64_t is_protected_fold[8]; /* the same of all ports that are equal modulo 512; none of
					      them has an entry if its bit is 0 */
	uint8_t is_protected_bytes[16]; /* the two bytes of these ports: of byte B bit (B >> 4 & 7) of [B & 15] is 1 */
	uint32_t ports[65536]; /* core/service.h */
	struct tg_hops *routes, *neighbours;
	uint32_t own_addrs_n;
	struct tg_own_addr { /* a router's own IPv4 addresses: it answers ARP for them */
		uint32_t addr;
		uint32_t port;
	} own_addrs[TG_PORTS_MAX];
	struct tg_link links[TG_PORTS_MAX];
	struct tg_epoch_key keys[TG_KEY_SLOTS_MAX];
	struct tg_service services[TG_SERVICES_MAX + 1];
	struct tg_proxy_service proxy_cfg[TG_SERVICES_MAX + 1];
	struct tg_prefix_slot prefixes[TG_PREFIX_SLOTS];
};

/* An empty one: a bridge that protects nothing. NULL without memory. */
struct tg_config *tg_config_new(void);
struct tg_config *tg_config_copy(const struct tg_config *b);
void tg_config_free(struct tg_config *b);

/* Applies one line. NULL, or an error text. The line is modified. */
const char *tg_config_line(struct tg_config *b, char *line);
/* The line's first word, if it is a known name; else "". */
const char *tg_config_line_name(const char *line);

static inline bool tg_config_port_is_protected(const struct tg_config *b, uint16_t port_be)
{
	return b->is_protected[port_be >> 6] >> (port_be & 63) & 1;
}

/* Whether SYNs to a service in mode AUTO are answered at this place. */
static inline bool tg_config_place_is_on(const struct tg_config *b, uint32_t at)
{
	return b->places_on[at >> 6] >> (at & 63) & 1;
}

/* Where the search for a prefix starts. */
uint32_t tg_config_prefix_slot(const struct tg_prefix_key *k);

uint32_t tg_config_service_by_prefix(const struct tg_config *b, const struct tg_packet *pkt,
				     uint32_t entry);

/* Whether the lists deny a SYN's source. Costs one comparison where there are none. */
static inline bool tg_config_denies(const struct tg_config *b, uint8_t family,
				    const union tg_addr *src)
{
	return TG_UNLIKELY(b->sources != NULL) &&
	       tg_source_table_says(b->sources, family, src) == TG_LISTED_DENY;
}

/* The service that protects the packet's destination; 0: none. */
static inline uint32_t tg_config_service_find(const struct tg_config *b, const struct tg_packet *pkt)
{
	uint32_t entry = b->ports[tg_swap16(TG_DST_PORT_BE(pkt))];

	if (TG_LIKELY(!(entry & TG_PORT_HAS_PREFIXES) && !b->own))
		return TG_PORT_SERVICE(entry);
	return tg_config_service_by_prefix(b, pkt, entry);
}

/* The key of exactly this epoch; NULL if it is not loaded. */
static inline const struct tg_siphash_key *tg_config_key(const struct tg_config *b, uint64_t epoch)
{
	const struct tg_epoch_key *k = &b->keys[epoch & b->key_slot_mask];

	return k->epoch == epoch && (k->key.k0 | k->key.k1) ? &k->key : NULL;
}

/* The route to an address; NULL: none. */
static inline const struct tg_route *tg_config_route(const struct tg_config *b,
						     const union tg_addr *dst, uint8_t family)
{
	return tg_hops_route(b->routes, dst, family);
}

#endif
