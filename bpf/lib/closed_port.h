/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The edge's memory of closed ports (core/closed_port.h): maps and look-ups. A service of which one
 * is known, or suspected, says so in tg_service.closed; other services' SYNs pay nothing for it.
 * Decides nothing.
 */
#ifndef TG_BPF_CLOSED_PORT_H
#define TG_BPF_CLOSED_PORT_H

#include "edge_maps.h"
#include "../../core/closed_port.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_CLOSED_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_closed_entry);
} tg_closed SEC(".maps");

/* tg_closed_flow of the connections that were let through last. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_CLOSED_FLOWS);
	__type(key, __u32);
	__type(value, __u32);
} tg_closed_flows SEC(".maps");

/* By service id: until when one of its places may be known. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SERVICES_MAX + 1);
	__type(key, __u32);
	__type(value, __u64);
} tg_closed_until SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_allowance);
} tg_closed_share SEC(".maps");

static __always_inline __u32 *tg_closed_flow_at(__u64 flow_hash)
{
	__u32 slot = (__u32)(flow_hash >> 32) & (TG_CLOSED_FLOWS - 1);

	return bpf_map_lookup_elem(&tg_closed_flows, &slot);
}

/* A client's ACK has verified and goes on. */
static __always_inline void tg_closed_note(const struct tg_edge_settings *edge,
					   const struct tg_packet *pkt)
{
	__u64 hash = tg_bloom_hash(pkt, TG_BLOOM_FROM_CLIENT, &edge->bloom_key);
	__u32 *flow = tg_closed_flow_at(hash);

	if (flow)
		*flow = tg_closed_flow(hash, pkt->ack);
}

static __always_inline struct tg_closed_entry *tg_closed_find(const struct tg_edge_settings *edge,
							      const struct tg_listener_key *place)
{
	struct tg_siphash_key key = {.k0 = edge->bloom_key.k[0][0], .k1 = edge->bloom_key.k[1][0]};
	__u32 slot = tg_closed_slot(&key, place);

	return bpf_map_lookup_elem(&tg_closed, &slot);
}

/* enum tg_verdict of a SYN to a service of which a place may be known. */
TG_GLOBAL int tg_closed_syn_judge(const struct tg_packet *syn, __u32 id)
{
	const struct tg_edge_settings *edge = tg_edge_get();
	struct tg_service *svc = tg_service_at(id);
	__u64 *until = bpf_map_lookup_elem(&tg_closed_until, &id), now_ns = TG_CLOCK_NS();
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
	e = tg_closed_find(edge, &place);
	a = bpf_map_lookup_elem(&tg_closed_share, &zero);
	if (!e || !a)
		return TG_REPLY;
	d = tg_closed_syn(e, &place, syn, a, now_ns);
	tg_count(row, d.counter);
	return d.verdict;
}

/* A server's segment with SYN or RST, for the service `id`. 1: its flow is to be known. */
TG_GLOBAL int tg_closed_listen(const struct tg_packet *pkt, __u32 id)
{
	const struct tg_edge_settings *edge = tg_edge_get();
	struct tg_service *svc = tg_service_at(id);
	__u64 *until = bpf_map_lookup_elem(&tg_closed_until, &id), now_ns = TG_CLOCK_NS(), hash;
	struct tg_counter_row *row = tg_counter_row_get(id);
	enum tg_closed_heard heard;
	struct tg_listener_key place;
	struct tg_closed_entry *e;
	__u32 *flow;

	if (!pkt || !until || !row || svc->mode != TG_MODE_ALWAYS)
		return 0;
	place = tg_closed_place(pkt, true);
	e = tg_closed_find(edge, &place);
	if (!e)
		return 0;
	heard = tg_closed_hear(e, &place, pkt, now_ns);
	if (heard == TG_CLOSED_ACCEPTS)
		return 1;
	if (heard == TG_CLOSED_LEARNED)
		tg_count(row, TG_COUNT_closed_learned);
	if (heard == TG_CLOSED_NOTHING) {
		hash = tg_bloom_hash(pkt, TG_BLOOM_FROM_SERVER, &edge->bloom_key);
		flow = tg_closed_flow_at(hash);
		if (!(pkt->flags & TG_TCP_RST) || !flow ||
		    *flow != tg_closed_flow(hash, pkt->seq) || !tg_closed_suspect(e, &place, now_ns))
			return 0;
		*flow = 0;
	}
	if (*until < e->until_ns)
		*until = e->until_ns;
	svc->closed = 1;
	return 0;
}

#endif
