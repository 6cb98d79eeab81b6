/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Whether a segment's checksum was left to the NIC by a sender on this machine. Only the kernel knows, and one can tell
 * by what its helper corrects: nothing that is still to be summed.
 */
#ifndef TG_BPF_SUM_LEFT_H
#define TG_BPF_SUM_LEFT_H

#include "kernel.h"

/* `at`: where the checksum is, which is `field`. Changes nothing. */
static __always_inline bool tg_sum_is_left(struct __sk_buff *skb, __u32 at, __u16 field)
{
	__u16 is = field;

	if (bpf_l4_csum_replace(skb, at, 0, 1, 0) || bpf_skb_load_bytes(skb, at, &is, sizeof(is)))
		return false;
	if (is == field)
		return true;
	bpf_skb_store_bytes(skb, at, &field, sizeof(field), 0);
	return false;
}

#endif
