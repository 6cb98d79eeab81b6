/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP at a port's way out, proxy role: the twin of a client's window (lib/proxy_twin.h) becomes the ACK that the
 * server waits for.
 *
 * Must never: touch a frame that no twin is known of; drop one.
 */
#include "lib/proxy_twin.h"
#include "../core/packet.h"

/* The frame in hand is the client's window, if it is the one that `t` is for. */
static __always_inline bool tg_twin_is(const struct tg_twin *t, const __u8 *data, const __u8 *end)
{
	__u32 ip_len = t->ack.family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN;
	const __u8 *tcp = data + (t->ack.l3_off & 31) + ip_len;

	return t->waits && tcp + TG_TCP_HDR_LEN <= end && tg_load32(tcp) == t->ports &&
	       tg_load32(tcp + TG_TCP_SEQ) == t->seq;
}

SEC("xdp.frags/devmap")
int tg_proxy_twin(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct tg_twin_ring *ring = tg_twin_ring_get();
	struct tg_twin *t;
	__u32 i, at;

	if (!ring || data + TG_ETH_HDR_LEN > end)
		return XDP_PASS;
	for (i = 0; i < TG_TWINS_WAIT; i++) {
		at = (ring->oldest + i) & (TG_TWINS_WAIT - 1);
		t = &ring->of[at];
		if (!tg_twin_is(t, data, end))
			continue;
		t->waits = 0;
		ring->oldest = at + 1;
		if (tg_segment_write((struct tg_writer){data + (t->ack.l3_off & 31), end}, &t->ack))
			__builtin_memcpy(data, t->macs, sizeof(t->macs));
		return XDP_PASS;
	}
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
