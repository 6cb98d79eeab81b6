/* SPDX-License-Identifier: Apache-2.0
 *
 * Which way a frame leaves: a bridge's other port, or a router's next hop. What a router
 * cannot send on is answered by an ICMP error (icmp_error.h), as the kernel does behind
 * the XDP program; what is too long for the next link and may be cut is cut
 * (fragment.h); what goes to a neighbour that is not known yet waits for it (waiting.h).
 *
 * Must never: change a frame before its way is known.
 */
#ifndef TG_DPDK_ROUTE_H
#define TG_DPDK_ROUTE_H

#include "frame.h"

/* Of the second half of an address, as loaded: all but its last byte. Zero, with a first
 * half that is, too: unspecified or loopback (or nobody's). */
#define TG_IPV6_ALL_BUT_LAST 0x00ffffffffffffffULL

enum tg_way_state {
	TG_WAY_OPEN,
	TG_WAY_ASK,  /* the next hop's MAC address is not known yet */
	TG_WAY_CUT,  /* too long for the next link, and may be cut: RFC 791 */
	TG_WAY_LOST, /* it goes nowhere, and nobody is told */
	TG_WAY_OURS, /* the kernel, which has seen it, too, is to take it */
	TG_WAY_NONE, /* no route: RFC 1812 section 5.2.7.1, RFC 4443 section 3.1 */
	TG_WAY_TTL,  /* used up: RFC 792, RFC 4443 section 3.3 */
	TG_WAY_TOO_BIG, /* for the next link: RFC 1191, RFC 4443 section 3.2 */
};

struct tg_way {
	const struct tg_route *route; /* of a router */
	const uint8_t *mac;       /* of its next hop; NULL: not known yet */
	uint16_t port;
};

/* Bytes of an IP packet that a router's port takes. */
TG_INLINE uint32_t tg_way_mtu(const struct tg_worker *w, uint16_t port)
{
	return w->box->links[port].mtu ? w->box->links[port].mtu : w->ports[port].mtu;
}

/* Sources that a router sends on: RFC 1812 section 5.3.7, RFC 4291 section 2.5.6. */
static inline bool tg_way_source_is_sane(const uint8_t *ip, uint8_t family)
{
	if (family == 4)
		return ip[12] != 0 && ip[12] != 127 && ip[12] < 224;
	return ip[8] != 0xff && !(ip[8] == 0xfe && (ip[9] & 0xc0) == 0x80) &&
	       (tg_load64(ip + TG_IPV6_SRC) |
		(tg_load64(ip + TG_IPV6_SRC + 8) & TG_IPV6_ALL_BUT_LAST)) != 0;
}

/* The neighbour that a route's packet to `dst` goes to. */
static inline const union tg_addr *tg_way_neighbour(const struct tg_route *r,
						    const union tg_addr *dst, uint8_t *family)
{
	if (r->kind == TG_ROUTE_GATEWAY)
		*family = r->gateway_family;
	return r->kind == TG_ROUTE_GATEWAY ? &r->gateway : dst;
}

static inline const uint8_t *tg_way_mac(const struct tg_worker *w, const struct tg_route *r,
					const union tg_addr *dst, uint8_t family)
{
	const struct tg_route *n = r;

	if (r->kind != TG_ROUTE_MAC) {
		const union tg_addr *a = tg_way_neighbour(r, dst, &family);

		n = tg_hops_neighbour(w->box->neighbours, a, family, r->port);
	}
	return n ? n->mac : NULL;
}

static inline enum tg_way_state tg_way_route(const struct tg_worker *w, const struct rte_mbuf *m,
					     uint32_t l3_off, uint8_t family,
					     const union tg_addr *dst, struct tg_way *way)
{
	const uint8_t *ip = TG_DATA(m) + l3_off;

	way->route = tg_box_route(w->box, dst, family);
	if (!way->route)
		return l3_off == TG_ETH_HDR_LEN ? TG_WAY_NONE : TG_WAY_LOST;
	if (way->route->kind == TG_ROUTE_LOCAL)
		return TG_WAY_OURS;
	if (l3_off != TG_ETH_HDR_LEN || way->route->port >= w->ports_n ||
	    !tg_way_source_is_sane(ip, family))
		return TG_WAY_LOST;
	way->port = way->route->port;
	if (ip[family == 4 ? 8 : 7] <= 1)
		return TG_WAY_TTL;
	way->mac = tg_way_mac(w, way->route, dst, family);
	if (m->pkt_len - l3_off > tg_way_mtu(w, way->port))
		return family == 4 && !(ip[6] & 0x40) ? TG_WAY_CUT : TG_WAY_TOO_BIG;
	if (m->pkt_len > w->ports[way->port].max_frame)
		return TG_WAY_LOST;
	return TG_LIKELY(way->mac != NULL) ? TG_WAY_OPEN : TG_WAY_ASK;
}

/* The way of an IP packet that came by `port`. */
static inline enum tg_way_state tg_way_find(const struct tg_worker *w, const struct rte_mbuf *m,
					    uint16_t port, uint32_t l3_off, uint8_t family,
					    const union tg_addr *dst, struct tg_way *way)
{
	if (TG_UNLIKELY(w->box->router))
		return tg_way_route(w, m, l3_off, family, dst, way);
	way->port = port ^ 1;
	return TG_LIKELY(way->port < w->ports_n && m->pkt_len <= w->ports[way->port].max_frame)
		       ? TG_WAY_OPEN
		       : TG_WAY_LOST;
}

/* Sends it that way; a router's next hop sees a TTL less one. */
static inline void tg_way_send(struct tg_worker *w, struct rte_mbuf *m, uint32_t l3_off,
			       uint8_t family, const struct tg_way *way)
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
	memcpy(data, way->mac, 6);
	memcpy(data + 6, w->ports[way->port].mac, 6);
	tg_send(w, way->port, m);
}

/* Drops a packet that has no way; its sender is told why, if that is for a router to say
 * and `tell`: then it is as it came, for the error quotes it. */
void tg_way_refuse(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
		   uint8_t family, const struct tg_way *way, enum tg_way_state state, bool tell);

/* What is not an open way. */
void tg_way_other(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
		  uint8_t family, const union tg_addr *dst, const struct tg_way *way,
		  enum tg_way_state state, bool tell);

/* Sends an IP packet onwards that came by `port`. `tell`: it has not been changed, and its
 * sender may be told of its fate. */
static inline void tg_forward_ip(struct tg_worker *w, struct rte_mbuf *m, uint16_t port,
				 uint32_t l3_off, uint8_t family, const union tg_addr *dst, bool tell)
{
	struct tg_way way;
	enum tg_way_state state = tg_way_find(w, m, port, l3_off, family, dst, &way);

	if (TG_LIKELY(state == TG_WAY_OPEN))
		tg_way_send(w, m, l3_off, family, &way);
	else
		tg_way_other(w, m, port, l3_off, family, dst, &way, state, tell);
}

/* Of packets that wait, with every change of the box and every tick: those whose neighbour
 * is known now go on, those that have waited too long are given up. */
void tg_waiting_look(struct tg_worker *w);

#endif
