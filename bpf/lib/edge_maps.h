/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The maps of the edge, beside those that it shares with the host gate (services,
 * keys, counters) and with the proxy (ports that frames leave through).
 */
#ifndef TG_BPF_EDGE_MAPS_H
#define TG_BPF_EDGE_MAPS_H

#define TG_WITHOUT_FLOWS
#include "proxy_send.h"
#include "syn.h"
#include "../../core/edge.h"

#define TG_EDGE_PORT_HERE 1   /* this interface is one of ours */
#define TG_EDGE_PORT_INSIDE 2 /* servers are behind it: what comes from there is trusted */
/* Of all ports, here because fast paths read these flags anyway: */
#define TG_EDGE_PORT_CHALLENGE 16 /* SYNs with timestamps, too, are looked up: core/edge.h */
#define TG_EDGE_PORT_BRIDGED 32   /* what comes is for others, whatever its MAC address */
#define TG_EDGE_PORT_TAGGED 64    /* the protocol is `tagged` */

struct tg_edge_settings {
	struct tg_bloom_key bloom_key;
	__u64 unknown_cost_ns; /* of this CPU's share; or TG_ALLOWANCE_NONE, TG_ALLOWANCE_ALL */
	__u64 learning_until_ns; /* CLOCK_MONOTONIC: until then, unknown packets go on */
	__u32 bloom_bits;
	__u8 generation; /* the active one */
	__u8 hops; /* TTL of what goes on to a service; 0: left as it is */
	__u8 pad[2];
};

struct tg_edge_settings tg_edge TG_VARIABLE(tg_edge);

/* core/bloom.h. Userspace, which empties generations by atomic ANDs, maps it into
 * its memory; it sets the number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TG_BLOOM_WORDS(TG_BLOOM_BITS));
	__type(key, __u32);
	__type(value, __u64);
} tg_bloom SEC(".maps");

struct tg_edge_port {
	__u64 mac; /* first byte lowest */
	__u64 flags;
};

/* By interface index; userspace sets the number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct tg_edge_port);
} tg_edge_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_allowance);
} tg_allowances SEC(".maps");

/* Likewise, of SYNs of flows that are known. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_allowance);
} tg_challenges SEC(".maps");

/* What userspace has found out of the filter, for `status`. Parts per thousand
 * million of unknown flows that the filter takes for known. */
struct tg_edge_report {
	__u64 at_unix_ns;
	__u64 rotated_unix_ns;
	__u32 fp_computed_ppb;
	__u32 fp_measured_ppb;
	__u32 probes; /* that fp_measured_ppb is of */
	__u32 fill_ppm[TG_BLOOM_GENERATIONS]; /* positions set, of a generation's partitions */
	__u32 flows[TG_BLOOM_GENERATIONS]; /* that such a fill stands for */
	__u32 alarm; /* 1: more false positives than configured */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_edge_report);
} tg_edge_reports SEC(".maps");

/* The packet in hand, in a CPU's own memory: the stack of the program is that of its fast path. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_packet);
} tg_edge_packets SEC(".maps");

static __always_inline struct tg_packet *tg_edge_packet(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tg_edge_packets, &zero);
}

static __always_inline const struct tg_edge_settings *tg_edge_get(void)
{
	return &tg_edge;
}

/* The generations that know the flow. A flow that one partition does not have costs one cache line,
 * not three. */
static __always_inline __u32 tg_bloom_look(const struct tg_bloom_at *at)
{
	__u32 known = (1U << TG_BLOOM_GENERATIONS) - 1, i;

#pragma unroll
	for (i = 0; i < TG_BLOOM_PARTITIONS; i++) {
		__u32 index = at->word[i];
		__u64 *word = bpf_map_lookup_elem(&tg_bloom, &index);

		if (!word)
			return 0;
		known &= (__u32)(*word >> at->shift[i]);
		if (!known)
			return 0;
	}
	return known;
}

/* The same of a hash, which finds its places one by one: most unknown flows need only
 * the front. */
static __always_inline __u32 tg_bloom_look_for(__u64 hash, __u32 bits)
{
	__u32 known = (1U << TG_BLOOM_GENERATIONS) - 1, i, index;
	__u64 *word;
	__u8 shift;

	tg_bloom_locate_front(hash, bits, &index, &shift);
	word = bpf_map_lookup_elem(&tg_bloom, &index);
	if (!word)
		return 0;
	known &= (__u32)(*word >> shift);
	if (TG_LIKELY(!known))
		return 0;
#pragma unroll
	for (i = 0; i < TG_BLOOM_PARTITIONS; i++) {
		tg_bloom_locate_one(hash, bits, i, &index, &shift);
		word = bpf_map_lookup_elem(&tg_bloom, &index);
		if (!word)
			return 0;
		known &= (__u32)(*word >> shift);
		if (!known)
			return 0;
	}
	return known;
}

static __always_inline void tg_bloom_set(__u32 index, __u64 bit)
{
	__u64 *word = bpf_map_lookup_elem(&tg_bloom, &index);

	if (word && !(*word & bit))
		__sync_fetch_and_or(word, bit);
}

static __always_inline void tg_bloom_put(const struct tg_bloom_at *at, __u32 generation)
{
	__u32 i;

	tg_bloom_set(at->front, tg_bloom_front_bit(at, generation));
#pragma unroll
	for (i = 0; i < TG_BLOOM_PARTITIONS; i++)
		tg_bloom_set(at->word[i], tg_bloom_bit(at, i, generation));
}

static __always_inline struct tg_bloom_at tg_bloom_find(const struct tg_edge_settings *edge,
							const struct tg_packet *pkt,
							enum tg_bloom_side side)
{
	return tg_bloom_locate(tg_bloom_hash(pkt, side, &edge->bloom_key), edge->bloom_bits & 31);
}

#endif
