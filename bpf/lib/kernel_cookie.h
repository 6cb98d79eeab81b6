/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The kernel's own SYN cookies. With a full backlog (or net.ipv4.tcp_syncookies=2) it answers a SYN with one, and keeps
 * nothing: no socket, no request. No sock_ops program hears of it either, because such a request has no listener attached
 * (sk_to_full_sk). So the final ACK check asks the kernel whether an ACK answers such a cookie: one more SipHash.
 *
 * Behind an edge hardly any SYN reaches the kernel, and without one there is no cookie. So each SYN that goes by leaves the
 * time in a cell of its tuple, and the kernel is asked only where one has come within a cookie's lifetime. Userspace fills the
 * cells with the time at which it loads the program: what has come before that is not known.
 *
 * Must never: say yes to what the kernel's secret does not vouch for; say no, for a cookie's lifetime, where a SYN has gone by.
 */
#ifndef TG_BPF_KERNEL_COOKIE_H
#define TG_BPF_KERNEL_COOKIE_H

#include "socket_filter.h"
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

/* So many ticks of tg_filter_tick are no less than the age of a cookie of the kernel's, 2 minutes (MAX_SYNCOOKIE_AGE). */
#define TG_KERNEL_COOKIE_TICKS 8
/* 256 KiB: a value of an array takes eight bytes at the least. */
#define TG_KERNEL_SYN_CELLS (1U << 15)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_KERNEL_SYN_CELLS);
	__type(key, __u32);
	__type(value, __u64); /* a tick; 0: never */
} tg_kernel_syns SEC(".maps");

/* The cell of tg_filter_hash. */
static __always_inline __u64 *tg_kernel_syn_at(__u64 hash)
{
	__u32 at = (__u32)(hash >> 40) & (TG_KERNEL_SYN_CELLS - 1);

	return bpf_map_lookup_elem(&tg_kernel_syns, &at);
}

/* A SYN goes on to the kernel of a server behind an edge. A function of its own, for the stack. */
TG_GLOBAL int tg_kernel_syn_note(const struct tg_packet *syn)
{
	const struct tg_host_settings *settings = tg_settings_get();
	__u64 *at, now;

	if (!syn || !settings->behind_edge)
		return 0;
	now = tg_filter_tick_now();
	at = tg_kernel_syn_at(tg_filter_hash_of(settings, syn));
	if (at && *at != now)
		*at = now;
	return 0;
}

/* False if the kernel cannot have sent this tuple a cookie. The SYN's tick may be one ahead, as the time is remembered for a
 * jiffy, or two, where 0 is left out. */
static __always_inline bool tg_kernel_syn_lately(__u64 hash, __u64 mono_ns)
{
	const __u64 *at = tg_kernel_syn_at(hash);

	return !at || (TG_UNLIKELY(*at) &&
		       (__u16)(tg_filter_tick(mono_ns) + 2 - *at) <= TG_KERNEL_COOKIE_TICKS + 2);
}

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

/* 1 if the final ACK check lets the ACK to a service on because it answers a cookie of the kernel's. Data
 * may be right behind it, before there is a socket: the socket filter says "maybe" from now on. A
 * function of its own, for the stack. */
TG_GLOBAL int tg_kernel_cookie_passes(const struct tg_packet *pkt, __u32 id)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row = tg_counter_row_get(id);

	if (!pkt || !row || !settings->final_check ||
	    !tg_kernel_syn_lately(tg_filter_hash_of(settings, pkt), TG_CLOCK_NS()) ||
	    !tg_kernel_cookie_is(pkt))
		return 0;
	tg_filter_touch(tg_filter_at(settings, pkt));
	tg_count(row, TG_COUNT_ack_kernel_cookie);
	return 1;
}

#endif
