/* SPDX-License-Identifier: Apache-2.0
 *
 * What the SYNs of a flood are asked that are answered before the stages of pipeline.h, and the numbers of their answers.
 */
#ifndef TG_DPDK_FLOOD_SYN_H
#define TG_DPDK_FLOOD_SYN_H

#include "wide_take.h"

#if TG_HAS_WIDE
#define TG_FLOOD_PAUSE 32 /* bursts */

/* True if the front has one of the bits that hashes select. */
TG_INLINE bool tg_flood_any_near(const uint64_t *front, tg_wide hash)
{
	struct tg_wide_places p;

	tg_wide_place(&p, hash);
	return tg_wide_any_near(front, &p);
}

/* tg_wide_known of a group that is not noted: true if a table may contain one of its SYNs. */
TG_INLINE bool tg_flood_any_known(struct tg_worker *w, const struct tg_wide_syns *x, uint8_t strategy)
{
	return (w->config->flows &&
		tg_flood_any_near(w->fast.flow_bits.front, tg_wide_syns_flow(w, x))) ||
	       (!tg_strategy_translates(strategy) &&
		tg_flood_any_near(w->fast.white_bits.front, tg_wide_syns_source(w, x)));
}

/* The numbers of a group's answers. */
TG_INLINE struct tg_wide_numbers tg_flood_numbers(const struct tg_worker *w,
						  const struct tg_fast_server *s,
						  const struct tg_wide_syns *x)
{
	if (!s->form[TG_WIDE_KINDS].ts)
		return tg_wide_numbers_challenge(w, x->word[0], x->word[1]);
	return tg_wide_numbers_cookie(w, x->word[0], x->word[1], x->tsval,
				      tg_wide_macs(tg_wide_begin_at(s), x->word, 2));
}

/* True if SYNs to the server are answered here. */
TG_INLINE bool tg_flood_is_for(const struct tg_fast_server *s)
{
	return s->strategy != TG_STRATEGY_CACHE;
}
#endif

#endif
