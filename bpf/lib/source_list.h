/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Allow and deny lists (core/source_list.h). The table stands in the only slot of an outer map: the
 * daemon puts another there, and a packet sees the old one or the new one. Costs one comparison
 * where there is no list. A look-up in an inner map is a call, so the table's filter stands once more in an array of
 * its own, in two halves by turns: an address that no entry is near, as most of a flood's, costs one load of that.
 *
 * A packet between two tables may meet the filter of the new one and the table of the old one (internal/plane replaces
 * them in this order): what the filter excludes is in no entry of the new one, and all else is answered by the old one.
 *
 * Must never: let a SYN go unanswered to a listener because its source is allowed; a source can be
 * forged.
 */
#ifndef TG_BPF_SOURCE_LIST_H
#define TG_BPF_SOURCE_LIST_H

#include "gate.h"

typedef void *tg_list_table;

static __always_inline const void *tg_list_block_at(tg_list_table table, __u32 at)
{
	return bpf_map_lookup_elem(table, &at);
}

#define TG_LIST_BLOCK(table, at) ((const struct tg_list_block *)tg_list_block_at(table, at))
#include "../../core/source_list.h"

struct tg_list_inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(key_size,
	       sizeof(__u32)); /* clang has only pointers to blocks, and no size of them in BTF */
	__uint(value_size, sizeof(struct tg_list_block));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct tg_list_inner);
} tg_lists SEC(".maps");

#define TG_LIST_BITS_WORDS (2U << (TG_LIST_FRONT_BITS - 6)) /* of two halves */

__u64 tg_list_bits[TG_LIST_BITS_WORDS] TG_VARIABLE(tg_list_bits);

__u64 tg_list_front TG_VARIABLE(tg_list_front); /* core/source_list.h */

/* False if no entry of a list is near an address, of which `first` is the first word as on the wire. */
static __always_inline bool tg_list_is_near(__u8 family, __u32 first)
{
	__u64 how = *(volatile __u64 *)&tg_list_front, bit;

	if (TG_UNLIKELY(how & TG_LIST_FRONT_WIDE(family)))
		return true;
	bit = tg_list_front_bit(how, family, tg_swap32(first));
	return tg_list_bits[(bit >> 6) & (TG_LIST_BITS_WORDS - 1)] >> (bit & 63) & 1;
}

/* What the lists say of an address, as it stands in the packet: enum tg_listed. A function of its
 * own for the verifier and the stack; by value, so that a caller's packet may stay in registers. */
TG_GLOBAL int tg_list_says(__u32 family, __u64 high, __u64 low)
{
	union tg_addr addr = {.d = {high, low}};
	__u32 zero = 0;
	void *table = bpf_map_lookup_elem(&tg_lists, &zero);

	if (!table)
		return TG_LISTED_NONE;
	return TG_LIST_KIND(tg_list_find(table, (__u8)family, &addr, true));
}

static __always_inline enum tg_listed tg_listed(const struct tg_host_settings *settings,
						__u8 family, const union tg_addr *src)
{
	if (TG_LIKELY(!settings->lists) || !tg_list_is_near(family, src->w[0]))
		return TG_LISTED_NONE;
	return family == 4 ? (enum tg_listed)tg_list_says(4, src->w[0], 0)
			   : (enum tg_listed)tg_list_says(6, src->d[0], src->d[1]);
}

#endif
