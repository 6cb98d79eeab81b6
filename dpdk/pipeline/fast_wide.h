/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of eight SYNs at once (wide.h): what a flood mostly is. All eight are
 * to one server that answers with cookies, or with challenges without one (auth-full),
 * and are laid out as Linux lays out its SYNs (MSS, SACK, timestamps, window scale).
 * Such a frame is, from its tenth byte on, exactly one register long.
 *
 * The formulas are core's, as macros that take a frame in each lane (TG_PRESENCE_FLOW_BEGIN,
 * TG_COOKIE_TS_VAL, TG_CHALLENGE_V4_WORD and those beside them).
 *
 * Must never: answer a SYN that fast_syn.h would not, or otherwise.
 */
#ifndef TG_DPDK_FAST_WIDE_H
#define TG_DPDK_FAST_WIDE_H

#include "wide.h"

#if TG_HAS_WIDE
#include "siphash_avx512.h"

#define TG_WIDE_LEN 74 /* bytes of the frame, and of its answer */

/* ---- first stage ---- */

/* True if the frames have this layout and length, and one destination address and port. */
TG_INLINE bool tg_wide_are_syns(const struct tg_wide_frames *f)
{
	const __m512i want = tg_wide_row(0x3c00ULL << 48, 0, 0, 0, 0x02a000000000, 0x040200000000,
					 TG_WORD_SACK_TS, 0x0003030100000000);
	/* length; header of 40 bytes, SYN; MSS; SACK, timestamps; NOP, window scale */
	const __m512i mask = tg_wide_row(0xffffULL << 48, 0, 0, 0, 0xfff000000000, 0xffff00000000,
					 0xffffffff, 0x00ffffff00000000);
	const __m512i same = tg_wide_row(0, 0, 0xffffffffULL << 32, 0xffff0000, 0, 0, 0, 0);
	const __m512i len = tg_wide_row(0, 0, 0, 0, 0, 0xffff, 0, 0); /* data_len */

	return tg_wide_are(f->any, f->all, want, mask, same) &&
	       tg_wide_are(f->mbuf_any, f->mbuf_all, tg_wide_row(0, 0, 0, 0, 0, TG_WIDE_LEN, 0, 0),
			   len, len);
}

/* Lanes whose source or port the fast path does not handle: tg_fast_source_is_odd, and a
 * source port that belongs to a service. */
TG_INLINE __mmask8 tg_wide_sources_odd(const struct tg_worker *w, __m512i addrs, __m512i ports)
{
	__m512i first = _mm512_and_si512(addrs, TG_WIDE_ALL(0xff));
	__m512i src = _mm512_and_si512(addrs, TG_WIDE_ALL(0xffffffff));
	__mmask8 odd = _mm512_cmpge_epu64_mask(_mm512_sub_epi64(first, TG_WIDE_ALL(1)),
					       TG_WIDE_ALL(223)) |
		       _mm512_cmpeq_epi64_mask(first, TG_WIDE_ALL(127)) |
		       _mm512_cmpeq_epi64_mask(src, _mm512_srli_epi64(addrs, 32));

	if (w->config->flows)
		odd |= tg_wide_protected(w->config, _mm512_and_si512(ports, TG_WIDE_ALL(0xffff)));
	return odd;
}

/* Adds a column's lanes to a sum. */
TG_INLINE __m512i tg_wide_add(__m512i sum, __m512i column)
{
	return _mm512_add_epi64(sum, _mm512_add_epi64(_mm512_and_si512(column, TG_WIDE_LOW),
						      _mm512_srli_epi64(column, 32)));
}

/* tg_fast_answer_sums of all lanes: columns 2, 3, 6 and 7 are in host order already. */
TG_INLINE bool tg_wide_sums(const struct tg_wide_frames *f, __m512i q2, __m512i q3, __m512i q6,
			    __m512i q7)
{
	const __m512i bad = tg_wide_row(0, 0, 0, TG_NIC_SAYS_BAD, 0, 0, 0, 0);
	const __m512i good = tg_wide_row(0, 0, 0, TG_NIC_SAYS_GOOD, 0, 0, 0, 0);
	const __m512i tcp = TG_WIDE_ALL(
		TG_WIRE32(0, TG_IPPROTO_TCP, 0, TG_WIDE_LEN - TG_ETH_HDR_LEN - TG_IPV4_HDR_LEN));
	__m512i q0, q1, q4, q5, ip, sum;

	if (TG_UNLIKELY(_mm512_test_epi64_mask(f->mbuf_any, bad)))
		return false;
	if (_mm512_cmpeq_epi64_mask(_mm512_and_si512(f->mbuf_all, good), good) == 0xff)
		return true;
	tg_wide_columns(f->even, false, &q0, &q4);
	tg_wide_columns(f->odd, false, &q1, &q5);
	sum = tg_wide_add(_mm512_setzero_si512(), q2);
	ip = tg_wide_add(_mm512_add_epi64(sum, _mm512_srli_epi64(q0, 32)), q1);
	sum = tg_wide_add(tg_wide_add(_mm512_add_epi64(sum, tcp), q3), q4);
	sum = tg_wide_add(tg_wide_add(tg_wide_add(sum, q5), q6), q7);
	sum = _mm512_or_si512(tg_wide_csum_finish(sum), tg_wide_csum_finish(ip));
	return !_mm512_test_epi64_mask(sum, sum);
}

/* tg_cookie_option_bits of all lanes. */
TG_INLINE __m512i tg_wide_bits_of_each(const struct tg_form *form, __m512i mss, __m512i wscale)
{
	__m512i bits = _mm512_or_si512(TG_WIDE_ALL(form->option_bits),
				       _mm512_slli_epi64(tg_wide_swap16(mss), TG_COOKIE_FLAG_BITS));

	if (form->wscale)
		bits = _mm512_or_si512(
			bits,
			_mm512_slli_epi64(_mm512_min_epu64(wscale, TG_WIDE_ALL(TG_WSCALE_MAX)), 2));
	return bits;
}

/* The same; mostly all lanes are equal. `frame` is one of them. False: an MSS of 0. */
TG_INLINE bool tg_wide_option_bits(const struct tg_form *form, const struct tg_wide_frames *f,
				   __m512i q7, const uint8_t *frame, __m512i *bits)
{
	const __m512i both = tg_wide_row(0, 0, 0, 0, 0, 0xffffULL << 48, 0, 0xffULL << 56);
	uint16_t mss = tg_swap16(tg_load16(frame + TG_WIDE_FROM + 46));
	uint32_t wscale = frame[TG_WIDE_FROM + 63];
	__m512i q1, q5;

	if (TG_LIKELY(!_mm512_test_epi64_mask(_mm512_xor_si512(f->any, f->all), both))) {
		wscale = wscale < TG_WSCALE_MAX ? wscale : TG_WSCALE_MAX;
		*bits = TG_WIDE_ALL(form->option_bits |
				    tg_cookie_option_bits(mss, form->wscale ? (uint8_t)wscale : 0,
							  false, false));
		return mss != 0;
	}
	tg_wide_columns(f->odd, false, &q1, &q5);
	q5 = _mm512_srli_epi64(q5, 48);
	*bits = tg_wide_bits_of_each(form, q5, _mm512_srli_epi64(q7, 56));
	return !_mm512_testn_epi64_mask(q5, q5);
}

/* tg_presence_flow of all lanes. */
TG_INLINE __m512i tg_wide_presence_flow(__m512i addrs, __m512i ports, uint64_t salt)
{
	tg_u64x8 src = (tg_u64x8)addrs & 0xffffffff, dst = (tg_u64x8)addrs >> 32;
	tg_u64x8 h = TG_PRESENCE_FLOW_BEGIN(src, (tg_u64x8)ports, salt);

	return (__m512i)TG_PRESENCE_FLOW_END(h, dst);
}

/* tg_presence_source of all lanes' tg_white_key. */
TG_INLINE __m512i tg_wide_presence_source(__m512i addrs, uint32_t mask, uint64_t salt)
{
	tg_u64x8 key = TG_WHITE_V4_KEY((tg_u64x8)addrs & mask);
	tg_u64x8 h = TG_PRESENCE_SOURCE_BEGIN(key, salt);

	return (__m512i)TG_PRESENCE_SOURCE_END(h);
}

/* True if the lists deny one of the sources. */
TG_INLINE bool tg_wide_any_denied(const struct tg_config *config, __m512i addrs)
{
	uint64_t each[TG_WIDE] __attribute__((aligned(64)));
	bool denied = false;
	int i;

	if (TG_LIKELY(!config->sources))
		return false;
	_mm512_store_si512(each, addrs);
	for (i = 0; i < TG_WIDE && !denied; i++) {
		union tg_addr src = {.d = {(uint32_t)each[i], 0}};

		denied = tg_config_denies(config, 4, &src);
	}
	return denied;
}

/* Stores hashes and prefetches the bits that they select. */
TG_INLINE void tg_wide_fetch(uint64_t to[8], const uint64_t *const bits[2], __m512i hash)
{
	int i;

	_mm512_store_si512(to, hash);
	for (i = 0; i < TG_WIDE; i++)
		tg_fast_bits_fetch(bits, (uint32_t)to[i]);
}

/* The server of the first frame, if its SYNs may be answered here; all frames must be for it. */
TG_INLINE struct tg_fast_server *tg_wide_server(struct tg_worker *w, uint64_t addrs, uint64_t ports)
{
	struct tg_packet syn = {.dst = {.d = {addrs >> 32, 0}}, .ports = (uint32_t)ports, .family = 4};
	struct tg_fast_server *s = tg_fast_server_of(w, &syn);

	if (!s || !(tg_fast_gives_cookie(s->strategy) || s->strategy == TG_STRATEGY_AUTH_FULL))
		return NULL;
	if (TG_UNLIKELY(!s->form[7].len))
		tg_form_make(w, s, &s->form[7], 4, 7);
	return s->form[7].ts || s->strategy == TG_STRATEGY_AUTH_FULL ? s : NULL;
}

/* The words of all lanes' hashes for the SYN cache. */
TG_INLINE void tg_wide_halves(struct tg_siphash_batch *b, uint32_t at, __m512i addrs, __m512i ports)
{
	_mm512_store_si512(&b->m[0][at], addrs);
	_mm512_store_si512(&b->m[1][at], _mm512_or_si512(_mm512_and_si512(ports, TG_WIDE_LOW),
							 TG_WIDE_ALL(TG_TUPLE_TAIL(4, 0))));
	b->n = at + TG_WIDE;
}

/* The lanes continue from the server's state; tg_fast_lane_begin. They always have one state. */
TG_INLINE void tg_wide_begin(struct tg_fast_cookies *c, uint32_t at, const struct tg_fast_server *s)
{
	if (TG_LIKELY(c->begin_no[at] == s->begin_no))
		return;
	_mm512_store_si512(&c->batch.begin[0][at], TG_WIDE_ALL(s->begin.v0));
	_mm512_store_si512(&c->batch.begin[1][at], TG_WIDE_ALL(s->begin.v1));
	_mm512_store_si512(&c->batch.begin[2][at], TG_WIDE_ALL(s->begin.v2));
	_mm512_store_si512(&c->batch.begin[3][at], TG_WIDE_ALL(s->begin.v3));
	c->begin_no[at] = s->begin_no;
}

/* Eight frames, the first of which is number `at` of the burst. False: process them one by one. */
TG_INLINE bool tg_wide_syns_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				 const struct tg_wide_frames *f)
{
	struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	struct tg_siphash_batch *b = &w->fast.wide.batch;
	const uint8_t *frame = TG_DATA(m[0]);
	__m512i addrs, ports, tsval, q7, bits;
	struct tg_fast_server *s;

	if (!tg_wide_are_syns(f))
		return false;
	tg_wide_columns(f->even, true, &addrs, &tsval);
	tg_wide_columns(f->odd, true, &ports, &q7);
	if (tg_wide_sources_odd(w, addrs, ports) || !tg_wide_sums(f, addrs, ports, tsval, q7))
		return false;
	s = tg_wide_server(w, tg_load64(frame + TG_WIDE_FROM + 16),
			   tg_load64(frame + TG_WIDE_FROM + 24));
	if (!s || !tg_wide_option_bits(&s->form[7], f, q7, frame, &bits) ||
	    tg_wide_any_denied(w->config, addrs))
		return false;
	g->server = s;
	/* What tg_cookie_message has after tg_cookie_begin: the client's number in host order, all else
	 * as on the wire. */
	_mm512_store_si512(&b->m[0][at],
			   _mm512_mask_blend_epi32(0xaaaa, ports, _mm512_slli_epi64(addrs, 32)));
	_mm512_store_si512(
		&b->m[1][at],
		_mm512_or_si512(_mm512_or_si512(_mm512_srli_epi64(tg_wide_swap32(ports), 32),
						_mm512_slli_epi64(bits, TG_COOKIE_OPTIONS_SHIFT)),
				TG_WIDE_ALL(tg_cookie_tail(4, 0, TG_COOKIE_TS))));
	_mm512_store_si512(g->tsval, _mm512_srli_epi64(tsval, 32));
	if (w->config->flows)
		tg_wide_fetch(g->presence, w->fast.flow_bits,
			      tg_wide_presence_flow(addrs, _mm512_and_si512(ports, TG_WIDE_LOW),
						    w->presence_salt));
	if (s->strategy == TG_STRATEGY_CACHE)
		tg_wide_halves(&w->fast.wide_halves, at, addrs, ports);
	if (!tg_strategy_translates(s->strategy))
		tg_wide_fetch(
			g->white, w->fast.white_bits,
			tg_wide_presence_source(addrs, w->config->white_v4_mask, w->presence_salt));
	if (tg_fast_gives_cookie(s->strategy)) {
		tg_wide_begin(&w->fast.wide, at, s);
		b->n = at + TG_WIDE;
	}
	return true;
}

/* ---- last stage ---- */

/* Lanes whose bit is set in one of two generations of presence bits. */
TG_INLINE __mmask8 tg_wide_maybe(const uint64_t *const bits[2], __m512i hash)
{
	__m512i word = _mm512_srli_epi64(hash, 32 - TG_PRESENCE_BITS + 6);
	__m512i bit = _mm512_sllv_epi64(
		TG_WIDE_ALL(1),
		_mm512_and_si512(_mm512_srli_epi64(hash, 32 - TG_PRESENCE_BITS), TG_WIDE_ALL(63)));

	return _mm512_test_epi64_mask(_mm512_or_si512(_mm512_i64gather_epi64(word, bits[0], 8),
						      _mm512_i64gather_epi64(word, bits[1], 8)),
				      bit);
}

/* tg_fast_cache_is_full for a bucket's eight heads at once. */
TG_INLINE bool tg_wide_cache_is_full(struct tg_worker *w, uint64_t hash, __m512i tick)
{
	struct tg_halfopen_bucket *b = tg_halfopen_bucket_of(w, hash);
	__m512i heads = _mm512_load_si512(b->heads);
	__m512i age = _mm512_and_si512(_mm512_sub_epi64(tick, heads), TG_WIDE_LOW);
	__mmask8 lives = _mm512_cmplt_epu64_mask(age, TG_WIDE_ALL(TG_HALFOPEN_LIFE)) &
			 _mm512_test_epi64_mask(heads, heads);
	__mmask8 same = _mm512_cmpeq_epi64_mask(_mm512_srli_epi64(heads, TG_HALFOPEN_TAG_SHIFT),
						TG_WIDE_ALL(hash >> TG_HALFOPEN_TAG_SHIFT));

	if (TG_UNLIKELY((lives & (__mmask8)~same) != 0xff))
		return false;
	tg_halfopen_gives_cookie(b, w->epoch);
	return true;
}

/* The lanes for which the SYN cache has a place, or may have one already. */
TG_INLINE __mmask8 tg_wide_cached(struct tg_worker *w, uint32_t at)
{
	const uint64_t *hash = &w->fast.wide_halves.out[at];
	__m512i tick = TG_WIDE_ALL(TG_HALFOPEN_TICK(w->now_ns));
	uint32_t i, cached = 0;

	for (i = 0; i < TG_WIDE; i++)
		cached |= (uint32_t)!tg_wide_cache_is_full(w, hash[i], tick) << i;
	return (__mmask8)cached;
}

/* The lanes that a table may contain: tg_fast_syn_is_known; under `cache`, those that get no cookie, too. */
TG_INLINE __mmask8 tg_wide_known(struct tg_worker *w, const struct tg_wide_group *g, uint32_t at)
{
	__mmask8 known = 0;

	if (w->config->flows)
		known |= tg_wide_maybe(w->fast.flow_bits, _mm512_load_si512(g->presence));
	if (g->server->strategy == TG_STRATEGY_CACHE)
		known |= tg_wide_cached(w, at);
	if (!tg_strategy_translates(g->server->strategy))
		known |= tg_wide_maybe(w->fast.white_bits, _mm512_load_si512(g->white));
	return known;
}

/* tg_cookie_of_mac: ISN and TSval, as on the wire, the first in the low half. */
TG_INLINE __m512i tg_wide_cookies(__m512i mac, __m512i bits, uint64_t epoch)
{
	tg_u64x8 isn = TG_COOKIE_TS_ISN(TG_COOKIE_PARITY(epoch), (tg_u64x8)mac);
	/* What is above the option bits is cut off at 32. */
	tg_u64x8 tsval = TG_COOKIE_TS_VAL((tg_u64x8)bits, (tg_u64x8)mac >> TG_COOKIE_TS_ISN_MAC_BITS);

	return tg_wide_swap32((__m512i)(isn | tsval << 32));
}

/* tg_challenge_isn without a TTL, as on the wire. `client`: its ports, low; what is above is cut off. */
TG_INLINE __m512i tg_wide_challenges(__m512i src, __m512i client, __m512i number,
				     const struct tg_siphash_key *key)
{
	struct tg_siphash_lanes s = tg_siphash_lanes_begin(TG_WIDE_ALL(key->k0),
							   TG_WIDE_ALL(key->k1));
	tg_u64x8 ports = (tg_u64x8)client, client_isn = (tg_u64x8)number;
	int i;

	tg_siphash_lanes_word(&s, (__m512i)TG_CHALLENGE_V4_WORD((tg_u64x8)src, ports), 1);
	tg_siphash_lanes_word(&s, (__m512i)TG_CHALLENGE_V4_TAIL(client_isn, 0), 1);
	s.v2 ^= 0xff;
	for (i = 0; i < 3; i++)
		tg_siphash_lanes_round(&s);
	return tg_wide_swap32(_mm512_and_si512(tg_siphash_lanes_out(&s), TG_WIDE_LOW));
}

/* The answers from the IP header on: a register for each word. */
TG_INLINE void tg_wide_answers(const struct tg_worker *w, const struct tg_wide_group *g,
			       uint32_t at, __m512i words[8])
{
	const struct tg_siphash_batch *b = &w->fast.wide.batch;
	const struct tg_form *form = &g->server->form[7];
	const __m512i low = TG_WIDE_ALL(0xffffffff);
	__m512i client = _mm512_load_si512(&b->m[0][at]), said = _mm512_load_si512(&b->m[1][at]);
	__m512i src = _mm512_srli_epi64(client, 32), number = _mm512_and_si512(said, low);
	__m512i port = _mm512_and_si512(client, TG_WIDE_ALL(0xffff)), tsval, tsecr, isn, ack, sum;
	int i;

	tsval = tsecr = _mm512_setzero_si512();
	if (form->ts) {
		isn = tg_wide_cookies(_mm512_load_si512(&b->out[at]),
				      _mm512_srli_epi64(said, TG_COOKIE_OPTIONS_SHIFT), w->epoch);
		tsval = _mm512_srli_epi64(isn, 32);
		tsecr = _mm512_load_si512(g->tsval);
		isn = _mm512_and_si512(isn, low);
	} else {
		isn = tg_wide_challenges(src, client, number, &w->challenge_key);
	}
	ack = _mm512_and_si512(_mm512_add_epi64(number, TG_WIDE_ALL(1)), low);
	ack = tg_wide_swap32(ack);
	sum = _mm512_add_epi64(TG_WIDE_ALL(form->tcp_sum),
			       _mm512_add_epi64(src, _mm512_slli_epi64(port, 16)));
	sum = _mm512_add_epi64(sum, _mm512_add_epi64(isn, ack));
	sum = _mm512_add_epi64(sum, _mm512_add_epi64(tsval, tsecr));
	for (i = 0; i < 8; i++)
		words[i] = TG_WIDE_ALL(tg_load64(form->bytes + 8 * i));
	words[1] = _mm512_or_si512(
		words[1],
		_mm512_slli_epi64(
			tg_wide_csum_finish(_mm512_add_epi64(src, TG_WIDE_ALL(form->ip_sum))), 16));
	words[2] = _mm512_or_si512(words[2], _mm512_or_si512(src, _mm512_slli_epi64(port, 48)));
	words[3] = _mm512_or_si512(isn, _mm512_slli_epi64(ack, 32));
	words[4] = _mm512_or_si512(words[4], _mm512_slli_epi64(tg_wide_csum_finish(sum), 32));
	words[6] = _mm512_or_si512(words[6], _mm512_or_si512(tsval, _mm512_slli_epi64(tsecr, 32)));
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
				  .server = g->server,
				  .l3_off = TG_ETH_HDR_LEN};

	return g->server->strategy == TG_STRATEGY_CACHE &&
	       !(w->config->flows && tg_fast_bits_maybe(w->fast.flow_bits, (uint32_t)g->presence[i])) &&
	       tg_fast_cache_answer(w, &w->items[at + i], &f, w->fast.wide_halves.out[at + i], port);
}

/* Answers eight SYNs, except those that a table may contain: it returns a bit for each of these, and
 * the caller sends all in their order. */
static inline uint32_t tg_wide_answer(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at)
{
	const struct tg_wide_group *g = &w->fast.group[at / TG_WIDE];
	uint32_t known = tg_wide_known(w, g, at);
	uint32_t len = TG_ETH_HDR_LEN + g->server->form[7].len, i;
	__m512i words[8], even[4], odd[4];

	tg_wide_answers(w, g, at, words);
	tg_wide_pair(words, 4, even, odd);
#pragma GCC unroll 8
	for (i = 0; i < TG_WIDE; i++)
		if (TG_LIKELY(!(known >> i & 1)))
			tg_wide_write(tg_wide_finish(m[i], len), even, odd, 4, i);
	return known;
}
#endif

#endif
