/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The kernel's own SYN cookies. With a full backlog (or net.ipv4.tcp_syncookies=2) it answers a SYN with one, and keeps
 * nothing: no socket, no request. No sock_ops program hears of it either, because such a request has no listener attached
 * (sk_to_full_sk). So the final ACK check asks the kernel whether an ACK answers such a cookie.
 *
 * Must never: say yes to what the kernel's secret does not vouch for.
 */
#ifndef TG_BPF_KERNEL_COOKIE_H
#define TG_BPF_KERNEL_COOKIE_H

#include "gate.h"
#include <bpf/bpf_core_read.h>

/* The headers that the helpers want; they read addresses, ports and the two numbers. */
struct tg_bare_tcp {
	__be16 source, dest;
	__be32 seq, ack;
	__u32 rest[2];
};
_Static_assert(sizeof(struct tg_bare_tcp) == 20, "struct tcphdr");

struct tg_bare_ipv4 {
	__u32 rest[3];
	__u32 src, dst;
};
_Static_assert(sizeof(struct tg_bare_ipv4) == 20, "struct iphdr");

struct tg_bare_ipv6 {
	__u32 rest[2];
	__u64 src[2], dst[2];
};
_Static_assert(sizeof(struct tg_bare_ipv6) == 40, "struct ipv6hdr");

/* True if this ACK, which has no socket here, answers a cookie of the kernel's. One SipHash, for most; false before Linux
 * 6.0, where nothing is adopted. */
static __always_inline bool tg_kernel_cookie_at(const void *ip, __u8 family, const void *tcp)
{
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_tcp_raw_check_syncookie_ipv6))
		return false;
	return (family == 4 ? bpf_tcp_raw_check_syncookie_ipv4((void *)ip, (void *)tcp)
			    : bpf_tcp_raw_check_syncookie_ipv6((void *)ip, (void *)tcp)) == 0;
}

static __always_inline bool tg_kernel_cookie_is(const struct tg_packet *pkt)
{
	struct tg_bare_tcp tcp = {
		.source = TG_SRC_PORT_BE(pkt),
		.dest = TG_DST_PORT_BE(pkt),
		.seq = tg_swap32(pkt->seq),
		.ack = tg_swap32(pkt->ack),
	};
	struct tg_bare_ipv4 v4 = {.src = pkt->src.w[0], .dst = pkt->dst.w[0]};
	struct tg_bare_ipv6 v6 = {.src = {pkt->src.d[0], pkt->src.d[1]},
				  .dst = {pkt->dst.d[0], pkt->dst.d[1]}};

	return pkt->family == 4 ? tg_kernel_cookie_at(&v4, 4, &tcp)
				: tg_kernel_cookie_at(&v6, 6, &tcp);
}

#endif
