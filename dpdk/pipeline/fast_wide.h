/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of several SYNs over IPv4 at once (wide.h): what a flood mostly is; fast_wide_v6.h
 * has the same over IPv6. All are to servers that answer with cookies, or with challenges without one (auth-full),
 * and are laid out as Linux lays out its SYNs (MSS, SACK, timestamps, window scale).
 * Such a frame is, from its tenth byte on, exactly one row long.
 *
 * The formulas are core's, as macros that take a frame in each lane (TG_PRESENCE_FLOW_BEGIN,
 * TG_COOKIE_TS_VAL, TG_CHALLENGE_V4_WORD and those beside them).
 *
 * Must never: answer a SYN that fast_syn.h would not, or otherwise.
 */
#ifndef TG_DPDK_FAST_WIDE_H
#define TG_DPDK_FAST_WIDE_H

#include "wide_answer.h"

#if TG_HAS_WIDE
#define TG_WIDE_LEN 74 /* bytes of the frame, and of its answer */

/* ---- first stage ---- */

/* A TCP header of 40 bytes, SYN; MSS; SACK, timestamps; NOP, window scale. Of the rows' first two words, `want` where
 * `mask` has ones. */
TG_INLINE struct tg_wide_layout tg_wide_layout_syn(const uint64_t want[2], const uint64_t mask[2])
{
	return (struct tg_wide_layout){
		tg_wide_row_of(want[0], want[1], 0, 0, 0x02a000000000, 0x040200000000,
			       TG_WORD_SACK_TS, 0x0003030100000000),
		tg_wide_row_of(mask[0], mask[1], 0, 0, 0xfff000000000, 0xffff00000000, 0xffffffff,
			       0x00ffffff00000000)};
}

/* tg_wide_layout_v4 with IP's length. */
TG_INLINE struct tg_wide_layout tg_wide_layout_syn_v4(void)
{
	const uint64_t want[2] = {0x3c00004500080000, 0x060000000000};
	const uint64_t mask[2] = {0xffff00ffffff0000, 0xff00ff3f0000};

	return tg_wide_layout_syn(want, mask);
}

/* True if the fast path does not handle one of the sources or ports: tg_fast_source_is_odd, and a
 * source port that belongs to a service. */
TG_INLINE bool tg_wide_any_source_odd(const struct tg_worker *w, tg_wide addrs, tg_wide ports)
{
	return tg_wide_any_addr_odd(addrs) ||
	       (w->config->flows && tg_wide_protected(w->config, ports));
}

/* tg_fast_answer_sums of all lanes. `says`: tg_wide_nic_says of them; `q2`, `q3`, `q6`, `q7`: columns. */
TG_INLINE bool tg_wide_sums(const struct tg_wide_frames *f, enum tg_wide_sums says, tg_wide q2,
			    tg_wide q3, tg_wide q6, tg_wide q7)
{
	const tg_wide tcp = TG_WIDE_ALL(
		TG_WIRE32(0, TG_IPPROTO_TCP, 0, TG_WIDE_LEN - TG_ETH_HDR_LEN - TG_IPV4_HDR_LEN));
	struct tg_wide_halves_sum sum, ip;
	tg_wide q0, q1, q4, q5;

	if (says != TG_WIDE_SUMS_OPEN)
		return says == TG_WIDE_SUMS_GOOD;
	tg_wide_columns(f->columns.even, false, &q0, &q4);
	tg_wide_columns(f->columns.odd, false, &q1, &q5);
	sum = tg_wide_sum_of(q2);
	ip = tg_wide_sum_in(tg_wide_sum_low(sum, tg_wide_shr(q0, 32)), q1);
	sum = tg_wide_sum_in(tg_wide_sum_in(tg_wide_sum_low(sum, tcp), q3), q4);
	sum = tg_wide_sum_in(tg_wide_sum_in(tg_wide_sum_in(sum, q5), q6), q7);
	return tg_wide_csums_are_right(tg_wide_sum_end(sum), tg_wide_sum_end(ip));
}

/* tg_cookie_option_bits of all lanes. */
TG_INLINE tg_wide tg_wide_bits_of_each(const struct tg_form *form, tg_wide mss, tg_wide wscale)
{
	tg_wide bits = tg_wide_or(TG_WIDE_ALL(form->option_bits),
				  tg_wide_shl(tg_wide_swap16(mss), TG_COOKIE_FLAG_BITS));

	if (form->wscale)
		bits = tg_wide_or(bits,
				  tg_wide_shl(tg_wide_min(wscale, TG_WIDE_ALL(TG_WSCALE_MAX)), 2));
	return bits;
}

/* The same; mostly all lanes are equal, and to those of the group before. `row` is one of them. False: an MSS of 0. */
TG_INLINE bool tg_wide_option_bits(struct tg_wide_options *last, const struct tg_form *form,
				   const struct tg_wide_frames *f, tg_wide q7, const uint8_t *row,
				   tg_wide *bits)
{
	const tg_wide_row both = tg_wide_row_of(0, 0, 0, 0, 0, 0xffffULL << 48, 0, 0xffULL << 56);
	const uint16_t mss_be = tg_load16(row + 46);
	const uint8_t wscale = row[63];
	tg_wide q1, q5;

	if (TG_UNLIKELY(tg_wide_rows_differ(&f->rows, both))) {
		tg_wide_columns(f->columns.odd, false, &q1, &q5);
		q5 = tg_wide_shr(q5, 48);
		*bits = tg_wide_bits_of_each(form, q5, tg_wide_shr(q7, 56));
		return tg_wide_test(q5, q5) == TG_WIDE_LANES;
	}
	if (TG_UNLIKELY(last->form != form || last->mss_be != mss_be || last->wscale != wscale)) {
		*bits = tg_wide_bits_of_each(form, TG_WIDE_ALL(mss_be), TG_WIDE_ALL(wscale));
		last->form = mss_be ? form : NULL;
		last->mss_be = mss_be;
		last->wscale = wscale;
		tg_wide_store(last->bits, *bits);
		return mss_be != 0;
	}
	*bits = tg_wide_load(last->bits);
	return true;
}

/* tg_presence_flow of all lanes. */
TG_INLINE tg_wide tg_wide_presence_flow(tg_wide addrs, tg_wide ports, uint64_t salt)
{
	tg_wide_words src = (tg_wide_words)tg_wide_and(addrs, TG_WIDE_LOW);
	tg_wide_words dst = (tg_wide_words)addrs >> 32;
	tg_wide_words h = TG_PRESENCE_FLOW_BEGIN(src, (tg_wide_words)ports, salt);

	return (tg_wide)TG_PRESENCE_FLOW_END(h, dst);
}

/* tg_presence_source of all lanes' tg_white_key. */
TG_INLINE tg_wide tg_wide_presence_source(tg_wide addrs, uint32_t mask, uint64_t salt)
{
	tg_wide_words key = TG_WHITE_V4_KEY((tg_wide_words)addrs & mask);
	tg_wide_words h = TG_PRESENCE_SOURCE_BEGIN(key, salt);

	return (tg_wide)TG_PRESENCE_SOURCE_END(h);
}

/* True if the lists deny one of the sources. */
TG_INLINE bool tg_wide_any_denied(const struct tg_config *config, tg_wide addrs)
{
	uint64_t each[TG_WIDE] __attribute__((aligned(64)));
	bool denied = false;
	int i;

	if (TG_LIKELY(!config->sources))
		return false;
	tg_wide_store(each, addrs);
	for (i = 0; i < TG_WIDE && !denied; i++) {
		union tg_addr src = {.d = {(uint32_t)each[i], 0}};

		denied = tg_config_denies(config, 4, &src);
	}
	return denied;
}

/* The places that hashes select in a front. */
TG_INLINE void tg_wide_place(struct tg_wide_places *p, tg_wide hash)
{
	tg_wide_store(p->word, (tg_wide)TG_PRESENCE_FRONT_WORD((tg_wide_words)hash));
	tg_wide_store(p->bit, tg_wide_shr(hash, TG_PRESENCE_FRONT_SHIFT));
}

TG_INLINE void tg_wide_note(struct tg_wide_hashes *h, tg_wide hash)
{
	tg_wide_store(h->hash, hash);
	tg_wide_place(&h->places, hash);
}

/* The words of all lanes' hashes for the SYN cache. */
TG_INLINE void tg_wide_halves(struct tg_siphash_batch *b, uint32_t at, tg_wide addrs, tg_wide ports)
{
	tg_wide_store(&b->m[0][at], addrs);
	tg_wide_store(&b->m[1][at],
		      tg_wide_or(tg_wide_and(ports, TG_WIDE_LOW), TG_WIDE_ALL(TG_TUPLE_TAIL(4, 0))));
	b->n = at + TG_WIDE;
}

/* What the frames of a group say. */
struct tg_wide_syns {
	tg_wide addrs, ports, tsval; /* columns 2, 3 and 6 */
	/* What tg_cookie_message has after tg_cookie_begin: the client's number in host order, all else
	 * as on the wire. */
	tg_wide word[2];
};

/* What the end of cookies' messages has from the SYNs' option bits. */
TG_INLINE tg_wide tg_wide_tail(tg_wide bits)
{
	return tg_wide_or(tg_wide_shl(bits, TG_COOKIE_OPTIONS_SHIFT),
			  TG_WIDE_ALL(tg_cookie_tail(4, 0, TG_COOKIE_TS)));
}

/* The messages of cookies from columns and tg_wide_tail. */
TG_INLINE void tg_wide_syns_words(struct tg_wide_syns *x, tg_wide tail)
{
	x->word[0] = tg_wide_blend(x->ports, tg_wide_shl(x->addrs, 32));
	x->word[1] = tg_wide_or(tg_wide_swap32_high(x->ports), tail);
}

/* Reads the frames, and finds their servers. False: process them one by one. */
TG_INLINE bool tg_wide_syns_read(struct tg_worker *w, struct rte_mbuf *const *m,
				 struct tg_wide_group *g, const struct tg_wide_frames *f,
				 struct tg_wide_syns *x)
{
	const uint8_t *row = TG_DATA(m[0]) + TG_WIDE_FROM;
	tg_wide q7, bits;

	tg_wide_columns(f->columns.even, true, &x->addrs, &x->tsval);
	tg_wide_columns(f->columns.odd, true, &x->ports, &q7);
	if (tg_wide_any_source_odd(w, x->addrs, x->ports) ||
	    !tg_wide_sums(f, tg_wide_nic_says(f, m[0], false), x->addrs, x->ports, x->tsval, q7) ||
	    !tg_wide_servers(w, g, f, x->addrs, x->ports) ||
	    !tg_wide_option_bits(&w->fast.options, &g->server[0]->form[TG_WIDE_KINDS], f, q7, row,
				 &bits) ||
	    tg_wide_any_denied(w->config, x->addrs))
		return false;
	tg_wide_syns_words(x, tg_wide_tail(bits));
	return true;
}

/* tg_presence_flow and tg_presence_source of the group. */
TG_INLINE tg_wide tg_wide_syns_flow(const struct tg_worker *w, const struct tg_wide_syns *x)
{
	return tg_wide_presence_flow(x->addrs, tg_wide_and(x->ports, TG_WIDE_LOW), w->presence_salt);
}

TG_INLINE tg_wide tg_wide_syns_source(const struct tg_worker *w, const struct tg_wide_syns *x)
{
	return tg_wide_presence_source(x->addrs, w->config->white_v4_mask, w->presence_salt);
}

/* Notes the frames for the last stage; the first is number `at` of the burst. False: process them one by one. */
TG_INLINE bool tg_wide_syns_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				 const struct tg_wide_frames *f)
{
	struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	struct tg_wide_cookies *c = &w->fast.wide;
	struct tg_wide_syns x;
	uint8_t strategy;

	if (!tg_wide_syns_read(w, m, g, f, &x))
		return false;
	g->v6 = false;
	strategy = g->server[0]->strategy;
	tg_wide_store(&c->m[0][at], x.word[0]);
	tg_wide_store(&c->m[1][at], x.word[1]);
	if (tg_strategy_has_cookie(strategy))
		tg_wide_store(&c->mac[at], tg_wide_macs(tg_wide_begin(g), x.word, 2));
	tg_wide_store(g->tsval, x.tsval);
	if (w->config->flows)
		tg_wide_note(&g->presence, tg_wide_syns_flow(w, &x));
	if (strategy == TG_STRATEGY_CACHE)
		tg_wide_halves(&w->fast.wide_halves, at, x.addrs, x.ports);
	if (!tg_strategy_translates(strategy))
		tg_wide_note(&g->white, tg_wide_syns_source(w, &x));
	return true;
}

/* ---- last stage ---- */

/* True if the front has a bit at one of these places. One by one: loads by place (gather) take longer. */
TG_INLINE bool tg_wide_any_near(const uint64_t *front, const struct tg_wide_places *p)
{
	uint64_t near = 0;
	int i;

#pragma GCC unroll 8 /* TG_WIDE, or more */
	for (i = 0; i < TG_WIDE; i++)
		near |= front[p->word[i]] >> (p->bit[i] & 63);
	return near & 1;
}

/* tg_fast_bits_maybe of all lanes. */
TG_INLINE tg_wide_lanes tg_wide_maybe(const struct tg_fast_bits *bits, const struct tg_wide_hashes *h)
{
	uint32_t i, known = 0;

	if (TG_LIKELY(!tg_wide_any_near(bits->front, &h->places)))
		return 0;
	for (i = 0; i < TG_WIDE; i++)
		known |= (uint32_t)tg_fast_bits_maybe(bits, (uint32_t)h->hash[i]) << i;
	return (tg_wide_lanes)known;
}

/* tg_fast_cache_is_full for a register of a bucket's heads at once. */
TG_INLINE bool tg_wide_cache_is_full(struct tg_worker *w, uint64_t hash, tg_wide tick)
{
	struct tg_halfopen_bucket *b = tg_halfopen_bucket_of(w, hash);
	tg_wide_lanes others = TG_WIDE_LANES;
	uint32_t i;

	for (i = 0; i < TG_HALFOPEN_WAYS; i += TG_WIDE) {
		tg_wide heads = tg_wide_load(&b->heads[i]);
		tg_wide age = tg_wide_and(tg_wide_sub(tick, heads), TG_WIDE_LOW);
		tg_wide_lanes lives = tg_wide_less(age, TG_WIDE_ALL(TG_HALFOPEN_LIFE)) &
				      tg_wide_test(heads, heads);
		tg_wide_lanes same = tg_wide_equal(tg_wide_shr(heads, TG_HALFOPEN_TAG_SHIFT),
						   TG_WIDE_ALL(hash >> TG_HALFOPEN_TAG_SHIFT));

		others &= lives & (tg_wide_lanes)~same;
	}
	if (TG_UNLIKELY(others != TG_WIDE_LANES))
		return false;
	tg_halfopen_gives_cookie(b, w->epoch);
	return true;
}

/* The group's hashes for the SYN cache. */
TG_INLINE const uint64_t *tg_wide_half(const struct tg_worker *w, const struct tg_wide_group *g,
				       uint32_t at)
{
	return &(g->v6 ? &w->fast.wide_halves6 : &w->fast.wide_halves)->out[at];
}

/* The lanes for which the SYN cache has a place, or may have one already. */
TG_INLINE tg_wide_lanes tg_wide_cached(struct tg_worker *w, const uint64_t *hash)
{
	tg_wide tick = TG_WIDE_ALL(TG_HALFOPEN_TICK(w->now_ns));
	uint32_t i, cached = 0;

	for (i = 0; i < TG_WIDE; i++)
		cached |= (uint32_t)!tg_wide_cache_is_full(w, hash[i], tick) << i;
	return (tg_wide_lanes)cached;
}

/* The lanes that a table may contain: tg_fast_syn_is_known; under `cache`, those that get no cookie, too. */
TG_INLINE tg_wide_lanes tg_wide_known(struct tg_worker *w, const struct tg_wide_group *g, uint32_t at)
{
	tg_wide_lanes known = 0;

	if (w->config->flows)
		known |= tg_wide_maybe(&w->fast.flow_bits, &g->presence);
	if (g->server[0]->strategy == TG_STRATEGY_CACHE)
		known |= tg_wide_cached(w, tg_wide_half(w, g, at));
	if (!tg_strategy_translates(g->server[0]->strategy))
		known |= tg_wide_maybe(&w->fast.white_bits, &g->white);
	return known;
}

/* The group's MACs. Under `cache` they are hashed now: SYNs that find a place need none. */
TG_INLINE tg_wide tg_wide_macs_of(const struct tg_wide_cookies *c, const struct tg_wide_group *g,
				  uint32_t at, const uint32_t words)
{
	tg_wide word[4];
	uint32_t i;

	if (TG_LIKELY(g->server[0]->strategy != TG_STRATEGY_CACHE))
		return tg_wide_load(&c->mac[at]);
	for (i = 0; i < words; i++)
		word[i] = tg_wide_load(&c->m[i][at]);
	return tg_wide_macs(tg_wide_begin(g), word, words);
}

/* The numbers of a group that the first stage has noted. */
TG_INLINE struct tg_wide_numbers tg_wide_numbers_noted(const struct tg_worker *w,
						       const struct tg_wide_group *g, uint32_t at)
{
	const struct tg_wide_cookies *c = &w->fast.wide;
	tg_wide client = tg_wide_load(&c->m[0][at]), said = tg_wide_load(&c->m[1][at]);

	return g->server[0]->form[TG_WIDE_KINDS].ts
		       ? tg_wide_numbers_cookie(w, client, said, tg_wide_load(g->tsval),
						tg_wide_macs_of(c, g, at, 2))
		       : tg_wide_numbers_challenge(w, client, said);
}

/* Lane `i` of a group under `cache`, which gets no cookie; `m`: its frame. False: the slow path. */
static inline bool tg_wide_cache_answer(struct tg_worker *w, struct rte_mbuf *m, uint32_t at,
					uint32_t i, uint16_t port)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	struct tg_fast_frame f = {.m = m,
				  .ip = TG_DATA(m) + TG_ETH_HDR_LEN,
				  .server = tg_wide_server_of(g, i),
				  .l3_off = TG_ETH_HDR_LEN,
				  .v6 = g->v6};

	return f.server->strategy == TG_STRATEGY_CACHE &&
	       !(w->config->flows &&
		 tg_fast_bits_maybe(&w->fast.flow_bits, (uint32_t)g->presence.hash[i])) &&
	       tg_fast_cache_answer(w, &w->items[at + i], &f, tg_wide_half(w, g, at)[i], port);
}

/* The answers of a group; `m`: its first frame's. */
TG_INLINE void tg_wide_answer_by(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				 uint32_t known, struct tg_wide_forms forms)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	uint32_t len = TG_ETH_HDR_LEN + g->server[0]->form[TG_WIDE_KINDS].len;
	struct tg_wide_lines lines = tg_wide_answers(tg_wide_numbers_noted(w, g, at), forms);

	tg_wide_write_all(m, known, len, TG_WIDE_LEN, &lines, 4, NULL);
}

/* Answers the SYNs of a group but for those in `known`. */
static void __attribute__((noinline)) tg_wide_answer_some(struct tg_worker *w,
							  struct rte_mbuf *const *m, uint32_t at,
							  uint32_t known)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];

	if (g->alike) {
		tg_wide_answer_by(w, m, at, known,
				  tg_wide_forms_alike(&g->server[0]->form[TG_WIDE_KINDS]));
		return;
	}
	tg_wide_answer_by(w, m, at, known, tg_wide_forms_each(g));
	w->fast.wides_mixed += TG_WIDE - (uint32_t)__builtin_popcount(known);
}

/* Answers the SYNs of this group and of those behind it, up to the burst's end, to one to another server, or to one
 * of which a table may contain some: these are `known` then, else 0. Returns how many it has answered. */
static uint32_t __attribute__((noinline)) tg_wide_answer_groups(struct tg_worker *w,
								struct rte_mbuf *const *m,
								uint32_t at, uint32_t n,
								uint32_t *known)
{
	const struct tg_fast_server *s = w->fast.group[at / TG_WIDE].server[0];
	const struct tg_wide_forms forms = tg_wide_forms_alike(&s->form[TG_WIDE_KINDS]);
	uint32_t i;

	*known = 0;
	for (i = at; i < n && w->fast.path[i] == TG_FAST_WIDE; i += TG_WIDE) {
		const struct tg_wide_group *g = &w->fast.group[i / TG_WIDE];

		if (!g->alike || g->server[0] != s)
			break;
		*known = tg_wide_known(w, g, i);
		if (TG_UNLIKELY(*known))
			break;
		tg_wide_answer_by(w, m + (i - at), i, 0, forms);
	}
	return i - at;
}
#endif

#endif
