/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Reference programs of `tidegate-lab bench`: they do almost nothing, in the places where the
 * gate's programs run. Never loaded by `run`.
 */
#include "lib/kernel.h"
#include "../core/packet.h"
#include "../core/siphash.h"

#define TG_BENCH_HASHES 200

/* Sends the frame back as it came, addresses and ports turned round: what any
 * program that answers a SYN must do at least. No cookie, no checksum (the swap
 * does not change it), no options. */
SEC("xdp.frags")
int tg_bench_reflect(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data;
	__u8 *end = (void *)(long)ctx->data_end;
	struct tg_packet pkt = {};
	__u32 i;

	if (tg_packet_parse(&pkt, data, end) != TG_PARSE_TCP || pkt.flags != TG_TCP_SYN)
		return XDP_PASS;
	if (data + TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN > end)
		return XDP_PASS;
	for (i = 0; i < 6; i++) {
		__u8 b = data[i];

		data[i] = data[6 + i];
		data[6 + i] = b;
	}
	if (pkt.family == 4) {
		tg_store32(data + TG_ETH_HDR_LEN + 12, pkt.dst.w[0]);
		tg_store32(data + TG_ETH_HDR_LEN + 16, pkt.src.w[0]);
	} else {
		for (i = 0; i < 4; i++) {
			tg_store32(data + TG_ETH_HDR_LEN + 8 + 4 * i, pkt.dst.w[i]);
			tg_store32(data + TG_ETH_HDR_LEN + 24 + 4 * i, pkt.src.w[i]);
		}
	}
	data += pkt.l4_off;
	if (data + TG_TCP_HDR_LEN > end)
		return XDP_PASS;
	tg_store32(data, pkt.ports << 16 | pkt.ports >> 16);
	data[13] = TG_TCP_SYN | TG_TCP_ACK;
	return XDP_TX;
}

/* A bridge and no more. */
SEC("xdp.frags")
int tg_bench_bridge(struct xdp_md *ctx)
{
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

/* A router and no more: look the route up, TTL, MAC addresses, send. What every
 * packet costs that XDP forwards at all. */
SEC("xdp.frags")
int tg_bench_route(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data;
	__u8 *end = (void *)(long)ctx->data_end;
	__u8 *ip = data + TG_ETH_HDR_LEN;
	struct bpf_fib_lookup fib = {};
	__u32 sum;

	if (ip + TG_IPV4_HDR_LEN + TG_TCP_HDR_LEN > end ||
	    tg_load16(data + TG_ETH_TYPE) != TG_ETHERTYPE_IPV4 || ip[0] != 0x45 || ip[8] <= 1)
		return XDP_PASS;
	fib.family = TG_AF_INET;
	fib.l4_protocol = ip[9];
	fib.tot_len = tg_swap16(tg_load16(ip + TG_IPV4_LEN));
	fib.ifindex = ctx->ingress_ifindex;
	fib.ipv4_src = tg_load32(ip + TG_IPV4_SRC);
	fib.ipv4_dst = tg_load32(ip + TG_IPV4_DST);
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	sum = tg_load16(ip + TG_IPV4_SUM) + 1U;
	ip[TG_IPV4_TTL]--;
	tg_store16(ip + TG_IPV4_SUM, (__u16)(sum + (sum >> 16)));
	__builtin_memcpy(data, fib.dmac, 6);
	__builtin_memcpy(data + 6, fib.smac, 6);
	return bpf_redirect(fib.ifindex, 0);
}

SEC("xdp.frags")
int tg_bench_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

SEC("xdp.frags")
int tg_bench_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("tc")
int tg_bench_tc(struct __sk_buff *skb)
{
	return TCX_NEXT;
}

/* TG_BENCH_HASHES times SipHash-2-4 of 16 bytes, each fed by the one before: how fast this core is
 * at this moment. The result is stored in mark, so that the compiler keeps the loop. */
SEC("tc")
int tg_bench_hash(struct __sk_buff *skb)
{
	struct tg_siphash_key key = {.k0 = skb->ifindex, .k1 = skb->len};
	__u64 m = skb->hash;
	int i;

	for (i = 0; i < TG_BENCH_HASHES; i++) {
		struct tg_siphash s = tg_siphash_begin(&key);

		tg_siphash_word(&s, m);
		tg_siphash_word(&s, ~m);
		m = tg_siphash_end(&s, 16ULL << 56);
	}
	skb->mark = (__u32)m;
	return TCX_NEXT;
}

char LICENSE[] SEC("license") = "GPL";
