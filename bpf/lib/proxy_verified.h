/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The fast path of segments that a bridge forwards because their source is on the whitelist: on a box
 * where that is all that counts (tg_proxy_settings.plain), no service is looked up and nothing is
 * parsed.
 *
 * Must never: decide on a SYN, or on what tg_proxy_plain would not forward for its source alone.
 */
#ifndef TG_BPF_PROXY_VERIFIED_H
#define TG_BPF_PROXY_VERIFIED_H

#include "proxy_send.h"
#include "proxy_whitelist.h"
#include "../../core/fast_segment.h"

enum tg_verified {
	TG_VERIFIED_UNKNOWN,
	TG_VERIFIED_NOT, /* its source is on no whitelist */
	TG_VERIFIED,
};

/* Sources that this CPU has lately found on the whitelist: a look-up that calls nothing, where one of
 * the whitelist's hash takes three calls and two cache misses. What stands here is trusted for one
 * period of TG_VERIFIED_SHIFT (0.26 s at 1000 Hz, 2.6 s at 100 Hz), so that the whitelist sees who
 * sends, and a source that has left it is not let through for longer. Only sources that are on the
 * whitelist take a place. */
#define TG_VERIFIED_BITS 11
#define TG_VERIFIED_SHIFT 8

struct tg_kept_source {
	__u64 key; /* of tg_white */
	__u64 period; /* jiffies >> TG_VERIFIED_SHIFT, and the highest bit: an empty place is of no period */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 << TG_VERIFIED_BITS);
	__type(key, __u32);
	__type(value, struct tg_kept_source);
} tg_kept_sources SEC(".maps");

/* Whether a common segment is of a source on the whitelist. What is not found at once is left to
 * tg_white_find. */
static __always_inline enum tg_verified tg_verified_source(const struct xdp_md *ctx,
							   const struct tg_proxy_settings *proxy,
							   __u8 family)
{
	const __u8 *frame = (void *)(long)ctx->data, *ip = frame + TG_ETH_HDR_LEN;
	struct tg_kept_source *kept;
	__u32 slot = TG_SLOT_ACTIVE, hash, at;
	union tg_addr src;
	__u64 key, period;
	void *active;

	if (frame + tg_fast_segment_len(family) > (const __u8 *)(long)ctx->data_end ||
	    !tg_fast_segment_is(frame, family) ||
	    frame[tg_fast_segment_len(family) - TG_TCP_HDR_LEN + TG_TCP_FLAGS] & TG_TCP_SYN ||
	    (family == 4 && proxy->white_v4_len))
		return TG_VERIFIED_UNKNOWN;
	src.d[0] = family == 4 ? tg_load32(ip + TG_IPV4_SRC) : tg_load64(ip + TG_IPV6_SRC);
	key = tg_white_key(&src, family, proxy->white_v4_mask, proxy->white_v6_mask);
	hash = tg_presence_source(key, proxy->presence_salt);
	period = bpf_jiffies64() >> TG_VERIFIED_SHIFT | 1ULL << 63;
	at = hash & ((1 << TG_VERIFIED_BITS) - 1);
	kept = bpf_map_lookup_elem(&tg_kept_sources, &at);
	if (!kept)
		return TG_VERIFIED_UNKNOWN;
	if (TG_LIKELY(kept->key == key && kept->period == period))
		return TG_VERIFIED;
	if (!tg_presence_has(hash, TG_PRESENCE_SOURCES))
		return TG_VERIFIED_NOT;
	/* A call for each map: where one call may meet both, the kernel does not inline it. */
	active = family == 4 ? bpf_map_lookup_elem(&tg_white, &slot)
			     : bpf_map_lookup_elem(&tg_white6, &slot);
	if (!active || !bpf_map_lookup_elem(active, &key))
		return TG_VERIFIED_UNKNOWN;
	kept->key = key;
	kept->period = period;
	return TG_VERIFIED;
}

#define TG_UNVERIFIED (~0U)

/* The port by which the frame in hand leaves at once; 0 if it takes another path, TG_UNVERIFIED if
 * it does and its source is on no whitelist. A function of its own, for the program's stack. */
static __always_inline __u32 tg_verified_to(struct xdp_md *ctx, const struct tg_proxy_settings *proxy)
{
	enum tg_verified verified;
	__u32 to;

	if (!proxy)
		return 0;
	to = tg_bridge_to(proxy, tg_ingress(ctx));
	if (!to)
		return 0;
	verified = tg_verified_source(ctx, proxy, 4);
	if (verified == TG_VERIFIED_UNKNOWN)
		verified = tg_verified_source(ctx, proxy, 6);
	return verified == TG_VERIFIED ? to : verified == TG_VERIFIED_NOT ? TG_UNVERIFIED : 0;
}

#endif
