/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The keys under which tags and confirmations are made and verified, on edge and
 * server alike.
 */
#ifndef TG_BPF_TAG_KEYS_H
#define TG_BPF_TAG_KEYS_H

#include "gate.h"
#include "../../core/tag.h"

/* Ring of the keys of tags and confirmations, as tg_keys. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, struct tg_tag_epoch);
} tg_tag_keys SEC(".maps");

/* The keys of exactly this epoch; NULL if they are not loaded. */
static __always_inline const struct tg_tag_epoch *tg_tag_keys_of(const struct tg_host_settings *settings,
								 __u64 epoch)
{
	__u32 slot = (__u32)epoch & settings->key_slot_mask;
	struct tg_tag_epoch *k = bpf_map_lookup_elem(&tg_tag_keys, &slot);

	return k && k->epoch == epoch ? k : 0;
}

/* The keys under which a message of this epoch is verified; NULL: too old, too far
 * ahead, or not loaded. */
static __always_inline const struct tg_tag_epoch *tg_tag_keys_find(
	const struct tg_host_settings *settings, __u32 low)
{
	uint64_t epoch;

	return tg_tag_epoch(low, tg_epoch_now(settings), &epoch) ? tg_tag_keys_of(settings, epoch)
								 : 0;
}

#endif
