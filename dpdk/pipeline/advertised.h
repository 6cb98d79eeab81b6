/* SPDX-License-Identifier: Apache-2.0
 *
 * Which options the clients of a server are offered: those of its service, and what has
 * been learned of the server itself (core/servers.h).
 */
#ifndef TG_DPDK_ADVERTISED_H
#define TG_DPDK_ADVERTISED_H

#include "worker.h"

/* Computes what clients of the packet's server are offered. */
void tg_advertised_find(struct tg_worker *w, const struct tg_packet *pkt, uint32_t id);

/* What clients of the packet's server are offered. A flood asks for the same repeatedly: the last
 * answer is cached until servers or services change. */
static inline const struct tg_service *tg_advertised(struct tg_worker *w,
						     const struct tg_packet *pkt, uint32_t id)
{
	const struct tg_advertised_last *last = &w->advertised;

	if (TG_UNLIKELY(last->config != w->config || last->id != id ||
			last->server.family != pkt->family ||
			last->server.port_be != TG_DST_PORT_BE(pkt) ||
			last->server.addr.d[0] != pkt->dst.d[0] ||
			last->server.addr.d[1] != pkt->dst.d[1]))
		tg_advertised_find(w, pkt, id);
	return &w->advertised.advertised;
}

/* The knowledge of servers has changed. */
static inline void tg_advertised_forget(struct tg_worker *w)
{
	w->advertised.config = NULL;
	w->fast.round += w->fast.round == UINT32_MAX ? 2 : 1; /* never 0 */
}

#endif
