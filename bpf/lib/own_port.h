/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * To which MAC addresses an interface takes frames: own.h asks for SYNs, on XDP, and the TC programs
 * for ACKs, which alone call tg_skb_is_others.
 */
#ifndef TG_BPF_OWN_PORT_H
#define TG_BPF_OWN_PORT_H

#include "gate.h"

#define TG_OWN_MACS 4
#define TG_OWN_NO_GATEWAY (~0ULL)

/* An interface: the addresses of the interface, its master and the devices on top of it. */
struct tg_own_port {
	__u64 macs[TG_OWN_MACS]; /* first byte lowest; the rest repeat the first */
	/* IPv4, IPv6: the MAC address from which SYNs are answered there, without a look at routes: of the
	 * only gateway that this machine has. TG_OWN_NO_GATEWAY: there is none such. */
	__u64 gateway[2];
	__u32 is_loopback;
	__u32 pad;
};

/* By interface index; userspace sets the number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_own_port);
} tg_own_ports SEC(".maps");

static __always_inline bool tg_own_port_has(const struct tg_own_port *port, __u64 mac)
{
	return mac == port->macs[0] || mac == port->macs[1] || mac == port->macs[2] ||
	       mac == port->macs[3];
}

#ifdef TG_SKB
/* 1 if the frame is for somebody else, and the kernel will drop it. Interfaces see such frames when they are promiscuous, or
 * when a switch does not know where a MAC address is; a bridge's own MAC address may be another than its port's. */
TG_GLOBAL int tg_skb_is_others(struct __sk_buff *skb)
{
	const struct tg_host_settings *settings;
	const struct tg_own_port *port;
	__u32 index;
	__u64 mac = 0;

	if (TG_LIKELY(skb->pkt_type != TG_PACKET_OTHERHOST))
		return 0;
	settings = tg_settings_get();
	index = skb->ifindex;
	port = bpf_map_lookup_elem(&tg_own_ports, &index);
	return settings->only_own && port &&
	       !bpf_skb_load_bytes_relative(skb, 0, &mac, 6, BPF_HDR_START_MAC) &&
	       !tg_own_port_has(port, mac);
}

#endif

#endif
