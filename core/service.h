/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What a gate knows of a service it protects, and how it is found. Part of the
 * map ABI: Go takes these layouts from the compiled object.
 */
#ifndef TG_SERVICE_H
#define TG_SERVICE_H

#include "packet.h"

enum tg_mode {
#define TG_ABI_MODE(name, number, word, help) TG_MODE_##name = number,
#include "abi.def"
};

enum tg_listener {
#define TG_ABI_LISTENER(name, number, word, help) TG_LISTENER_##name = number,
#include "abi.def"
};

enum tg_stale_keys {
#define TG_ABI_STALE(name, number, word, help) TG_STALE_##name = number,
#include "abi.def"
};

#define TG_SERVICES_MAX 10000 /* ids 1..TG_SERVICES_MAX; 0 counts what belongs to none */

struct tg_service {
	uint16_t mss_v4; /* what our SYN-ACK advertises, bytes */
	uint16_t mss_v6;
	uint16_t window; /* its unscaled window, bytes */
	uint8_t wscale; /* shift it advertises if the client offered one; TG_WSCALE_NONE: never */
	uint8_t sack; /* 1: agree to SACK, timestamps, ECN if offered */
	uint8_t timestamps;
	uint8_t ecn;
	uint8_t mode; /* enum tg_mode */
	uint8_t listener_v4; /* enum tg_listener, of the service's IPv4 addresses */
	uint8_t listener_v6;
	uint8_t closed; /* 1: an address and port of it may have no listener: core/closed_port.h */
	uint8_t automatic; /* 1: the configuration says `auto`: `mode` is what the detector makes of it, AUTO or ALWAYS */
	uint8_t verify; /* 1: in a mode that answers nothing, cookies may be outstanding: ACKs are checked */
	uint32_t signed_cost_us; /* core/signed.h: one of the two below; else what each signed SYN that passes takes of a CPU's time, in microseconds */
	uint32_t flow_key; /* of IPv6 flow labels: tg_flow_label. 0: none */
};
_Static_assert(sizeof(struct tg_service) == 24, "map ABI");

/* True if ACKs are checked for cookies. In modes other than ALWAYS, ACKs without one pass. */
TG_INLINE bool tg_service_verifies(const struct tg_service *svc)
{
	return svc->mode == TG_MODE_ALWAYS || svc->verify;
}

/* True if SYNs are answered, or were a moment ago under AUTO: what is no whole TCP segment is dropped. */
TG_INLINE bool tg_service_enforces(const struct tg_service *svc)
{
	return svc->mode == TG_MODE_ALWAYS || (svc->automatic && svc->verify);
}

/* True if the mode says that nothing is ever answered and nothing dropped. */
TG_INLINE bool tg_service_is_passive(const struct tg_service *svc)
{
	return svc->mode == TG_MODE_OFF || svc->mode == TG_MODE_MONITOR;
}

TG_INLINE enum tg_listener tg_service_listener(const struct tg_service *svc, uint8_t family)
{
	return family == 4 ? svc->listener_v4 : svc->listener_v6;
}

TG_INLINE uint8_t *tg_service_listener_at(struct tg_service *svc, uint8_t family)
{
	return family == 4 ? &svc->listener_v4 : &svc->listener_v6;
}

#define TG_SIGNED_ANSWER 0U
#define TG_SIGNED_DROP 0xffffffffU

/* Key of the table of services that protect particular prefixes. */
struct tg_prefix_key {
	union tg_addr addr; /* masked to the prefix */
	uint16_t port_be;
	uint8_t prefix_len;
	uint8_t family;
	uint32_t pad;
};
_Static_assert(sizeof(struct tg_prefix_key) == 24, "map ABI");

/* A port's entry in the port table: 0 if the gate does not know it; else the id of the service for
 * every address (0: none) and these flags.
 *
 *    31         30        29                  15             0
 *   +----------+---------+------+------------+----------------+
 *   | PREFIXES | WATCHED | SEED |     0      |   service id   |
 *   +----------+---------+------+------------+----------------+
 */
#define TG_PORT_HAS_PREFIXES 0x80000000U /* some prefixes have a service of their own */
#define TG_PORT_WATCHED 0x40000000U /* its sockets are in the socket filter, service or not */
#define TG_PORT_SEED 0x20000000U /* the iterator shall put those that exist there */
#define TG_PORT_SERVICE(entry) ((entry) & 0xffffU)

TG_INLINE union tg_addr tg_addr_mask(union tg_addr a, uint8_t family, uint8_t len)
{
	uint32_t i, left = len;

	for (i = 0; i < 4; i++) {
		uint32_t bits = left > 32 ? 32 : left;

		a.w[i] &= bits ? tg_swap32(0xffffffffU << (32 - bits)) : 0;
		left -= bits;
		if (family == 4)
			break;
	}
	return a;
}

#endif
