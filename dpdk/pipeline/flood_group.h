/* SPDX-License-Identifier: Apache-2.0
 *
 * A flood's SYNs that are answered group by group: with AVX-512, where a group's eight rows stay in registers.
 */
#ifndef TG_DPDK_FLOOD_GROUP_H
#define TG_DPDK_FLOOD_GROUP_H

#include "flood_syn.h"

#if TG_HAS_WIDE && TG_WIDE == 8
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
		lines = tg_wide_answers(tg_flood_numbers(w, s, &x), forms);
		ether = tg_wide_turned(f.ether);
		tg_wide_write_all(m + at, 0, len, TG_WIDE_LEN, &lines, 4, &ether);
	}
	*server = s;
	return at;
}
#endif

#endif
