/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How many connections each source holds (source_limits.concurrent): sockets of this machine, at the
 * ports of services, by whatever way they were made. A count-min sketch in the cells of
 * core/source_limit.h: sock_ops adds one when a socket is established and takes one off when it closes.
 *
 * A lost report would make a count wrong for ever. So the sketch has two halves, of which one
 * counts (settings->held_half). Now and then the daemon clears the other, has host_held.bpf.c count the
 * sockets that there are into it, and exchanges them. sock_ops writes both, so the new one misses nothing
 * but what happens during the count, and that until the next.
 *
 * A proxy has no sockets: it counts its flows instead (lib/proxy_held.h), and needs no recount.
 *
 * Must never: be asked for a source that a cookie has not proven.
 */
#ifndef TG_BPF_SOURCE_HELD_H
#define TG_BPF_SOURCE_HELD_H

#include "gate.h"
#include "../../core/source_limit.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * TG_LIMIT_CELLS);
	__type(key, __u32);
	__type(value, __u32);
} tg_held SEC(".maps");

#ifndef TG_LIMIT_KEY
#define TG_LIMIT_KEY(settings)                                                                     \
	((struct tg_siphash_key){(settings)->filter_keys[8], (settings)->filter_keys[9]})
#endif

/* The hash of a source: of the first half of an address, as union tg_addr has it. */
static __always_inline __u64 tg_source_hash_of(const struct tg_host_settings *settings, __u64 first,
					       __u8 family, __u64 *prefix, __u32 *len)
{
	struct tg_siphash_key key = TG_LIMIT_KEY(settings);
	union tg_addr addr = {.d = {first}};

	*len = family == 4 ? settings->limit_v4 : settings->limit_v6;
	*prefix = tg_limit_prefix(family, &addr, (__u8)*len);
	return tg_limit_hash(family, *prefix, &key);
}

/* The hash of the source that a packet comes from. */
static __always_inline __u64 tg_source_hash(const struct tg_host_settings *settings,
					    const struct tg_packet *pkt, __u64 *prefix, __u32 *len)
{
	return tg_source_hash_of(settings, pkt->src.d[0], pkt->family, prefix, len);
}

static __always_inline void tg_held_cell(__u32 at, __s32 by)
{
	__u32 *cell = bpf_map_lookup_elem(&tg_held, &at);

	if (cell && (by > 0 || (__s32)*cell > 0))
		__sync_fetch_and_add(cell, (__u32)by);
}

/* A socket of the packet's source begins or ends, in one half. */
static __always_inline void tg_held_half(__u64 hash, __u32 half, __s32 by)
{
	tg_held_cell(half * TG_LIMIT_CELLS + tg_limit_cell(hash, 0), by);
	tg_held_cell(half * TG_LIMIT_CELLS + tg_limit_cell(hash, 1), by);
	tg_held_cell(half * TG_LIMIT_CELLS + tg_limit_cell(hash, 2), by);
	tg_held_cell(half * TG_LIMIT_CELLS + tg_limit_cell(hash, 3), by);
}

#ifndef TG_HELD_BY_FLOWS
/* A socket of the source of `pkt` begins (`by` 1) or ends (-1). */
TG_GLOBAL int tg_held_change(const struct tg_packet *pkt, __s32 by)
{
	const struct tg_host_settings *settings = tg_settings_get();
	__u64 prefix, hash;
	__u32 len;

	if (!pkt || !settings->limit_held || settings->held_elsewhere)
		return 0;
	hash = tg_source_hash(settings, pkt, &prefix, &len);
	tg_held_half(hash, 0, by);
	tg_held_half(hash, 1, by);
	return 0;
}

#define TG_HELD_BY(hash, settings) tg_held_by(hash, (settings)->held_half)
#endif

/* How many connections the source of this hash holds, or more. */
TG_GLOBAL int tg_held_by(__u64 hash, __u32 half)
{
	__u32 least = ~0U, row, at, *cell;

	for (row = 0; row < TG_LIMIT_ROWS; row++) {
		at = (half & 1) * TG_LIMIT_CELLS + tg_limit_cell(hash, row);
		cell = bpf_map_lookup_elem(&tg_held, &at);
		if (!cell || (__s32)*cell <= 0)
			return 0;
		least = *cell < least ? *cell : least;
	}
	return (int)least;
}

#endif
