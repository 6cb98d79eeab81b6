/* SPDX-License-Identifier: Apache-2.0
 *
 * The first stage of frames that are processed several at once: which of the wide paths they take.
 */
#ifndef TG_DPDK_WIDE_TAKE_H
#define TG_DPDK_WIDE_TAKE_H

#include "fast_wide_v6.h"
#include "fast_wide_flow.h"
#include "fast_wide_forward.h"

#if TG_HAS_WIDE
#define TG_WIDE_FLAGS (TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN + TG_TCP_FLAGS)

TG_INLINE bool tg_wide_is_syn(const struct rte_mbuf *m)
{
	return m->data_len > TG_WIDE_FLAGS && TG_DATA(m)[TG_WIDE_FLAGS] == TG_TCP_SYN;
}

/* What frames may be that are processed several at once: over IPv6, only SYNs. */
enum tg_wide_kind {
	TG_WIDE_NONE, /* they are processed one by one */
	TG_WIDE_SYNS,
	TG_WIDE_SEGMENTS,
	TG_WIDE_V6,
};

/* The kind of those that begin with `m`. */
TG_INLINE enum tg_wide_kind tg_wide_may(const struct tg_worker *w, const struct rte_mbuf *m)
{
	if (TG_UNLIKELY(tg_wide_is_v6(m)))
		return tg_wide_v6_is_syn(m) && !w->fast.apart6 ? TG_WIDE_V6 : TG_WIDE_NONE;
	if (tg_wide_is_syn(m))
		return !w->fast.apart ? TG_WIDE_SYNS : TG_WIDE_NONE;
	return w->config->flows || !w->config->router ? TG_WIDE_SEGMENTS : TG_WIDE_NONE;
}

/* First stage: returns the path of the frames; TG_SLOW_PATH: process them one by one. */
static inline uint8_t tg_wide_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				   uint64_t mac, uint64_t mask, enum tg_wide_kind kind)
{
	struct tg_wide_frames f;

	if (TG_UNLIKELY(kind == TG_WIDE_V6))
		return tg_wide_v6_take(w, m, at, mac, mask) ? TG_FAST_WIDE_V6 : TG_SLOW_PATH;
	if (kind == TG_WIDE_SYNS)
		return tg_wide_read(m, mac, mask, tg_wide_layout_syn_v4(), TG_WIDE_LEN, &f) &&
				       tg_wide_syns_take(w, m, at, &f)
			       ? TG_FAST_WIDE
			       : TG_SLOW_PATH;
	if (!tg_wide_read(m, mac, mask, tg_wide_layout_v4(), 0, &f))
		return TG_SLOW_PATH;
	if (!w->config->flows)
		return tg_wide_forwards_take(w, m, at, &f) ? TG_FAST_WIDE_FORWARD : TG_SLOW_PATH;
	return tg_wide_segments_take(w, m, at, &f) ? TG_FAST_WIDE_SEGMENT : TG_SLOW_PATH;
}
#endif

#endif
