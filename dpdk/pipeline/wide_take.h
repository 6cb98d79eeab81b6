/* SPDX-License-Identifier: Apache-2.0
 *
 * The first stage of frames that are processed several at once: which of the wide paths they take.
 */
#ifndef TG_DPDK_WIDE_TAKE_H
#define TG_DPDK_WIDE_TAKE_H

#include "fast_wide.h"
#include "fast_wide_flow.h"
#include "fast_wide_forward.h"

#if TG_HAS_WIDE
#define TG_WIDE_FLAGS (TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN + TG_TCP_FLAGS)

TG_INLINE bool tg_wide_is_syn(const struct rte_mbuf *m)
{
	return m->data_len > TG_WIDE_FLAGS && TG_DATA(m)[TG_WIDE_FLAGS] == TG_TCP_SYN;
}

/* False: the frames that begin with `m` are processed one by one. */
TG_INLINE bool tg_wide_may(const struct tg_worker *w, const struct rte_mbuf *m)
{
	if (tg_wide_is_syn(m))
		return !w->fast.apart;
	return w->config->flows || !w->config->router;
}

/* First stage: returns the path of the frames; TG_SLOW_PATH: process them one by one. */
static inline uint8_t tg_wide_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				   uint64_t mac, uint64_t mask)
{
	struct tg_wide_frames f;

	if (!tg_wide_read(m, mac, mask, &f))
		return TG_SLOW_PATH;
	if (tg_wide_is_syn(m[0]))
		return tg_wide_syns_take(w, m, at, &f) ? TG_FAST_WIDE : TG_SLOW_PATH;
	if (!w->config->flows)
		return tg_wide_forwards_take(w, m, at, &f) ? TG_FAST_WIDE_FORWARD : TG_SLOW_PATH;
	return tg_wide_segments_take(w, m, at, &f) ? TG_FAST_WIDE_SEGMENT : TG_SLOW_PATH;
}
#endif

#endif
