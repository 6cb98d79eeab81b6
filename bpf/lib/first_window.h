/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * A connection that was adopted begins without a round-trip time, as no cookie says when it was
 * sent. Reno and CUBIC then send the first window as fast as it goes. BBR supposes a millisecond,
 * and on a path of tens of microseconds holds the eleventh segment back for ten times as long as it
 * would with the time of a handshake. So it is initialized here, before the kernel does, with the rate
 * that a time of a microsecond gives. With the first round-trip time it computes its rate anew.
 *
 * BBR's first rate is its gain × window / RTT: a window that is a thousand times as large, while BBR is
 * initialized, does what a millionth of a second would.
 *
 * Must never: leave a socket with another window or algorithm than it had.
 */
#ifndef TG_BPF_FIRST_WINDOW_H
#define TG_BPF_FIRST_WINDOW_H

#include "kernel.h"

#define TG_SOL_TCP 6
#define TG_TCP_CONGESTION 13

/* The time that BBR supposes, in units of the shortest that it counts. */
#define TG_BBR_SUPPOSED_US 1000

/* What BBR computes with stays within its integers: window × 2^24 / 1000 within 32 bits, and
 * window × MSS × (2^24 / 1000) × 739 / 256 × 990000 within 64. */
#define TG_BBR_WINDOW_MOST 255999
#define TG_BBR_BYTES_MOST (1U << 28)
_Static_assert(TG_BBR_WINDOW_MOST * (1ULL << 24) / 1000 <= 0xffffffff, "window of BBR");
_Static_assert((TG_BBR_BYTES_MOST * ((1ULL << 24) / 1000 + 1) * 739 >> 8) <= ~0ULL / 990000,
	       "rate of BBR");

static __always_inline __u32 tg_bbr_window(__u32 window, __u32 mss)
{
	__u64 scaled = (__u64)window * TG_BBR_SUPPOSED_US;
	__u32 most = TG_BBR_BYTES_MOST / (mss ? mss : 1);

	if (most > TG_BBR_WINDOW_MOST)
		most = TG_BBR_WINDOW_MOST;
	return scaled < most ? scaled : most;
}

/* At PASSIVE_ESTABLISHED, which the kernel reports before it initializes congestion control. A socket whose SYN-ACK
 * the kernel has sent has a round-trip time, or has sent it again. */
static __always_inline void tg_first_window_unpaced(struct bpf_sock_ops *ctx)
{
	char name[16] = {}, bbr[] = "bbr", reno[] = "reno";
	__u32 window = ctx->snd_cwnd, scaled;

	if (ctx->srtt_us || ctx->total_retrans ||
	    bpf_getsockopt(ctx, TG_SOL_TCP, TG_TCP_CONGESTION, name, sizeof(name)) ||
	    name[0] != 'b' || name[1] != 'b' || name[2] != 'r' || name[3])
		return;
	scaled = tg_bbr_window(window, ctx->mss_cache);
	if (scaled <= window || bpf_setsockopt(ctx, TG_SOL_TCP, TCP_BPF_IW, &scaled, sizeof(scaled)))
		return;
	/* The kernel initializes an algorithm only where another was before. Setting one is refused where
	 * the route demands its own; BBR is then left as it is. */
	if (!bpf_setsockopt(ctx, TG_SOL_TCP, TG_TCP_CONGESTION, reno, sizeof(reno)))
		bpf_setsockopt(ctx, TG_SOL_TCP, TG_TCP_CONGESTION, bbr, sizeof(bbr));
	bpf_setsockopt(ctx, TG_SOL_TCP, TCP_BPF_IW, &window, sizeof(window));
}

#endif
