/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The lab's fabric in front of several edges, and its counters at the server.
 *
 * tg_lab_spray stands where clients and attackers reach the fabric: it hands each
 * packet to one of the edges, at random packet by packet (the worst that ECMP can
 * do), or all to one. tg_lab_arrive stands at the server's ports: it counts what
 * comes from outside the lab's own networks, which is attack, and may lose the
 * clients' bare ACKs, the third segment of handshakes among them. A server that has an
 * XDP program of its own there gets it called after.
 *
 * Never loaded by `tidegate run`; never attached to an interface that the lab
 * did not make.
 */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define EDGES_MAX 8
#define ETH_LEN 14
#define IP4_LEN 20
#define IP6_LEN 40
#define TCP_LEN 20

enum tg_fabric_route {
	ROUTE_SPRAY, /* any edge, packet by packet */
	ROUTE_ONE,   /* all to `one` */
	ROUTE_DROP,  /* none: what the attack itself costs */
};

struct tg_split_cfg {
	__u32 route;
	__u32 edges;
	__u32 one;
	__u32 lose_permille; /* of the clients' bare ACKs, at the server */
	__u32 drop_attack;   /* at the server: what bringing the attack there costs */
};

struct tg_split_edge {
	__u32 ifindex; /* of the fabric's port to it */
	__u8 macs[12]; /* destination, source */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_split_cfg);
} split_cfg SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EDGES_MAX);
	__type(key, __u32);
	__type(value, struct tg_split_edge);
} split_edges SEC(".maps");

struct tg_split_seen {
	__u64 attack;
	__u64 attack_syn;
	__u64 clients;
	__u64 lost;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_split_seen);
} split_seen SEC(".maps");

SEC("xdp")
int tg_lab_spray(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0, at;
	struct tg_split_cfg *cfg = bpf_map_lookup_elem(&split_cfg, &zero);
	struct tg_split_edge *edge;

	if (!cfg || !cfg->edges || data + ETH_LEN > end)
		return XDP_PASS;
	if (cfg->route == ROUTE_DROP)
		return XDP_DROP;
	at = cfg->route == ROUTE_ONE ? cfg->one : bpf_get_prandom_u32() % cfg->edges;
	edge = bpf_map_lookup_elem(&split_edges, &at);
	if (!edge)
		return XDP_DROP;
	__builtin_memcpy(data, edge->macs, 12);
	return bpf_redirect(edge->ifindex, 0);
}

/* The TCP header, and whether the source is the lab's: 198.18.0.0/15, fd7d:7467::/32. */
static __always_inline __u8 *find_tcp(__u8 *data, __u8 *end, int *ours, int *payload)
{
	__u8 *ip = data + ETH_LEN, *tcp;

	if (ip + IP4_LEN + TCP_LEN > end)
		return 0;
	if (data[12] == 0x08 && data[13] == 0x00) {
		if (ip[9] != 6 || (ip[0] & 15) != 5)
			return 0;
		*ours = ip[12] == 198 && (ip[13] & 0xfe) == 18;
		tcp = ip + IP4_LEN;
		*payload = (ip[2] << 8 | ip[3]) - IP4_LEN - (tcp[12] >> 4) * 4;
		return tcp;
	}
	if (ip + IP6_LEN + TCP_LEN > end || data[12] != 0x86 || data[13] != 0xdd || ip[6] != 6)
		return 0;
	*ours = ip[8] == 0xfd && ip[9] == 0x7d && ip[10] == 0x74 && ip[11] == 0x67;
	tcp = ip + IP6_LEN;
	*payload = (ip[4] << 8 | ip[5]) - (tcp[12] >> 4) * 4;
	return tcp;
}

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} split_next SEC(".maps");

static __always_inline int arrive_next(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &split_next, 0);
	return XDP_PASS;
}

SEC("xdp.frags")
int tg_lab_arrive(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *tcp;
	__u32 zero = 0;
	struct tg_split_cfg *cfg = bpf_map_lookup_elem(&split_cfg, &zero);
	struct tg_split_seen *seen = bpf_map_lookup_elem(&split_seen, &zero);
	int ours = 0, payload = 0;

	if (!cfg || !seen)
		return arrive_next(ctx);
	tcp = find_tcp(data, end, &ours, &payload);
	if (!tcp)
		return arrive_next(ctx);
	if (!ours) {
		seen->attack++;
		if ((tcp[13] & 0x12) == 0x02)
			seen->attack_syn++;
		return cfg->drop_attack ? XDP_DROP : arrive_next(ctx);
	}
	seen->clients++;
	if (cfg->lose_permille && tcp[13] == 0x10 && payload == 0 &&
	    bpf_get_prandom_u32() % 1000 < cfg->lose_permille) {
		seen->lost++;
		return XDP_DROP;
	}
	return arrive_next(ctx);
}

char LICENSE[] SEC("license") = "GPL";
