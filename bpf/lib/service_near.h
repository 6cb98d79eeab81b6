/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Which service protects a destination, as this CPU has last found out. To find out takes a call and a look-up in a hash for
 * each length of prefix in use, as long as a SYN's cookie.
 *
 * Must never: say what the tables of services said before they were changed. Each filling has a random number, which
 * userspace draws when the last entry has changed. What is kept has the number that was read before the tables were.
 */
#ifndef TG_BPF_SERVICE_NEAR_H
#define TG_BPF_SERVICE_NEAR_H

#include "maps.h"

#define TG_NEAR_BITS 8 /* places, as a power of two */

/* Half a cache line. XDP and TC run with softirqs off: nobody else reads or writes a CPU's own. */
struct tg_service_near {
	__u64 addr[2]; /* the second word is 0 over IPv4 */
	__u64 filling; /* 0: nothing is kept here */
	__u32 port_family;
	__u32 id;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1 << TG_NEAR_BITS);
	__type(key, __u32);
	__type(value, struct tg_service_near);
} tg_dst_services SEC(".maps");

static __always_inline __u32 tg_port_family(__u16 port_be, __u8 family)
{
	return port_be | (__u32)family << 16;
}

/* The place of a destination. Who sends to addresses that share one gains no more than who sends to more of them than there are places. */
static __always_inline struct tg_service_near *tg_service_near_at(__u64 first, __u64 second,
								  __u32 port_family, __u64 filling)
{
	__u32 place = (first ^ second ^ port_family ^ filling) * TG_MIX1 >> (64 - TG_NEAR_BITS);

	return bpf_map_lookup_elem(&tg_dst_services, &place);
}

static __always_inline bool tg_service_near_is(const struct tg_service_near *near, __u64 first,
					       __u64 second, __u32 port_family, __u64 filling)
{
	return near->addr[0] == first && near->addr[1] == second &&
	       near->port_family == port_family && near->filling == filling && filling;
}

static __always_inline void tg_service_bring_near(struct tg_service_near *near, __u64 first,
						  __u64 second, __u32 port_family, __u64 filling,
						  __u32 id)
{
	*near = (struct tg_service_near){{first, second}, filling, port_family, id};
}

#endif
