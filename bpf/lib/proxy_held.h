/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How many connections each source holds at a proxy (source_limits.concurrent): its flows that have a
 * place of their own. The two halves of the sketch (lib/source_held.h) belong to the two generations
 * of the flow tables: what enters one is counted in its half, what leaves it is uncounted, and the swap
 * that drops a generation clears its half. So nothing is ever counted anew. Flows that wait for a
 * place, which have carried nothing yet, are not counted: nobody reports when one is evicted.
 *
 * Must never: count what can be forged; only flows that have carried data get a place.
 */
#ifndef TG_BPF_PROXY_HELD_H
#define TG_BPF_PROXY_HELD_H

#include "proxy_maps.h"

/* The key that tables of an earlier process are taken over with. */
#define TG_HELD_BY_FLOWS
#define TG_LIMIT_KEY(settings) tg_held_key()

static __always_inline struct tg_siphash_key tg_held_key(void)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	return proxy ? proxy->share_key : (struct tg_siphash_key){};
}

#include "source_held.h"

#define TG_HELD_BY(hash, settings) (tg_held_by(hash, 0) + tg_held_by(hash, 1))

/* A client's flow has come to the active table (`by` 1), or has left it, or (`back` 1) that of the
 * generation before. `first`: the first half of the client's address. */
TG_GLOBAL int tg_held_flow(__u64 first, __u32 family, __u32 back, int by)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	__u64 prefix;
	__u32 len;

	if (!settings->limit_held)
		return 0;
	tg_held_half(tg_source_hash_of(settings, first, (__u8)family, &prefix, &len),
		     (proxy->flows_gen ^ back) & 1, by);
	return 0;
}

#endif
