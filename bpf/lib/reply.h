/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The kernel's rules, routes and neighbours, as userspace mirrors them in maps, and where they send
 * the answer to a SYN (core/reply.h). bpf_fib_lookup would ask the kernel itself, but it does
 * nothing on interfaces that do not forward, as hosts' do not.
 *
 * Must never: decide; be called for anything but SYNs that would be answered.
 */
#ifndef TG_BPF_REPLY_H
#define TG_BPF_REPLY_H

#include "gate.h"
#include "ingress.h"
#include "../../core/reply.h"

#define TG_REPLY_ROUTES_MAX 65536
#define TG_REPLY_HOPS_MAX 1024
#define TG_REPLY_NEIGHBOURS_MAX 8192
#define TG_REPLY_DOMAINS_MAX 64

/* An interface. A domain is a list of routes, of one family, that a lookup is made in. */
struct tg_reply_port {
	__u32 segment;   /* 0: this entry is empty */
	__u32 strict;    /* rp_filter is, for IPv4 */
	__u32 domain[2]; /* IPv4, IPv6: TG_DOMAIN_* or the one that replies take */
	__u32 tagged_unknown; /* whether SYNs with a VLAN tag have the domain TG_DOMAIN_UNKNOWN */
	__u32 pad;
	__u64 neighbour_cost_ns; /* allowances of each CPU, as core/allowance.h has them */
	__u64 route_cost_ns;
	__u64 updated_ns; /* CLOCK_MONOTONIC, when userspace last confirmed all this */
};

#define TG_DOMAIN_UNKNOWN 0        /* rules or routes are not modelled */
#define TG_DOMAIN_BY_SOURCE (~0U)  /* it depends on the reply's source address */

/* By interface index; userspace sets the number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_reply_port);
} tg_reply_ports SEC(".maps");

struct tg_reply_prefix {
	__u32 len;    /* bits of the domain, too */
	__u32 domain; /* tg_reply_from: the family */
	__u8 addr[16];
};

/* Domains by the reply's source address. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, TG_REPLY_DOMAINS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_reply_prefix);
	__type(value, __u32);
} tg_reply_from SEC(".maps");

/* Numbers of hops by domain and the reply's destination. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, TG_REPLY_ROUTES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_reply_prefix);
	__type(value, __u32);
} tg_reply_routes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_REPLY_HOPS_MAX);
	__type(key, __u32);
	__type(value, struct tg_reply_hop);
} tg_reply_hops SEC(".maps");

struct tg_reply_neighbour_key {
	__u32 dev;
	__u8 addr[16]; /* IPv4: mapped */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TG_REPLY_NEIGHBOURS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_reply_neighbour_key);
	__type(value, struct tg_reply_neighbour);
} tg_reply_near SEC(".maps");

/* This CPU's allowances: of neighbours, of routes. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct tg_allowance);
} tg_reply_spare SEC(".maps");

/* A SYN, as far as it matters here. */
struct tg_reply_ask {
	__u64 from; /* MAC address, first byte lowest */
	union tg_addr src, dst;
	__u32 ifindex;
	__u32 vid;
	__u32 family;
	__u32 pad;
};

/* A MAC address or an interface, and an enum tg_reply above it. */
#define TG_REPLY_KIND(route) ((enum tg_reply)((route) >> 48))
#define TG_REPLY_MAC(route) ((route) & 0xffffffffffffULL)

static __always_inline __u64 tg_reply_packed(struct tg_reply_route route)
{
	return (__u64)route.reply << 48 | route.mac;
}

static __always_inline __u64 tg_reply_sender(const __u8 *frame)
{
	return tg_load64(frame + TG_ETH_SRC - 2) >> 16;
}

/* What is known of the client as a neighbour on an interface. */
static __always_inline const struct tg_reply_neighbour *tg_reply_neighbour_at(
	const struct tg_reply_ask *ask, __u32 dev)
{
	struct tg_reply_neighbour_key key = {.dev = dev};

	if (ask->family == 4) {
		key.addr[10] = key.addr[11] = 0xff;
		__builtin_memcpy(key.addr + 12, &ask->src.w[0], 4);
	} else {
		__builtin_memcpy(key.addr, ask->src.w, 16);
	}
	return bpf_map_lookup_elem(&tg_reply_near, &key);
}

/* Where the answer goes: enum tg_reply and, of NEXT and STALE, the MAC address, of ACROSS the interface. A function of its
 * own, that is given a copy, as tg_listener_look is. */
TG_GLOBAL __u64 tg_reply_to(const struct tg_reply_ask *ask)
{
	struct tg_reply_prefix key = {};
	const struct tg_reply_port *port;
	const struct tg_reply_hop *hop;
	struct tg_reply_route route = TG_REPLY_ROUTE(TG_REPLY_NOWHERE, 0);
	__u32 at, *found;

	if (!ask)
		return 0;
	at = ask->ifindex;
	port = bpf_map_lookup_elem(&tg_reply_ports, &at);
	if (!port || !port->segment)
		return 0; /* this machine's routes are not known */
	if (ask->family == 6 &&
	    (ask->src.w[0] & TG_WIRE32(0xff, 0xc0, 0, 0)) == TG_WIRE32(0xfe, 0x80, 0, 0))
		return 0; /* a link-local client is where its SYN came from */
	key.domain = port->domain[ask->family == 6];
	if (key.domain == TG_DOMAIN_BY_SOURCE) {
		key.domain = ask->family;
		key.len = 160;
		__builtin_memcpy(key.addr, ask->dst.w, 16);
		found = bpf_map_lookup_elem(&tg_reply_from, &key);
		key.domain = found ? *found : TG_DOMAIN_UNKNOWN;
	}
	if (key.domain == TG_DOMAIN_UNKNOWN || (ask->vid && port->tagged_unknown))
		return (__u64)TG_REPLY_ELSEWHERE << 48;
	key.len = 160;
	__builtin_memcpy(key.addr, ask->src.w, 16);
	found = bpf_map_lookup_elem(&tg_reply_routes, &key);
	at = found ? *found : ~0U;
	hop = bpf_map_lookup_elem(&tg_reply_hops, &at);
	if (hop && hop->kind == TG_HOP_UNKNOWN)
		return (__u64)TG_REPLY_ELSEWHERE << 48;
	if (hop && hop->kind == TG_HOP_LINK) { /* first, and apart: for the verifier of Linux 6.18 */
		const struct tg_reply_neighbour *client = tg_reply_neighbour_at(ask, hop->dev);

		if (hop->paths[0].segment == port->segment && hop->paths[0].vid == ask->vid)
			route = tg_reply_link(client, ask->from);
		else /* the kernel must not have to ask for each address that a flood makes up */
			route = client ? tg_reply_across(&hop->paths[0])
				       : TG_REPLY_ROUTE(TG_REPLY_ELSEWHERE, 0);
	} else if (hop && hop->kind != TG_HOP_NONE) {
		route = tg_reply_via(hop, port->segment, ask->vid, ask->from);
	}
	if (TG_UNLIKELY(route.reply == TG_REPLY_NEXT || route.reply == TG_REPLY_NOWHERE))
		route = tg_reply_aged(route, port->updated_ns, TG_CLOCK_NS());
	return tg_reply_packed(route);
}

/* What becomes of a SYN whose answer takes that route: enum tg_verdict, counted (a cookie that is sent as always
 * is not). */
TG_GLOBAL int tg_reply_decide(__u64 route, __u32 ifindex, __u32 id)
{
	struct tg_reply_port *port = bpf_map_lookup_elem(&tg_reply_ports, &ifindex);
	struct tg_counter_row *row = tg_counter_row_get(id);
	enum tg_reply reply = TG_REPLY_KIND(route);
	__u32 which = reply != TG_REPLY_UNRESOLVED;
	struct tg_allowance *a = bpf_map_lookup_elem(&tg_reply_spare, &which);
	struct tg_decision d;
	bool allowed;

	if (!port || !row || !a)
		return TG_REPLY;
	allowed = tg_reply_asks(reply) &&
		  tg_allowance_take(a, which ? port->route_cost_ns : port->neighbour_cost_ns,
				    TG_CLOCK_NS());
	d = tg_reply_judge(reply, allowed, port->strict);
	if (d.counter != TG_COUNT_cookie_sent)
		tg_count(row, d.counter);
	return d.verdict;
}

/* The VLAN that a frame is of; what has two tags has none that we know. */
static __always_inline __u32 tg_reply_vid(const __u8 *frame, const __u8 *end, __u32 l3_off)
{
	if (l3_off == TG_ETH_HDR_LEN || frame + TG_ETH_HDR_LEN + 2 > end)
		return 0;
	return l3_off == TG_ETH_HDR_LEN + TG_VLAN_TAG_LEN
		       ? tg_swap16(tg_load16(frame + TG_ETH_HDR_LEN)) & 0xfff
		       : ~0U;
}

/* tg_reply_to for the SYN in hand. */
static __always_inline __u64 tg_reply_for(const struct xdp_md *ctx, const struct tg_packet *syn)
{
	const __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct tg_reply_ask ask = {.src = syn->src, .dst = syn->dst, .family = syn->family};

	if (frame + TG_ETH_HDR_LEN > end)
		return 0;
	ask.from = tg_reply_sender(frame);
	ask.ifindex = tg_ingress(ctx);
	ask.vid = tg_reply_vid(frame, end, syn->l3_off);
	return tg_reply_to(&ask);
}

/* Writes the MAC address of a route, if it names one. */
static __always_inline void tg_reply_address(__u8 *mac, __u64 route)
{
	if (!TG_REPLY_MAC(route) || TG_REPLY_KIND(route) == TG_REPLY_ACROSS)
		return;
	tg_store32(mac, (__u32)route);
	tg_store16(mac + TG_MAC_LO, (__u16)(route >> 32));
}

#endif
