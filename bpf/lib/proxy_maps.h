/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The maps of the proxy, beside those that it shares with the host gate. Flows and whitelist are
 * swap-out maps: slot 0 of the outer map is `active`, slot 1 `history`. An entry that is found in
 * history moves to active; a swap puts active into history's place and a new map into active's, and
 * what was in history and has not been found since is gone. No map is ever walked.
 */
#ifndef TG_BPF_PROXY_MAPS_H
#define TG_BPF_PROXY_MAPS_H

#include "gate.h"
#include "../../core/proxy.h"
#include "../../core/share.h"
#include "../../core/syn_cache_front.h"

#define TG_SLOT_ACTIVE 0
#define TG_SLOT_HISTORY 1

/* Beside a generation in flows_gen and sources_gen: a swap is on. What comes to the active table, which may
 * be the new one or, still, the one that is history when the swap has ended, is noted in both generations. */
#define TG_GEN_SWAPPING 2
#define TG_PORTS_MAX 64
#define TG_CLOSED_MAX 65536
#define TG_SERVERS_MAX 16384

struct tg_proxy_settings {
	struct tg_siphash_key challenge_key; /* of challenges without a cookie */
	__u64 white_v6_mask; /* which bits of an IPv6 source (first half, as on the wire) count */
	__u32 bridge[2]; /* the two ports; 0: a router */
	__u8 flows; /* 1: some service is, or was, translated */
	__u8 forward_all; /* 1: a router forwards here what is no service's, too */
	__u8 flows_gen; /* the generation of presence bits that goes with `active` */
	__u8 sources_gen;
	__u8 plain; /* 1: no service is, or was, translated, and none is automatic */
	__u8 pad[3];
	struct tg_siphash_key cache_key; /* of the SYN cache's buckets and ISNs */
	__u32 cache_mask; /* its buckets - 1 */
	__u32 white_v4_mask; /* which bits of an IPv4 source, as on the wire, count */
	__u8 white_v4_len; /* their number, if the whitelist is a bitmap; 0: it is a hash */
	__u8 near; /* 1: bridges keep copies of flows near (core/near_flow.h) */
	__u8 twins; /* 1: some ports can send twins (proxy_twin.h) */
	__u8 pad2;
	__u32 flows_turn; /* another one before and after each swap of the flow tables */
	struct tg_siphash_key ask_key; /* of the numbers of SYNs that ask a server */
	struct tg_siphash_key share_key; /* of the cells of tg_shares */
	__u64 presence_salt; /* of presence bits; nothing that is sent depends on it */
	__u32 max_flows; /* of one family, in one generation */
	__u32 max_waiting; /* of one family, in tg_waiting4 and tg_waiting6 */
};

struct tg_proxy_settings tg_proxy TG_VARIABLE(tg_proxy);

#ifndef TG_WITHOUT_FLOWS /* an edge forwards, and has none of these */
/* By service id, beside tg_services. */
struct tg_proxy_service tg_strategies[TG_SERVICE_SLOTS] TG_VARIABLE(tg_strategies);

/* The strategy of a service. */
static __always_inline const struct tg_proxy_service *tg_strategy_at(__u32 id)
{
	return &tg_strategies[id & (TG_SERVICE_SLOTS - 1)];
}

/* What servers answer, core/servers.h. Written only for servers of clients that have verified, so a
 * flood of SYNs evicts nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TG_SERVERS_MAX);
	__type(key, struct tg_server_key);
	__type(value, struct tg_learned);
} tg_servers SEC(".maps");

/* A copy of what SYNs ask of it, without its hash of 24 bytes and its calls; written where tg_servers is, and by a connection
 * that finds its server there and not here. */
struct tg_server_near tg_servers_near[TG_SERVERS_NEAR] TG_VARIABLE(tg_servers_near);
#endif

/* The ports of this box, by interface index: frames leave only through these. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, TG_PORTS_MAX);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} tg_devices SEC(".maps");

#ifndef TG_WITHOUT_FLOWS
/* Their MAC addresses by interface index, first byte lowest: a router takes only its
 * own frames. 0: no port of ours. Userspace sets the number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_PORTS_MAX);
	__type(key, __u32);
	__type(value, __u64);
} tg_macs SEC(".maps");

struct tg_flows4_inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_flow_key4);
	__type(value, struct tg_flow);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct tg_flows4_inner);
} tg_flows4 SEC(".maps");

struct tg_flows6_inner {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_flow_key6);
	__type(value, struct tg_flow);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct tg_flows6_inner);
} tg_flows6 SEC(".maps");

/* Flows without a place of their own: in set-up, or that have carried no data yet, or half closed
 * since the last swap, or refused one. The least recently used makes room. Userspace sets the
 * number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct tg_flow_key4);
	__type(value, struct tg_flow);
} tg_waiting4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct tg_flow_key6);
	__type(value, struct tg_flow);
} tg_waiting6 SEC(".maps");

/* Flows that have ended, for the retransmissions that may follow; oldest out. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TG_CLOSED_MAX);
	__type(key, struct tg_flow_key4);
	__type(value, struct tg_flow);
} tg_closed4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TG_CLOSED_MAX);
	__type(key, struct tg_flow_key6);
	__type(value, struct tg_flow);
} tg_closed6 SEC(".maps");

/* Whitelisted sources, a table for each family: the least recently used makes room. */
struct tg_white_inner {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct tg_white_inner);
} tg_white SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct tg_white_inner);
} tg_white6 SEC(".maps");

/* core/white_bitmap.h; one entry each where the whitelist is a hash. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} tg_white_bits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} tg_white_marks SEC(".maps");

/* core/share.h: for IPv4 and IPv6 flows, two generations of cells each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * 2 * TG_SHARE_CELLS);
	__type(key, __u32);
	__type(value, __u32);
} tg_shares SEC(".maps");

/* core/share.h: what sources have brought lately, for IPv4 and IPv6. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * TG_SHARE_CELLS);
	__type(key, __u32);
	__type(value, __u32);
} tg_lately_cells SEC(".maps");

/* core/proxy_keys.h: of each word of a table its two generations, which are read together. */
struct tg_presence_pair {
	__u64 of[2];
};

/* Mapped into the daemon, which clears one generation while the other is in use. */
struct tg_presence_pair tg_presence[TG_PRESENCE_PAIRS] TG_VARIABLE(tg_presence);

/* The flow that is about to be opened or moved: no stack has room for it. Programs of one CPU
 * do not interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_flow);
} tg_next_flow SEC(".maps");

static __always_inline struct tg_flow *tg_next_flow_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tg_next_flow, &zero);
}

/* The SYN cache, core/syn_cache.h; userspace sets the number of buckets. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	/* Never mapped: the flag puts the first bucket where a cache line begins. */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct tg_halfopen_bucket);
} tg_halfopens SEC(".maps");

/* In front of it, one for each bucket: core/syn_cache_front.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_halfopen_front);
} tg_half_fronts SEC(".maps");
#endif

static __always_inline const struct tg_proxy_settings *tg_proxy_get(void)
{
	return &tg_proxy;
}

#ifndef TG_WITHOUT_FLOWS
/* Notes what a server gives where SYNs look first. */
static __always_inline void tg_server_bring_near(__u64 hash, __u64 gives)
{
	__u32 at = tg_server_place(hash);
	struct tg_server_near *near = &tg_servers_near[at & (TG_SERVERS_NEAR - 1)];

	if (near)
		*near = tg_server_near(hash, gives);
}

/* What the server that the packet is for gives, as tg_server_gives has it; 0: that is not near. */
static __always_inline __u64 tg_server_recall(const struct tg_proxy_settings *proxy,
					      const struct tg_packet *pkt)
{
	__u64 hash = tg_server_hash(&pkt->dst, TG_DST_PORT_BE(pkt), pkt->family,
				    proxy->presence_salt);
	__u32 at = tg_server_place(hash);
	const struct tg_server_near *near = &tg_servers_near[at & (TG_SERVERS_NEAR - 1)];

	return near ? tg_server_recalled(near, hash) : 0;
}

/* The same; 0: it is not known. `bring`: if
 * that was not near, it is from now on. */
static __always_inline __u64 tg_server_known(const struct tg_proxy_settings *proxy,
					     const struct tg_packet *pkt, bool bring)
{
	__u64 hash = tg_server_hash(&pkt->dst, TG_DST_PORT_BE(pkt), pkt->family,
				    proxy->presence_salt);
	__u32 at = tg_server_place(hash);
	const struct tg_server_near *near = &tg_servers_near[at & (TG_SERVERS_NEAR - 1)];
	const struct tg_learned *known;
	struct tg_server_key key;
	__u64 gives = near ? tg_server_recalled(near, hash) : 0;

	if (TG_LIKELY(gives))
		return gives;
	key = tg_server_key(pkt, false);
	known = bpf_map_lookup_elem(&tg_servers, &key);
	if (!known)
		return 0;
	gives = tg_server_gives(known);
	if (bring)
		tg_server_bring_near(hash, gives);
	return gives;
}
#endif

static __always_inline bool tg_port_is_protected(__u16 port_be)
{
	return tg_port_entry(port_be) != 0;
}

static __always_inline __u32 tg_now_ms(void)
{
	const struct tg_host_settings *settings = tg_settings_get();

	return (__u32)((settings ? tg_clock_ns(settings) : bpf_ktime_get_coarse_ns()) / 1000000);
}

#endif
