/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Presence bits of the proxy's tables: what they say to be in no table is not looked up.
 */
#ifndef TG_BPF_PROXY_PRESENCE_H
#define TG_BPF_PROXY_PRESENCE_H

#include "proxy_held.h"

static __always_inline bool tg_presence_has(__u32 hash, enum tg_presence_table table)
{
	const struct tg_presence_pair *pair = &tg_presence[tg_presence_front_pair(hash, table)];

	if (TG_LIKELY(!((pair->of[0] | pair->of[1]) & tg_presence_front_bit(hash))))
		return false;
	pair = &tg_presence[tg_presence_pair(hash, table)];
	return (pair->of[0] | pair->of[1]) & tg_presence_bit(hash);
}

static __always_inline void tg_presence_set(__u32 at, __u64 bit, __u32 generation)
{
	struct tg_presence_pair *pair = &tg_presence[at];
	__u64 *word = &pair->of[generation & 1];

	if (!(*word & bit))
		__sync_fetch_and_or(word, bit);
	if (TG_UNLIKELY(generation & TG_GEN_SWAPPING))
		__sync_fetch_and_or(&pair->of[~generation & 1], bit);
}

static __always_inline void tg_presence_note(__u32 hash, enum tg_presence_table table,
					     __u32 generation)
{
	tg_presence_set(tg_presence_front_pair(hash, table), tg_presence_front_bit(hash), generation);
	tg_presence_set(tg_presence_pair(hash, table), tg_presence_bit(hash), generation);
}

/* In which generations of the flow tables a tuple may be: what is in the active tables, the generation of
 * `flows_gen`, has been noted in it, what is in history in the one before, and what has ended in either. */
enum tg_generations {
	TG_IN_ACTIVE = 1,
	TG_IN_HISTORY = 2,
};

/* To be asked after the active table: see swap() of internal/plane. */
static __always_inline __u32 tg_flow_generations(__u32 hash)
{
	const struct tg_presence_pair *pair =
		&tg_presence[tg_presence_front_pair(hash, TG_PRESENCE_FLOWS)];
	__u64 bit = tg_presence_bit(hash);
	__u32 active;

	if (TG_LIKELY(!((pair->of[0] | pair->of[1]) & tg_presence_front_bit(hash))))
		return 0;
	pair = &tg_presence[tg_presence_pair(hash, TG_PRESENCE_FLOWS)];
	active = *(const volatile __u8 *)&tg_proxy.flows_gen & 1;
	return (pair->of[active] & bit ? TG_IN_ACTIVE : 0) |
	       (pair->of[active ^ 1] & bit ? TG_IN_HISTORY : 0);
}

static __always_inline __u64 tg_presence_salt(void)
{
	return tg_proxy.presence_salt;
}

#endif
