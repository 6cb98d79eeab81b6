/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How the proxy's XDP program sends: where a packet leaves, and the
 * segments that it makes itself.
 *
 * A router asks the kernel's FIB. What the FIB cannot send (an unresolved neighbour, a VLAN device,
 * a tunnel, a packet for this machine) goes to the kernel, which routes it as it would without us.
 * A bridge has two ports.
 */
#ifndef TG_BPF_PROXY_SEND_H
#define TG_BPF_PROXY_SEND_H

#include "fib.h"
#include "frame.h"
#include "ingress.h"
#include "proxy_maps.h"

#define TG_ETH_P_IP 0x0800
#define TG_ETH_P_IPV6 0x86dd

enum tg_forwarding {
	TG_FORWARD_KERNEL,       /* the kernel forwards it, changed or not */
	TG_FORWARD_KERNEL_AS_IS, /* the kernel has to see it unchanged: it will send an ICMP error
				that quotes it, or it is not for this box */
	TG_FORWARD_BACK, /* by the port that it came by. Not by a devmap: there are twins only (proxy_twin.h) */
	TG_FORWARD_ROUTE,
	TG_FORWARD_BRIDGE,
};

struct tg_route {
	__u32 forwarding; /* enum tg_forwarding */
	__u32 ifindex;
	__u8 macs[12]; /* destination, source */
	__u8 pad[4];
};

static __always_inline bool tg_ip_ttl(const __u8 *data, const __u8 *end,
				      const struct tg_packet *pkt, __u8 *ttl, bool *may_fragment)
{
	const __u8 *ip = data + (pkt->l3_off & 31);

	if (ip + TG_IPV6_HDR_LEN > end) /* with a TCP header behind it IPv4 is as long */
		return false;
	*ttl = pkt->family == 4 ? ip[TG_IPV4_TTL] : ip[TG_IPV6_HOPS];
	*may_fragment = pkt->family == 4 && !(ip[TG_IPV4_FRAG] & 0x40);
	return true;
}

static __always_inline void tg_route_fib(struct xdp_md *ctx, const struct tg_packet *pkt,
					 bool may_fragment, struct tg_route *r)
{
	struct bpf_fib_lookup fib = {};
	long err;

	fib.l4_protocol = TG_IPPROTO_TCP;
	fib.tot_len = (__u16)(pkt->l4_off - pkt->l3_off + pkt->l4_len);
	fib.ifindex = tg_ingress(ctx);
	tg_fib_between(&fib, pkt->family, &pkt->src, &pkt->dst);
	err = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	if (err == BPF_FIB_LKUP_RET_FRAG_NEEDED && !may_fragment)
		r->forwarding = TG_FORWARD_KERNEL_AS_IS;
	if (err != BPF_FIB_LKUP_RET_SUCCESS || !bpf_map_lookup_elem(&tg_devices, &fib.ifindex))
		return;
	r->forwarding = fib.ifindex == tg_ingress(ctx) ? TG_FORWARD_BACK : TG_FORWARD_ROUTE;
	r->ifindex = fib.ifindex;
	__builtin_memcpy(r->macs, fib.dmac, 6);
	__builtin_memcpy(r->macs + 6, fib.smac, 6);
}

/* Of a bridge, the port that what has come by `ingress` leaves by; 0: that is none of its ports, or
 * this is no bridge. */
static __always_inline __u32 tg_bridge_to(const struct tg_proxy_settings *proxy, __u32 ingress)
{
	if (!proxy->bridge[0])
		return 0;
	if (ingress == proxy->bridge[0])
		return proxy->bridge[1];
	return ingress == proxy->bridge[1] ? proxy->bridge[0] : 0;
}

/* Where the packet in hand leaves. */
TG_GLOBAL int tg_route_find(struct xdp_md *ctx, const struct tg_packet *pkt, struct tg_route *r)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	bool may_fragment;
	__u8 ttl;

	if (!pkt || !r)
		return -TG_EINVAL;
	r->forwarding = TG_FORWARD_KERNEL;
	if (proxy->bridge[0]) {
		r->ifindex = tg_bridge_to(proxy, tg_ingress(ctx));
		if (r->ifindex)
			r->forwarding = TG_FORWARD_BRIDGE;
		return 0;
	}
	if (pkt->l3_off != TG_ETH_HDR_LEN) /* a VLAN device's packet: the kernel knows its routes */
		return 0;
	if (!tg_ip_ttl((void *)(long)ctx->data, (void *)(long)ctx->data_end, pkt, &ttl, &may_fragment))
		return 0;
	if (ttl <= 1) {
		r->forwarding = TG_FORWARD_KERNEL_AS_IS;
		return 0;
	}
	tg_route_fib(ctx, pkt, may_fragment, r);
	return 0;
}

/* A port of this box in eight bits; two of a router may have the same. */
static __always_inline __u8 tg_port_tag(const struct tg_proxy_settings *proxy, __u32 ifindex)
{
	return proxy->bridge[0] ? (ifindex == proxy->bridge[0] ? 1 : 2) : (__u8)ifindex;
}

/* The port by which a router would send to the packet's sender; 0: not known, as for VLANs. */
TG_GLOBAL int tg_route_back(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	struct bpf_fib_lookup fib = {.l4_protocol = TG_IPPROTO_TCP, .ifindex = tg_ingress(ctx)};

	if (!pkt || pkt->l3_off != TG_ETH_HDR_LEN)
		return 0;
	tg_fib_between(&fib, pkt->family, &pkt->dst, &pkt->src);
	/* A server that is down has no neighbour entry, and that is when others might answer in its
	 * name. */
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), BPF_FIB_LOOKUP_SKIP_NEIGH) !=
	    BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	return (int)fib.ifindex;
}

/* Completes the packet in hand, of that family, for its way: a router's Ethernet header and TTL. False: it is too short. */
static __always_inline bool tg_route_write(struct xdp_md *ctx, __u8 family, const struct tg_route *r)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip;

	if (r->forwarding == TG_FORWARD_BRIDGE)
		return true;
	ip = data + TG_ETH_HDR_LEN;
	if (ip + TG_IPV6_HDR_LEN > end)
		return false;
	if (family == 4) {
		/* TTL - 1: the checksum field grows by 0x0100 (RFC 1141), carry around */
		__u32 sum = tg_load16(ip + TG_IPV4_SUM) + 0x0001U;

		ip[TG_IPV4_TTL]--;
		tg_store16(ip + TG_IPV4_SUM, (__u16)(sum + (sum >> 16)));
	} else {
		ip[TG_IPV6_HOPS]--;
	}
	__builtin_memcpy(data, r->macs, 12);
	return true;
}

/* Sends the packet in hand, finished but for its Ethernet header and TTL. */
static __always_inline int tg_route_send(struct xdp_md *ctx, const struct tg_packet *pkt,
					 const struct tg_route *r)
{
	if (r->forwarding == TG_FORWARD_BRIDGE)
		return bpf_redirect_map(&tg_devices, r->ifindex, 0);
	if (r->forwarding < TG_FORWARD_BACK || !tg_route_write(ctx, pkt->family, r))
		return XDP_PASS;
	return r->forwarding == TG_FORWARD_BACK ? XDP_TX
						: bpf_redirect_map(&tg_devices, r->ifindex, 0);
}

/* Forwards a packet that is not changed. */
static __always_inline int tg_forward(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	struct tg_route r = {};

	if (tg_route_find(ctx, pkt, &r))
		return XDP_PASS;
	return tg_route_send(ctx, pkt, &r);
}

/* The same, where the settings are at hand: a bridge has nothing to look for. */
static __always_inline int tg_forward_by(struct xdp_md *ctx, const struct tg_packet *pkt,
					 const struct tg_proxy_settings *proxy)
{
	__u32 port = tg_bridge_to(proxy, tg_ingress(ctx));

	return port ? (int)bpf_redirect_map(&tg_devices, port, 0) : tg_forward(ctx, pkt);
}

/* Puts a segment of our own into the place of the packet in hand. Negative if
 * the frame cannot be resized. */
TG_GLOBAL int tg_segment_put(struct xdp_md *ctx, const struct tg_segment *s)
{
	__u8 *data, *end;
	__u32 l3_off;

	if (!s)
		return -TG_EINVAL;
	l3_off = s->l3_off;
	if (l3_off > TG_FRAME_KEPT_LEN)
		return -TG_EINVAL;
	if (!tg_frame_resize(ctx, l3_off + tg_segment_len(s)))
		return -TG_ENOENT;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + TG_ETH_HDR_LEN > end ||
	    !tg_segment_write((struct tg_writer){data + l3_off, end}, s))
		return -TG_ENOENT;
	if (s->reflect)
		tg_ethernet_reflect(data);
	return 0;
}

/* Sends a segment of our own: back by the port in hand, or onwards. `pkt` is what
 * was in its place; it becomes what is. */
static __always_inline int tg_segment_send(struct xdp_md *ctx, struct tg_packet *pkt,
					   const struct tg_segment *s,
					   const struct tg_proxy_settings *proxy)
{
	if (!proxy)
		return XDP_DROP;
	if (tg_segment_put(ctx, s))
		return XDP_DROP;
	if (s->reflect)
		return XDP_TX;
	pkt->src = s->src;
	pkt->dst = s->dst;
	pkt->l4_off = s->l3_off + tg_segment_ip_len(s);
	pkt->l4_len = tg_segment_tcp_len(s);
	return tg_forward_by(ctx, pkt, proxy);
}

#endif
