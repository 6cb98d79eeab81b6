/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Look-ups and insertions in the proxy's flow tables. A new flow waits among those that yield to
 * newcomers until it carries something; then it gets a place of its own (proxy_flow_moves.h). One that
 * finds no place goes on waiting: entries in use stay.
 */
#ifndef TG_BPF_PROXY_FLOW_TABLES_H
#define TG_BPF_PROXY_FLOW_TABLES_H

#include "proxy_flow_moves.h"

/* tg_flow_syn_isn of a flow that asks, of which these are fields. A function of its own, for the
 * verifier: as tg_cookie_made. */
TG_GLOBAL __u32 tg_flow_asking_isn(__u32 client_isn, __u32 seq_delta, __u32 client_tsval)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_flow f = {.flags = TG_FLOW_ASKS,
			    .client_isn = client_isn,
			    .seq_delta = seq_delta,
			    .client_tsval = client_tsval};

	return proxy ? tg_flow_syn_isn(&f, &proxy->ask_key) : client_isn;
}

/* The number of the flow's SYN to the server. */
static __always_inline __u32 tg_flow_isn(const struct tg_flow *f)
{
	return TG_LIKELY(!(f->flags & TG_FLOW_ASKS))
		       ? f->client_isn
		       : tg_flow_asking_isn(f->client_isn, f->seq_delta, f->client_tsval);
}

static __always_inline struct tg_flow *tg_flow_find_active(const union tg_flow_key *key, __u8 family)
{
	__u32 slot = TG_SLOT_ACTIVE;
	void *active;

	if (family == 4) {
		active = bpf_map_lookup_elem(&tg_flows4, &slot);
		return active ? bpf_map_lookup_elem(active, &key->v4) : 0;
	}
	active = bpf_map_lookup_elem(&tg_flows6, &slot);
	return active ? bpf_map_lookup_elem(active, &key->v6) : 0;
}

static __always_inline struct tg_flow *tg_flow_find_waiting(const union tg_flow_key *key, __u8 family)
{
	return family == 4 ? bpf_map_lookup_elem(&tg_waiting4, &key->v4)
			   : bpf_map_lookup_elem(&tg_waiting6, &key->v6);
}

static __always_inline struct tg_flow *tg_flow_find_closed(const union tg_flow_key *key, __u8 family)
{
	return family == 4 ? bpf_map_lookup_elem(&tg_closed4, &key->v4)
			   : bpf_map_lookup_elem(&tg_closed6, &key->v6);
}

static __always_inline struct tg_flow *tg_flow_find(const struct tg_packet *pkt, enum tg_direction dir)
{
	union tg_flow_key key;
	struct tg_flow *f;
	__u32 noted;

	tg_flow_key_of(&key, pkt, dir);
	f = tg_flow_find_active(&key, pkt->family);
	if (TG_LIKELY(f))
		return f;
	noted = tg_flow_generations(tg_presence_either(pkt, dir, tg_presence_salt()));
	if (TG_UNLIKELY(noted & TG_IN_HISTORY) && tg_flow_second_chance(pkt, dir))
		return tg_flow_find_active(&key, pkt->family);
	/* One that waits may do so for longer than it stays noted. */
	f = tg_flow_find_waiting(&key, pkt->family);
	return f || !noted ? f : tg_flow_find_closed(&key, pkt->family);
}

/* A flow that is being set up, which waits: no other table has it. */
static __always_inline struct tg_flow *tg_flow_find_in_setup(const struct tg_packet *pkt,
							     enum tg_direction dir)
{
	union tg_flow_key key;

	tg_flow_key_of(&key, pkt, dir);
	return tg_flow_find_waiting(&key, pkt->family);
}

/* The flow of a server's packet. A SYN-ACK's is nearly always in set-up. */
static __always_inline struct tg_flow *tg_flow_find_of_server(const struct tg_packet *pkt)
{
	struct tg_flow *f;

	if ((pkt->flags & (TG_TCP_SYN | TG_TCP_ACK)) == (TG_TCP_SYN | TG_TCP_ACK)) {
		f = tg_flow_find_in_setup(pkt, TG_TO_CLIENT);
		if (TG_LIKELY(f && f->state == TG_FLOW_SETUP))
			return f;
	}
	return tg_flow_find(pkt, TG_TO_CLIENT);
}

/* The same of a flow that this packet was found to be of before: it is in history only if the tables
 * have been swapped since, and then this packet is as good as lost. */
static __always_inline struct tg_flow *tg_flow_find_again(const struct tg_packet *pkt,
							  enum tg_direction dir)
{
	union tg_flow_key key;
	struct tg_flow *f;

	tg_flow_key_of(&key, pkt, dir);
	f = tg_flow_find_active(&key, pkt->family);
	if (!f)
		f = tg_flow_find_waiting(&key, pkt->family);
	return f ? f : tg_flow_find_closed(&key, pkt->family);
}

/* A client's new flow, which waits; tg_lately_admitted has counted it. `again`: its numbers may have
 * been those of another. What has ended is looked up before it is deleted: a deletion takes a lock. */
static __always_inline bool tg_flow_insert(const struct tg_packet *pkt, struct tg_flow *f, bool *again)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	union tg_flow_key key;
	__u32 hash;

	hash = tg_presence_flow(pkt, proxy->presence_salt);
	*again = tg_presence_has(hash, TG_PRESENCE_FLOWS);
	tg_presence_note(hash, TG_PRESENCE_FLOWS, proxy->flows_gen);
	tg_flow_key_of(&key, pkt, TG_TO_SERVER);
	if (pkt->family == 4) {
		if (bpf_map_update_elem(&tg_waiting4, &key.v4, f, BPF_ANY))
			return false;
		if (TG_UNLIKELY(*again) && bpf_map_lookup_elem(&tg_closed4, &key.v4))
			bpf_map_delete_elem(&tg_closed4, &key.v4);
		return true;
	}
	if (bpf_map_update_elem(&tg_waiting6, &key.v6, f, BPF_ANY))
		return false;
	if (TG_UNLIKELY(*again) && bpf_map_lookup_elem(&tg_closed6, &key.v6))
		bpf_map_delete_elem(&tg_closed6, &key.v6);
	return true;
}

#endif
