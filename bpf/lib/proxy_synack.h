/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What becomes known by the server's SYN-ACK, whichever program answers it (proxy_tc.bpf.c, proxy_open.h):
 * what the server gives, and the flow that is ready by it.
 */
#ifndef TG_BPF_PROXY_SYNACK_H
#define TG_BPF_PROXY_SYNACK_H

#include "proxy_flow_tables.h"

/* Records what the server agrees to when it is offered everything; or that this may have changed. */
static __always_inline void tg_setup_learn(const struct tg_packet *pkt,
					   const struct tg_tcp_options *o, bool asked)
{
	struct tg_server_key key = tg_server_key(pkt, true);
	struct tg_learned *known = bpf_map_lookup_elem(&tg_servers, &key), l;
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	if (tg_server_heard(known, asked, pkt, o, tg_now_ms(), &l) &&
	    bpf_map_update_elem(&tg_servers, &key, &l, BPF_ANY) == 0)
		tg_server_bring_near(
			tg_server_hash(&key.addr, key.port_be, key.family, proxy->presence_salt),
			tg_server_gives(&l));
}

/* The server has accepted for good, with these options, by that port: the flow translates, as `ready` says,
 * too. */
static __always_inline void tg_setup_ready(struct tg_flow *f, struct tg_flow *ready,
					   const struct tg_packet *pkt,
					   const struct tg_tcp_options *o, __u16 port,
					   struct tg_counter_row *row)
{
	*ready = *f;
	tg_flow_ready(ready, pkt, o, port);
	*f = *ready;
	if (row)
		tg_count(row, TG_COUNT_flow_ready);
}

#endif
