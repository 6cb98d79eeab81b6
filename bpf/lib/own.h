/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Which frames this machine would accept as its own: by destination MAC address and interface, and
 * by the local addresses of its routing tables. Userspace fills the maps; where it has not
 * (settings.only_own is 0), every frame counts as ours.
 *
 * Must never: be called for anything but SYNs.
 */
#ifndef TG_BPF_OWN_H
#define TG_BPF_OWN_H

#include "gate.h"
#include "ingress.h"
#include "own_port.h"

#define TG_OWN_SLOTS 64

/* Local addresses, each in the slot of its last byte. What finds its slot taken, and what is
 * a prefix, stands in the tree below alone. */
struct tg_own_table {
	__u32 v4[TG_OWN_SLOTS];
	__u64 v6[TG_OWN_SLOTS][2];
};

struct tg_own_table tg_own_addrs TG_VARIABLE(tg_own_addrs);

struct tg_own_prefix {
	__u32 len; /* of IPv4: 96 more */
	__u8 addr[16]; /* IPv4: mapped */
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_own_prefix);
	__type(value, __u32);
} tg_own_prefixes SEC(".maps");

static __always_inline const struct tg_own_port *tg_own_port_get(const struct xdp_md *ctx)
{
	__u32 index = tg_ingress(ctx);

	return bpf_map_lookup_elem(&tg_own_ports, &index);
}

static __always_inline __u64 tg_own_mac_of(const __u8 *frame)
{
	return tg_load64(frame) & 0xffffffffffffULL;
}

static __always_inline bool tg_own_slot_has(const struct tg_own_table *own, const union tg_addr *a,
					    __u8 family)
{
	__u32 slot;

	if (family == 4) {
		slot = a->w[0] >> 24 & (TG_OWN_SLOTS - 1);
		return own->v4[slot] == a->w[0];
	}
	slot = a->w[3] >> 24 & (TG_OWN_SLOTS - 1);
	return own->v6[slot][0] == a->d[0] && own->v6[slot][1] == a->d[1];
}

/* What can be decided at once about a common SYN. */
enum tg_own_plain {
	TG_OWN_UNCLEAR, /* the slow path knows more */
	TG_OWN_PLAINLY, /* it is ours */
	TG_OWN_BACK, /* and the answer goes back to the gateway that it came from */
};

/* `frame` has a whole Ethernet header and more behind it. */
static __always_inline enum tg_own_plain tg_own_plainly(const struct xdp_md *ctx, const __u8 *frame,
							const struct tg_packet *syn, __u8 family)
{
	const struct tg_own_port *port = tg_own_port_get(ctx);
	const struct tg_own_table *own = &tg_own_addrs;

	if (!port || port->macs[0] != tg_own_mac_of(frame) ||
	    !tg_own_slot_has(own, &syn->dst, family) || tg_own_slot_has(own, &syn->src, family))
		return TG_OWN_UNCLEAR;
	return port->gateway[family == 6] == tg_load64(frame + TG_ETH_SRC - 2) >> 16
		       ? TG_OWN_BACK
		       : TG_OWN_PLAINLY;
}

static __always_inline bool tg_own_has(const struct tg_own_table *own, const union tg_addr *a,
				       __u8 family)
{
	struct tg_own_prefix key = {.len = 128};

	if (tg_own_slot_has(own, a, family))
		return true;
	if (family == 4) {
		key.addr[10] = key.addr[11] = 0xff;
		__builtin_memcpy(key.addr + 12, &a->w[0], 4);
	} else {
		__builtin_memcpy(key.addr, a->w, 16);
	}
	return bpf_map_lookup_elem(&tg_own_prefixes, &key) != 0;
}

/* enum tg_own of the SYN in hand. */
TG_GLOBAL int tg_own_judge(struct xdp_md *ctx, const struct tg_packet *syn)
{
	const __u8 *frame = (void *)(long)ctx->data;
	const struct tg_own_port *port = tg_own_port_get(ctx);
	const struct tg_own_table *own = &tg_own_addrs;

	if (!syn || !port || frame + TG_ETH_HDR_LEN > (__u8 *)(long)ctx->data_end)
		return TG_OWN_NOT;
	if (!tg_own_port_has(port, tg_own_mac_of(frame)))
		return TG_OWN_NOT;
	if (tg_packet_to_loopback(syn))
		return port->is_loopback ? TG_OWN_ALL : TG_OWN_NOT;
	if (!tg_own_has(own, &syn->dst, syn->family))
		return TG_OWN_NOT;
	return !port->is_loopback && tg_own_has(own, &syn->src, syn->family) ? TG_OWN_SOURCE
									     : TG_OWN_ALL;
}

#endif
