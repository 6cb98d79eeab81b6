/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The time. The coarse clock's tick (1-10 ms) is negligible against an epoch, and it costs a twentieth of what the fine one
 * does on some machines; but it is a call into the kernel that calls another, and where each return is guarded against
 * speculation (SRSO, retbleed), that takes as long as a SipHash. The clock changes with the jiffies, which a program reads
 * in place. So fast paths remember what the clock said in this jiffy.
 *
 * Must never: take one jiffy's time for another's. The time holds the low bits of its jiffy, so that halves that two CPUs
 * have written do not match.
 */
#ifndef TG_BPF_CLOCK_H
#define TG_BPF_CLOCK_H

#include "maps.h"

/* Tracing programs have only the fine one. */
#ifndef TG_CLOCK_NS
#define TG_CLOCK_NS bpf_ktime_get_coarse_ns
#endif

/* Of a time that is remembered, the bits that its jiffy takes: 2^16 ns, far less than a tick. */
#define TG_CLOCK_JIFFY_BITS 0xffffULL

/* The time in this jiffy, which is remembered. */
TG_GLOBAL __u64 tg_clock_read(__u64 jiffy)
{
	__u64 now = TG_CLOCK_NS() & ~TG_CLOCK_JIFFY_BITS;

	*(volatile __u64 *)&tg_settings.clock_ns = now | (jiffy & TG_CLOCK_JIFFY_BITS);
	*(volatile __u64 *)&tg_settings.clock_jiffy = jiffy;
	return now;
}

/* CLOCK_MONOTONIC, as TG_CLOCK_NS has it, at most one tick older. For fast paths. */
static __always_inline __u64 tg_clock_ns(const struct tg_host_settings *settings)
{
	__u64 jiffy = bpf_jiffies64();
	__u64 ns = *(const volatile __u64 *)&settings->clock_ns;

	if (TG_UNLIKELY(*(const volatile __u64 *)&settings->clock_jiffy != jiffy ||
			((ns ^ jiffy) & TG_CLOCK_JIFFY_BITS)))
		return tg_clock_read(jiffy);
	return ns & ~TG_CLOCK_JIFFY_BITS;
}

#endif
