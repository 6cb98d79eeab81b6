/* SPDX-License-Identifier: Apache-2.0
 *
 * A burst that begins with SYNs of a flood: as long as one group after the other is of SYNs over IPv4 to one server, through
 * one pair of MAC addresses, and no table may contain any of them, they are read and answered at once, before the stages of
 * pipeline.h. Nothing of them is noted in between.
 *
 * Must never: answer a SYN that fast_wide.h would not, or otherwise; pass a frame by: the first group that is something else
 * ends it.
 */
#ifndef TG_DPDK_FLOOD_H
#define TG_DPDK_FLOOD_H

#include "wide_take.h"

/* What the first stage asks of MAC addresses: these bits must be so. */
struct tg_macs {
	uint64_t want, mask; /* the destination's 48 bits; the source's first ones */
};

#if TG_HAS_WIDE
#define TG_FLOOD_PAUSE 32 /* bursts */
/* Challenges without a cookie take longer here with AVX2, which has half as many registers: they go through the stages. */
#define TG_FLOOD_CHALLENGES (TG_WIDE == 8)

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
						  const struct tg_wide_group *g,
						  const struct tg_wide_syns *x)
{
	if (TG_FLOOD_CHALLENGES && !g->server[0]->form[TG_WIDE_KINDS].ts)
		return tg_wide_numbers_challenge(w, x->word[0], x->word[1]);
	return tg_wide_numbers_cookie(w, x->word[0], x->word[1], x->tsval,
				      tg_wide_macs(tg_wide_begin(g), x->word, 2));
}

/* True if SYNs to the server are answered here. */
TG_INLINE bool tg_flood_is_for(const struct tg_fast_server *s)
{
	return s->strategy != TG_STRATEGY_CACHE && (TG_FLOOD_CHALLENGES || s->form[TG_WIDE_KINDS].ts);
}

/* Answers SYNs from the first of `n` frames on. Returns how many it has answered, and their server; they are not sent
 * yet. `together`: what follows may still be a group for fast_wide.h. */
static uint32_t __attribute__((noinline)) tg_flood_answer(struct tg_worker *w,
							  struct rte_mbuf *const *m, uint32_t n,
							  uint64_t mac, uint64_t mask,
							  const struct tg_fast_server **server,
							  bool *together)
{
	const struct tg_fast_server *s = NULL;
	struct tg_wide_forms forms;
	struct tg_wide_lines lines;
	struct tg_wide_frames f;
	struct tg_wide_group g;
	struct tg_wide_syns x;
	uint32_t at, len = 0;
	__m128i ether;

	*together = true;
	for (at = 0; at + TG_WIDE <= n; at += TG_WIDE) {
		if (at + 2 * TG_WIDE <= n)
			tg_wide_fetch(m + at + TG_WIDE, m[at]->data_off);
		if (!tg_wide_read(m + at, mac, mask, tg_wide_layout_syn_v4(), TG_WIDE_LEN, &f) ||
		    !tg_wide_syns_read(w, m + at, &g, &f, &x)) {
			*together = !tg_wide_is_syn(m[at]);
			break;
		}
		if (TG_UNLIKELY(!g.alike || !tg_wide_one_ether(&f)))
			break;
		if (TG_UNLIKELY(g.server[0] != s)) {
			if (s || !tg_flood_is_for(g.server[0]))
				break;
			s = g.server[0];
			forms = tg_wide_forms_alike(&s->form[TG_WIDE_KINDS]);
			len = TG_ETH_HDR_LEN + s->form[TG_WIDE_KINDS].len;
		}
		if (TG_UNLIKELY(tg_flood_any_known(w, &x, s->strategy)))
			break;
		lines = tg_wide_answers(tg_flood_numbers(w, &g, &x), forms);
		ether = tg_wide_turned(f.ether);
		tg_wide_write_all(m + at, 0, len, TG_WIDE_LEN, &lines, 4, &ether);
	}
	*server = s;
	return at;
}
#endif

/* Answers and sends the SYNs of a flood that a burst begins with. Returns how many frames these are. `single`: so
 * many behind them are no group. */
static inline uint32_t tg_flood_act(struct tg_worker *w, struct rte_mbuf **m, uint32_t n,
				    uint16_t port, struct tg_macs macs, struct tg_fast_tally *tally,
				    uint32_t *single)
{
	uint32_t done = 0;
#if TG_HAS_WIDE
	bool together;

	if (n >= TG_WIDE && !w->fast.off && !w->fast.no_flood &&
	    tg_wide_may(w, m[0]) == TG_WIDE_SYNS) {
		done = tg_flood_answer(w, m, n, macs.want, macs.mask, &tally->server, &together);
		*single = together ? 0 : TG_WIDE;
		tally->n = done;
		w->fast.wides += done;
		w->fast.floods += done;
		if (TG_LIKELY(done))
			tg_wide_send(w, port, m, done);
		else if (together)
			w->fast.no_flood = TG_FLOOD_PAUSE;
	}
#else
	(void)w, (void)m, (void)n, (void)port, (void)macs, (void)tally, (void)single;
#endif
	return done;
}

#endif
