/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a frame leaves: a bridge's other port, or a router's next hop. What a router
 * cannot send on is answered by an ICMP error (icmp_error.h), as the kernel does behind
 * the XDP program; what is too long for the next link and may be cut is cut
 * (fragment.h); what goes to a neighbour that is not known yet waits for it (waiting.h).
 *
 * Must never: change a frame before it is known where it leaves.
 */
#ifndef TG_DPDK_ROUTE_H
#define TG_DPDK_ROUTE_H

#include "frame.h"

/* Mask for the second half of an address, as loaded: all but its last byte. If the masked half and the
 * first half are zero, the address is unspecified, loopback or unassigned. */
#define TG_IPV6_ALL_BUT_LAST 0x00ffffffffffffffULL

enum tg_output_state {
	TG_OUTPUT_OPEN,
	TG_OUTPUT_ASK, /* the next hop's MAC address is unknown */
	TG_OUTPUT_CUT, /* too long for the next link, and may be fragmented: RFC 791 */
	TG_OUTPUT_LOST, /* it goes nowhere, without an ICMP error */
	TG_OUTPUT_OURS, /* for the kernel, which has received it as well */
	TG_OUTPUT_NONE, /* no route: RFC 1812 section 5.2.7.1, RFC 4443 section 3.1 */
	TG_OUTPUT_TTL, /* used up: RFC 792, RFC 4443 section 3.3 */
	TG_OUTPUT_TOO_BIG, /* for the next link: RFC 1191, RFC 4443 section 3.2 */
};

struct tg_output {
	const struct tg_route *route; /* of a router */
	const uint8_t *mac; /* of its next hop; NULL: not known yet */
	uint16_t port;
};

/* The longest IP packet, in bytes, that a router's port can send. */
TG_INLINE uint32_t tg_output_mtu(const struct tg_worker *w, uint16_t port)
{
	return w->config->links[port].mtu ? w->config->links[port].mtu : w->ports[port].mtu;
}

/* True for sources that a router forwards: RFC 1812 section 5.3.7, RFC 4291 section 2.5.6. */
static inline bool tg_output_source_is_sane(const uint8_t *ip, uint8_t family)
{
	if (family == 4)
		return ip[TG_IPV4_SRC] != 0 && ip[TG_IPV4_SRC] != 127 && ip[TG_IPV4_SRC] < 224;
	return ip[TG_IPV6_SRC] != 0xff &&
	       !(ip[TG_IPV6_SRC] == 0xfe && (ip[TG_IPV6_SRC + 1] & 0xc0) == 0x80) &&
	       (tg_load64(ip + TG_IPV6_SRC) |
		(tg_load64(ip + TG_IPV6_SRC + 8) & TG_IPV6_ALL_BUT_LAST)) != 0;
}

/* The neighbour that a route's packet to `dst` goes to. */
static inline const union tg_addr *tg_output_neighbour(const struct tg_route *r,
						       const union tg_addr *dst, uint8_t *family)
{
	if (r->kind == TG_ROUTE_GATEWAY)
		*family = r->gateway_family;
	return r->kind == TG_ROUTE_GATEWAY ? &r->gateway : dst;
}

static inline const uint8_t *tg_output_mac(const struct tg_worker *w, const struct tg_route *r,
					   const union tg_addr *dst, uint8_t family)
{
	const struct tg_route *n = r;

	if (r->kind != TG_ROUTE_MAC) {
		const union tg_addr *a = tg_output_neighbour(r, dst, &family);

		n = tg_hops_neighbour(w->config->neighbours, a, family, r->port);
	}
	return n ? n->mac : NULL;
}

static inline enum tg_output_state tg_output_route(const struct tg_worker *w,
						   const struct rte_mbuf *m, uint32_t l3_off,
						   uint8_t family, const union tg_addr *dst,
						   struct tg_output *output)
{
	const uint8_t *ip = TG_DATA(m) + l3_off;

	output->route = tg_config_route(w->config, dst, family);
	if (!output->route)
		return l3_off == TG_ETH_HDR_LEN ? TG_OUTPUT_NONE : TG_OUTPUT_LOST;
	if (output->route->kind == TG_ROUTE_LOCAL)
		return TG_OUTPUT_OURS;
	if (l3_off != TG_ETH_HDR_LEN || output->route->port >= w->ports_n ||
	    !tg_output_source_is_sane(ip, family))
		return TG_OUTPUT_LOST;
	output->port = output->route->port;
	if (ip[family == 4 ? 8 : 7] <= 1)
		return TG_OUTPUT_TTL;
	output->mac = tg_output_mac(w, output->route, dst, family);
	if (m->pkt_len - l3_off > tg_output_mtu(w, output->port))
		return family == 4 && !(ip[TG_IPV4_FRAG] & 0x40) ? TG_OUTPUT_CUT : TG_OUTPUT_TOO_BIG;
	if (m->pkt_len > w->ports[output->port].max_frame)
		return TG_OUTPUT_LOST;
	return TG_LIKELY(output->mac != NULL) ? TG_OUTPUT_OPEN : TG_OUTPUT_ASK;
}

/* Where an IP packet leaves that arrived on `port`. */
static inline enum tg_output_state tg_output_find(const struct tg_worker *w, const struct rte_mbuf *m,
						  uint16_t port, uint32_t l3_off, uint8_t family,
						  const union tg_addr *dst, struct tg_output *output)
{
	if (TG_UNLIKELY(w->config->router))
		return tg_output_route(w, m, l3_off, family, dst, output);
	output->port = port ^ 1;
	return TG_LIKELY(output->port < w->ports_n && m->pkt_len <= w->ports[output->port].max_frame)
		       ? TG_OUTPUT_OPEN
		       : TG_OUTPUT_LOST;
}

/* Sends it there; a router lowers the TTL by one. */
static inline void tg_output_send(struct tg_worker *w, struct rte_mbuf *m, uint32_t l3_off,
				  uint8_t family, const struct tg_output *output)
{
	uint8_t *data = TG_DATA(m);

	if (TG_LIKELY(!w->config->router)) {
		tg_send(w, output->port, m);
		return;
	}
	data[l3_off + (family == 4 ? 8 : 7)]--;
	if (family == 4) {
		uint8_t *field = data + l3_off + 10;
		/* TTL - 1: the checksum field grows by 0x0100 (RFC 1141), carry around */
		uint32_t sum = tg_load16(field) + 0x0001U;

		tg_store16(field, (uint16_t)(sum + (sum >> 16)));
	}
	memcpy(data, output->mac, 6);
	memcpy(data + TG_ETH_SRC, w->ports[output->port].mac, 6);
	tg_send(w, output->port, m);
}

/* Drops a packet that cannot leave. With `notify`, its sender gets the ICMP error that a router
 * must send: the packet is then unchanged, since the error quotes it. */
void tg_output_refuse(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
		      uint8_t family, const struct tg_output *output, enum tg_output_state state,
		      bool notify);

/* For every state other than TG_OUTPUT_OPEN. */
void tg_output_other(struct tg_worker *w, struct rte_mbuf *m, uint16_t port, uint32_t l3_off,
		     uint8_t family, const union tg_addr *dst, const struct tg_output *output,
		     enum tg_output_state state, bool notify);

/* Forwards an IP packet that arrived on `port`. `notify`: it has not been changed, and its
 * sender may get an ICMP error about it. */
static inline void tg_forward_ip(struct tg_worker *w, struct rte_mbuf *m, uint16_t port,
				 uint32_t l3_off, uint8_t family, const union tg_addr *dst,
				 bool notify)
{
	struct tg_output output;
	enum tg_output_state state = tg_output_find(w, m, port, l3_off, family, dst, &output);

	if (TG_LIKELY(state == TG_OUTPUT_OPEN))
		tg_output_send(w, m, l3_off, family, &output);
	else
		tg_output_other(w, m, port, l3_off, family, dst, &output, state, notify);
}

/* Checks the waiting packets after every change of the configuration and at every tick: those whose neighbour
 * is resolved are sent, those that have waited too long are dropped. */
void tg_waiting_look(struct tg_worker *w);

#endif
