/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Translation by core/translate.h of the segment in hand, and of what an ICMP error in
 * hand quotes, in XDP and (with TG_SKB defined) in TC; for the proxy and for the
 * server role. At TC a checksum may be left to the NIC: then the field holds no
 * checksum yet, and only the kernel knows; so it is the kernel that corrects it.
 *
 * Must never: know where a flow comes from; the caller passes one.
 */
#ifndef TG_BPF_TRANSLATE_H
#define TG_BPF_TRANSLATE_H

#include "ctx.h"
#include "gate.h"
#include "../../core/proxy.h"

/* What a translation works on; a flow's copy, because map values cannot be handed to
 * a function that is verified by itself. */
struct tg_work {
	struct tg_flow flow;
	uint64_t sum;
	__u32 off; /* of the options */
	__u32 len;
	__u32 dir;
	__u32 ack;
};

/* Options in any order and number. */
TG_GLOBAL int tg_translate_slow(TG_CTX *ctx, struct tg_work *w)
{
	struct tg_options_cursor c;
	__u32 len;

	if (!w)
		return -TG_EINVAL;
	tg_options_clear(&c);
	len = w->len;
	if (!tg_options_len_is_sane(&len) || w->off > TG_L4_OFF_MAX + TG_TCP_HDR_LEN)
		return -TG_EINVAL;
	c.len = len;
	if (tg_ctx_load(ctx, w->off, c.bytes, len))
		return -TG_EINVAL;
	tg_translate_options(&c, &w->flow, w->ack, w->dir, &w->sum);
	/* The verifier has lost the bounds of the length after writes at unknown offsets. */
	len = w->len;
	if (!tg_options_len_is_sane(&len))
		return -TG_EINVAL;
	return (int)tg_ctx_store(ctx, w->off, c.bytes, len);
}

/* Corrects the checksum of the segment in hand after changes that add up to `sum`. */
static __always_inline int tg_translate_finish(TG_CTX *ctx, const struct tg_packet *pkt, uint64_t sum)
{
#ifdef TG_SKB
	return (int)bpf_l4_csum_replace(ctx, pkt->l4_off + 16, 0, tg_csum_fold(sum), 0);
#else
	__u8 *tcp = (__u8 *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX);

	if (tcp + TG_TCP_HDR_LEN > (__u8 *)(long)ctx->data_end)
		return -TG_EINVAL;
	tg_store16(tcp + TG_TCP_SUM, tg_translate_checksum(tg_load16(tcp + TG_TCP_SUM), sum));
	return 0;
#endif
}

/* Translates the segment in hand by a flow that is ready. Negative if it is not
 * whole. At TC its headers must be in the linear part and writable. */
static __always_inline int tg_translate(TG_CTX *ctx, const struct tg_packet *pkt,
					const struct tg_flow *f, enum tg_direction dir)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *tcp = data + (pkt->l4_off & TG_L4_OFF_MAX);
	bool ack = pkt->flags & TG_TCP_ACK;
	uint64_t sum = 0;

	if (tcp + TG_TCP_HDR_LEN > end)
		return -TG_EINVAL;
	tg_translate_header(tcp, f, dir, &sum);
	if (pkt->tcp_hdr_len == TG_TCP_HDR_LEN + 12 && tcp + TG_TCP_HDR_LEN + 12 <= end &&
	    tg_translate_is_aligned(tcp + TG_TCP_HDR_LEN)) {
		if (f->flags & TG_FLOW_TS)
			tg_translate_timestamps(tcp + TG_TCP_HDR_LEN + 4, f, ack, dir, &sum);
	} else if (pkt->tcp_hdr_len > TG_TCP_HDR_LEN) {
		struct tg_work w = {
			.flow = *f,
			.sum = sum,
			.off = pkt->l4_off + TG_TCP_HDR_LEN,
			.len = (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN,
			.dir = dir,
			.ack = ack,
		};

		if (tg_translate_slow(ctx, &w))
			return -TG_EINVAL;
		sum = w.sum;
	}
	return tg_translate_finish(ctx, pkt, sum);
}

#endif
