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

/* A global function: the verifier goes through it once, with any arguments, instead of once for
 * every state in which it is called (Linux >= 5.6), and its stack counts only while it runs. It may
 * go from a function when the programs that have it load without it on the kernels of `make
 * test-kernel`: the verifier follows a million instructions at the most, and allows a chain of
 * calls 512 bytes of stack. */
#define TG_GLOBAL __attribute__((noinline))

#ifndef TCX_NEXT
#define TCX_NEXT (-1) /* also TC_ACT_UNSPEC: leave the packet to who comes next */
#define TCX_DROP 2    /* also TC_ACT_SHOT */
#endif

#define TG_PACKET_OTHERHOST 3 /* __sk_buff.pkt_type: PACKET_OTHERHOST of linux/if_packet.h */

/* A length that is 1 at least and not above `most`; else 0. In 64 bits, on a number that the
 * compiler cannot see through, and by arithmetic: comparing with 0 teaches the verifier nothing
 * before Linux 6.8, and those of 6.12 and 7.3 (not of 6.18) lose sight of bounds that are
 * tested on one copy and passed in another. `mask` is 2^n - 1, not below `most`. */
static __always_inline __u32 tg_len_within(__u32 len, __u32 most, const __u32 mask)
{
	__u64 n = len;

	asm volatile("" : "+r"(n));
	if (n == 0 || n > most)
		return 0;
	asm volatile("%0 += -1; %0 &= %1; %0 += 1" : "+r"(n) : "i"(mask));
	if (n > most)
		return 0;
	return (__u32)n;
}

/* Only pointed to; libbpf and the kernel compare kfunc types by name and kind,
 * so a forward declaration would not match. */
struct sock {
};
struct tcp_sock; /* sock_fields.h */

/* Never called and never loaded: it makes `struct bpf_sock` a whole type of the object's BTF. Of two that
 * are declared only (`struct __sk_buff` points to this one and to bpf_flow_keys), clang 19 writes that one first
 * which lies first in its memory, and that follows from how long the path of the source is. */
static __attribute__((used)) void tg_whole_types(struct bpf_sock *sk)
{
	(void)sk;
}

/* A number that userspace puts in the place of `mark` when it loads the program (internal/plane/members.go). The verifier takes it for the
 * constant that it is then, and removes what cannot be reached: all that is left is the assignment. Volatile: else clang keeps the
 * number of one place for the next, on the stack. */
static __always_inline __u64 tg_load_time(const __u64 mark)
{
	__u64 number;

	asm volatile("%0 = %1" : "=r"(number) : "i"(mark));
	return number;
}

/* A variable, which is a map of its own with that name and one entry (internal/plane/variables.go): programs hold its address. To look up
 * an entry of an array takes a dozen instructions, eight of which the kernel puts in the place of the call. Userspace writes a
 * structure as a whole, and entries of an array through a mapping of its memory. */
#define TG_VARIABLE(name) SEC(".bss." #name) __attribute__((visibility("hidden")))

/* include/net/tcp.h, Linux >= 6.9: the argument of bpf_sk_assign_tcp_reqsk. The
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
				   struct bpf_tcp_req_attrs *attrs, int attrs__sz) __ksym __weak;

/* False before Linux 6.9: then the verifier must not see the call. */
#define TG_KERNEL_ADOPTS (bpf_sk_assign_tcp_reqsk != 0)

#endif
