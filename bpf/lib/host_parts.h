/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The parts of the host gate at TC ingress, where it also translates: host_translate.bpf.c is
 * what the kernel calls. It has the segments of translated connections, and leaves all others
 * to host_tc.bpf.c, which gives a verified ACK back that cannot be adopted.
 *
 * Must never: be filled in another order than the parts are attached in (internal/plane).
 */
#ifndef TG_BPF_HOST_PARTS_H
#define TG_BPF_HOST_PARTS_H

#include "kernel.h"

enum tg_part {
	TG_PART_ADOPT, /* tg_host_tc */
	TG_PART_OPEN,  /* tg_host_open: a verified ACK becomes the SYN that it stands for */
	TG_PARTS,
};

/* On skb->mark, between the two: a connection that was adopted in vain; and the lowest bit, if
 * that was nothing that its client had a hand in. */
#define TG_MARK_UNPROVEN 0x74677570U
#define TG_MARK_EVIDENCE 1U

/* In the place of an edge's number: to be booked on the listener once the stack has answered. */
#define TG_EDGE_EVIDENCE 1

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, TG_PARTS);
	__type(key, __u32);
	__type(value, __u32);
} tg_parts SEC(".maps");

#endif
