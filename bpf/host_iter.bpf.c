/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TCP socket iterator, host role: run when ports come under the gate, it puts the
 * connections that were there before into the socket filter.
 *
 * Must never: change a socket, other than asking for callbacks on its state changes.
 */
#define TG_CLOCK_NS bpf_ktime_get_ns
#define TG_REMEMBERS_NOTHING /* it may run in a process */
#include "lib/iter_sock.h"
#include "lib/live.h"
#include "lib/socket_filter.h"

#define TG_SOL_TCP 6
#define TG_TCP_BPF_SOCK_OPS_CB_FLAGS 1008 /* Linux >= 6.11; before, see below */

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
	if (state == BPF_TCP_NEW_SYN_RECV || !tg_iter_tuple(sk, &pkt, TG_PORT_SEED))
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
