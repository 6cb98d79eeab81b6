/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What `tidegate-lab bench --role terminus` measures a patrol with: a generator of
 * minimum-size packets whose addresses vary, run as live frames on a veth of the
 * lab, a forwarder that does nothing else, and the far end. Never loaded by `run`.
 */
#include "lib/kernel.h"
#include "../core/checksum.h"
#include "../core/ifp.h"
#include "../core/packet.h"
#include "../core/splitmix.h"

#define FRAME_LEN 60

/* Source i is host 1 (or a random one) of the /24 number spread(i); destinations
 * are 198.18.0.0 + first_dst and up. Golden-ratio steps never meet for so few i. */
__u8 gen_mac_dst[6], gen_mac_src[6];
__u32 gen_sources = 1, gen_first_dst = 0, gen_dsts = 1, gen_any_host = 0;
__u32 wire_peer = 0;
uint64_t gen_state = 1;
__u64 gen_frames = 0;
__u64 sink_frames = 0;

SEC("xdp.frags")
int tg_patrol_generate(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u8 *ip = data + TG_ETH_HDR_LEN;
	__u64 r = tg_splitmix(&gen_state);
	__u32 i, src, dst;

	if (data + FRAME_LEN > end)
		return XDP_ABORTED;
	i = (__u32)r % (gen_sources ? gen_sources : 1);
	src = (i * 0x9e3779b1U) & 0xffffff00U;
	src |= gen_any_host ? r >> 56 : 1;
	dst = 0xc6120000U + gen_first_dst + (__u32)(r >> 32) % (gen_dsts ? gen_dsts : 1);
	__builtin_memcpy(data, gen_mac_dst, 6);
	__builtin_memcpy(data + 6, gen_mac_src, 6);
	tg_store16(data + 12, TG_ETHERTYPE_IPV4);
	tg_store32(ip, TG_WIRE32(0x45, 0, 0, 46));
	tg_store32(ip + 4, 0);
	tg_store32(ip + 8, TG_WIRE32(64, 17, 0, 0));
	tg_store32(ip + TG_IPV4_SRC, tg_swap32(src));
	tg_store32(ip + TG_IPV4_DST, tg_swap32(dst));
	tg_store16(ip + TG_IPV4_SUM,
		   tg_csum_finish((__u64)tg_load32(ip) + tg_load32(ip + 8) +
				  tg_load32(ip + TG_IPV4_SRC) + tg_load32(ip + TG_IPV4_DST)));
	tg_store32(ip + 20, TG_WIRE32(0x12, 0x34, 0x56, 0x78));
	tg_store32(ip + 24, TG_WIRE32(0, 26, 0, 0));
	gen_frames++;
	return XDP_TX;
}

#define REQUEST_LEN (TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN + 8 + TG_IFP_HDR_LEN + 20)

__u32 request_dst_be = 0;
__u16 request_port_be = 0;

/* A request for one filter, without a nonce, from a random address and port. */
SEC("xdp.frags")
int tg_request_generate(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip, *udp, *m;
	__u64 r = tg_splitmix(&gen_state);
	int delta = REQUEST_LEN - (int)(end - data); /* the last answer may have cut the frame */

	if (delta && bpf_xdp_adjust_tail(ctx, delta))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + REQUEST_LEN > end)
		return XDP_ABORTED;
	ip = data + TG_ETH_HDR_LEN;
	udp = ip + TG_IPV4_HDR_LEN;
	m = udp + 8;
	__builtin_memcpy(data, gen_mac_dst, 6);
	__builtin_memcpy(data + 6, gen_mac_src, 6);
	tg_store16(data + 12, TG_ETHERTYPE_IPV4);
	tg_store32(ip, TG_WIRE32(0x45, 0, 0, REQUEST_LEN - TG_ETH_HDR_LEN));
	tg_store32(ip + 4, 0);
	tg_store32(ip + 8, TG_WIRE32(64, 17, 0, 0));
	tg_store32(ip + TG_IPV4_SRC, (__u32)r);
	tg_store32(ip + TG_IPV4_DST, request_dst_be);
	tg_store16(ip + TG_IPV4_SUM,
		   tg_csum_finish((__u64)tg_load32(ip) + tg_load32(ip + 8) +
				  tg_load32(ip + TG_IPV4_SRC) + tg_load32(ip + TG_IPV4_DST)));
	tg_store16(udp, (__u16)(r >> 32));
	tg_store16(udp + 2, request_port_be);
	tg_store32(udp + 4, TG_WIRE32(0, 8 + TG_IFP_HDR_LEN + 20, 0, 0));
	tg_store32(m, TG_WIRE32(TG_IFP_VERSION, TG_IFP_INSTALL, 0, TG_IFP_HDR_LEN + 20));
	tg_store32(m + 4, TG_WIRE32(0, 0, 0, 1));
	tg_store32(m + 8, (__u32)(r >> 7));
	tg_store32(m + 12, (__u32)(r >> 17));
	tg_store32(m + 16, 0);
	tg_store32(m + 20, 0);
	tg_store32(m + 24, TG_WIRE32(4, 1, 32, 32));
	tg_store32(m + 28, 0);
	tg_store32(m + 32, 0);
	tg_store32(m + 36, (__u32)(r >> 3));
	tg_store32(m + 40, request_dst_be);
	gen_frames++;
	return XDP_TX;
}

/* A wire with two ends, nothing else. */
SEC("xdp.frags")
int tg_patrol_wire(struct xdp_md *ctx)
{
	return bpf_redirect(wire_peer, 0);
}

SEC("xdp.frags")
int tg_patrol_sink(struct xdp_md *ctx)
{
	sink_frames++; /* one CPU sends */
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
