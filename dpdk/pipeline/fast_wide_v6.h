/* SPDX-License-Identifier: Apache-2.0
 *
 * fast_wide.h over IPv6: the SYNs have the same TCP header, behind 40 bytes of IP header without extensions. A row begins
 * at a frame's thirtieth byte, so that its words from the fourth on are those of a row over IPv4:
 *
 *   byte  30        38        46        54       62           70        78       86
 *         source,   destin.,  destin.,  ports,   ack, offset, checksum, SACK,    TSecr,
 *         2nd half  1st half  2nd half  number   flags,       MSS       TS,      WS
 *                                                window                 TSval
 *
 * What is before it is read by itself: type, version, length and protocol, and the source's first half.
 *
 * Must never: answer a SYN that fast_syn.h would not, or otherwise.
 */
#ifndef TG_DPDK_FAST_WIDE_V6_H
#define TG_DPDK_FAST_WIDE_V6_H

#include "fast_wide.h"

#if TG_HAS_WIDE
#define TG_WIDE_V6_FROM 30
#define TG_WIDE_V6_LEN 94 /* bytes of the frame, and of its answer */
#define TG_WIDE_V6_TCP (TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN)
#define TG_WIDE_V6_WORDS 10 /* of the answer, from its IP header on */

struct tg_wide_v6_frames {
	struct tg_wide_frames f; /* the rows above */
	tg_wide src0;
};

/* The columns of the rows; the addresses' halves as on the wire. */
struct tg_wide_v6 {
	tg_wide src0, src1, dst0, dst1, ports, q4, q5, q6, q7;
};

/* ---- first stage ---- */

TG_INLINE bool tg_wide_is_v6(const struct rte_mbuf *m)
{
	return m->data_len >= TG_ETH_HDR_LEN &&
	       tg_load16(TG_DATA(m) + TG_ETH_TYPE) == TG_ETHERTYPE_IPV6;
}

TG_INLINE bool tg_wide_v6_is_syn(const struct rte_mbuf *m)
{
	return m->data_len > TG_WIDE_V6_TCP + TG_TCP_FLAGS &&
	       TG_DATA(m)[TG_WIDE_V6_TCP + TG_TCP_FLAGS] == TG_TCP_SYN;
}

/* tg_wide_read: false, if the frames are not all untagged IPv6 without extension headers, with a TCP header of 40 bytes
 * and nothing behind it. */
TG_INLINE bool tg_wide_v6_read(struct rte_mbuf *const *m, uint64_t mac, uint64_t mask,
			       struct tg_wide_v6_frames *v)
{
	/* From the type on: version, length; then the protocol. */
	const uint64_t want = TG_ETHERTYPE_IPV6 | 0x60ULL << 16 | 40ULL << 56;
	const uint64_t bits = 0xffffULL | 0xf0ULL << 16 | 0xffffULL << 48;
	tg_wide_row row[TG_WIDE];
	uint64_t src0[TG_WIDE], others = 0, odd = 0;
	uint32_t off, i;

	if (!tg_wide_are_plain(m, TG_WIDE, TG_WIDE_V6_LEN, &v->f))
		return false;
	off = m[0]->data_off;
	for (i = 0; i < TG_WIDE; i++) {
		const uint8_t *data = tg_wide_data(m[i], off);

		others |= tg_load64(data) ^ mac;
		odd |= ((tg_load64(data + TG_ETH_TYPE) ^ want) & bits) |
		       (data[TG_ETH_HDR_LEN + 6] ^ (uint8_t)TG_IPPROTO_TCP);
		src0[i] = tg_load64(data + TG_ETH_HDR_LEN + TG_IPV6_SRC);
		row[i] = tg_wide_row_load(data + TG_WIDE_V6_FROM);
		if (i == 0)
			v->f.rows = tg_wide_rows_of(row[i]);
		else
			tg_wide_rows_add(&v->f.rows, row[i]);
	}
	if ((others & mask) | odd)
		return false;
	v->src0 = tg_wide_set(src0);
	v->f.columns = tg_wide_turn(row);
	return true;
}

TG_INLINE struct tg_wide_v6 tg_wide_v6_columns(const struct tg_wide_v6_frames *v)
{
	struct tg_wide_v6 c = {.src0 = v->src0};

	tg_wide_columns(v->f.columns.even, false, &c.src1, &c.q4);
	tg_wide_columns(v->f.columns.odd, false, &c.dst0, &c.q5);
	tg_wide_columns(v->f.columns.even, true, &c.dst1, &c.q6);
	tg_wide_columns(v->f.columns.odd, true, &c.ports, &c.q7);
	return c;
}

/* tg_wide_sources_odd. */
TG_INLINE tg_wide_lanes tg_wide_v6_sources_odd(const struct tg_worker *w, const struct tg_wide_v6 *c)
{
	tg_wide_lanes odd = tg_wide_equal(tg_wide_and(c->src0, TG_WIDE_ALL(0xff)), TG_WIDE_ALL(0xff)) |
			    tg_wide_equal(c->src0, TG_WIDE_ALL(0)) |
			    (tg_wide_equal(c->src0, c->dst0) & tg_wide_equal(c->src1, c->dst1));

	if (w->config->flows)
		odd |= tg_wide_protected(w->config, c->ports);
	return odd;
}

/* tg_fast_answer_sums of all lanes. */
TG_INLINE bool tg_wide_v6_sums(const struct tg_wide_frames *f, const struct rte_mbuf *first,
			       const struct tg_wide_v6 *c)
{
	const enum tg_wide_sums says = tg_wide_nic_says(f, first, true);
	const uint32_t len = TG_WIDE_V6_LEN - TG_WIDE_V6_TCP;
	struct tg_wide_halves_sum sum;
	tg_wide end;

	if (says != TG_WIDE_SUMS_OPEN)
		return says == TG_WIDE_SUMS_GOOD;
	sum = tg_wide_sum_low(tg_wide_sum_of(c->src0),
			      TG_WIDE_ALL(TG_WIRE32(0, TG_IPPROTO_TCP, 0, len)));
	sum = tg_wide_sum_in(tg_wide_sum_in(sum, c->src1), c->dst0);
	sum = tg_wide_sum_in(tg_wide_sum_in(sum, c->dst1), c->ports);
	sum = tg_wide_sum_in(tg_wide_sum_in(sum, c->q4), c->q5);
	sum = tg_wide_sum_in(tg_wide_sum_in(sum, c->q6), c->q7);
	end = tg_wide_csum_finish(tg_wide_sum_end(sum));
	return !tg_wide_test(end, end);
}

/* tg_wide_several. */
static bool __attribute__((noinline)) tg_wide_v6_several(struct tg_worker *w, struct tg_wide_group *g,
							 const struct tg_wide_v6 *c)
{
	uint64_t dst0[TG_WIDE] __attribute__((aligned(64))),
		dst1[TG_WIDE] __attribute__((aligned(64))),
		ports[TG_WIDE] __attribute__((aligned(64)));
	uint32_t i;

	tg_wide_store(dst0, c->dst0);
	tg_wide_store(dst1, c->dst1);
	tg_wide_store(ports, c->ports);
	for (i = 0; i < TG_WIDE; i++) {
		g->server[i] = tg_wide_server_at(w, dst0[i], dst1[i], ports[i], 6);
		if (!g->server[i] || !tg_wide_agree(g->server[0], g->server[i]))
			return false;
	}
	g->alike = false;
	return true;
}

/* tg_wide_servers. */
TG_INLINE bool tg_wide_v6_servers(struct tg_worker *w, struct tg_wide_group *g,
				  const struct tg_wide_frames *f, const struct tg_wide_v6 *c)
{
	const tg_wide_row to = tg_wide_row_of(0, ~0ULL, ~0ULL, 0xffff0000, 0, 0, 0, 0);

	g->v6 = g->alike = true;
	if (TG_LIKELY(!tg_wide_rows_differ(&f->rows, to))) {
		g->server[0] = tg_wide_server_at(w, tg_wide_first(c->dst0), tg_wide_first(c->dst1),
						 tg_wide_first(c->ports), 6);
		if (TG_LIKELY(g->server[0] != NULL))
			return true;
	} else if (tg_wide_v6_several(w, g, c)) {
		return true;
	}
	w->fast.apart6 = TG_WIDE_PAUSE;
	return false;
}

/* tg_presence_flow of all lanes. */
TG_INLINE tg_wide tg_wide_v6_presence_flow(const struct tg_wide_v6 *c, uint64_t salt)
{
	tg_wide_words src0 = (tg_wide_words)c->src0, src1 = (tg_wide_words)c->src1;
	tg_wide_words dst0 = (tg_wide_words)c->dst0, dst1 = (tg_wide_words)c->dst1;
	tg_wide_words ports = (tg_wide_words)c->ports & 0xffffffff;
	tg_wide_words h = TG_PRESENCE_FLOW_BEGIN(src0, ports, salt);

	h = TG_PRESENCE_FLOW_V6(h, src1, dst1);
	return (tg_wide)TG_PRESENCE_FLOW_END(h, dst0);
}

/* tg_presence_source of all lanes' tg_white_key. */
TG_INLINE tg_wide tg_wide_v6_presence_source(tg_wide src0, uint64_t mask, uint64_t salt)
{
	tg_wide_words key = (tg_wide_words)src0 & mask;
	tg_wide_words h = TG_PRESENCE_SOURCE_BEGIN(key, salt);

	return (tg_wide)TG_PRESENCE_SOURCE_END(h);
}

/* True if the lists deny one of the sources. */
TG_INLINE bool tg_wide_v6_any_denied(const struct tg_config *config, const struct tg_wide_v6 *c)
{
	uint64_t src0[TG_WIDE] __attribute__((aligned(64))),
		src1[TG_WIDE] __attribute__((aligned(64)));
	bool denied = false;
	int i;

	if (TG_LIKELY(!config->sources))
		return false;
	tg_wide_store(src0, c->src0);
	tg_wide_store(src1, c->src1);
	for (i = 0; i < TG_WIDE && !denied; i++) {
		union tg_addr src = {.d = {src0[i], src1[i]}};

		denied = tg_config_denies(config, 6, &src);
	}
	return denied;
}

/* The words of all lanes' hashes for the SYN cache. */
TG_INLINE void tg_wide_v6_halves(struct tg_siphash_batch *b, uint32_t at, const struct tg_wide_v6 *c)
{
	tg_wide_store(&b->m[0][at], c->src0);
	tg_wide_store(&b->m[1][at], c->src1);
	tg_wide_store(&b->m[2][at], c->dst0);
	tg_wide_store(&b->m[3][at], c->dst1);
	tg_wide_store(&b->m[4][at], tg_wide_or(tg_wide_and(c->ports, TG_WIDE_LOW),
					       TG_WIDE_ALL(TG_TUPLE_TAIL(6, 0))));
	b->n = at + TG_WIDE;
}

/* tg_wide_syns_take. */
TG_INLINE bool tg_wide_v6_syns_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				    const struct tg_wide_v6_frames *v)
{
	struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	const uint64_t nothing[2] = {0, 0};
	const struct tg_wide_layout layout = tg_wide_layout_syn(nothing, nothing);
	struct tg_wide_cookies *b = &w->fast.wide6;
	const struct tg_wide_v6 c = tg_wide_v6_columns(v);
	const struct tg_fast_server *s;
	tg_wide bits, word[4];
	uint32_t i;

	if (!tg_wide_are(&v->f.rows, layout.want, layout.mask, tg_wide_row_none()) ||
	    tg_wide_v6_sources_odd(w, &c) || !tg_wide_v6_sums(&v->f, m[0], &c) ||
	    !tg_wide_v6_servers(w, g, &v->f, &c))
		return false;
	s = g->server[0];
	if (!tg_wide_option_bits(&w->fast.options, &s->form[TG_WIDE_KINDS], &v->f, c.q7,
				 TG_DATA(m[0]) + TG_WIDE_V6_FROM, &bits) ||
	    tg_wide_v6_any_denied(w->config, &c))
		return false;
	/* What tg_cookie_message has after tg_cookie_begin. */
	word[0] = tg_wide_or(TG_WIDE_ALL((uint32_t)w->epoch), tg_wide_shl(c.ports, 32));
	word[1] = c.src0;
	word[2] = c.src1;
	word[3] = tg_wide_or(tg_wide_or(tg_wide_swap32_high(c.ports),
					tg_wide_shl(bits, TG_COOKIE_OPTIONS_SHIFT)),
			     TG_WIDE_ALL(tg_cookie_tail(6, 0, TG_COOKIE_TS)));
	for (i = 0; i < 4; i++)
		tg_wide_store(&b->m[i][at], word[i]);
	if (tg_strategy_has_cookie(s->strategy))
		tg_wide_store(&b->mac[at], tg_wide_macs(tg_wide_begin(g), word, 4));
	tg_wide_store(g->tsval, tg_wide_shr(c.q6, 32));
	if (w->config->flows)
		tg_wide_note(&g->presence, tg_wide_v6_presence_flow(&c, w->presence_salt));
	if (s->strategy == TG_STRATEGY_CACHE)
		tg_wide_v6_halves(&w->fast.wide_halves6, at, &c);
	if (!tg_strategy_translates(s->strategy))
		tg_wide_note(&g->white, tg_wide_v6_presence_source(c.src0, w->config->white_v6_mask,
								   w->presence_salt));
	return true;
}

/* Both. A function of its own, so that frames over IPv4 keep their registers. */
static bool __attribute__((noinline)) tg_wide_v6_take(struct tg_worker *w, struct rte_mbuf *const *m,
						      uint32_t at, uint64_t mac, uint64_t mask)
{
	struct tg_wide_v6_frames v;

	return tg_wide_v6_read(m, mac, mask, &v) && tg_wide_v6_syns_take(w, m, at, &v);
}

/* ---- last stage ---- */

/* tg_challenge_isn without a TTL, as on the wire, of what the group's lanes would hash for a cookie. */
TG_INLINE tg_wide tg_wide_v6_challenges(const struct tg_wide_cookies *b, uint32_t at,
					const struct tg_siphash_key *key)
{
	struct tg_siphash_lanes s = tg_siphash_lanes_begin(TG_WIDE_ALL(key->k0),
							   TG_WIDE_ALL(key->k1));
	int i;

	tg_siphash_lanes_word(&s, tg_wide_load(&b->m[1][at]), 1);
	tg_siphash_lanes_word(&s, tg_wide_load(&b->m[2][at]), 1);
	tg_siphash_lanes_word(&s,
			      tg_wide_or(tg_wide_shr(tg_wide_load(&b->m[0][at]), 32),
					 tg_wide_shl(tg_wide_load(&b->m[3][at]), 32)),
			      1);
	tg_siphash_lanes_word(&s, TG_WIDE_ALL(TG_CHALLENGE_V6_TAIL(0)), 1);
	s.v2 ^= 0xff;
	for (i = 0; i < 3; i++)
		tg_siphash_lanes_round(&s);
	return tg_wide_swap32(tg_wide_and(tg_siphash_lanes_out(&s), TG_WIDE_LOW));
}

/* struct tg_wide_forms. */
struct tg_wide_v6_forms {
	tg_wide words[TG_WIDE_V6_WORDS], flow_key, tcp_sum;
};

TG_INLINE struct tg_wide_v6_forms tg_wide_v6_forms_alike(const struct tg_form *form)
{
	struct tg_wide_v6_forms t = {.flow_key = TG_WIDE_ALL(form->flow_key),
				     .tcp_sum = TG_WIDE_ALL(form->tcp_sum)};
	int i;

	for (i = 0; i < TG_WIDE_V6_WORDS; i++)
		t.words[i] = TG_WIDE_ALL(tg_load64(form->bytes + 8 * i));
	return t;
}

TG_INLINE struct tg_wide_v6_forms tg_wide_v6_forms_each(const struct tg_wide_group *g)
{
	uint64_t each[TG_WIDE_V6_WORDS + 2][TG_WIDE];
	struct tg_wide_v6_forms t;
	uint32_t i, n;

	for (n = 0; n < TG_WIDE; n++) {
		const struct tg_form *form = &g->server[n]->form[TG_WIDE_KINDS];

		for (i = 0; i < TG_WIDE_V6_WORDS; i++)
			each[i][n] = tg_load64(form->bytes + 8 * i);
		each[i][n] = form->flow_key;
		each[i + 1][n] = form->tcp_sum;
	}
	for (i = 0; i < TG_WIDE_V6_WORDS; i++)
		t.words[i] = tg_wide_set(each[i]);
	t.flow_key = tg_wide_set(each[i]);
	t.tcp_sum = tg_wide_set(each[i + 1]);
	return t;
}

/* tg_wide_answers. */
TG_INLINE struct tg_wide_lines tg_wide_v6_answers(const struct tg_worker *w,
						  const struct tg_wide_group *g, uint32_t at,
						  struct tg_wide_v6_forms t)
{
	const struct tg_wide_cookies *b = &w->fast.wide6;
	tg_wide src0 = tg_wide_load(&b->m[1][at]), src1 = tg_wide_load(&b->m[2][at]);
	tg_wide said = tg_wide_load(&b->m[3][at]), number = tg_wide_and(said, TG_WIDE_LOW);
	tg_wide port = tg_wide_shl(
		tg_wide_and(tg_wide_shr(tg_wide_load(&b->m[0][at]), 32), TG_WIDE_ALL(0xffff)), 16);
	struct tg_wide_halves_sum of_source = tg_wide_sum_in(tg_wide_sum_of(src0), src1);
	tg_wide tsval, tsecr, isn, ack, sum, label;

	tsval = tsecr = TG_WIDE_ALL(0);
	if (g->server[0]->form[TG_WIDE_KINDS].ts) {
		isn = tg_wide_cookies(tg_wide_macs_of(b, g, at, 4), said, w->epoch);
		tsval = tg_wide_shr(isn, 32);
		tsecr = tg_wide_load(g->tsval);
		isn = tg_wide_and(isn, TG_WIDE_LOW);
	} else {
		isn = tg_wide_v6_challenges(b, at, &w->challenge_key);
	}
	ack = tg_wide_swap32(tg_wide_and(tg_wide_add(number, TG_WIDE_ALL(1)), TG_WIDE_LOW));
	label = (tg_wide)TG_FLOW_WORD((tg_wide_words)isn, (tg_wide_words)t.flow_key);
	sum = tg_wide_add(tg_wide_add(t.tcp_sum, port), tg_wide_sum_end(of_source));
	sum = tg_wide_add(sum, tg_wide_add(isn, ack));
	sum = tg_wide_add(sum, tg_wide_add(tsval, tsecr));
	t.words[0] = tg_wide_or(t.words[0], label);
	t.words[3] = src0;
	t.words[4] = src1;
	t.words[5] = tg_wide_or(t.words[5], tg_wide_or(port, tg_wide_shl(isn, 32)));
	t.words[6] = tg_wide_or(t.words[6], ack);
	t.words[7] = tg_wide_or(t.words[7], tg_wide_csum_finish(sum));
	t.words[8] = tg_wide_or(t.words[8], tg_wide_shl(tsval, 32));
	t.words[9] = tg_wide_or(t.words[9], tsecr);
	return tg_wide_lines_of(t.words, TG_WIDE_V6_WORDS / 2);
}

/* tg_wide_answer_by. */
TG_INLINE void tg_wide_v6_answer_by(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				    uint32_t known, struct tg_wide_v6_forms forms)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	uint32_t len = TG_ETH_HDR_LEN + g->server[0]->form[TG_WIDE_KINDS].len;
	struct tg_wide_lines lines = tg_wide_v6_answers(w, g, at, forms);

	tg_wide_write_all(m, known, len, TG_WIDE_V6_LEN, &lines, TG_WIDE_V6_WORDS / 2, NULL);
}

static void __attribute__((noinline)) tg_wide_v6_answer_each(struct tg_worker *w,
							     struct rte_mbuf *const *m, uint32_t at,
							     uint32_t known)
{
	tg_wide_v6_answer_by(w, m, at, known, tg_wide_v6_forms_each(&w->fast.group[at / TG_WIDE]));
	w->fast.wides_mixed += TG_WIDE - (uint32_t)__builtin_popcount(known);
}

/* tg_wide_answer. */
static inline uint32_t tg_wide_v6_answer(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	uint32_t known = tg_wide_known(w, g, at);

	if (TG_LIKELY(g->alike))
		tg_wide_v6_answer_by(w, m, at, known,
				     tg_wide_v6_forms_alike(&g->server[0]->form[TG_WIDE_KINDS]));
	else
		tg_wide_v6_answer_each(w, m, at, known);
	w->fast.wides6 += TG_WIDE - (uint32_t)__builtin_popcount(known);
	return known;
}
#endif

#endif
