/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How a flow of the proxy moves from one table to another: from history back to the active table, from
 * those that wait to a place of its own, to those that have ended, and out of all. Each move is a function
 * of its own, for both families, which few packets of a flow call: the verifier goes through it once, and
 * the kernel has its look-ups to write into the program once (decision 239).
 */
#ifndef TG_BPF_PROXY_FLOW_MOVES_H
#define TG_BPF_PROXY_FLOW_MOVES_H

#include "proxy_presence.h"
#include "proxy_shares.h"

union tg_flow_key {
	struct tg_flow_key4 v4;
	struct tg_flow_key6 v6;
};

static __always_inline void tg_flow_key_of(union tg_flow_key *key, const struct tg_packet *pkt,
					   enum tg_direction dir)
{
	if (pkt->family == 4)
		key->v4 = tg_flow_key4(pkt, dir);
	else
		key->v6 = tg_flow_key6(pkt, dir);
}

/* The tables of a family, of which either is looked up by the same instruction: to the kernel that is
 * any table, which it looks up by a call. */
static __always_inline void *tg_flow_table(__u8 family, __u32 slot)
{
	return family == 4 ? bpf_map_lookup_elem(&tg_flows4, &slot)
			   : bpf_map_lookup_elem(&tg_flows6, &slot);
}

static __always_inline void *tg_flow_waiting_table(__u8 family)
{
	return family == 4 ? (void *)&tg_waiting4 : (void *)&tg_waiting6;
}

static __always_inline void *tg_flow_closed_table(__u8 family)
{
	return family == 4 ? (void *)&tg_closed4 : (void *)&tg_closed6;
}

/* Notes that a flow has come to the active table. */
TG_GLOBAL int tg_flow_note(const struct tg_packet *pkt, __u32 dir)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	if (pkt && proxy)
		tg_presence_note(tg_presence_either(pkt, dir, proxy->presence_salt),
				 TG_PRESENCE_FLOWS, proxy->flows_gen);
	return 0;
}

/* A flow that is met in history moves to active; one that is half closed, or finds no room there,
 * waits. 1 if it is in active now. */
TG_GLOBAL int tg_flow_second_chance(const struct tg_packet *pkt, __u32 dir)
{
	void *history, *to;
	union tg_flow_key key;
	struct tg_flow *f;
	int waits = 0;

	if (!pkt)
		return 0;
	history = tg_flow_table(pkt->family, TG_SLOT_HISTORY);
	if (!history)
		return 0;
	tg_flow_key_of(&key, pkt, dir);
	f = bpf_map_lookup_elem(history, &key);
	to = tg_flow_table(pkt->family, TG_SLOT_ACTIVE);
	if (!f || !to || to == history)
		return 0;
	if (f->flags & (TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN) ||
	    bpf_map_update_elem(to, &key, f, BPF_NOEXIST)) {
		waits = f->waits = TG_FLOW_REFUSED;
		if (bpf_map_update_elem(tg_flow_waiting_table(pkt->family), &key, f, BPF_ANY))
			return 0;
	} else {
		tg_flow_came(TG_CLIENT_OF(pkt, dir), pkt->family, 1);
	}
	tg_flow_note(pkt, dir);
	if (bpf_map_delete_elem(history, &key) == 0)
		tg_held_flow(TG_CLIENT_OF(pkt, dir), pkt->family, 1, -1);
	return !waits;
}

/* Gives a flow that waits, or has ended after all not, a place of its own; 0 if there is none. */
TG_GLOBAL int tg_flow_place(const struct tg_packet *pkt, __u32 dir, const struct tg_flow *f)
{
	union tg_flow_key key;
	void *active;

	if (!pkt || !f)
		return 0;
	active = tg_flow_table(pkt->family, TG_SLOT_ACTIVE);
	if (!active)
		return 0;
	tg_flow_key_of(&key, pkt, dir);
	tg_flow_note(pkt, dir);
	if (bpf_map_update_elem(active, &key, f, BPF_NOEXIST) == 0)
		tg_flow_came(TG_CLIENT_OF(pkt, dir), pkt->family, 1);
	else if (bpf_map_update_elem(active, &key, f, BPF_EXIST))
		return 0;
	if (bpf_map_delete_elem(tg_flow_waiting_table(pkt->family), &key) == 0)
		tg_lately_uncount(TG_CLIENT_OF(pkt, dir), pkt->family);
	bpf_map_delete_elem(tg_flow_closed_table(pkt->family), &key);
	return 1;
}

/* Takes a flow out of all tables. */
TG_GLOBAL int tg_flow_remove(const struct tg_packet *pkt, __u32 dir)
{
	union tg_flow_key key;
	void *inner;

	if (!pkt)
		return 0;
	tg_flow_key_of(&key, pkt, dir);
	inner = tg_flow_table(pkt->family, TG_SLOT_ACTIVE);
	if (inner && bpf_map_delete_elem(inner, &key) == 0)
		tg_flow_came(TG_CLIENT_OF(pkt, dir), pkt->family, -1);
	inner = tg_flow_table(pkt->family, TG_SLOT_HISTORY);
	if (inner && bpf_map_delete_elem(inner, &key) == 0)
		tg_held_flow(TG_CLIENT_OF(pkt, dir), pkt->family, 1, -1);
	if (bpf_map_delete_elem(tg_flow_waiting_table(pkt->family), &key) == 0)
		tg_lately_uncount(TG_CLIENT_OF(pkt, dir), pkt->family);
	bpf_map_delete_elem(tg_flow_closed_table(pkt->family), &key);
	return 0;
}

/* Moves an ended flow to where the oldest make room for the newest. */
TG_GLOBAL int tg_flow_retire(const struct tg_packet *pkt, __u32 dir, const struct tg_flow *f)
{
	union tg_flow_key key;
	void *active;

	if (!pkt || !f)
		return 0;
	tg_flow_key_of(&key, pkt, dir);
	active = tg_flow_table(pkt->family, TG_SLOT_ACTIVE);
	if (!active || bpf_map_update_elem(tg_flow_closed_table(pkt->family), &key, f, BPF_ANY))
		return 0;
	if (bpf_map_delete_elem(active, &key) == 0) {
		tg_flow_came(TG_CLIENT_OF(pkt, dir), pkt->family, -1);
	} else if (bpf_map_delete_elem(tg_flow_waiting_table(pkt->family), &key) == 0) {
		tg_flow_note(pkt, dir); /* it may have waited for two swaps */
		tg_lately_uncount(TG_CLIENT_OF(pkt, dir), pkt->family);
	}
	return 0;
}

#endif
