/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Look-ups, insertions and second chances in the proxy's flow tables. A new flow waits among those that
 * yield to newcomers until it carries something; then it gets a place of its own. One that finds no
 * place goes on waiting: entries in use stay.
 */
#ifndef TG_BPF_PROXY_FLOW_TABLES_H
#define TG_BPF_PROXY_FLOW_TABLES_H

#include "proxy_presence.h"
#include "proxy_shares.h"

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

/* What is done with a flow table, for keys of one family. A flow that is met in history
 * moves to active; one that is half closed, or finds no room there, waits. */
#define TG_FLOW_TABLE(family, outer, waiting, closed, key_type)                                        \
	static __always_inline struct tg_flow *tg_flow_second_chance##family(                          \
		void *active, key_type *key, const struct tg_packet *pkt, enum tg_direction dir)       \
	{                                                                                              \
		__u32 slot = TG_SLOT_HISTORY;                                                          \
		void *history = bpf_map_lookup_elem(&outer, &slot);                                    \
		struct tg_flow *f, copy;                                                               \
                                                                                                       \
		if (!history || history == active)                                                     \
			return 0;                                                                      \
		f = bpf_map_lookup_elem(history, key);                                                 \
		if (!f)                                                                                \
			return 0;                                                                      \
		copy = *f;                                                                             \
		if (!(copy.flags & (TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN)) &&                       \
		    bpf_map_update_elem(active, key, &copy, BPF_NOEXIST) == 0) {                       \
			tg_flow_note(pkt, dir);                                                        \
			tg_flow_came(TG_CLIENT_OF(pkt, dir), family, 1);                               \
			if (bpf_map_delete_elem(history, key) == 0)                                    \
				tg_held_flow(TG_CLIENT_OF(pkt, dir), family, 1, -1);                   \
			return bpf_map_lookup_elem(active, key);                                       \
		}                                                                                      \
		copy.waits = TG_FLOW_REFUSED;                                                          \
		if (bpf_map_update_elem(&waiting, key, &copy, BPF_ANY) == 0) {                         \
			tg_flow_note(pkt, dir);                                                        \
			if (bpf_map_delete_elem(history, key) == 0)                                    \
				tg_held_flow(TG_CLIENT_OF(pkt, dir), family, 1, -1);                   \
		}                                                                                      \
		return 0;                                                                              \
	}                                                                                              \
	static __always_inline struct tg_flow *tg_flow_find##family(                                   \
		key_type *key, const struct tg_packet *pkt, enum tg_direction dir)                     \
	{                                                                                              \
		__u32 slot = TG_SLOT_ACTIVE;                                                           \
		void *active = bpf_map_lookup_elem(&outer, &slot);                                     \
		struct tg_flow *f;                                                                     \
		__u32 noted;                                                                           \
                                                                                                       \
		if (!active)                                                                           \
			return 0;                                                                      \
		f = bpf_map_lookup_elem(active, key);                                                  \
		if (TG_LIKELY(f))                                                                      \
			return f;                                                                      \
		noted = tg_flow_generations(tg_presence_key##family(key, tg_presence_salt()));         \
		if (noted & TG_IN_HISTORY) {                                                           \
			f = tg_flow_second_chance##family(active, key, pkt, dir);                      \
			if (f)                                                                         \
				return f;                                                              \
		}                                                                                      \
		/* One that waits may do so for longer than it stays noted. */                         \
		f = bpf_map_lookup_elem(&waiting, key);                                                \
		return f || !noted ? f : bpf_map_lookup_elem(&closed, key);                            \
	}                                                                                              \
	/* The flow is new; `noted`: its tuple was before. A look-up takes no lock, as a deletion    \
	 * does of what is not there. */ \
	static __always_inline bool tg_flow_insert##family(key_type *key, struct tg_flow *f,           \
							   bool noted)                                 \
	{                                                                                              \
		if (bpf_map_update_elem(&waiting, key, f, BPF_ANY))                                    \
			return false;                                                                  \
		if (TG_UNLIKELY(noted) && bpf_map_lookup_elem(&closed, key))                           \
			bpf_map_delete_elem(&closed, key);                                             \
		return true;                                                                           \
	}                                                                                              \
	/* Gives a flow that waits, or has ended after all not, a place of its own. */                 \
	static __always_inline bool tg_flow_place##family(key_type *key, struct tg_flow *f,            \
							  const struct tg_packet *pkt,                 \
							  enum tg_direction dir)                       \
	{                                                                                              \
		__u32 slot = TG_SLOT_ACTIVE;                                                           \
		void *active = bpf_map_lookup_elem(&outer, &slot);                                     \
                                                                                                       \
		if (!active)                                                                           \
			return false;                                                                  \
		if (bpf_map_update_elem(active, key, f, BPF_NOEXIST) == 0)                             \
			tg_flow_came(TG_CLIENT_OF(pkt, dir), family, 1);                               \
		else if (bpf_map_update_elem(active, key, f, BPF_EXIST))                               \
			return false;                                                                  \
		if (bpf_map_delete_elem(&waiting, key) == 0)                                           \
			tg_lately_uncount(TG_CLIENT_OF(pkt, dir), family);                             \
		bpf_map_delete_elem(&closed, key);                                                     \
		return true;                                                                           \
	}                                                                                              \
	static __always_inline void tg_flow_remove##family(                                            \
		key_type *key, const struct tg_packet *pkt, enum tg_direction dir)                     \
	{                                                                                              \
		__u32 slot = TG_SLOT_ACTIVE;                                                           \
		void *inner = bpf_map_lookup_elem(&outer, &slot);                                      \
                                                                                                       \
		if (inner && bpf_map_delete_elem(inner, key) == 0)                                     \
			tg_flow_came(TG_CLIENT_OF(pkt, dir), family, -1);                              \
		slot = TG_SLOT_HISTORY;                                                                \
		inner = bpf_map_lookup_elem(&outer, &slot);                                            \
		if (inner && bpf_map_delete_elem(inner, key) == 0)                                     \
			tg_held_flow(TG_CLIENT_OF(pkt, dir), family, 1, -1);                           \
		if (bpf_map_delete_elem(&waiting, key) == 0)                                           \
			tg_lately_uncount(TG_CLIENT_OF(pkt, dir), family);                             \
		bpf_map_delete_elem(&closed, key);                                                     \
	}                                                                                              \
	static __always_inline void tg_flow_retire##family(key_type *key, struct tg_flow *f,           \
							   const struct tg_packet *pkt,                \
							   enum tg_direction dir)                      \
	{                                                                                              \
		struct tg_flow copy = *f;                                                              \
		__u32 slot = TG_SLOT_ACTIVE;                                                           \
		void *active = bpf_map_lookup_elem(&outer, &slot);                                     \
                                                                                                       \
		if (!active || bpf_map_update_elem(&closed, key, &copy, BPF_ANY))                      \
			return;                                                                        \
		if (bpf_map_delete_elem(active, key) == 0)                                             \
			tg_flow_came(TG_CLIENT_OF(pkt, dir), family, -1);                              \
		else if (bpf_map_delete_elem(&waiting, key) == 0) {                                    \
			tg_flow_note(pkt, dir); /* it may have waited for two swaps */                 \
			tg_lately_uncount(TG_CLIENT_OF(pkt, dir), family);                             \
		}                                                                                      \
	}

TG_FLOW_TABLE(4, tg_flows4, tg_waiting4, tg_closed4, struct tg_flow_key4)
TG_FLOW_TABLE(6, tg_flows6, tg_waiting6, tg_closed6, struct tg_flow_key6)

static __always_inline struct tg_flow *tg_flow_find(const struct tg_packet *pkt, enum tg_direction dir)
{
	if (pkt->family == 4) {
		struct tg_flow_key4 key = tg_flow_key4(pkt, dir);

		return tg_flow_find4(&key, pkt, dir);
	}
	struct tg_flow_key6 key = tg_flow_key6(pkt, dir);

	return tg_flow_find6(&key, pkt, dir);
}

/* A flow that is being set up, which waits: no other table has it. */
static __always_inline struct tg_flow *tg_flow_find_waiting(const struct tg_packet *pkt,
							    enum tg_direction dir)
{
	if (pkt->family == 4) {
		struct tg_flow_key4 key = tg_flow_key4(pkt, dir);

		return bpf_map_lookup_elem(&tg_waiting4, &key);
	}
	struct tg_flow_key6 key = tg_flow_key6(pkt, dir);

	return bpf_map_lookup_elem(&tg_waiting6, &key);
}

/* A client's new flow, which waits; tg_lately_admitted has counted it. `again`: its numbers may have
 * been those of another. */
static __always_inline bool tg_flow_insert(const struct tg_packet *pkt, struct tg_flow *f, bool *again)
{
	bool noted = tg_presence_has(tg_presence_flow(pkt, tg_presence_salt()), TG_PRESENCE_FLOWS);

	*again = noted;
	tg_flow_note(pkt, TG_TO_SERVER);
	if (pkt->family == 4) {
		struct tg_flow_key4 key = tg_flow_key4(pkt, TG_TO_SERVER);

		return tg_flow_insert4(&key, f, noted);
	}
	struct tg_flow_key6 key = tg_flow_key6(pkt, TG_TO_SERVER);

	return tg_flow_insert6(&key, f, noted);
}

/* Gives the flow a place of its own. */
static __always_inline bool tg_flow_place(const struct tg_packet *pkt, enum tg_direction dir,
					  struct tg_flow *f)
{
	tg_flow_note(pkt, dir);
	if (pkt->family == 4) {
		struct tg_flow_key4 key = tg_flow_key4(pkt, dir);

		return tg_flow_place4(&key, f, pkt, dir);
	}
	struct tg_flow_key6 key = tg_flow_key6(pkt, dir);

	return tg_flow_place6(&key, f, pkt, dir);
}

static __always_inline void tg_flow_remove(const struct tg_packet *pkt, enum tg_direction dir)
{
	if (pkt->family == 4) {
		struct tg_flow_key4 key = tg_flow_key4(pkt, dir);

		tg_flow_remove4(&key, pkt, dir);
	} else {
		struct tg_flow_key6 key = tg_flow_key6(pkt, dir);

		tg_flow_remove6(&key, pkt, dir);
	}
}

/* Moves an ended flow to where the oldest make room for the newest. */
static __always_inline void tg_flow_retire(const struct tg_packet *pkt, enum tg_direction dir,
					   struct tg_flow *f)
{
	if (pkt->family == 4) {
		struct tg_flow_key4 key = tg_flow_key4(pkt, dir);

		tg_flow_retire4(&key, f, pkt, dir);
	} else {
		struct tg_flow_key6 key = tg_flow_key6(pkt, dir);

		tg_flow_retire6(&key, f, pkt, dir);
	}
}

#endif
