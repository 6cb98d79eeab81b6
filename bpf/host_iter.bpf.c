/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TCP socket iterator, host role: run when ports come under the gate, it puts the
 * connections that were there before into the socket filter.
 *
 * Must never: change a socket, other than asking for callbacks on its state changes.
 */
#define TG_CLOCK_NS bpf_ktime_get_ns
#include "lib/live.h"

#define TG_SOL_TCP 6
#define TG_TCP_BPF_SOCK_OPS_CB_FLAGS 1008 /* Linux >= 6.11; before, see below */

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

static __always_inline bool tg_iter_tuple(const struct sock_common *sk, struct tg_packet *pkt)
{
	__u32 port = sk->skc_num;
	__u32 *entry = bpf_map_lookup_elem(&tg_ports, &port);
	int i;

	if (!entry || !(*entry & TG_PORT_SEED))
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

SEC("iter/tcp")
int tg_host_iter(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	int flags = BPF_SOCK_OPS_STATE_CB_FLAG;
	const struct tg_host_settings *settings;
	struct tg_packet pkt = {};
	struct tg_filter_index at;
	struct tcp_sock *tp;
	__u64 hash;
	__u8 state;

	if (!sk)
		return 0;
	state = sk->skc_state;
	settings = tg_settings_get();
	if (!settings || state == BPF_TCP_NEW_SYN_RECV || !tg_iter_tuple(sk, &pkt))
		return 0;
	if (state == BPF_TCP_LISTEN) { /* its end is to be reported, too; otherwise userspace polls */
		tp = bpf_skc_to_tcp_sock(sk);
		if (tp)
			bpf_setsockopt(tp, TG_SOL_TCP, TG_TCP_BPF_SOCK_OPS_CB_FLAGS, &flags,
				       sizeof(flags));
		return 0;
	}
	hash = tg_filter_hash_of(settings, &pkt);
	at = tg_filter_cells(hash);
	if (state == BPF_TCP_TIME_WAIT) {
		tg_filter_touch(at);
		return 0;
	}
	tg_filter_open(at);
	tg_live_put(hash, 0, 0); /* no cookie is known of it */
	/* Where the kernel refuses this (before 6.11), the close of this one socket is not reported
	 * and its cells say "maybe" for as long as the gate runs. */
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		bpf_setsockopt(tp, TG_SOL_TCP, TG_TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
