/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The fast path for the SYNs of core/fast_syn.h: what an XDP program does with them before it looks
 * at a packet in full. Decides nothing that the slow path would decide differently; it leaves
 * everything but the most common case to that.
 */
#ifndef TG_BPF_FAST_SYN_H
#define TG_BPF_FAST_SYN_H

#include "cookie_state.h"
#include "../../core/fast_syn.h"

enum tg_fast_syn_kind {
	TG_FAST_NONE,
	TG_FAST_V4_TS,
	TG_FAST_V4,
	TG_FAST_V6_TS,
	TG_FAST_V6,
};

/* True if the frame is as long as a common SYN, and a SYN by its flags. A frame in
 * several buffers fills its first one, so it never is as short as these. */
static __always_inline bool tg_fast_syn_may_be(const __u8 *frame, const __u8 *end, __u8 family,
					       bool ts)
{
	return frame + tg_fast_syn_len(family, ts) <= end &&
	       tg_load16(frame + TG_ETH_TYPE) ==
		       (family == 4 ? TG_ETHERTYPE_IPV4 : TG_ETHERTYPE_IPV6) &&
	       tg_load16(frame + tg_fast_syn_l4(family) + 12) == (ts ? 0x02a0 : 0x0280);
}

/* Which of them the frame may be. */
static __always_inline enum tg_fast_syn_kind tg_fast_syn_kind(const __u8 *frame, const __u8 *end)
{
	__u64 len = (__u64)(end - frame);

	if (len == tg_fast_syn_len(4, true) && tg_fast_syn_may_be(frame, end, 4, true))
		return TG_FAST_V4_TS;
	if (len == tg_fast_syn_len(4, false) && tg_fast_syn_may_be(frame, end, 4, false))
		return TG_FAST_V4;
	if (len == tg_fast_syn_len(6, true) && tg_fast_syn_may_be(frame, end, 6, true))
		return TG_FAST_V6_TS;
	if (len == tg_fast_syn_len(6, false) && tg_fast_syn_may_be(frame, end, 6, false))
		return TG_FAST_V6;
	return TG_FAST_NONE;
}

/* Answers the SYN in the frame, to this destination, with the epoch's cookie. False, with nothing done, if
 * no key of this epoch is loaded. */
static __always_inline bool tg_fast_syn_send(__u8 *frame, __u8 family, bool ts,
					     const struct tg_host_settings *settings,
					     struct tg_destination *d, const struct tg_service *svc,
					     const struct tg_packet *syn,
					     const struct tg_tcp_options *offered, __u64 addrs)
{
	__u64 epoch = tg_epoch_now(settings);
	const struct tg_begun *begun = tg_cookie_begun(d, epoch);
	struct tg_cookie cookie;
	struct tg_packet again;

	if (!begun)
		return false;
	(void)syn;
	tg_fast_syn_fields(frame, family, &again);
	cookie = tg_cookie_make_begun(begun, &again, tg_fast_syn_bits(family, ts, offered), ts,
				      epoch);
	TG_BARRIER();
	tg_fast_syn_fields(frame, family, &again);
	tg_fast_syn_answer(frame, family, ts, &again, addrs, svc, cookie);
	return true;
}

#endif
