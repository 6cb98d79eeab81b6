/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The maps of the host gate. All four programs share them by name; their
 * layouts are the ABI between the packet path and internal/plane, which takes
 * them from this object's BTF.
 */
#ifndef TG_BPF_MAPS_H
#define TG_BPF_MAPS_H

#include "kernel.h"
#include "../../core/host.h"
#include "../../core/filter_bits.h"

#define TG_PREFIX_LENS_MAX 8

/* Set by userspace; read by every program. One cache line is hot on the SYN path. */
struct tg_host_settings {
	__u64 wall_minus_mono_ns; /* unix time - CLOCK_MONOTONIC, wrapping */
	__u64 epoch_len_ns;
	__u64 verify_ahead_ns; /* core/keys.h: how much too early ACKs' clock is read */
	__u64 netns_cookie;  /* the gate's network namespace */
	__u64 synack_cost_ns; /* of a CPU's share of what a source prefix is answered; 0: no limit. lib/reflect.h */
	__u32 key_slot_mask; /* slots in tg_keys - 1 */
	__u16 filter_keep_ticks; /* how long a closed socket may stay in TIME-WAIT */
	__u8 stale_keys; /* enum tg_stale_keys */
	__u8 enforce; /* some service is in mode always */
	__u8 smart; /* 1: cookies are in the layout smartcookie, tg_keys holds its keys. The first of tg_settings_uncommon */
	__u8 four_epochs; /* 1: cookies of four epochs are good, not of two; core/keys.h */
	__u8 report; /* 1: proven sources are counted, lib/proven.h */
	__u8 report_dscp; /* the true-source codepoint; 0 without the one before */
	__u8 behind_edge; /* 1: SYNs are answered elsewhere; verified ACKs replace old sockets */
	__u8 final_check; /* 1: drop ACKs that have neither socket nor cookie */
	__u8 only_own; /* 1: host: SYNs to other MAC or IP addresses are the kernel's, lib/own.h */
	__u8 translates; /* 1: host_translate.bpf.c runs, for what cannot be adopted; or the server's programs that translate */
	__u8 lists; /* 1: tg_lists has a table, lib/source_list.h */
	__u8 exceptions; /* 1: that, synack_cost_ns or parts_lost is not 0: a common SYN may be an exception */
	__u8 source_limited; /* 1: lib/source_limit.h, by these three */
	__u8 limit_action; /* enum tg_limit_action */
	__u8 limit_v4, limit_v6; /* bits of an address that make a source */
	__u8 held_half; /* lib/source_held.h */
	__u8 parts_lost; /* 1: SYNs are left to the kernel; lib/host_parts.h. The packet path's own */
	uint64_t half_open_cost_ns; /* core/half_open.h; 0: no SYN is left to the kernel's memory */
	uint64_t half_open_next_ns; /* likewise; the packet path's own */
	uint64_t filter_keys[TG_FILTER_KEYS];
	/* Distinct prefix lengths in use, longest first; 255 ends the list. */
	__u8 prefix_lens_v4[TG_PREFIX_LENS_MAX];
	__u8 prefix_lens_v6[TG_PREFIX_LENS_MAX];
	__u64 limit_cost_ns; /* 1 s / connections a second that a source may begin; 0: any number */
	__u64 across; /* lib/across.h; 0: no answer leaves by another interface */
	__u32 limit_held; /* connections that it may hold at a time; 0: any number */
	__u8 held_elsewhere; /* 1: another gate of the instance, which translates, counts them, in the same tg_held, and takes what the kernel does not adopt */
	__u8 pad2[3];
	__u64 epoch_near; /* tg_epoch_near; the packet path's own */
	__u64 clock_jiffy; /* lib/clock.h; the packet path's own, as is the next */
	__u64 clock_ns;
};

_Static_assert(offsetof(struct tg_host_settings, smart) % 4 == 0 &&
		       offsetof(struct tg_host_settings, report_dscp) ==
			       offsetof(struct tg_host_settings, smart) + 3,
	       "read as one word");

/* True if any of smart, four_epochs and report is 1: a fast path for ACKs leaves those to the slow one. */
static __always_inline bool tg_settings_uncommon(const struct tg_host_settings *settings)
{
	return *(const __u32 *)&settings->smart != 0;
}

struct tg_counter_row {
	__u64 count[TG_COUNTERS];
};

struct tg_host_settings tg_settings TG_VARIABLE(tg_settings);

/* By port, host order. See TG_PORT_SERVICE. */
__u32 tg_ports[65536] TG_VARIABLE(tg_ports);

/* The entry of a port, host order; 0 if the gate does not know it. The bound is for the verifier of Linux 6.1, to which a number whose
 * bytes are swapped may be any. */
static __always_inline __u32 tg_port_at(__u32 port)
{
	return tg_ports[TG_BOUND64(port, 65536)];
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_prefix_key);
	__type(value, __u32); /* service id */
} tg_prefixes SEC(".maps");

#define TG_SERVICE_SLOTS 16384 /* a power of two, more than TG_SERVICES_MAX */

struct tg_service tg_services[TG_SERVICE_SLOTS] TG_VARIABLE(tg_services);

/* Ring of epoch keys; userspace sets max_entries to a power of two. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, struct tg_epoch_key);
} tg_keys SEC(".maps");

/* Of tg_ports, tg_prefixes and tg_keys together. */
struct tg_filling_state {
	__u64 filling; /* random, drawn anew whenever one has changed: what was derived from it before is out of date */
	__u64 loaded; /* an epoch whose key is there, XOR filling; the packet path's own */
};

struct tg_filling_state tg_filling TG_VARIABLE(tg_filling);

/* By service id; id 0 counts what belongs to no service. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_SERVICES_MAX + 1);
	__type(key, __u32);
	__type(value, struct tg_counter_row);
} tg_counters SEC(".maps");

#endif
