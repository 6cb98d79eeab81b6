/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the BPF programs take from the kernel: the uapi types, libbpf's helper
 * declarations, and the one kfunc of the host gate. Nothing of ours.
 */
#ifndef TG_BPF_KERNEL_H
#define TG_BPF_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define TG_AF_INET 2
#define TG_AF_INET6 10
#define TG_ENOENT 2
#define TG_EINVAL 22

#ifndef TCX_NEXT
#define TCX_NEXT (-1) /* also TC_ACT_UNSPEC: leave the packet to who comes next */
#define TCX_DROP 2    /* also TC_ACT_SHOT */
#endif

/* Only pointed to; libbpf and the kernel compare kfunc types by name and kind,
 * so a forward declaration would not match. */
struct sock {
};
struct tcp_sock; /* sock_fields.h */

/* include/net/tcp.h, Linux >= 6.9: what bpf_sk_assign_tcp_reqsk is told. The
 * size must match exactly and the reserved bytes must be zero. */
struct bpf_tcp_req_attrs {
	__u32 rcv_tsval;
	__u32 rcv_tsecr;
	__u16 mss;
	__u8 rcv_wscale;
	__u8 snd_wscale;
	__u8 ecn_ok;
	__u8 wscale_ok;
	__u8 sack_ok;
	__u8 tstamp_ok;
	__u8 usec_ts_ok;
	__u8 reserved[3];
};
_Static_assert(sizeof(struct bpf_tcp_req_attrs) == 20, "kernel ABI");

extern int bpf_sk_assign_tcp_reqsk(struct __sk_buff *skb, struct sock *sk,
				   struct bpf_tcp_req_attrs *attrs, int attrs__sz) __ksym;

#endif
