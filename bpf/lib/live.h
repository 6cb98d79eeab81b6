/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The table of live sockets (core/live_sockets.h): host_sockops.bpf.c and host_iter.bpf.c write it,
 * host_tc.bpf.c reads it, and host_xdp.bpf.c clears an entry before it sends a cookie for its tuple.
 */
#ifndef TG_BPF_LIVE_H
#define TG_BPF_LIVE_H

#include "gate.h"
#include "../../core/live_sockets.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_LIVE_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_live);
} tg_live_sockets SEC(".maps");

static __always_inline struct tg_live *tg_live_at(__u64 hash)
{
	__u32 slot = tg_live_slot(hash);

	return bpf_map_lookup_elem(&tg_live_sockets, &slot);
}

/* A socket lives; after its cells in the filter say so. The ACK that completed its handshake had
 * these numbers. Another CPU may see half of it: the numbers of one connection with the hash of
 * another only decide which segment is verified although it need not be. */
static __always_inline void tg_live_put(__u64 hash, __u32 seq, __u32 ack)
{
	struct tg_live *l = tg_live_at(hash);

	if (!l)
		return;
	l->seq = seq;
	l->ack = ack;
	l->hash = tg_live_hash(hash);
}

/* Its socket closes; before its cells in the filter say so. */
static __always_inline void tg_live_forget(__u64 hash)
{
	struct tg_live *l = tg_live_at(hash);

	if (l && l->hash == tg_live_hash(hash))
		l->hash = 0;
}

#endif
