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

#include "wide_servers.h"

#if TG_HAS_WIDE
#define TG_WIDE_LEN 74 /* bytes of the frame, and of its answer */

/* ---- first stage ---- */

/* True if the frames are `len` bytes long and have this layout; of their first words the bits in `mask` are `first`. */
TG_INLINE bool tg_wide_are_syns(const struct tg_wide_frames *f, uint32_t len, uint64_t first,
				uint64_t mask)
{
	const tg_wide_row want = tg_wide_row_of(first, 0, 0, 0, 0x02a000000000, 0x040200000000,
						TG_WORD_SACK_TS, 0x0003030100000000);
	/* header of 40 bytes, SYN; MSS; SACK, timestamps; NOP, window scale */
	const tg_wide_row masks = tg_wide_row_of(mask, 0, 0, 0, 0xfff000000000, 0xffff00000000,
						 0xffffffff, 0x00ffffff00000000);
	const tg_wide_row lens = tg_wide_row_of(0, 0, 0, 0, 0, 0xffff, 0, 0); /* data_len */

	return tg_wide_are(f->any, f->all, want, masks, tg_wide_row_none()) &&
	       tg_wide_are(f->mbuf_any, f->mbuf_all, tg_wide_row_of(0, 0, 0, 0, 0, len, 0, 0), lens,
			   lens);
}

/* Lanes whose source or port the fast path does not handle: tg_fast_source_is_odd, and a
 * source port that belongs to a service. */
TG_INLINE tg_wide_lanes tg_wide_sources_odd(const struct tg_worker *w, tg_wide addrs, tg_wide ports)
{
	tg_wide first = tg_wide_and(addrs, TG_WIDE_ALL(0xff));
	tg_wide src = tg_wide_and(addrs, TG_WIDE_ALL(0xffffffff));
	tg_wide_lanes odd = tg_wide_less(TG_WIDE_ALL(222),
					 tg_wide_and(tg_wide_sub(first, TG_WIDE_ALL(1)),
						     TG_WIDE_ALL(0xff))) |
			    tg_wide_equal(first, TG_WIDE_ALL(127)) |
			    tg_wide_equal(src, tg_wide_shr(addrs, 32));

	if (w->config->flows)
		odd |= tg_wide_protected(w->config, tg_wide_and(ports, TG_WIDE_ALL(0xffff)));
	return odd;
}

/* Adds a column's lanes to a sum. */
TG_INLINE tg_wide tg_wide_sum_in(tg_wide sum, tg_wide column)
{
	return tg_wide_add(sum,
			   tg_wide_add(tg_wide_and(column, TG_WIDE_LOW), tg_wide_shr(column, 32)));
}

enum tg_wide_sums {
	TG_WIDE_SUMS_OPEN, /* compute them */
	TG_WIDE_SUMS_GOOD,
	TG_WIDE_SUMS_BAD, /* some are */
};

/* What the NIC says of the frames' checksums. */
TG_INLINE enum tg_wide_sums tg_wide_nic_says(const struct tg_wide_frames *f)
{
	const tg_wide_row bad = tg_wide_row_of(0, 0, 0, TG_NIC_SAYS_BAD, 0, 0, 0, 0);
	const tg_wide_row good = tg_wide_row_of(0, 0, 0, TG_NIC_SAYS_GOOD, 0, 0, 0, 0);

	if (TG_UNLIKELY(tg_wide_row_test(f->mbuf_any, bad)))
		return TG_WIDE_SUMS_BAD;
	return tg_wide_row_has(f->mbuf_all, good) ? TG_WIDE_SUMS_GOOD : TG_WIDE_SUMS_OPEN;
}

/* tg_fast_answer_sums of all lanes: columns 2, 3, 6 and 7 are in host order already. */
TG_INLINE bool tg_wide_sums(const struct tg_wide_frames *f, tg_wide q2, tg_wide q3, tg_wide q6,
			    tg_wide q7)
{
	const enum tg_wide_sums says = tg_wide_nic_says(f);
	const tg_wide tcp = TG_WIDE_ALL(
		TG_WIRE32(0, TG_IPPROTO_TCP, 0, TG_WIDE_LEN - TG_ETH_HDR_LEN - TG_IPV4_HDR_LEN));
	tg_wide q0, q1, q4, q5, ip, sum;

	if (says != TG_WIDE_SUMS_OPEN)
		return says == TG_WIDE_SUMS_GOOD;
	tg_wide_columns(f->columns.even, false, &q0, &q4);
	tg_wide_columns(f->columns.odd, false, &q1, &q5);
	sum = tg_wide_sum_in(TG_WIDE_ALL(0), q2);
	ip = tg_wide_sum_in(tg_wide_add(sum, tg_wide_shr(q0, 32)), q1);
	sum = tg_wide_sum_in(tg_wide_sum_in(tg_wide_add(sum, tcp), q3), q4);
	sum = tg_wide_sum_in(tg_wide_sum_in(tg_wide_sum_in(sum, q5), q6), q7);
	sum = tg_wide_or(tg_wide_csum_finish(sum), tg_wide_csum_finish(ip));
	return !tg_wide_test(sum, sum);
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

/* The same; mostly all lanes are equal. `row` is one of them. False: an MSS of 0. */
TG_INLINE bool tg_wide_option_bits(const struct tg_form *form, const struct tg_wide_frames *f,
				   tg_wide q7, const uint8_t *row, tg_wide *bits)
{
	const tg_wide_row both = tg_wide_row_of(0, 0, 0, 0, 0, 0xffffULL << 48, 0, 0xffULL << 56);
	uint16_t mss = tg_swap16(tg_load16(row + 46));
	uint32_t wscale = row[63];
	tg_wide q1, q5;

	if (TG_LIKELY(!tg_wide_row_differ(f->any, f->all, both))) {
		wscale = wscale < TG_WSCALE_MAX ? wscale : TG_WSCALE_MAX;
		*bits = TG_WIDE_ALL(form->option_bits |
				    tg_cookie_option_bits(mss, form->wscale ? (uint8_t)wscale : 0,
							  false, false));
		return mss != 0;
	}
	tg_wide_columns(f->columns.odd, false, &q1, &q5);
	q5 = tg_wide_shr(q5, 48);
	*bits = tg_wide_bits_of_each(form, q5, tg_wide_shr(q7, 56));
	return tg_wide_test(q5, q5) == TG_WIDE_LANES;
}

/* tg_presence_flow of all lanes. */
TG_INLINE tg_wide tg_wide_presence_flow(tg_wide addrs, tg_wide ports, uint64_t salt)
{
	tg_wide_words src = (tg_wide_words)addrs & 0xffffffff, dst = (tg_wide_words)addrs >> 32;
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

/* Stores hashes and prefetches the bits that they select. */
TG_INLINE void tg_wide_fetch(uint64_t *to, const uint64_t *const bits[2], tg_wide hash)
{
	int i;

	tg_wide_store(to, hash);
	for (i = 0; i < TG_WIDE; i++)
		tg_fast_bits_fetch(bits, (uint32_t)to[i]);
}

/* The words of all lanes' hashes for the SYN cache. */
TG_INLINE void tg_wide_halves(struct tg_siphash_batch *b, uint32_t at, tg_wide addrs, tg_wide ports)
{
	tg_wide_store(&b->m[0][at], addrs);
	tg_wide_store(&b->m[1][at],
		      tg_wide_or(tg_wide_and(ports, TG_WIDE_LOW), TG_WIDE_ALL(TG_TUPLE_TAIL(4, 0))));
	b->n = at + TG_WIDE;
}

/* The frames, the first of which is number `at` of the burst. False: process them one by one. */
TG_INLINE bool tg_wide_syns_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				 const struct tg_wide_frames *f)
{
	struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	struct tg_siphash_batch *b = &w->fast.wide.batch;
	const uint8_t *row = TG_DATA(m[0]) + TG_WIDE_FROM;
	tg_wide addrs, ports, tsval, q7, bits;
	const struct tg_fast_server *s;

	if (!tg_wide_are_syns(f, TG_WIDE_LEN, 0x3c00ULL << 48, 0xffffULL << 48)) /* IP's length */
		return false;
	tg_wide_columns(f->columns.even, true, &addrs, &tsval);
	tg_wide_columns(f->columns.odd, true, &ports, &q7);
	if (tg_wide_sources_odd(w, addrs, ports) || !tg_wide_sums(f, addrs, ports, tsval, q7))
		return false;
	g->v6 = false;
	if (!tg_wide_servers(w, g, f, addrs, ports))
		return false;
	s = g->server[0];
	if (!tg_wide_option_bits(&s->form[TG_WIDE_KINDS], f, q7, row, &bits) ||
	    tg_wide_any_denied(w->config, addrs))
		return false;
	/* What tg_cookie_message has after tg_cookie_begin: the client's number in host order, all else
	 * as on the wire. */
	tg_wide_store(&b->m[0][at], tg_wide_blend(ports, tg_wide_shl(addrs, 32)));
	tg_wide_store(&b->m[1][at], tg_wide_or(tg_wide_or(tg_wide_shr(tg_wide_swap32(ports), 32),
							  tg_wide_shl(bits, TG_COOKIE_OPTIONS_SHIFT)),
					       TG_WIDE_ALL(tg_cookie_tail(4, 0, TG_COOKIE_TS))));
	tg_wide_store(g->tsval, tg_wide_shr(tsval, 32));
	if (w->config->flows)
		tg_wide_fetch(g->presence, w->fast.flow_bits,
			      tg_wide_presence_flow(addrs, tg_wide_and(ports, TG_WIDE_LOW),
						    w->presence_salt));
	if (s->strategy == TG_STRATEGY_CACHE)
		tg_wide_halves(&w->fast.wide_halves, at, addrs, ports);
	if (!tg_strategy_translates(s->strategy))
		tg_wide_fetch(
			g->white, w->fast.white_bits,
			tg_wide_presence_source(addrs, w->config->white_v4_mask, w->presence_salt));
	if (tg_fast_gives_cookie(s->strategy)) {
		tg_wide_begin(&w->fast.wide, at, g);
		b->n = at + TG_WIDE;
	}
	return true;
}

/* ---- last stage ---- */

/* Lanes whose bit is set in one of two generations; what follows a hash's first bits in it says which word, and what is
 * from `shift` on which bit of that. */
TG_INLINE tg_wide_lanes tg_wide_bits(const uint64_t *active, const uint64_t *history, tg_wide hash,
				     const int shift)
{
	tg_wide word = tg_wide_shr(hash, shift + 6);
	tg_wide bit = tg_wide_shlv(TG_WIDE_ALL(1),
				   tg_wide_and(tg_wide_shr(hash, shift), TG_WIDE_ALL(63)));

	return tg_wide_test(tg_wide_or(tg_wide_gather(active, word), tg_wide_gather(history, word)),
			    bit);
}

/* tg_fast_bits_maybe of all lanes. */
TG_INLINE tg_wide_lanes tg_wide_maybe(const uint64_t *const bits[2], tg_wide hash)
{
	tg_wide_lanes near = tg_wide_bits(bits[0] + TG_PRESENCE_WORDS, bits[1] + TG_PRESENCE_WORDS,
					  hash, 32 - TG_PRESENCE_BITS + TG_PRESENCE_FRONT);

	return TG_LIKELY(!near) ? 0
				: near & tg_wide_bits(bits[0], bits[1], hash, 32 - TG_PRESENCE_BITS);
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
		known |= tg_wide_maybe(w->fast.flow_bits, tg_wide_load(g->presence));
	if (g->server[0]->strategy == TG_STRATEGY_CACHE)
		known |= tg_wide_cached(w, tg_wide_half(w, g, at));
	if (!tg_strategy_translates(g->server[0]->strategy))
		known |= tg_wide_maybe(w->fast.white_bits, tg_wide_load(g->white));
	return known;
}

/* tg_cookie_of_mac: ISN and TSval, as on the wire, the first in the low half. */
TG_INLINE tg_wide tg_wide_cookies(tg_wide mac, tg_wide bits, uint64_t epoch)
{
	tg_wide_words isn = TG_COOKIE_TS_ISN(TG_COOKIE_PARITY(epoch), (tg_wide_words)mac);
	/* What is above the option bits is cut off at 32. */
	tg_wide_words tsval = TG_COOKIE_TS_VAL((tg_wide_words)bits,
					       (tg_wide_words)mac >> TG_COOKIE_TS_ISN_MAC_BITS);

	return tg_wide_swap32((tg_wide)(isn | tsval << 32));
}

/* tg_challenge_isn without a TTL, as on the wire. `client`: its ports, low; what is above is cut off. */
TG_INLINE tg_wide tg_wide_challenges(tg_wide src, tg_wide client, tg_wide number,
				     const struct tg_siphash_key *key)
{
	struct tg_siphash_lanes s = tg_siphash_lanes_begin(TG_WIDE_ALL(key->k0),
							   TG_WIDE_ALL(key->k1));
	tg_wide_words ports = (tg_wide_words)client, client_isn = (tg_wide_words)number;
	int i;

	tg_siphash_lanes_word(&s, (tg_wide)TG_CHALLENGE_V4_WORD((tg_wide_words)src, ports), 1);
	tg_siphash_lanes_word(&s, (tg_wide)TG_CHALLENGE_V4_TAIL(client_isn, 0), 1);
	s.v2 ^= 0xff;
	for (i = 0; i < 3; i++)
		tg_siphash_lanes_round(&s);
	return tg_wide_swap32(tg_wide_and(tg_siphash_lanes_out(&s), TG_WIDE_LOW));
}

/* The answers from the IP header on, in pairs of words for tg_wide_write. */
TG_INLINE void tg_wide_answers(const struct tg_worker *w, const struct tg_wide_group *g,
			       uint32_t at, struct tg_wide_forms t, tg_wide even[4], tg_wide odd[4])
{
	const struct tg_siphash_batch *b = &w->fast.wide.batch;
	const tg_wide low = TG_WIDE_ALL(0xffffffff);
	tg_wide client = tg_wide_load(&b->m[0][at]), said = tg_wide_load(&b->m[1][at]);
	tg_wide src = tg_wide_shr(client, 32), number = tg_wide_and(said, low);
	tg_wide port = tg_wide_and(client, TG_WIDE_ALL(0xffff)), tsval, tsecr, isn, ack, sum;

	tsval = tsecr = TG_WIDE_ALL(0);
	if (g->server[0]->form[TG_WIDE_KINDS].ts) {
		isn = tg_wide_cookies(tg_wide_load(&b->out[at]),
				      tg_wide_shr(said, TG_COOKIE_OPTIONS_SHIFT), w->epoch);
		tsval = tg_wide_shr(isn, 32);
		tsecr = tg_wide_load(g->tsval);
		isn = tg_wide_and(isn, low);
	} else {
		isn = tg_wide_challenges(src, client, number, &w->challenge_key);
	}
	ack = tg_wide_and(tg_wide_add(number, TG_WIDE_ALL(1)), low);
	ack = tg_wide_swap32(ack);
	sum = tg_wide_add(t.tcp_sum, tg_wide_add(src, tg_wide_shl(port, 16)));
	sum = tg_wide_add(sum, tg_wide_add(isn, ack));
	sum = tg_wide_add(sum, tg_wide_add(tsval, tsecr));
	t.words[1] = tg_wide_or(t.words[1],
				tg_wide_shl(tg_wide_csum_finish(tg_wide_add(src, t.ip_sum)), 16));
	t.words[2] = tg_wide_or(t.words[2], tg_wide_or(src, tg_wide_shl(port, 48)));
	t.words[3] = tg_wide_or(isn, tg_wide_shl(ack, 32));
	t.words[4] = tg_wide_or(t.words[4], tg_wide_shl(tg_wide_csum_finish(sum), 32));
	t.words[6] = tg_wide_or(t.words[6], tg_wide_or(tsval, tg_wide_shl(tsecr, 32)));
	tg_wide_pair(t.words, 4, even, odd);
}

/* Writes an answer's Ethernet header, and notes its length. Returns where its IP header goes. */
TG_INLINE uint8_t *tg_wide_finish(struct rte_mbuf *m, uint32_t len)
{
	const __m128i turn = _mm_set_epi8(15, 14, 13, 12, 5, 4, 3, 2, 1, 0, 11, 10, 9, 8, 7, 6);
	const uint64_t lens = len | (uint64_t)len << 32; /* pkt_len; data_len, vlan_tci */
	uint8_t *data = TG_DATA(m);

	_mm_storeu_si128((__m128i *)data,
			 _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)data), turn));
	memcpy((uint8_t *)m + offsetof(struct rte_mbuf, pkt_len), &lens, sizeof(lens));
	m->ol_flags = 0;
	return data + TG_ETH_HDR_LEN;
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
	       !(w->config->flows && tg_fast_bits_maybe(w->fast.flow_bits, (uint32_t)g->presence[i])) &&
	       tg_fast_cache_answer(w, &w->items[at + i], &f, tg_wide_half(w, g, at)[i], port);
}

/* Writes answers of `n` pairs of words to the frames that are not in `known`, and their length. */
TG_INLINE void tg_wide_write_all(struct rte_mbuf *const *m, uint32_t known, uint32_t len,
				 const tg_wide *even, const tg_wide *odd, const uint32_t n)
{
	uint32_t i;

#pragma GCC unroll 8 /* TG_WIDE, or more */
	for (i = 0; i < TG_WIDE; i++)
		if (TG_LIKELY(!(known >> i & 1)))
			tg_wide_write(tg_wide_finish(m[i], len), even, odd, n, i);
}

/* The answers of a group. */
TG_INLINE void tg_wide_answer_by(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				 uint32_t known, struct tg_wide_forms forms)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	uint32_t len = TG_ETH_HDR_LEN + g->server[0]->form[TG_WIDE_KINDS].len;
	tg_wide even[4], odd[4];

	tg_wide_answers(w, g, at, forms, even, odd);
	tg_wide_write_all(m, known, len, even, odd, 4);
}

/* The same of a group to several servers. */
static void __attribute__((noinline)) tg_wide_answer_each(struct tg_worker *w,
							  struct rte_mbuf *const *m, uint32_t at,
							  uint32_t known)
{
	tg_wide_answer_by(w, m, at, known, tg_wide_forms_each(&w->fast.group[at / TG_WIDE]));
	w->fast.wides_mixed += TG_WIDE - (uint32_t)__builtin_popcount(known);
}

/* Answers the SYNs, except those that a table may contain: it returns a bit for each of these, and
 * the caller sends all in their order. */
static inline uint32_t tg_wide_answer(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	uint32_t known = tg_wide_known(w, g, at);

	if (TG_LIKELY(g->alike))
		tg_wide_answer_by(w, m, at, known,
				  tg_wide_forms_alike(&g->server[0]->form[TG_WIDE_KINDS]));
	else
		tg_wide_answer_each(w, m, at, known);
	return known;
}
#endif

#endif
