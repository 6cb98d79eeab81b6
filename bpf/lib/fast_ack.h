/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The fast path of host_tc.bpf.c for ACKs that look like nearly all (core/fast_segment.h): those of
 * live connections, which go on, and those of a flood, which the final ACK check drops. Decides
 * nothing that the slow path would decide differently; it leaves to that what carries a cookie, and
 * everything but the most common case.
 */
#ifndef TG_BPF_FAST_ACK_H
#define TG_BPF_FAST_ACK_H

#include "ack_options.h"
#include "cookie_state.h"
#include "kernel_cookie.h"
#include "live.h"
#include "../../core/fast_segment.h"

/* Nothing done and nothing counted: it takes another path. Neither TCX_NEXT nor TCX_DROP. */
#define TG_NEXT_LONG 0x100

/* `family` is a constant at each call. Fields are read from the frame each time: that costs less
 * than spilling them. */
static __always_inline int tg_fast_ack(struct __sk_buff *skb, __u8 family)
{
	const __u8 *frame = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct tg_host_settings *settings;
	struct tg_counter_row *row;
	struct tg_service *svc;
	const struct tg_live *known;
	struct tg_destination *to;
	struct tg_packet pkt;
	struct tg_ack ack;
	__u64 mono, now, epoch, hash;
	bool live, may_be_kernels;
	__u32 id;

	if (frame + tg_fast_segment_len(family) > end || !tg_fast_segment_is(frame, family))
		return TG_NEXT_LONG;
	tg_fast_segment_read(frame, family, &pkt);
	if (!tg_host_is_ack(&pkt))
		return tg_host_is_answer(&pkt) ? TG_NEXT_LONG : TCX_NEXT; /* lib/across.h */
	settings = tg_settings_get();
	id = tg_service_find(&pkt);
	if (!id)
		return TCX_NEXT;
	svc = tg_service_at(id);
	if (!tg_service_verifies(svc))
		return TCX_NEXT;
	hash = tg_filter_hash_of(settings, &pkt);
	if (!settings->behind_edge) {
		known = tg_live_at(hash);
		if (known && tg_live_knows(known, hash, pkt.seq, pkt.ack))
			return TCX_NEXT;
	}
	/* The frame again: what a live connection's segment needs is not to be kept for the rest. */
	frame = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (frame + tg_fast_segment_len(family) > end)
		return TG_NEXT_LONG;
	tg_fast_segment_read(frame, family, &pkt);
	to = tg_destination_of(&pkt);
	row = tg_counter_row_get(id);
	if (!row || tg_settings_uncommon(settings) ||
	    tg_service_listener(svc, family) == TG_LISTENER_VARIES)
		return TG_NEXT_LONG;
	live = tg_filter_may_exist(settings, tg_filter_cells(hash));
	if (!live && !settings->final_check)
		return TG_NEXT_LONG; /* which looks for a stale cookie, too */
	tg_fast_segment_read(frame, family, &pkt);
	if (TG_UNLIKELY(!tg_fast_segment_ack(frame, end, skb->len, &pkt, &ack))) {
		struct tg_tcp_options o = {};

		if (!tg_ack_options(skb, tg_fast_segment_len(family),
				    tg_fast_segment_options_len(&pkt, skb->len), &o))
			return TG_NEXT_LONG;
		ack.cookie.tsval = o.tsecr;
		ack.ts_ok = o.ts_ok;
		tg_fast_segment_read(frame, family, &pkt);
	}
	mono = tg_clock_ns(settings);
	may_be_kernels = !live && tg_kernel_syn_lately(hash, mono);
	now = tg_epoch_verifying_at(settings, mono);
	epoch = tg_cookie_epoch(ack.cookie.isn, now);
	if (tg_cookie_verify_at(to, &pkt, ack.cookie, ack.ts_ok, epoch))
		return TG_NEXT_LONG;
	if (live)
		return TCX_NEXT;
	if (TG_UNLIKELY(tg_service_is_passive(svc)))
		return TG_NEXT_LONG;
	if (tg_service_listener(svc, family) == TG_LISTENER_NONE || tg_keys_fail_open(settings, now)) {
		tg_count(row, TG_COUNT_cookie_invalid);
		return TCX_NEXT;
	}
	if (TG_UNLIKELY(may_be_kernels)) {
		frame = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		if (frame + tg_fast_segment_len(family) > end ||
		    tg_kernel_cookie_at(frame + TG_ETH_HDR_LEN, family,
					frame + tg_fast_segment_len(family) - TG_TCP_HDR_LEN))
			return TG_NEXT_LONG;
	}
	tg_count(row, TG_COUNT_cookie_invalid);
	tg_count(row, TG_COUNT_drop_unmatched_ack);
	return TCX_DROP;
}

#endif
