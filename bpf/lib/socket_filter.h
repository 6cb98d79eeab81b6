/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The socket filter of a host (core/tuple_filter.h): which tuples may have a socket. Asked by the packet
 * path, kept by what hears of sockets. Programs of other roles do not include it, and so have no such map.
 *
 * Must never: say no of a tuple that has a socket.
 */
#ifndef TG_BPF_SOCKET_FILTER_H
#define TG_BPF_SOCKET_FILTER_H

#include "gate.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_FILTER_CELLS);
	__type(key, __u32);
	__type(value, __u32);
} tg_sockets SEC(".maps");

/* Which cells of tg_sockets may be alive: the front, then a bit for each. */
uint64_t tg_socket_bits[TG_FILTER_ALL_WORDS] TG_VARIABLE(tg_socket_bits);

static __always_inline uint64_t *tg_filter_word_at(__u32 index)
{
	return &tg_socket_bits[index < TG_FILTER_ALL_WORDS ? index : 0];
}

static __always_inline bool tg_filter_cell_alive(const struct tg_host_settings *settings, __u32 index)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_sockets, &index);

	/* Of a live socket no clock is asked. */
	return cell && (*cell >= TG_FILTER_LIVE_ONE ||
			tg_filter_cell_hit(*cell, tg_filter_tick(tg_clock_ns(settings)),
					   settings->filter_keep_ticks));
}

/* Both bits are set, so look at the cells. A dead first cell gives up its bits. */
static __always_inline bool tg_filter_cells_alive(const struct tg_host_settings *settings,
						  struct tg_filter_index at, uint64_t *word,
						  uint64_t *front)
{
	__u32 *cell;

	if (tg_filter_cell_alive(settings, at.first))
		return tg_filter_cell_alive(settings, at.second);
	cell = bpf_map_lookup_elem(&tg_sockets, &at.first);
	return cell &&
	       tg_filter_bits_clear(word, front, at, cell, tg_filter_tick(tg_clock_ns(settings)),
				    settings->filter_keep_ticks);
}

/* True if a socket may exist, or may have been in TIME-WAIT lately. */
static __always_inline bool tg_filter_may_exist(const struct tg_host_settings *settings,
						struct tg_filter_index at)
{
	uint64_t *front = tg_filter_word_at(tg_filter_front_word(at));
	uint64_t *word = tg_filter_word_at(tg_filter_word(at));

	if (TG_LIKELY(!(*front & tg_filter_front_bit(at))))
		return false;
	if (TG_LIKELY(!(*word & tg_filter_bit(at))))
		return false;
	return tg_filter_cells_alive(settings, at, word, front);
}

/* Says that the cells of a tuple are in use; after they have been written. */
static __always_inline void tg_filter_mark(struct tg_filter_index at)
{
	tg_filter_bits_set(tg_filter_word_at(tg_filter_word(at)),
			   tg_filter_word_at(tg_filter_front_word(at)), at);
}

static __always_inline void tg_filter_cell_open(__u32 index)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_sockets, &index);

	/* A full counter stays full: "maybe" for ever, never a wrong "no". */
	if (cell && *cell >> 16 != TG_FILTER_LIVE_MAX)
		__sync_fetch_and_add(cell, TG_FILTER_LIVE_ONE);
}

/* Notes that a socket was closed just now. */
static __always_inline void tg_filter_cell_touch(__u32 index)
{
	__u16 *low_half = bpf_map_lookup_elem(&tg_sockets, &index);

	if (low_half)
		*low_half = tg_filter_tick_now();
}

static __always_inline void tg_filter_cell_close(__u32 index)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_sockets, &index);

	if (!cell)
		return;
	tg_filter_cell_touch(index);
	if (*cell >> 16 != TG_FILTER_LIVE_MAX && *cell >> 16 != 0)
		__sync_fetch_and_add(cell, -TG_FILTER_LIVE_ONE);
}

static __always_inline void tg_filter_open(struct tg_filter_index at)
{
	tg_filter_cell_open(at.first);
	tg_filter_cell_open(at.second);
	tg_filter_mark(at);
}

static __always_inline void tg_filter_touch(struct tg_filter_index at)
{
	tg_filter_cell_touch(at.first);
	tg_filter_cell_touch(at.second);
	tg_filter_mark(at);
}

static __always_inline void tg_filter_close(struct tg_filter_index at)
{
	tg_filter_cell_close(at.first);
	tg_filter_cell_close(at.second);
	tg_filter_mark(at);
}

#endif
