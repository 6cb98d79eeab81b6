/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The proxy's memory of closed ports (core/closed_port.h): what the servers of translated
 * connections have refused. SYNs to these are forwarded to the server, which refuses them, so that
 * clients get the same answer as without the proxy. A service of which one is known says so in
 * tg_service.closed; other services' SYNs pay nothing for it. Decides nothing.
 */
#ifndef TG_BPF_PROXY_CLOSED_H
#define TG_BPF_PROXY_CLOSED_H

#include "proxy_send.h"
#include "../../core/closed_port.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_CLOSED_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_closed_entry);
} tg_refused SEC(".maps");

/* By service id: until when one of its places may be known. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SERVICES_MAX + 1);
	__type(key, __u32);
	__type(value, __u64);
} tg_refused_until SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_allowance);
} tg_refused_share SEC(".maps");

static __always_inline struct tg_closed_entry *tg_refused_find(const struct tg_listener_key *place)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u32 slot;

	slot = tg_closed_slot(&proxy->share_key, place);
	return bpf_map_lookup_elem(&tg_refused, &slot);
}

/* The server has refused a connection's SYN by this segment. */
TG_GLOBAL int tg_refused_learn(const struct tg_packet *pkt, __u32 id)
{
	struct tg_service *svc = tg_service_at(id);
	__u64 *until = bpf_map_lookup_elem(&tg_refused_until, &id);
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_listener_key place;
	struct tg_closed_entry *e;

	if (!pkt || !until || !row)
		return 0;
	place = tg_closed_place(pkt, true);
	e = tg_refused_find(&place);
	if (!e)
		return 0;
	if (tg_closed_refused(e, &place, TG_CLOCK_NS()))
		tg_count(row, TG_COUNT_closed_learned);
	if (*until < e->until_ns)
		*until = e->until_ns;
	svc->closed = 1;
	return 0;
}

/* enum tg_verdict of a SYN to a service of which a place may be known. */
TG_GLOBAL int tg_refused_syn(const struct tg_packet *syn, __u32 id)
{
	struct tg_service *svc = tg_service_at(id);
	__u64 *until = bpf_map_lookup_elem(&tg_refused_until, &id), now_ns = TG_CLOCK_NS();
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_listener_key place;
	struct tg_closed_entry *e;
	struct tg_allowance *a;
	struct tg_decision d;
	__u32 zero = 0;

	if (!syn || !until || !row)
		return TG_REPLY;
	if (now_ns >= *until) {
		svc->closed = 0;
		return TG_REPLY;
	}
	place = tg_closed_place(syn, false);
	e = tg_refused_find(&place);
	a = bpf_map_lookup_elem(&tg_refused_share, &zero);
	if (!e || !a)
		return TG_REPLY;
	d = tg_closed_syn(e, &place, syn, a, now_ns);
	tg_count(row, d.counter);
	if (d.verdict == TG_PASS && *until < e->until_ns)
		*until = e->until_ns; /* there have been refusals since */
	return d.verdict;
}

/* A server's segment with SYN or RST, of no connection that we know. */
TG_GLOBAL int tg_refused_listen(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	struct tg_listener_key place;
	struct tg_closed_entry *e;
	__u32 server;

	if (!pkt)
		return 0;
	place = tg_closed_place(pkt, true);
	e = tg_refused_find(&place);
	if (!e || !tg_closed_is(e, &place, TG_CLOCK_NS()))
		return 0;
	server = tg_route_back(ctx, pkt);
	if (server && server != tg_ingress(ctx))
		return 0; /* not from where the server is */
	tg_closed_hear(e, &place, pkt, TG_CLOCK_NS());
	return 0;
}

#endif
