/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The maps of the server role's translating side, beside those that it shares
 * with the host gate, and the table of core/server_table.h: find, insert, release.
 * Nobody but these programs writes the table, and no map is ever walked.
 */
#ifndef TG_BPF_SERVER_MAPS_H
#define TG_BPF_SERVER_MAPS_H

#include "tag_keys.h"

/* A separate function, so that the verifier does not follow every path through it at each place
 * where it is called. */
struct tg_split;
int tg_split_try(struct tg_split *e, const struct tg_packet *pkt, __u32 dir);
#define TG_SPLIT_TRACK_ONCE tg_split_try

#include "../../core/server_flow.h"

TG_GLOBAL int tg_split_try(struct tg_split *e, const struct tg_packet *pkt, __u32 dir)
{
	return e && pkt ? tg_split_track_once(e, pkt, (enum tg_direction)dir) : (int)TG_FLOW_STAYS;
}

enum tg_unverified {
#define TG_ABI_UNVERIFIED(name, number, word, help) TG_UNVERIFIED_##name = number,
#include "../../core/abi.def"
};

struct tg_server_settings {
	uint64_t keys[TG_FILTER_KEYS]; /* of tg_split_hash */
	__u32 mask; /* buckets - 1 */
	__u16 idle_ticks; /* after which a connection may lose its place */
	__u16 confirm_port_be;
	__u8 generic; /* XDP runs after the skb is made, also on what we put back in */
	__u8 unverified; /* enum tg_unverified: what becomes of segments that do not verify */
	__u8 adopt; /* 1: an adopting gate runs beside, for listeners that are TG_LISTENER_OK */
	__u8 pad;
	__u32 source_floor; /* connections that a source may hold without giving way to others */
};

struct tg_server_settings tg_server TG_VARIABLE(tg_server);

/* Userspace sets max_entries to a power of two. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_split_bucket);
} tg_splits SEC(".maps");

/* How many connections of the table each source has, by the highest bits of their hashes,
 * and each family. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SPLIT_SOURCES + 2);
	__type(key, __u32);
	__type(value, __u32);
} tg_split_sources SEC(".maps");

/* Where the edges are, by number. A confirmation goes out in the family of its
 * connection; all zero: no address of this family. */
struct tg_edge_address {
	__u32 v4;
	__u32 v6[4];
	__u32 ifindex4; /* the interface that the route there leads through; 0: where the answer goes */
	__u32 ifindex6;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_TAG_EDGE_MAX + 1);
	__type(key, __u32);
	__type(value, struct tg_edge_address);
} tg_edges SEC(".maps");

static __always_inline const struct tg_server_settings *tg_server_get(void)
{
	return &tg_server;
}

static __always_inline bool tg_port_is_protected(__u16 port_be)
{
	return tg_port_entry(port_be);
}

static __always_inline __u16 tg_tick_now(void)
{
	return tg_split_tick(bpf_ktime_get_coarse_ns());
}

/* This CPU's counters of the service that a segment belongs to. */
static __always_inline struct tg_counter_row *tg_server_row(const struct tg_packet *pkt,
							    enum tg_direction dir)
{
	struct tg_packet turned = {.family = pkt->family,
				   .dst = pkt->src,
				   .ports = pkt->ports << 16 | pkt->ports >> 16};

	return tg_counter_row_get(tg_service_find(dir == TG_TO_SERVER ? pkt : &turned));
}

/* One way of a bucket. To the verifier it may be any of them: it then verifies what follows once,
 * not four times. */
static __always_inline struct tg_split *tg_split_entry(struct tg_split_bucket *b, __u32 i)
{
	TG_HIDE(i);
	return i < TG_SPLIT_WAYS ? &b->way[i] : 0;
}

/* The lowest two bits of `at` name the way. As above, and the compiler keeps the mask. */
static __always_inline struct tg_split *tg_split_entry_at(struct tg_split_bucket *b, __u64 at)
{
	return &b->way[TG_BOUND64(at, TG_SPLIT_WAYS)];
}

static __always_inline struct tg_split *tg_split_in(__u32 at, __u64 hash)
{
	struct tg_split_bucket *b = bpf_map_lookup_elem(&tg_splits, &at);

	if (!b)
		return 0;
	return tg_split_entry(b, b->way[0].hash == hash   ? 0
				 : b->way[1].hash == hash ? 1
				 : b->way[2].hash == hash ? 2
				 : b->way[3].hash == hash ? 3
							  : TG_SPLIT_WAYS);
}

/* The entry of a connection; NULL if there is none. */
static __always_inline struct tg_split *tg_split_find(const struct tg_server_settings *server,
						      const struct tg_packet *pkt,
						      enum tg_direction dir)
{
	__u64 hash = tg_split_hash(server->keys, pkt, dir);
	struct tg_split *e = tg_split_in(tg_split_bucket_at(hash, server->mask, 0), hash);

	return e ? e : tg_split_in(tg_split_bucket_at(hash, server->mask, 1), hash);
}

static __always_inline void tg_split_seen(struct tg_split *e)
{
	__u16 tick = tg_tick_now();

	if (TG_UNLIKELY(e->seen_tick != tick))
		e->seen_tick = tick;
}

/* The best place in a bucket, and how good it is: from the highest bits down enum tg_split_room, how many places are
 * empty, and the way. A function of its own: the verifier looks at it once. */
#define TG_SPLIT_WAY_BITS 2
#define TG_SPLIT_SOME_ROOM (1U << (TG_SPLIT_WAY_BITS + 4))

TG_GLOBAL int tg_split_place(const struct tg_split_bucket *b, __u32 tick, __u32 idle_ticks)
{
	__u32 best = TG_SPLIT_TAKEN, empty = 0, way = 0, i, room;

	if (!b)
		return 0;
#pragma clang loop unroll(full)
	for (i = 0; i < TG_SPLIT_WAYS; i++) {
		room = tg_split_room(&b->way[i], (__u16)tick, (__u16)idle_ticks);
		TG_HIDE(room); /* Linux 6.18 does well without: it may go once the oldest kernel has been tried */
		empty += room == TG_SPLIT_EMPTY;
		way = room > best ? i : way;
		best = room > best ? room : best;
	}
	return (int)((best << 4 | empty) << TG_SPLIT_WAY_BITS | way);
}

static __always_inline __u32 tg_split_held(__u32 slot)
{
	__u32 *held = bpf_map_lookup_elem(&tg_split_sources, &slot);

	return held ? *held : 0;
}

/* Counts a connection of this hash in, or (`by` -1) out. */
TG_GLOBAL int tg_split_count(__u64 hash, int by)
{
	__u32 source = tg_split_source(hash), family = tg_split_family(hash);
	__u32 *held = bpf_map_lookup_elem(&tg_split_sources, &source);

	if (hash <= TG_SPLIT_BUSY)
		return 0;
	if (held)
		__sync_fetch_and_add(held, (__u32)by);
	held = bpf_map_lookup_elem(&tg_split_sources, &family);
	if (held)
		__sync_fetch_and_add(held, (__u32)by);
	return 0;
}

/* tg_split_claim. */
TG_GLOBAL int tg_split_claim_of(const struct tg_split *e, const struct tg_split_newcomer *n)
{
	return e && n ? (int)tg_split_claim(e, tg_split_held(tg_split_source(e->hash)), n) : 0;
}

/* Which of the eight places of two full buckets a newcomer gets: 0-3 of the first, 4-7 of the
 * second; 8: none. */
TG_GLOBAL int tg_split_contest(const struct tg_split *value)
{
	const struct tg_server_settings *server = tg_server_get();
	__u32 best = 0, found = 2 * TG_SPLIT_WAYS, first, second, i, turn, claim;
	struct tg_split_newcomer n = {};
	struct tg_split_bucket *a, *b;
	const struct tg_split *e;

	if (!value)
		return 2 * TG_SPLIT_WAYS;
	first = tg_split_bucket_at(value->hash, server->mask, 0);
	second = tg_split_bucket_at(value->hash, server->mask, 1);
	a = bpf_map_lookup_elem(&tg_splits, &first);
	b = bpf_map_lookup_elem(&tg_splits, &second);
	if (!a || !b)
		return 2 * TG_SPLIT_WAYS;
	n.hash = value->hash;
	n.held = tg_split_held(tg_split_source(n.hash));
	n.floor = server->source_floor;
	n.now_tick = value->seen_tick;
	n.few = tg_split_held(tg_split_family(n.hash)) <= server->mask;
	/* Among equals a different one each time: otherwise the newest would always be evicted. */
	turn = (__u32)(n.hash >> 40);
	for (i = 0; i < 2 * TG_SPLIT_WAYS; i++) {
		__u32 at = (turn + i) & (2 * TG_SPLIT_WAYS - 1);

		e = tg_split_entry_at(at & TG_SPLIT_WAYS ? b : a, at);
		claim = (__u32)tg_split_claim_of(e, &n);
		if (claim > best) {
			best = claim;
			found = at;
		}
	}
	return (int)found;
}

/* Puts a connection into the emptier of its two buckets, or to the place of tg_split_contest.
 * Negative if both buckets are full of live connections, or another CPU was faster. `value` says
 * afterwards whose place it was. */
TG_GLOBAL int tg_split_insert(struct tg_split *value, __u32 place)
{
	const struct tg_server_settings *server = tg_server_get();
	struct tg_split_bucket *a, *b;
	__u32 first, second, in_a, in_b;
	struct tg_split *x;
	__u64 was;

	if (!value)
		return -TG_EINVAL;
	first = tg_split_bucket_at(value->hash, server->mask, 0);
	second = tg_split_bucket_at(value->hash, server->mask, 1);
	a = bpf_map_lookup_elem(&tg_splits, &first);
	b = bpf_map_lookup_elem(&tg_splits, &second);
	if (!a || !b)
		return -TG_EINVAL;
	if (place < 2 * TG_SPLIT_WAYS) {
		x = tg_split_entry_at(place & TG_SPLIT_WAYS ? b : a, place);
	} else {
		in_a = (__u32)tg_split_place(a, value->seen_tick, server->idle_ticks);
		in_b = (__u32)tg_split_place(b, value->seen_tick, server->idle_ticks);
		if (in_b >> TG_SPLIT_WAY_BITS > in_a >> TG_SPLIT_WAY_BITS) {
			a = b;
			in_a = in_b;
		}
		if (in_a < TG_SPLIT_SOME_ROOM)
			return -TG_ENOENT;
		x = tg_split_entry_at(a, in_a);
	}
	was = x->hash;
	if (was == TG_SPLIT_BUSY || __sync_val_compare_and_swap(&x->hash, was, TG_SPLIT_BUSY) != was)
		return -TG_ENOENT;
	x->seq_delta = value->seq_delta;
	x->ts_delta = value->ts_delta;
	x->client_isn = value->client_isn;
	x->client_tsval = value->client_tsval;
	x->seen_tick = value->seen_tick;
	x->agreed = value->agreed;
	x->client_window = value->client_window;
	x->edge = value->edge;
	x->state = value->state;
	TG_BARRIER();
	x->hash = value->hash;
	value->hash = was;
	return 0;
}

static __always_inline void tg_split_release(struct tg_split *e)
{
	__u64 was = e->hash;

	if (was > TG_SPLIT_BUSY && __sync_val_compare_and_swap(&e->hash, was, TG_SPLIT_FREE) == was)
		tg_split_count(was, -1);
}

#endif
