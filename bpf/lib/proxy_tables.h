/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Look-ups, insertions and second chances in the proxy's swap-out maps. A new flow waits among
 * those that yield to newcomers until it carries something; then it gets a place of its own. One
 * that finds no place goes on waiting: entries in use stay.
 */
#ifndef TG_BPF_PROXY_TABLES_H
#define TG_BPF_PROXY_TABLES_H

#include "proxy_held.h"

static __always_inline bool tg_presence_has(__u32 hash, enum tg_presence_table table)
{
	__u32 at = tg_presence_pair(hash, table);
	const struct tg_presence_pair *pair = bpf_map_lookup_elem(&tg_presence, &at);

	return !pair || ((pair->of[0] | pair->of[1]) & tg_presence_bit(hash));
}

static __always_inline void tg_presence_note(__u32 hash, enum tg_presence_table table,
					     __u32 generation)
{
	__u32 at = tg_presence_pair(hash, table);
	struct tg_presence_pair *pair = bpf_map_lookup_elem(&tg_presence, &at);
	__u64 *word;

	if (!pair)
		return;
	word = &pair->of[generation & 1];
	if (!(*word & tg_presence_bit(hash)))
		__sync_fetch_and_or(word, tg_presence_bit(hash));
}

/* In which generations of the flow tables a tuple may be: what is in the active tables, the generation of
 * `flows_gen`, has been noted in it, what is in history in the one before, and what has ended in either. */
enum tg_generations {
	TG_IN_ACTIVE = 1,
	TG_IN_HISTORY = 2,
};

/* To be asked after the active table: see SwapFlows of internal/plane. */
static __always_inline __u32 tg_flow_generations(__u32 hash)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u32 at = tg_presence_pair(hash, TG_PRESENCE_FLOWS);
	const struct tg_presence_pair *pair = bpf_map_lookup_elem(&tg_presence, &at);
	__u64 bit = tg_presence_bit(hash);
	__u32 active;

	if (!proxy || !pair)
		return TG_IN_ACTIVE | TG_IN_HISTORY;
	active = *(const volatile __u8 *)&proxy->flows_gen & 1;
	return (pair->of[active] & bit ? TG_IN_ACTIVE : 0) |
	       (pair->of[active ^ 1] & bit ? TG_IN_HISTORY : 0);
}

static __always_inline __u64 tg_presence_salt(void)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	return proxy ? proxy->presence_salt : 0;
}

/* Notes that a flow has come to the active table. */
static __always_inline void tg_flow_note(const struct tg_packet *pkt, enum tg_direction dir)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_packet turned;

	if (!proxy)
		return;
	if (dir == TG_TO_SERVER) {
		tg_presence_note(tg_presence_flow(pkt, proxy->presence_salt), TG_PRESENCE_FLOWS,
				 proxy->flows_gen);
		return;
	}
	turned.family = pkt->family;
	turned.src = pkt->dst;
	turned.dst = pkt->src;
	turned.ports = pkt->ports << 16 | pkt->ports >> 16;
	tg_presence_note(tg_presence_flow(&turned, proxy->presence_salt), TG_PRESENCE_FLOWS,
			 proxy->flows_gen);
}

/* Who is counted for the packet's flow, as tg_share_of wants it. */
#define TG_CLIENT_OF(pkt, dir) ((dir) == TG_TO_SERVER ? (pkt)->src.d[0] : (pkt)->dst.d[0])

/* The cells of a family's active generation begin there. */
static __always_inline __u32 tg_share_base(const struct tg_proxy_settings *proxy, __u8 family)
{
	return ((family == 6) * 2 + (proxy->flows_gen & 1)) * TG_SHARE_CELLS;
}

static __always_inline void tg_share_add(__u32 at, __u32 n)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_shares, &at);

	if (cell)
		__sync_fetch_and_add(cell, n);
}

static __always_inline __u32 tg_share_read(__u32 at)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_shares, &at);

	return cell ? *(volatile __u32 *)cell : 0;
}

/* A flow has come to the active table, or has left it (n is then -1). `first`: as in tg_share_of. */
TG_GLOBAL int tg_share_count_flow(__u64 first, __u32 family, __u32 n)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_share s;
	__u32 base;

	if (!proxy)
		return 0;
	base = tg_share_base(proxy, (__u8)family);
	s = tg_share_of(first, (__u8)family, &proxy->share_key);
	tg_share_add(base + TG_SHARE_ALL, n);
	tg_share_add(base + tg_share_cell(s.level[0], 0), n);
	tg_share_add(base + tg_share_cell(s.level[0], 1), n);
	if (s.level[1]) {
		tg_share_add(base + tg_share_cell(s.level[1], 0), n);
		tg_share_add(base + tg_share_cell(s.level[1], 1), n);
	}
	return 0;
}

/* The same for both accounts of it. One after the other: the stack has no room for nested calls. */
static __always_inline void tg_flow_came(__u64 first, __u32 family, int by)
{
	tg_share_count_flow(first, family, (__u32)by);
	tg_held_flow(first, family, 0, by);
}

/* 1 if the client whose packet that is may have one more place of its own. */
TG_GLOBAL int tg_share_is_due(const struct tg_packet *pkt)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_share s;
	__u32 base, all, max;

	if (!pkt || !proxy)
		return 0;
	base = tg_share_base(proxy, pkt->family);
	max = tg_share_newcomers(proxy->max_flows);
	s = tg_share_of(pkt->src.d[0], pkt->family, &proxy->share_key);
	all = tg_share_read(base + TG_SHARE_ALL);
	if (!tg_share_admits(0, tg_share_read(base + tg_share_cell(s.level[0], 0)),
			     tg_share_read(base + tg_share_cell(s.level[0], 1)), all, max))
		return 0;
	return !s.level[1] ||
	       tg_share_admits(1, tg_share_read(base + tg_share_cell(s.level[1], 0)),
			       tg_share_read(base + tg_share_cell(s.level[1], 1)), all, max);
}

static __always_inline __u32 tg_tick_now(void)
{
	return tg_flow_tick(bpf_ktime_get_coarse_ns());
}

static __always_inline void tg_lately_note(__u32 at, __u32 tick, int by)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_lately_cells, &at);

	if (cell)
		*cell = tg_lately_add(*cell, tick, by);
}

/* A flow of a client (`first`: as in tg_share_of) no longer waits. */
TG_GLOBAL int tg_lately_uncount(__u64 first, __u32 family)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u32 base = (family == 6) * TG_SHARE_CELLS, tick = tg_tick_now();
	struct tg_share s;

	if (!proxy)
		return 0;
	s = tg_share_of(first, (__u8)family, &proxy->share_key);
	tg_lately_note(base + TG_SHARE_ALL, tick, -1);
	tg_lately_note(base + tg_share_cell(s.level[0], 0), tick, -1);
	tg_lately_note(base + tg_share_cell(s.level[0], 1), tick, -1);
	if (s.level[1]) {
		tg_lately_note(base + tg_share_cell(s.level[1], 0), tick, -1);
		tg_lately_note(base + tg_share_cell(s.level[1], 1), tick, -1);
	}
	return 0;
}

static __always_inline __u32 *tg_lately_cell(__u32 at)
{
	return bpf_map_lookup_elem(&tg_lately_cells, &at);
}

/* 1 if the client whose packet that is may open one more flow. `opens`: it does, and that is counted. */
TG_GLOBAL int tg_lately_admitted(const struct tg_packet *pkt, __u32 opens)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u32 base, tick, of_all;
	__u32 *all, *near[2], *far[2] = {};
	struct tg_share s;

	if (!pkt || !proxy || !settings)
		return 0;
	tick = tg_flow_tick(tg_clock_ns(settings));
	base = (pkt->family == 6) * TG_SHARE_CELLS;
	s = tg_share_of(pkt->src.d[0], pkt->family, &proxy->share_key);
	all = tg_lately_cell(base + TG_SHARE_ALL);
	near[0] = tg_lately_cell(base + tg_share_cell(s.level[0], 0));
	near[1] = tg_lately_cell(base + tg_share_cell(s.level[0], 1));
	if (!all || !near[0] || !near[1])
		return 0;
	of_all = *(volatile __u32 *)all;
	if (!tg_lately_admits(0, *(volatile __u32 *)near[0], *(volatile __u32 *)near[1], of_all,
			      proxy->max_waiting, tick))
		return 0;
	if (s.level[1]) {
		far[0] = tg_lately_cell(base + tg_share_cell(s.level[1], 0));
		far[1] = tg_lately_cell(base + tg_share_cell(s.level[1], 1));
		if (!far[0] || !far[1] ||
		    !tg_lately_admits(1, *(volatile __u32 *)far[0], *(volatile __u32 *)far[1],
				      of_all, proxy->max_waiting, tick))
			return 0;
	}
	if (!opens)
		return 1;
	*all = tg_lately_add(*all, tick, 1);
	*near[0] = tg_lately_add(*near[0], tick, 1);
	*near[1] = tg_lately_add(*near[1], tick, 1);
	if (far[0] && far[1]) {
		*far[0] = tg_lately_add(*far[0], tick, 1);
		*far[1] = tg_lately_add(*far[1], tick, 1);
	}
	return 1;
}

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

/* A client's new flow, which waits; tg_lately_admitted has counted it. */
static __always_inline bool tg_flow_insert(const struct tg_packet *pkt, struct tg_flow *f)
{
	bool noted = tg_presence_has(tg_presence_flow(pkt, tg_presence_salt()), TG_PRESENCE_FLOWS);

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

/* Sets a source's two bits, and then its page's mark. False outside the bitmap. */
static __always_inline bool tg_white_set(struct tg_white_cell cell)
{
	__u32 at = tg_white_mark_word(cell);
	__u64 *word = bpf_map_lookup_elem(&tg_white_bits, &cell.word);
	__u64 *mark = bpf_map_lookup_elem(&tg_white_marks, &at);

	if (!word || !mark)
		return false;
	__sync_fetch_and_or(word, tg_white_used(cell));
	__sync_fetch_and_or(mark, tg_white_mark(cell));
	return true;
}

static __always_inline bool tg_white_bit_find(const struct tg_proxy_settings *proxy, __u64 key,
					      __u32 hash)
{
	struct tg_white_cell cell = tg_white_cell((__u32)(key >> 32), proxy->white_v4_len);
	__u64 *word = bpf_map_lookup_elem(&tg_white_bits, &cell.word);
	__u64 bits = word ? *word & tg_white_used(cell) : 0;

	if (!bits)
		return false;
	if (bits != tg_white_used(cell))
		tg_white_set(cell);
	tg_presence_note(hash, TG_PRESENCE_SOURCES, proxy->sources_gen);
	return true;
}

/* The whitelist of the key's family: active or history. */
static __always_inline void *tg_white_table(__u64 key, __u32 slot)
{
	return tg_white_key_is_v4(key) ? bpf_map_lookup_elem(&tg_white, &slot)
				       : bpf_map_lookup_elem(&tg_white6, &slot);
}

/* True if the source is whitelisted. */
static __always_inline bool tg_white_find(const struct tg_proxy_settings *proxy, __u64 key)
{
	__u32 hash = tg_presence_source(key, proxy->presence_salt), yes = 1;
	void *active, *history;

	if (!tg_presence_has(hash, TG_PRESENCE_SOURCES))
		return false;
	if (proxy->white_v4_len && tg_white_key_is_v4(key))
		return tg_white_bit_find(proxy, key, hash);
	active = tg_white_table(key, TG_SLOT_ACTIVE);
	if (!active)
		return false;
	if (bpf_map_lookup_elem(active, &key))
		return true;
	history = tg_white_table(key, TG_SLOT_HISTORY);
	if (!history || history == active || !bpf_map_lookup_elem(history, &key))
		return false;
	tg_presence_note(hash, TG_PRESENCE_SOURCES, proxy->sources_gen);
	bpf_map_update_elem(active, &key, &yes, BPF_ANY);
	return true;
}

/* Puts the source on the whitelist; false if there is no room. */
static __always_inline bool tg_white_put(const struct tg_proxy_settings *proxy, __u64 key)
{
	__u32 yes = 1;
	void *active = tg_white_table(key, TG_SLOT_ACTIVE);

	tg_presence_note(tg_presence_source(key, proxy->presence_salt), TG_PRESENCE_SOURCES,
			 proxy->sources_gen);
	if (proxy->white_v4_len && tg_white_key_is_v4(key))
		return tg_white_set(tg_white_cell((__u32)(key >> 32), proxy->white_v4_len));
	return active && bpf_map_update_elem(active, &key, &yes, BPF_ANY) == 0;
}

#endif
