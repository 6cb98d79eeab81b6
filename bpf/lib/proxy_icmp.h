/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * ICMP errors about translated connections: the header that they quote is
 * translated back, or path MTU discovery ends at this box (RFC 5508 says the
 * same to NATs). A quoted TCP checksum stays as it is; nobody looks at it.
 */
#ifndef TG_BPF_PROXY_ICMP_H
#define TG_BPF_PROXY_ICMP_H

#include "proxy_tables.h"

#define TG_IPPROTO_ICMP 1
#define TG_IPPROTO_ICMPV6 58
#define TG_ICMP_HDR_LEN 8
#define TG_QUOTED_TCP_LEN 12 /* up to the acknowledgement number */

/* RFC 792, RFC 4443: the types that quote a packet. */
static __always_inline bool tg_icmp_is_error(__u8 family, __u8 type)
{
	return family == 4 ? type == 3 || type == 4 || type == 11 || type == 12
			   : type >= 1 && type <= 4;
}

/* Where the ICMP header of the packet stands; 0 if it is no error. */
static __always_inline __u32 tg_icmp_find(struct xdp_md *ctx, __u32 l3_off, __u8 *family)
{
	__u8 ip[TG_IPV6_HDR_LEN], type;
	__u32 off;

	if (bpf_xdp_load_bytes(ctx, l3_off, ip, sizeof(ip)))
		return 0;
	if (ip[0] >> 4 == 4 && ip[9] == TG_IPPROTO_ICMP && !(ip[6] & 0x3f) && !ip[7]) {
		*family = 4;
		off = l3_off + (ip[0] & 15) * 4;
	} else if (ip[0] >> 4 == 6 && ip[6] == TG_IPPROTO_ICMPV6) {
		*family = 6;
		off = l3_off + TG_IPV6_HDR_LEN;
	} else {
		return 0;
	}
	if (bpf_xdp_load_bytes(ctx, off, &type, 1) || !tg_icmp_is_error(*family, type))
		return 0;
	return off;
}

/* The quoted packet, as far as it names a connection; where its TCP header
 * stands. 0 if it is none. */
static __always_inline __u32 tg_icmp_quoted(struct xdp_md *ctx, __u32 off, struct tg_packet *q)
{
	__u8 ip[TG_IPV6_HDR_LEN];
	__u32 tcp;

	if (bpf_xdp_load_bytes(ctx, off, ip, q->family == 4 ? TG_IPV4_HDR_LEN : sizeof(ip)))
		return 0;
	if (q->family == 4) {
		if (ip[0] >> 4 != 4 || ip[9] != TG_IPPROTO_TCP || ip[6] & 0x1f || ip[7])
			return 0;
		__builtin_memcpy(&q->src.w[0], ip + 12, 4);
		__builtin_memcpy(&q->dst.w[0], ip + 16, 4);
		tcp = off + (ip[0] & 15) * 4;
	} else {
		if (ip[0] >> 4 != 6 || ip[6] != TG_IPPROTO_TCP)
			return 0;
		__builtin_memcpy(&q->src, ip + 8, 16);
		__builtin_memcpy(&q->dst, ip + 24, 16);
		tcp = off + TG_IPV6_HDR_LEN;
	}
	return bpf_xdp_load_bytes(ctx, tcp, &q->ports, 4) ? 0 : tcp;
}

/* Translates what the ICMP error in hand quotes, if it is of a flow. */
__attribute__((noinline)) int tg_proxy_icmp(struct xdp_md *ctx, __u32 l3_off)
{
	struct tg_packet q = {};
	struct tg_counter_row *row;
	enum tg_direction dir;
	__u8 tcp[TG_QUOTED_TCP_LEN];
	struct tg_flow *f;
	__u32 off, tcp_off;
	uint64_t sum = 0;
	__u16 checksum;

	if (l3_off > TG_ETH_HDR_LEN + TG_VLAN_TAGS_MAX * TG_VLAN_TAG_LEN)
		return 0;
	off = tg_icmp_find(ctx, l3_off, &q.family);
	if (!off)
		return 0;
	tcp_off = tg_icmp_quoted(ctx, off + TG_ICMP_HDR_LEN, &q);
	if (!tcp_off)
		return 0;
	dir = tg_port_is_protected(TG_SRC_PORT_BE(&q)) ? TG_TO_CLIENT : TG_TO_SERVER;
	f = tg_flow_find(&q, dir);
	if (!f || f->state != TG_FLOW_READY)
		return 0;
	/* RFC 792 promises eight bytes of TCP; towards the client they are untouched. */
	if (bpf_xdp_load_bytes(ctx, tcp_off, tcp, dir == TG_TO_CLIENT ? 8 : TG_QUOTED_TCP_LEN) ||
	    bpf_xdp_load_bytes(ctx, off + 2, &checksum, 2))
		return 0;
	tg_translate_quoted(tcp, f, dir, &sum);
	checksum = tg_translate_checksum(checksum, sum);
	if (bpf_xdp_store_bytes(ctx, tcp_off + 4, tcp + 4, dir == TG_TO_CLIENT ? 4 : 8) ||
	    bpf_xdp_store_bytes(ctx, off + 2, &checksum, 2))
		return 0;
	row = tg_counter_row_get(f->service);
	if (row)
		tg_count(row, TG_COUNT_icmp_translated);
	return 1;
}

#endif
