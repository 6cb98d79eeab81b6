/* SPDX-License-Identifier: Apache-2.0
 *
 * A flood's SYNs that are answered in blocks of up to 16: what all must have is asked once of a block, then each group is
 * read and answered. With AVX2, where a group is four frames, what is asked once of it takes as long as a quarter of all
 * else. A larger block would leave more frames for which nothing has been fetched ahead.
 */
#ifndef TG_DPDK_FLOOD_BLOCK_H
#define TG_DPDK_FLOOD_BLOCK_H

#include "flood_syn.h"

#if TG_HAS_WIDE && TG_WIDE == 4
#define TG_FLOOD_BLOCK 16

/* Frames that are looked at together. */
struct tg_flood {
	struct tg_wide_frames f; /* of all of them, but the columns: of the group that is read */
	uint8_t *data[TG_FLOOD_BLOCK];
	struct tg_fast_server *server;
	enum tg_wide_sums says;
	bool same_options;
	tg_wide tail; /* tg_wide_tail of the same options */
};

enum tg_flood_are {
	TG_FLOOD_NONE, /* they cannot be processed several at once */
	TG_FLOOD_OTHERS,
	TG_FLOOD_SYNS, /* to one server, through one pair of MAC addresses */
};

/* Looks at `n` frames for what all must have. `more`: as many follow. */
TG_INLINE enum tg_flood_are tg_flood_look(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t n,
					  bool more, uint64_t mac, uint64_t mask, struct tg_flood *b)
{
	const tg_wide_row said = tg_wide_row_of(0, 0, 0, 0, 0, 0xffffULL << 48, 0, 0xffULL << 56);
	const struct tg_wide_layout layout = tg_wide_layout_syn_v4();
	uint32_t off, i;
	uint8_t *data;
	tg_wide bits;

	if (!tg_wide_are_plain(m, n, TG_WIDE_LEN, &b->f))
		return TG_FLOOD_NONE;
	off = m[0]->data_off;
	if (more)
		tg_wide_fetch_one(m[n], off);
	data = b->data[0] = tg_wide_data(m[0], off);
	tg_wide_frames_begin(&b->f, _mm_loadu_si128((const __m128i *)data),
			     tg_wide_row_load(data + TG_WIDE_FROM));
	for (i = 1; i < n; i++) {
		if (more)
			tg_wide_fetch_one(m[n + i], off);
		data = b->data[i] = tg_wide_data(m[i], off);
		tg_wide_frames_add(&b->f, _mm_loadu_si128((const __m128i *)data),
				   tg_wide_row_load(data + TG_WIDE_FROM));
	}
	b->says = tg_wide_nic_says(&b->f, m[0], false);
	if (!tg_wide_are_to(&b->f, mac, mask) ||
	    !tg_wide_are(&b->f.rows, layout.want, layout.mask, tg_wide_row_none()) ||
	    b->says == TG_WIDE_SUMS_BAD)
		return TG_FLOOD_NONE;
	if (!tg_wide_one_ether(&b->f) || tg_wide_rows_differ(&b->f.rows, TG_WIDE_TO))
		return TG_FLOOD_OTHERS;
	b->server = tg_wide_server_again(w, tg_load64(b->data[0] + TG_WIDE_FROM + 16),
					 tg_load64(b->data[0] + TG_WIDE_FROM + 24));
	if (TG_UNLIKELY(!b->server)) {
		tg_wide_give_up(w);
		return TG_FLOOD_NONE;
	}
	bits = TG_WIDE_ALL(0);
	b->same_options = !tg_wide_rows_differ(&b->f.rows, said);
	if (TG_LIKELY(b->same_options) &&
	    !tg_wide_option_bits(&w->fast.options, &b->server->form[TG_WIDE_KINDS], &b->f,
				 TG_WIDE_ALL(0), b->data[0] + TG_WIDE_FROM, &bits))
		return TG_FLOOD_NONE;
	b->tail = tg_wide_tail(bits);
	return TG_FLOOD_SYNS;
}

/* Reads the group that begins with frame `at` of those. False: process them one by one. */
TG_INLINE bool tg_flood_read(struct tg_worker *w, struct tg_flood *b, uint32_t at,
			     struct tg_wide_syns *x)
{
	tg_wide tail = b->tail, q7;
	tg_wide_row row[TG_WIDE];
	uint32_t i;

	for (i = 0; i < TG_WIDE; i++)
		row[i] = tg_wide_row_load(b->data[at + i] + TG_WIDE_FROM);
	b->f.columns = tg_wide_turn(row);
	tg_wide_columns(b->f.columns.even, true, &x->addrs, &x->tsval);
	tg_wide_columns(b->f.columns.odd, true, &x->ports, &q7);
	if (tg_wide_any_source_odd(w, x->addrs, x->ports) ||
	    !tg_wide_sums(&b->f, b->says, x->addrs, x->ports, x->tsval, q7) ||
	    tg_wide_any_denied(w->config, x->addrs))
		return false;
	if (TG_UNLIKELY(!b->same_options)) {
		if (!tg_wide_option_bits(&w->fast.options, &b->server->form[TG_WIDE_KINDS], &b->f,
					 q7, b->data[at] + TG_WIDE_FROM, &tail))
			return false;
		tail = tg_wide_tail(tail);
	}
	tg_wide_syns_words(x, tail);
	return true;
}

/* Writes a group's answers. */
TG_INLINE void tg_flood_write(struct rte_mbuf *const *m, const struct tg_flood *b, uint32_t at,
			      uint32_t len, const struct tg_wide_lines *lines)
{
	const __m128i ether = tg_wide_turned(b->f.ether);
	uint32_t i;

#pragma GCC unroll 8 /* TG_WIDE, or more */
	for (i = 0; i < TG_WIDE; i++) {
		_mm_storeu_si128((__m128i *)b->data[at + i], ether);
		tg_wide_write(b->data[at + i] + TG_ETH_HDR_LEN, lines, 4, i);
	}
	for (i = 0; TG_UNLIKELY(len != TG_WIDE_LEN) && i < TG_WIDE; i++)
		tg_wide_set_len(m[at + i], len);
}

/* Answers SYNs from the first of `n` frames on. Returns how many it has answered, and their server; they are not sent
 * yet. `together`: what follows may still be a group for fast_wide.h. */
static uint32_t __attribute__((noinline)) tg_flood_answer(struct tg_worker *w,
							  struct rte_mbuf *const *m, uint32_t n,
							  uint64_t mac, uint64_t mask,
							  const struct tg_fast_server **server,
							  bool *together)
{
	uint32_t at = 0, len = 0, most = w->fast.no_block ? TG_WIDE : TG_FLOOD_BLOCK, block, i;
	const struct tg_fast_server *s = NULL;
	struct tg_wide_forms forms;
	struct tg_wide_lines lines;
	enum tg_flood_are are;
	struct tg_wide_syns x;
	struct tg_flood b;

	*together = true;
	for (; at + TG_WIDE <= n; at += block) {
		block = RTE_MIN(n - at, most) / TG_WIDE * TG_WIDE;
		are = tg_flood_look(w, m + at, block, at + 2 * block <= n, mac, mask, &b);
		if (TG_UNLIKELY(are != TG_FLOOD_SYNS)) {
			if (block == TG_WIDE) {
				*together = are != TG_FLOOD_NONE || !tg_wide_is_syn(m[at]);
				break;
			}
			w->fast.no_block = TG_FLOOD_PAUSE;
			most = TG_WIDE;
			block = 0;
			continue;
		}
		if (TG_UNLIKELY(b.server != s)) {
			if (s || !tg_flood_is_for(b.server))
				break;
			s = b.server;
			forms = tg_wide_forms_alike(&s->form[TG_WIDE_KINDS]);
			len = TG_ETH_HDR_LEN + s->form[TG_WIDE_KINDS].len;
		}
		for (i = 0; i < block; i += TG_WIDE) {
			if (TG_UNLIKELY(!tg_flood_read(w, &b, i, &x))) {
				*together = !tg_wide_is_syn(m[at + i]);
				break;
			}
			if (TG_UNLIKELY(tg_flood_any_known(w, &x, s->strategy)))
				break;
			lines = tg_wide_answers(tg_flood_numbers(w, s, &x), forms);
			tg_flood_write(m + at, &b, i, len, &lines);
		}
		if (TG_UNLIKELY(i != block)) {
			at += i;
			break;
		}
	}
	*server = s;
	return at;
}
#endif

#endif
