/* SPDX-License-Identifier: Apache-2.0
 *
 * Which way a frame leaves: a bridge's other port, or a router's next hop. What a router
 * cannot send on because it is too long for the next link, or has used up its TTL, is
 * answered by an ICMP error (icmp_error.h), as the kernel does behind the XDP program.
 *
 * Must never: change a frame before its way is known.
 */
#ifndef TG_DPDK_ROUTE_H
#define TG_DPDK_ROUTE_H

#include "icmp_error.h"

enum tg_way_state {
	TG_WAY_OPEN,
	TG_WAY_LOST, /* there is none, and nobody is told */
	TG_WAY_TTL,  /* used up: RFC 792, RFC 4443 section 3.3 */
	TG_WAY_TOO_BIG, /* for the next link: RFC 1191, RFC 4443 section 3.2 */
};

struct tg_way {
	const struct tg_route *route; /* of a router */
	uint16_t port;
};

/* Bytes of an IP packet that a router's port takes. */
TG_INLINE uint32_t tg_way_mtu(const struct tg_worker *w, uint16_t port)
{
	return w->box->links[port].mtu ? w->box->links[port].mtu : w->ports[port].mtu;
}

static inline enum tg_way_state tg_way_route(const struct tg_worker *w, const struct rte_mbuf *m, uint32_t l3_off,
					     uint8_t family, const union tg_addr *dst, struct tg_way *way)
{
	const uint8_t *ip = TG_DATA(m) + l3_off;

	way->route = tg_box_route(w->box, dst, family);
	if (!way->route || l3_off != TG_ETH_HDR_LEN || way->route->port >= w->ports_n)
		return TG_WAY_LOST;
	way->port = way->route->port;
	if (ip[family == 4 ? 8 : 7] <= 1)
		return TG_WAY_TTL;
	if (m->pkt_len - l3_off <= tg_way_mtu(w, way->port))
		return m->pkt_len <= w->ports[way->port].max_frame ? TG_WAY_OPEN : TG_WAY_LOST;
	/* A packet that may be cut into fragments is not: nobody sends TCP so. */
	return family == 4 && !(ip[6] & 0x40) ? TG_WAY_LOST : TG_WAY_TOO_BIG;
}

/* The way of an IP packet that came by `port`. */
static inline enum tg_way_state tg_way_find(const struct tg_worker *w, const struct rte_mbuf *m, uint16_t port,
					    uint32_t l3_off, uint8_t family, const union tg_addr *dst,
					    struct tg_way *way)
{
	if (TG_UNLIKELY(w->box->router))
		return tg_way_route(w, m, l3_off, family, dst, way);
	way->port = port ^ 1;
	return TG_LIKELY(way->port < w->ports_n && m->pkt_len <= w->ports[way->port].max_frame) ? TG_WAY_OPEN
												 : TG_WAY_LOST;
}

/* Sends it that way; a router's next hop sees a TTL less one. */
static inline void tg_way_send(struct tg_worker *w, struct rte_mbuf *m, uint32_t l3_off, uint8_t family,
			       const struct tg_way *way)
{
	uint8_t *data = TG_DATA(m);

	if (TG_LIKELY(!w->box->router)) {
		tg_send(w, way->port, m);
		return;
	}
	data[l3_off + (family == 4 ? 8 : 7)]--;
	if (family == 4) {
		uint8_t *field = data + l3_off + 10;
		/* TTL - 1: the checksum field grows by 0x0100 (RFC 1141), carry around */
		uint32_t sum = tg_load16(field) + 0x0001U;

		tg_store16(field, (uint16_t)(sum + (sum >> 16)));
	}
	memcpy(data, way->route->mac, 6);
	memcpy(data + 6, w->ports[way->port].mac, 6);
	tg_send(w, way->port, m);
}

/* Drops a packet that has no way; its sender is told why, if that is for a router to say.
 * It must be as it came: the error quotes it. */
static void __attribute__((noinline)) tg_way_refuse(struct tg_worker *w, struct rte_mbuf *m, uint16_t port,
						     uint32_t l3_off, uint8_t family, const struct tg_way *way,
						     enum tg_way_state state)
{
	if (state == TG_WAY_TTL)
		tg_icmp_error_send(w, m, port, l3_off, family, TG_ICMP_TIME_EXCEEDED, 0);
	else if (state == TG_WAY_TOO_BIG)
		tg_icmp_error_send(w, m, port, l3_off, family, TG_ICMP_TOO_BIG, tg_way_mtu(w, way->port));
	tg_count(w, 0, TG_COUNT_drop_no_route);
	tg_drop(w, m);
}

/* Sends an IP packet onwards that came by `port` and has not been changed. */
static inline void tg_forward_ip(struct tg_worker *w, struct rte_mbuf *m, uint16_t port,
				 uint32_t l3_off, uint8_t family, const union tg_addr *dst)
{
	struct tg_way way;
	enum tg_way_state state = tg_way_find(w, m, port, l3_off, family, dst, &way);

	if (TG_LIKELY(state == TG_WAY_OPEN))
		tg_way_send(w, m, l3_off, family, &way);
	else
		tg_way_refuse(w, m, port, l3_off, family, &way, state);
}

/* The same of one that is ours: of its fate nobody is told. */
static inline void tg_forward_own(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
				  uint8_t family, const union tg_addr *dst)
{
	struct tg_way way;

	if (TG_LIKELY(tg_way_find(w, m, port, l3_off, family, dst, &way) == TG_WAY_OPEN))
		tg_way_send(w, m, l3_off, family, &way);
	else
		tg_way_refuse(w, m, port, l3_off, family, &way, TG_WAY_LOST);
}

#endif
