/* SPDX-License-Identifier: Apache-2.0
 *
 * ICMP errors that a router sends itself: "time exceeded", "fragmentation needed" and
 * "packet too big", "unreachable", quoting as much of the packet as RFC 1812 section 4.3.2.3 and
 * RFC 4443 section 2.4 allow, back by the port that it came from.
 *
 * Must never: answer an ICMP error, a later fragment, a group or a source that is none
 * (RFC 1812 section 4.3.2.7); send more than TG_ICMP_ERRORS_A_SECOND a core.
 */
#ifndef TG_DPDK_ICMP_ERROR_H
#define TG_DPDK_ICMP_ERROR_H

#include "worker.h"

#define TG_IPPROTO_ICMP 1
#define TG_IPPROTO_ICMPV6 58
#define TG_ICMP_HDR_LEN 8

enum tg_icmp_kind { TG_ICMP_TIME_EXCEEDED, TG_ICMP_TOO_BIG, TG_ICMP_NO_ROUTE, TG_ICMP_NO_HOST };

/* RFC 792, RFC 4443: the types that quote a packet. */
static inline bool tg_icmp_is_error(uint8_t family, uint8_t type)
{
	return family == 4 ? type == 3 || type == 4 || type == 11 || type == 12
			   : type >= 1 && type <= 4;
}

/* Sends the sender of frame `m`, which arrived on `port` and holds an unchanged IP packet,
 * an ICMP error about it. `mtu`: for TG_ICMP_TOO_BIG, else 0. The frame is not consumed. */
void tg_icmp_error_send(struct tg_worker *w, const struct rte_mbuf *m, uint16_t port,
			uint32_t l3_off, uint8_t family, enum tg_icmp_kind kind, uint32_t mtu);

#endif
