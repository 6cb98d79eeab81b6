/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of the strategy `cookie` while they are set up with the server, and what
 * becomes of any segment that belongs to a flow. core/proxy.h decides and builds; as
 * bpf/lib/proxy_forward.h and the two programs of the XDP plane, but that two packets
 * can be sent for one here, and client data can be kept.
 */
#ifndef TG_DPDK_FLOW_SETUP_H
#define TG_DPDK_FLOW_SETUP_H

#include "flow.h"

/* Opens a flow for a verified ACK and sends the server a SYN instead. False: there is no room,
 * and the frame has been dropped. */
bool tg_flow_begin(struct tg_worker *w, struct tg_item *it, struct tg_flow *flow);

static inline uint16_t tg_item_window(const struct tg_item *it)
{
	return tg_swap16(tg_load16(TG_DATA(it->m) + it->pkt.l4_off + 14));
}

/* The client's segment while its server has not answered yet. */
void tg_setup_client(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e);

/* The server's segment while the flow is being set up. */
void tg_setup_server(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e);

/* A server's retransmitted SYN-ACK: its handshake is completed again. */
void tg_ready_reack(struct tg_worker *w, struct tg_item *it, struct tg_flow *f);

static inline void tg_from_server(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	switch (tg_flow_from_server(&e->flow, &it->pkt, it->port)) {
	case TG_FROM_SERVER_SETUP:
		tg_setup_server(w, it, e);
		break;
	case TG_FROM_SERVER_REACK:
		tg_ready_reack(w, it, &e->flow);
		break;
	case TG_FROM_SERVER_RESTART:
		tg_flow_restart(&e->flow, &it->pkt);
		/* fall through */
	default:
		tg_flow_forward(w, it, e, TG_TO_CLIENT);
	}
}

/* A segment of a flow, from the client. False: it may belong to a new connection. */
static inline bool tg_from_client(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	enum tg_client_segment what = tg_flow_from_client(&e->flow, &it->pkt);

	if (TG_LIKELY(what == TG_FROM_CLIENT_TRANSLATE))
		tg_flow_forward(w, it, e, TG_TO_SERVER);
	else if (what == TG_FROM_CLIENT_SETUP)
		tg_setup_client(w, it, e);
	return what != TG_FROM_CLIENT_NOFLOW;
}

#endif
