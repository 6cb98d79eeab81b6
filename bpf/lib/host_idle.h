/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Whether a host translates any connection at this moment. Most hosts never do: then its packets
 * are not examined further.
 *
 * Must never: say no while an entry of the table is in use.
 */
#ifndef TG_BPF_HOST_IDLE_H
#define TG_BPF_HOST_IDLE_H

#include "server_maps.h"

/* On skb->mark, while a packet waits for the stack's answer to its SYN: this, and how often it has
 * been at the end of the queue. A mark of such a value from elsewhere would be cleared, with no
 * other effect. */
#define TG_MARK_WAITS 0x74677340U
#define TG_MARK_TURNS_MAX 12U

static __always_inline bool tg_host_translates(void)
{
	__u32 v4 = TG_SPLIT_SOURCES, v6 = TG_SPLIT_SOURCES + 1;
	__u32 *held4 = bpf_map_lookup_elem(&tg_split_sources, &v4);
	__u32 *held6 = bpf_map_lookup_elem(&tg_split_sources, &v6);

	return !held4 || !held6 || *held4 || *held6;
}

#endif
