/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What is read of the kernel's sockets; the loader finds the members in the running
 * kernel's types (net/sock.h, net/inet_timewait_sock.h, linux/tcp.h).
 *
 * Must never: be included where host_iter.bpf.c's own struct sock_common is.
 */
#ifndef TG_BPF_SOCK_FIELDS_H
#define TG_BPF_SOCK_FIELDS_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>

typedef struct {
	__s64 counter;
} atomic64_t;

struct netns_ipv4 {
	__u8 sysctl_tcp_syncookies;
} __attribute__((preserve_access_index));

struct net {
	struct netns_ipv4 ipv4;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
	unsigned char skc_ipv6only : 1;
	atomic64_t skc_cookie;
	__u32 skc_tw_rcv_nxt;
	__u32 skc_tw_snd_nxt;
} __attribute__((preserve_access_index));

struct inet_timewait_sock {
	struct sock_common __tw_common;
} __attribute__((preserve_access_index));

struct tcp_timewait_sock {
	struct inet_timewait_sock tw_sk;
} __attribute__((preserve_access_index));

struct tcp_sock {
	bool is_mptcp; /* with CONFIG_MPTCP */
} __attribute__((preserve_access_index));

struct sock___queue {
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
} __attribute__((preserve_access_index));

/* A listener's accept queue is full (sk_acceptq_is_full). */
static __always_inline bool tg_sock_is_full(struct tcp_sock *tp)
{
	struct sock___queue *sk = (struct sock___queue *)tp;

	return sk->sk_ack_backlog > sk->sk_max_ack_backlog;
}

/* SO_COOKIE; 0 if it has not been generated yet. */
static __always_inline __u64 tg_sock_cookie(struct tcp_sock *tp)
{
	return (__u64)((struct sock_common *)tp)->skc_cookie.counter;
}

/* Takes no IPv4. */
static __always_inline bool tg_sock_is_ipv6only(struct tcp_sock *tp)
{
	struct sock_common *sk = (struct sock_common *)tp;

	return BPF_CORE_READ_BITFIELD(sk, skc_ipv6only) != 0;
}

/* With net.ipv4.tcp_syncookies=0 the kernel takes the request socket, and then resets the connection. */
static __always_inline bool tg_sock_takes_no_cookies(struct tcp_sock *tp)
{
	return !((struct sock_common *)tp)->skc_net.net->ipv4.sysctl_tcp_syncookies;
}

/* The kernel adopts nothing for a socket that is the TCP side of an MPTCP one. */
static __always_inline bool tg_sock_is_mptcp(struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp;
}

#endif
