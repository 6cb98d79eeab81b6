/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The whitelist of sources: a table for each generation, and for short IPv4 prefixes a bitmap.
 */
#ifndef TG_BPF_PROXY_WHITELIST_H
#define TG_BPF_PROXY_WHITELIST_H

#include "proxy_presence.h"

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

/* 1 if the source is whitelisted: a function of its own for what few packets ask, as a flow's moves
 * (proxy_flow_moves.h). */
TG_GLOBAL int tg_white_has(__u64 key)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	return proxy && tg_white_find(proxy, key);
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
