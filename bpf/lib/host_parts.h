/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The parts of the host gate at TC ingress, where it also translates: host_translate.bpf.c is what
 * the kernel calls. It handles the segments of translated connections, and leaves all others to
 * host_tc.bpf.c, which returns a verified ACK that cannot be adopted.
 *
 * Must never: be filled in an order other than that in which the parts are attached
 * (internal/plane).
 */
#ifndef TG_BPF_HOST_PARTS_H
#define TG_BPF_HOST_PARTS_H

#include "kernel.h"

enum tg_part {
	TG_PART_ADOPT, /* tg_host_tc */
	TG_PART_OPEN,  /* tg_host_open: a verified ACK becomes the SYN that it stands for */
	TG_PARTS,
};

/* On skb->mark, between the two: a connection whose adoption failed; and the lowest bit, if its
 * client cannot have caused that. */
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
