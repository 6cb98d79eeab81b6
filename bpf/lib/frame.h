/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Gives the frame in an XDP program's hand another length, for an answer that is
 * written over what came.
 *
 * Must never: fail because a driver leaves no room behind a frame. A device that makes
 * its frames of socket buffers (veth, generic XDP) leaves next to none; before a frame
 * every driver leaves XDP_PACKET_HEADROOM.
 */
#ifndef TG_BPF_FRAME_H
#define TG_BPF_FRAME_H

#include "kernel.h"
#include "../../core/packet.h"

/* The link header, which stays at the frame's beginning: Ethernet with two VLAN tags. The caller
 * writes what follows. */
#define TG_FRAME_KEPT_LEN (TG_ETH_HDR_LEN + TG_VLAN_TAGS_MAX * TG_VLAN_TAG_LEN)

/* Makes the frame longer by `by` bytes before it. False: no room, and the frame may have lost its link header. */
TG_GLOBAL int tg_frame_precede(struct xdp_md *ctx, int by)
{
	__u8 link[TG_FRAME_KEPT_LEN + 2];

	return by > 0 && !bpf_xdp_load_bytes(ctx, 0, link, TG_FRAME_KEPT_LEN) &&
	       !bpf_xdp_adjust_head(ctx, -by) &&
	       !bpf_xdp_store_bytes(ctx, 0, link, TG_FRAME_KEPT_LEN);
}

/* A frame in several buffers fills its first one. */
#define TG_FIRST_BUFFER_LEAST 256

/* The length of the frame, without a call for short ones. */
static __always_inline __u32 tg_frame_len(struct xdp_md *ctx)
{
	__u32 first = (__u32)(ctx->data_end - ctx->data);

	return first < TG_FIRST_BUFFER_LEAST ? first : (__u32)bpf_xdp_get_buff_len(ctx);
}

/* Makes the frame `len` bytes long; the caller reads its ends again. False as there. */
static __always_inline bool tg_frame_resize(struct xdp_md *ctx, __u32 len)
{
	int by = (int)len - (int)tg_frame_len(ctx);

	return by == 0 || bpf_xdp_adjust_tail(ctx, by) == 0 || tg_frame_precede(ctx, by);
}

#endif
