/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the iterators over TCP sockets read of a socket.
 *
 * Must never: change one.
 */
#ifndef TG_BPF_ITER_SOCK_H
#define TG_BPF_ITER_SOCK_H

#include "gate.h"

/* Of struct sock_common only what is read here, by CO-RE relocation. */
struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
} __attribute__((preserve_access_index));

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} __attribute__((preserve_access_index));

struct bpf_iter__tcp {
	void *meta;
	struct sock_common *sk_common;
} __attribute__((preserve_access_index));

/* The addresses and ports of a socket, as its peer's packets show them. False if the entry of its port in tg_ports lacks
 * `flag`. */
static __always_inline bool tg_iter_tuple(const struct sock_common *sk, struct tg_packet *pkt,
					  __u32 flag)
{
	__u32 port = sk->skc_num;
	int i;

	if (!(tg_port_at(port) & flag))
		return false;
	pkt->ports = sk->skc_dport | (__u32)tg_swap16(port) << 16;
	if (sk->skc_family == TG_AF_INET) {
		pkt->family = 4;
		pkt->src.w[0] = sk->skc_daddr;
		pkt->dst.w[0] = sk->skc_rcv_saddr;
		return true;
	}
	if (sk->skc_family != TG_AF_INET6)
		return false;
	pkt->family = 6;
	for (i = 0; i < 4; i++) {
		pkt->src.w[i] = sk->skc_v6_daddr.in6_u.u6_addr32[i];
		pkt->dst.w[i] = sk->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
	}
	tg_packet_unmap(pkt);
	return true;
}

#endif
