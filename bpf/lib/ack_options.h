/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The options of an ACK that are not laid out as nearly every sender lays them out, in XDP and in TC. Who attacks chooses
 * them, so fast paths ask here too, and go on.
 */
#ifndef TG_BPF_ACK_OPTIONS_H
#define TG_BPF_ACK_OPTIONS_H

#include "ctx.h"
#include "gate.h"

/* Where they are copied to, a CPU's own: on the stack, Linux 6.1 wants bytes written before a helper is given room for a number
 * of them that it does not know. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_options_cursor);
} tg_ack_rooms SEC(".maps");

/* Reads `len` bytes of options, at byte `off` of the packet. False if they are not all there. A function of its own, for few. */
TG_GLOBAL int tg_ack_options(TG_CTX *ctx, __u32 off, __u32 len, struct tg_tcp_options *o)
{
	__u32 zero = 0;
	struct tg_options_cursor *c = bpf_map_lookup_elem(&tg_ack_rooms, &zero);

	if (!o || !c || !tg_options_len_is_sane(&len) || tg_ctx_load(ctx, off, c->bytes, len))
		return false;
	c->at = 0;
	c->len = len;
	return tg_options_read(c, o) == 0;
}

#endif
