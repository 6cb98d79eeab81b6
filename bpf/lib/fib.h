/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Questions to the kernel's routing table.
 */
#ifndef TG_BPF_FIB_H
#define TG_BPF_FIB_H

#include "../../core/packet.h"
#include "kernel.h"

/* The addresses of a packet that is to be routed. */
static __always_inline void tg_fib_between(struct bpf_fib_lookup *fib, __u8 family,
					   const union tg_addr *src, const union tg_addr *dst)
{
	if (family == 4) {
		fib->family = TG_AF_INET;
		fib->ipv4_src = src->w[0];
		fib->ipv4_dst = dst->w[0];
	} else {
		fib->family = TG_AF_INET6;
		__builtin_memcpy(fib->ipv6_src, src->w, 16);
		__builtin_memcpy(fib->ipv6_dst, dst->w, 16);
	}
}

#endif
