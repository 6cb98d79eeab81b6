/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The port that a frame came by. Native XDP on a bond runs on the bond's members, and struct xdp_md names the member; routes,
 * and every table of ports, name the bond. Userspace says who is whose member (internal/plane/members.go).
 */
#ifndef TG_BPF_INGRESS_H
#define TG_BPF_INGRESS_H

#include "kernel.h"
#include "../../core/base.h"

#define TG_MEMBERS_MAX 256

/* The index of a member's bond, by its own. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TG_MEMBERS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} tg_members SEC(".maps");

/* Whether there are any. */
__u32 tg_members_any TG_VARIABLE(tg_members_any);

/* The port of a device: its bond, or itself. */
TG_GLOBAL int tg_ingress_port(__u32 device)
{
	__u32 *bond = bpf_map_lookup_elem(&tg_members, &device);

	return (int)(bond ? *bond : device);
}

/* Where the field is read in several ways clang keeps its address, which the verifier does not accept. */
static __always_inline __u32 tg_ingress(const struct xdp_md *ctx)
{
	__u32 device;

	TG_HIDE(ctx);
	device = ctx->ingress_ifindex;
	return TG_LIKELY(!tg_members_any) ? device : (__u32)tg_ingress_port(device);
}

#endif
