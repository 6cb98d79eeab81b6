/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The parts of the host gate at TC ingress, where it also translates: host_translate.bpf.c is what
 * the kernel calls. It handles the segments of translated connections, and leaves all others to
 * host_tc.bpf.c, which returns a verified ACK that cannot be adopted.
 *
 * The kernel empties an array of programs as soon as no process and no pin holds it, and anybody with
 * its rights can. Then no ACK is verified any more. So the first call that fails tells the XDP
 * program to leave SYNs to the kernel; the daemon, if it lives, fills the array again.
 *
 * Must never: be filled in an order other than that in which the parts are attached
 * (internal/plane).
 */
#ifndef TG_BPF_HOST_PARTS_H
#define TG_BPF_HOST_PARTS_H

#include "maps.h"
#include "server_meta.h"

enum tg_part {
	TG_PART_ADOPT, /* tg_host_tc */
	TG_PART_OPEN,  /* tg_host_open: a verified ACK becomes the SYN that it stands for */
	TG_PARTS,
};

/* On skb->mark, between the two: a connection whose adoption failed; and TG_MARK_EVIDENCE, if its
 * client cannot have caused that. */
#define TG_MARK_UNPROVEN 0x74677570U

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, TG_PARTS);
	__type(key, __u32);
	__type(value, __u32);
} tg_parts SEC(".maps");

/* A call of a part has failed: no more cookies. `exceptions` last, by which the XDP program's fast path sees it. */
static __always_inline void tg_parts_are_lost(void)
{
	struct tg_host_settings *settings = &tg_settings;

	settings->parts_lost = 1;
	TG_BARRIER();
	settings->exceptions = 1;
}

#endif
