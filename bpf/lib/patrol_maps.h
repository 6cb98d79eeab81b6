/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The maps of the patrol. The two large ones are mapped into the daemon, which
 * installs filters there without a system call; how it may write, and what a
 * packet may see meanwhile, stands in internal/role/patrol/table.go.
 */
#ifndef TG_BPF_PATROL_MAPS_H
#define TG_BPF_PATROL_MAPS_H

#include "ingress.h"
#include "kernel.h"
#include "../../core/patrol.h"

#define TG_PATROL_PORTS_MAX 64
#define TG_SOURCE_LENS_MAX 8

/* Written by userspace, as a whole. */
struct tg_patrol_settings {
	uint64_t keys[TG_PATROL_KEYS];
	__u32 buckets; /* of tg_pf_tags */
	__u32 sources_gen; /* 0 or 1: which half of tg_pf_src4, and mark in the other tables */
	__u8 codepoint;    /* DSCP that says "true source" */
	__u8 plain;        /* DSCP that takes its place */
	__u8 filtering;    /* some filter exists */
	__u8 internal_ts;  /* sources are checked elsewhere: keep the mark, check nothing */
	__u8 source_lens_v6[TG_SOURCE_LENS_MAX]; /* lengths in use; 255 ends */
	__u32 reserved;
	/* By direction and family (0: IPv4, 1: IPv6). */
	struct tg_patrol_shape shapes[2][2][TG_PATROL_SHAPES];
	struct tg_patrol_shape allow[2][2][TG_PATROL_SHAPES];
};

struct tg_patrol_port {
	__u32 peer; /* ifindex that frames go to; 0: they are the kernel's */
	__u8 direction; /* enum tg_patrol_direction */
	__u8 mark;      /* enum tg_patrol_mark; for TG_FROM_CUSTOMER not asked */
	__u8 reserved[2];
};

struct tg_source_key6 {
	union tg_addr addr;
	__u32 prefix_len;
	__u32 gen;
};

struct tg_source_part {
	__u64 bits[4]; /* by the last byte of the address */
};

struct tg_counter_row {
	__u64 count[TG_COUNTERS];
};

struct tg_patrol_settings tg_pf_settings TG_VARIABLE(tg_pf_settings);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TG_PATROL_PORTS_MAX);
	__type(key, __u32); /* ifindex */
	__type(value, struct tg_patrol_port);
} tg_pf_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * TG_SOURCE_WORDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} tg_pf_src4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* /24, generation in bit 31 */
	__type(value, struct tg_source_part);
} tg_pf_part4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tg_source_key6);
	__type(value, __u8);
} tg_pf_src6 SEC(".maps");

/* Sizes are set by userspace: buckets, and 16 filters to each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct tg_patrol_bucket);
} tg_pf_tags SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct tg_patrol_filter);
} tg_pf_filters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_counter_row);
} tg_counters SEC(".maps");

#endif
