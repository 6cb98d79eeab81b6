/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP: both packets that a server's SYN-ACK makes, without a socket buffer. XDP sends one frame; but a broadcast
 * of a devmap sends that frame by each of its ports, and a port may have a program for what leaves by it.
 *
 *   client                   box                               server
 *                            tg_open_flow <─────────── SYN-ACK
 *          <── its window ── the frame
 *                            its twin, proxy_twin.bpf.c ── ACK ──>
 *
 * The frame is the client's window when it is broadcast, so the client's port needs no program. The kernel runs,
 * for all frames that one poll of a device collects for another, the program of the first of them (bq_enqueue in
 * kernel/bpf/devmap.c). What a poll of the server's port sends back by that same port are twins only: all else
 * that goes back is sent by XDP_TX. So the first frame there is a twin.
 *
 * Must never: redirect a frame to the port that it came by, but for twins; let a frame that is no twin be changed.
 */
#ifndef TG_BPF_PROXY_TWIN_H
#define TG_BPF_PROXY_TWIN_H

#include "kernel.h"
#include "../../core/segment.h"

/* Which ports: the server's, by which the SYN-ACK came, and the client's. The first map is found by both, and
 * holds both, the server's with the program. Userspace has an entry for each two ports with native XDP. */
struct tg_twin_key {
	__u32 server, client;
};

struct tg_twin_ports {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
};

#define TG_TWIN_PAIRS 256

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, TG_TWIN_PAIRS);
	__type(key, struct tg_twin_key);
	__array(values, struct tg_twin_ports);
} tg_twins SEC(".maps");

/* What a twin becomes. It is recognized by the frame that is the client's. */
struct tg_twin {
	struct tg_segment ack;
	__u32 ports; /* of the client's frame, as on the wire */
	__u32 seq; /* likewise */
	__u8 macs[12]; /* of the ACK: destination, source */
	__u8 waits; /* 1: its frame has not left yet */
	__u8 pad[3];
};

/* More than a port collects frames (DEV_MAP_BULK_SIZE, 16) before it sends them. */
#define TG_TWINS_WAIT 32

/* Of each CPU, which sends what a poll has collected before it begins the next. */
struct tg_twin_ring {
	struct tg_twin of[TG_TWINS_WAIT];
	__u32 next; /* where the next is put */
	__u32 oldest; /* from where one is looked for */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_twin_ring);
} tg_twin_ring SEC(".maps");

static __always_inline struct tg_twin_ring *tg_twin_ring_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tg_twin_ring, &zero);
}

#endif
