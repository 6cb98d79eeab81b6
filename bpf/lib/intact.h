/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The slow path to core/intact.h in XDP and (with TG_SKB defined) in TC: sums over headers and
 * segments of any length. The fast paths sum by themselves, in straight code.
 */
#ifndef TG_BPF_INTACT_H
#define TG_BPF_INTACT_H

#include "ctx.h"
#include "gate.h"
#ifdef TG_SKB
#include "sum_left.h"
#endif

/* The most that the kernel's helper sums at once, and how often it is called: no client sends a
 * SYN, or completes a handshake, with a segment of more than 10,240 bytes. (At TC, what GRO has put
 * together, or nobody has cut yet, is not summed.) */
#define TG_SUM_ROOM 512
#define TG_SUM_STEPS 20

/* Where bytes are copied to, one CPU's own: a program's stack is too small. */
struct tg_sum_room {
	__u8 bytes[TG_SUM_ROOM];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_sum_room);
} tg_sum_rooms SEC(".maps");

/* Adds the `len` bytes at `off`, at most TG_SUM_ROOM, to a sum. Negative: they are not there. */
static __always_inline __s64 tg_sum_bytes(TG_CTX *ctx, struct tg_sum_room *room, __u32 off,
					  __u32 len, __u32 sum)
{
	__u64 n = tg_len_within(len, TG_SUM_ROOM, TG_SUM_ROOM - 1);

	if (n == 0)
		return -TG_EINVAL;
	*(__u32 *)(room->bytes + ((n - 1) & (TG_SUM_ROOM - 4))) = 0; /* behind an odd end */
	if (tg_ctx_load(ctx, off, room->bytes, (__u32)n))
		return -TG_EINVAL;
	n = (n + 3) & ~3ULL;
	TG_HIDE(n);
	if (n > TG_SUM_ROOM)
		return -TG_EINVAL;
	return bpf_csum_diff(0, 0, (__be32 *)room->bytes, (__u32)n, sum);
}

/* One turn of tg_intact's loop: the sum, or negative. */
TG_GLOBAL __s64 tg_sum_step(TG_CTX *ctx, struct tg_sum_room *room, __u32 off, __u32 len, __u32 sum)
{
	return room ? tg_sum_bytes(ctx, room, off, len, sum) : -TG_EINVAL;
}

/* The sum of the `left` bytes at `off`, or negative if they are not there or are more than TG_SUM_STEPS times TG_SUM_ROOM. Unless
 * `sixteenth` is 0, the two bytes 16 on go there: a segment's checksum. */
static __always_inline __s64 tg_sum_span(TG_CTX *ctx, struct tg_sum_room *room, __u32 off,
					 __u32 left, __u16 *sixteenth)
{
	__s64 sum = 0;
	__u64 rest;
	__u32 i;

#pragma clang loop unroll(disable)
	for (i = 0; i < TG_SUM_STEPS && left; i++) {
		__u32 n = left < TG_SUM_ROOM ? left : TG_SUM_ROOM;

		sum = tg_sum_step(ctx, room, off, n, (__u32)sum);
		if (sum < 0)
			return sum;
		if (sixteenth && i == 0)
			*sixteenth = tg_load16(room->bytes + 16);
		off += n;
		left -= n;
	}
	rest = left;
	TG_FORGET(rest, sum);
	return rest ? -TG_EINVAL : sum;
}

/* enum tg_intact of the segment in hand, whose lengths do not lie. */
TG_GLOBAL int tg_intact(TG_CTX *ctx, const struct tg_packet *pkt)
{
	__u32 zero = 0, left;
	struct tg_sum_room *room = bpf_map_lookup_elem(&tg_sum_rooms, &zero);
	__u16 field = 0;
	__s64 sum = 0;
	int found;

	if (!pkt || !room)
		return TG_INTACT_BAD_SUM;
	left = pkt->l4_off - pkt->l3_off;
	if (pkt->family == 4) {
		if (left < TG_IPV4_HDR_LEN || left > TG_IPV4_HDR_MAX)
			return TG_INTACT_BAD_SUM;
		sum = tg_sum_bytes(ctx, room, pkt->l3_off, left, 0);
		if (sum < 0 || tg_csum_fold((__u64)sum) != 0xffff)
			return TG_INTACT_BAD_SUM;
		found = left > TG_IPV4_HDR_LEN ? tg_intact_ip_options((void *)room->bytes, left)
					       : TG_INTACT;
		if (found != TG_INTACT)
			return found;
	}
#ifdef TG_SKB
	/* The NIC or GRO has looked, or this machine has made the segment and not yet summed it. */
	if (ctx->gso_size || bpf_csum_level(ctx, BPF_CSUM_LEVEL_QUERY) >= 0)
		return TG_INTACT;
#endif
	sum = tg_sum_span(ctx, room, pkt->l4_off, pkt->l4_len, &field);
	if (sum < 0 || !tg_intact_tcp(tg_intact_pseudo(pkt), (__u64)sum, field))
		return TG_INTACT_BAD_SUM;
#ifdef TG_SKB
	/* Left to the NIC, it is the pseudo-header's sum, and the kernel takes the segment; from a wire it would not. */
	if (TG_UNLIKELY(field == tg_csum_fold(tg_intact_pseudo(pkt))) &&
	    tg_csum_fold(tg_intact_pseudo(pkt) + (__u64)sum) != 0xffff &&
	    !tg_sum_is_left(ctx, pkt->l4_off + 16, field))
		return TG_INTACT_BAD_SUM;
#endif
	return TG_INTACT;
}

#endif
