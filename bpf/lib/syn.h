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

/* The options of the segment in hand. False if they lie about their length. */
static __always_inline bool tg_syn_options(struct xdp_md *ctx, const struct tg_packet *syn,
					   struct tg_tcp_options *offered)
{
	const __u8 *at = (void *)(long)ctx->data + (syn->l4_off & TG_L4_OFF_MAX) + TG_TCP_HDR_LEN;
	const __u8 *end = (void *)(long)ctx->data_end;
	struct tg_options_cursor c;

	c.at = 0;
	c.len = syn->tcp_hdr_len - TG_TCP_HDR_LEN;
	if (TG_LIKELY(tg_tcp_options_common(at, c.len, end, offered)))
		return true;
	if (c.len && (!tg_options_len_is_sane(&c.len) ||
		      bpf_xdp_load_bytes(ctx, syn->l4_off + TG_TCP_HDR_LEN, c.bytes, c.len)))
		return false;
	return tg_options_read(&c, offered) == 0;
}

/* Turns the SYN in the frame into the answer. False if the frame cannot be given its
 * length. */
static __always_inline bool tg_syn_answer(struct xdp_md *ctx, const struct tg_packet *syn,
					  const struct tg_service *svc,
					  const struct tg_tcp_options *offered, __u64 epoch,
					  const struct tg_siphash_key *key)
{
	struct tg_synack answer = {};
	struct tg_cookie cookie;
	__u8 *data, *end;

	tg_synack_agreed(syn, offered, svc, &answer);
	cookie = tg_cookie_make_by_call(syn, answer.option_bits, answer.options.ts_ok, epoch, key);
	if (!tg_frame_resize(ctx, syn->l3_off + tg_synack_len(syn, &answer)))
		return false;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + TG_ETH_HDR_LEN > end)
		return false;
	if (!tg_synack_write((struct tg_writer){data + (syn->l3_off & 31), end}, syn, &answer, cookie))
		return false;
	tg_ethernet_reflect(data);
	return true;
}

#endif
