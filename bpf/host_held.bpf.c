/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TCP socket iterator, role host: counts the connections that there are, by source, into the half of
 * tg_held that does not count now (lib/source_held.h).
 *
 * Must never: change a socket.
 */
#define TG_CLOCK_NS bpf_ktime_get_ns
#define TG_REMEMBERS_NOTHING /* it may run in a process */
#include "lib/iter_sock.h"
#include "lib/source_held.h"

SEC("iter/tcp")
int tg_host_held(struct bpf_iter__tcp *ctx)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct sock_common *sk = ctx->sk_common;
	struct tg_packet pkt = {};
	__u64 prefix;
	__u32 len;
	__u8 state;

	if (!sk)
		return 0;
	state = sk->skc_state;
	if (state == BPF_TCP_NEW_SYN_RECV || state == BPF_TCP_LISTEN ||
	    state == BPF_TCP_TIME_WAIT || !tg_iter_tuple(sk, &pkt, TG_PORT_WATCHED))
		return 0;
	tg_held_half(tg_source_hash(settings, &pkt, &prefix, &len), !(settings->held_half & 1), 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
