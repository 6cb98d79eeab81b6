/* SPDX-License-Identifier: Apache-2.0
 *
 * The servers of the SYNs that fast_wide.h answers at once. Mostly it is one; SYNs to several are answered together,
 * too, if their servers have one strategy and agree to the same kinds of options.
 */
#ifndef TG_DPDK_WIDE_SERVERS_H
#define TG_DPDK_WIDE_SERVERS_H

#include "wide.h"

#if TG_HAS_WIDE
#define TG_WIDE_PAUSE 8 /* bursts */
#define TG_WIDE_KINDS 7 /* of options that the SYNs offer: timestamps, SACK, window scale */

/* The server at an address, if its SYNs may be answered here. `family` is known at compile time. */
TG_INLINE struct tg_fast_server *tg_wide_server_at(struct tg_worker *w, uint64_t addr0,
						   uint64_t addr1, uint64_t ports, uint8_t family)
{
	struct tg_packet syn = {
		.dst = {.d = {addr0, addr1}}, .ports = (uint32_t)ports, .family = family};
	struct tg_fast_server *s = tg_fast_server_of(w, &syn);

	if (!s || !(tg_fast_gives_cookie(s->strategy) || s->strategy == TG_STRATEGY_AUTH_FULL))
		return NULL;
	if (TG_UNLIKELY(!s->form[TG_WIDE_KINDS].len))
		tg_form_make(w, s, &s->form[TG_WIDE_KINDS], family, TG_WIDE_KINDS);
	return s->form[TG_WIDE_KINDS].ts || s->strategy == TG_STRATEGY_AUTH_FULL ? s : NULL;
}

TG_INLINE struct tg_fast_server *tg_wide_server(struct tg_worker *w, uint64_t addrs, uint64_t ports)
{
	return tg_wide_server_at(w, addrs >> 32, 0, ports, 4);
}

/* The same of frames that are all to one: mostly to that of the group before them. */
TG_INLINE struct tg_fast_server *tg_wide_server_again(struct tg_worker *w, uint64_t addrs,
						      uint64_t ports)
{
	struct tg_fast_server *s = w->fast.wide_last;

	if (TG_LIKELY(s && s->addr[0] == addrs >> 32 && s->port_be == (uint16_t)(ports >> 16)))
		return s;
	s = tg_wide_server(w, addrs, ports);
	w->fast.wide_last = s;
	return s;
}

/* True if SYNs to both are answered alike but for the servers' own numbers. */
TG_INLINE bool tg_wide_agree(const struct tg_fast_server *a, const struct tg_fast_server *b)
{
	const struct tg_form *f = &a->form[TG_WIDE_KINDS], *g = &b->form[TG_WIDE_KINDS];

	return a->strategy == b->strategy && f->ts == g->ts && f->wscale == g->wscale &&
	       f->option_bits == g->option_bits && f->len == g->len;
}

/* The server of each frame. */
static bool __attribute__((noinline)) tg_wide_several(struct tg_worker *w, struct tg_wide_group *g,
						      const uint64_t *addrs, const uint64_t *ports)
{
	uint32_t i;

	for (i = 0; i < TG_WIDE; i++) {
		g->server[i] = tg_wide_server(w, addrs[i], ports[i]);
		if (!g->server[i] || !tg_wide_agree(g->server[0], g->server[i]))
			return false;
	}
	g->alike = false;
	return true;
}

/* SYNs to servers that are not answered for, or to very many, mostly follow one another: for some bursts they are not even
 * read together. */
TG_INLINE void tg_wide_give_up(struct tg_worker *w)
{
	w->fast.apart = TG_WIDE_PAUSE;
}

/* Notes the frames' servers. False: process them one by one. `addrs`, `ports`: columns 2 and 3. */
TG_INLINE bool tg_wide_servers(struct tg_worker *w, struct tg_wide_group *g,
			       const struct tg_wide_frames *f, tg_wide addrs, tg_wide ports)
{
	uint64_t each[2][TG_WIDE] __attribute__((aligned(64)));

	g->alike = true;
	if (TG_LIKELY(!tg_wide_rows_differ(&f->rows, TG_WIDE_TO))) {
		g->server[0] = tg_wide_server_again(w, tg_wide_first(addrs), tg_wide_first(ports));
		if (TG_LIKELY(g->server[0] != NULL))
			return true;
		tg_wide_give_up(w);
		return false;
	}
	tg_wide_store(each[0], addrs);
	tg_wide_store(each[1], ports);
	if (tg_wide_several(w, g, each[0], each[1]))
		return true;
	tg_wide_give_up(w);
	return false;
}

/* The server of frame `i` of a group. */
TG_INLINE const struct tg_fast_server *tg_wide_server_of(const struct tg_wide_group *g, uint32_t i)
{
	return g->server[g->alike ? 0 : i];
}

/* The states that the cookies' hashes of SYNs to several servers continue from. */
static struct tg_siphash_lanes __attribute__((noinline)) tg_wide_begin_each(
	const struct tg_wide_group *g)
{
	uint64_t v[4][TG_WIDE];
	uint32_t i;

	for (i = 0; i < TG_WIDE; i++) {
		const struct tg_siphash *s = &g->server[i]->begin;

		v[0][i] = s->v0, v[1][i] = s->v1, v[2][i] = s->v2, v[3][i] = s->v3;
	}
	return (struct tg_siphash_lanes){
		(tg_wide_words)tg_wide_set(v[0]), (tg_wide_words)tg_wide_set(v[1]),
		(tg_wide_words)tg_wide_set(v[2]), (tg_wide_words)tg_wide_set(v[3])};
}

/* The same of SYNs to one. */
TG_INLINE struct tg_siphash_lanes tg_wide_begin_at(const struct tg_fast_server *server)
{
	const struct tg_siphash *s = &server->begin;

	return (struct tg_siphash_lanes){
		(tg_wide_words)TG_WIDE_ALL(s->v0), (tg_wide_words)TG_WIDE_ALL(s->v1),
		(tg_wide_words)TG_WIDE_ALL(s->v2), (tg_wide_words)TG_WIDE_ALL(s->v3)};
}

TG_INLINE struct tg_siphash_lanes tg_wide_begin(const struct tg_wide_group *g)
{
	return TG_LIKELY(g->alike) ? tg_wide_begin_at(g->server[0]) : tg_wide_begin_each(g);
}

/* The MACs of the cookies of a group, whose messages end with `n` words: tg_cookie_message. `s`: tg_wide_begin. They are hashed here, not in
 * a batch after all SYNs have been read, so that what follows is executed meanwhile: a hash waits for its own rounds. */
TG_INLINE tg_wide tg_wide_macs(struct tg_siphash_lanes s, const tg_wide *word, const uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		tg_siphash_lanes_word(&s, word[i], 2);
	s.v2 ^= 0xff;
	for (i = 0; i < 4; i++)
		tg_siphash_lanes_round(&s);
	return tg_siphash_lanes_out(&s);
}

/* The answers' templates, a register for each word, and their sums. */
struct tg_wide_forms {
	tg_wide words[8], ip_sum, tcp_sum;
};

TG_INLINE struct tg_wide_forms tg_wide_forms_alike(const struct tg_form *form)
{
	struct tg_wide_forms t = {.ip_sum = TG_WIDE_ALL(form->ip_sum),
				  .tcp_sum = TG_WIDE_ALL(form->tcp_sum)};
	int i;

	for (i = 0; i < 8; i++)
		t.words[i] = TG_WIDE_ALL(tg_load64(form->bytes + 8 * i));
	return t;
}

TG_INLINE struct tg_wide_forms tg_wide_forms_each(const struct tg_wide_group *g)
{
	uint64_t ip[TG_WIDE], tcp[TG_WIDE];
	struct tg_wide_columns columns;
	tg_wide_row row[TG_WIDE];
	struct tg_wide_forms t;
	uint32_t i;

	for (i = 0; i < TG_WIDE; i++) {
		const struct tg_form *form = &g->server[i]->form[TG_WIDE_KINDS];

		row[i] = tg_wide_row_load(form->bytes);
		ip[i] = form->ip_sum;
		tcp[i] = form->tcp_sum;
	}
	columns = tg_wide_turn(row);
	tg_wide_columns(columns.even, false, &t.words[0], &t.words[4]);
	tg_wide_columns(columns.even, true, &t.words[2], &t.words[6]);
	tg_wide_columns(columns.odd, false, &t.words[1], &t.words[5]);
	tg_wide_columns(columns.odd, true, &t.words[3], &t.words[7]);
	t.ip_sum = tg_wide_set(ip);
	t.tcp_sum = tg_wide_set(tcp);
	return t;
}

/* Counts the answered SYNs of a group: all but those whose lanes are in `known`. */
TG_INLINE void tg_wide_tally(struct tg_worker *w, const struct tg_wide_group *g, uint32_t known,
			     struct tg_fast_tally *tally)
{
	uint32_t i;

	if (TG_LIKELY(g->alike)) {
		tg_fast_tally_turn(w, tally, g->server[0]);
		tally->n += TG_WIDE - (uint32_t)__builtin_popcount(known);
		return;
	}
	for (i = 0; i < TG_WIDE; i++) {
		tg_fast_tally_turn(w, tally, g->server[i]);
		tally->n += !(known >> i & 1);
	}
}
#endif

#endif
