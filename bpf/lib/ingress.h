/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The port that a frame came by. Native XDP on a bond runs on the bond's members, and struct xdp_md names the member; routes,
 * and every table of ports, name the bond. Userspace says who is whose member (internal/plane/members.go).
 */
#ifndef TG_BPF_INGRESS_H
#define TG_BPF_INGRESS_H

#include "kernel.h"
#include "../../core/base.h"

#define TG_MEMBER_SLOTS 256 /* a power of two */

/* A member and its bond, by index, in the slot of the member's low bits. Not a map to look up: a call costs registers where there are no bonds, too. */
struct tg_member {
	__u32 device;
	__u32 bond;
};

struct tg_member tg_members[TG_MEMBER_SLOTS] TG_VARIABLE(tg_members);

/* In the place of a number that is 1 if there is a bond among the interfaces, else 0. */
#define TG_BONDS_MARK 0x626f6e64

static __always_inline __u32 tg_ingress(const struct xdp_md *ctx)
{
	const struct tg_member *m;
	__u32 device;

	device = ctx->ingress_ifindex;
	if (!tg_load_time(TG_BONDS_MARK))
		return device;
	m = &tg_members[TG_BOUND64(device, TG_MEMBER_SLOTS)];
	return m->device == device ? m->bond : device;
}

#endif
