/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How an XDP program turns a SYN into the cookie SYN-ACK that answers it: reads the
 * options, asks core/, resizes the frame, writes. Decides nothing.
 */
#ifndef TG_BPF_SYN_H
#define TG_BPF_SYN_H

#include "cookie_call.h"
#include "frame.h"
#include "gate.h"

/* The options of the segment in hand; `c` is memory for them. False if they lie about their length. */
static __always_inline bool tg_syn_options_in(struct xdp_md *ctx, const struct tg_packet *syn,
					      struct tg_options_cursor *c,
					      struct tg_tcp_options *offered)
{
	const __u8 *at = (void *)(long)ctx->data + (syn->l4_off & TG_L4_OFF_MAX) + TG_TCP_HDR_LEN;
	const __u8 *end = (void *)(long)ctx->data_end;
	__u32 len = syn->tcp_hdr_len - TG_TCP_HDR_LEN;

	if (TG_LIKELY(tg_tcp_options_common(at, len, end, offered)))
		return true;
	if (len && (!tg_options_len_is_sane(&len) ||
		    bpf_xdp_load_bytes(ctx, syn->l4_off + TG_TCP_HDR_LEN, c->bytes, len)))
		return false;
	c->at = 0;
	c->len = len;
	return tg_options_read(c, offered) == 0;
}

/* The same. */
static __always_inline bool tg_syn_options(struct xdp_md *ctx, const struct tg_packet *syn,
					   struct tg_tcp_options *offered)
{
	struct tg_options_cursor c;

	return tg_syn_options_in(ctx, syn, &c, offered);
}

/* Writes the answer over the SYN in the frame. False if the frame cannot be given its length. */
static __always_inline bool tg_syn_write(struct xdp_md *ctx, const struct tg_packet *syn,
					 const struct tg_synack *answer, struct tg_cookie cookie)
{
	__u8 *data, *end;

	if (!tg_frame_resize(ctx, syn->l3_off + tg_synack_len(syn, answer)))
		return false;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + TG_ETH_HDR_LEN > end)
		return false;
	if (!tg_synack_write((struct tg_writer){data + (syn->l3_off & 31), end}, syn, answer, cookie))
		return false;
	tg_ethernet_reflect(data);
	return true;
}

/* Turns the SYN in the frame into the answer, in an epoch whose key the caller has found. False as there. `answer`: memory, all zero or of an earlier answer. */
static __always_inline bool tg_syn_answer_in(struct xdp_md *ctx, const struct tg_packet *syn,
					     const struct tg_service *svc,
					     const struct tg_tcp_options *offered, __u64 epoch,
					     struct tg_synack *answer)
{
	struct tg_cookie cookie;

	tg_synack_agreed(syn, offered, svc, answer);
	cookie = tg_cookie_make_by_call(syn, answer->option_bits, answer->options.ts_ok, epoch);
	return tg_syn_write(ctx, syn, answer, cookie);
}

/* The same. */
static __always_inline bool tg_syn_answer(struct xdp_md *ctx, const struct tg_packet *syn,
					  const struct tg_service *svc,
					  const struct tg_tcp_options *offered, __u64 epoch)
{
	struct tg_synack answer = {};

	return tg_syn_answer_in(ctx, syn, svc, offered, epoch, &answer);
}

#endif
