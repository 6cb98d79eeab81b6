/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of a SYN: to a service in mode `always`, by a strategy that answers
 * from the SYN alone, whole, without data, with options that are known. Its answer
 * is a template (fast.h) with a few numbers put in; of its checksum, only these are
 * summed. Nothing is decided here that core/ does not decide: what is offered, what the
 * cookie is, which words are hashed, what the answer looks like.
 *
 * Must never: write to a frame before the last stage; answer a SYN whose tuple or
 * source may be in a table, or whose source is denied.
 */
#ifndef TG_DPDK_FAST_SYN_H
#define TG_DPDK_FAST_SYN_H

#include "../core/options_known.h"
#include "answer.h"
#include "fast.h"
#include "fast_cache.h"

/* The buffer is a single one, not shared, and has room for an answer. */
TG_INLINE bool tg_fast_is_plain(const struct rte_mbuf *m)
{
	return rte_mbuf_refcnt_read(m) == 1 && m->nb_segs == 1 &&
	       !(m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) &&
	       (uint32_t)m->buf_len - m->data_off >= TG_FAST_ROOM;
}

/* The parts of a packet that the fast path needs, from an IP header without options or extensions. */
TG_INLINE struct tg_packet tg_fast_packet(const uint8_t *ip, bool v6)
{
	const uint8_t *tcp = ip + (v6 ? TG_IPV6_HDR_LEN : TG_IPV4_HDR_LEN);
	struct tg_packet pkt = {.ports = tg_load32(tcp),
				.seq = tg_swap32(tg_load32(tcp + TG_TCP_SEQ)),
				.family = v6 ? 6 : 4};

	if (v6) {
		pkt.src.d[0] = tg_load64(ip + TG_IPV6_SRC);
		pkt.src.d[1] = tg_load64(ip + TG_IPV6_SRC + 8);
		pkt.dst.d[0] = tg_load64(ip + TG_IPV6_DST);
		pkt.dst.d[1] = tg_load64(ip + TG_IPV6_DST + 8);
	} else {
		pkt.src.d[0] = tg_load32(ip + TG_IPV4_SRC);
		pkt.dst.d[0] = tg_load32(ip + TG_IPV4_DST);
	}
	return pkt;
}

/* Strategies whose answer is a cookie; under `cache`, if the SYN's bucket is full. */
TG_INLINE bool tg_fast_gives_cookie(uint8_t strategy)
{
	return tg_strategy_has_cookie(strategy) || strategy == TG_STRATEGY_CACHE;
}

/* ---- first stage ---- */

/* Writes the answer to a SYN that offers `offered`, with zeros for the SYN's own numbers. */
static void tg_form_write(const struct tg_worker *w, const struct tg_fast_server *s,
			  struct tg_form *f, const struct tg_packet *syn,
			  const struct tg_tcp_options *offered)
{
	struct tg_writer room = {f->bytes, f->bytes + sizeof(f->bytes)};

	if (tg_fast_gives_cookie(s->strategy)) {
		struct tg_synack a = tg_synack_agree(syn, offered, &s->advertised);

		f->ts = a.options.ts_ok;
		f->wscale = a.options.wscale != TG_WSCALE_NONE;
		f->option_bits = tg_cookie_option_bits(0, f->wscale ? 0 : TG_WSCALE_NONE,
						       a.options.sack_ok, false);
		f->flow_key = a.flow_key;
		a.flow_key = 0;
		f->len = (uint16_t)tg_synack_len(syn, &a);
		(void)tg_synack_write(room, syn, &a, (struct tg_cookie){0});
	} else {
		struct tg_segment c = tg_challenge(syn, &s->advertised, 0, &w->challenge_key, false);

		c.seq = c.ack = 0;
		f->len = (uint16_t)tg_segment_len(&c);
		(void)tg_segment_write(room, &c);
	}
}

static void __attribute__((noinline)) tg_form_make(const struct tg_worker *w,
						   const struct tg_fast_server *s,
						   struct tg_form *f, uint8_t family, uint32_t kinds)
{
	struct tg_packet syn = {.dst = {.d = {s->addr[0], s->addr[1]}},
				.ports = (uint32_t)s->port_be << 16,
				.seq = UINT32_MAX,
				.flags = TG_TCP_SYN,
				.family = family};
	struct tg_tcp_options offered = {
		.ts_ok = kinds & 4, .sack_ok = kinds & 2, .wscale = kinds & 1 ? 0 : TG_WSCALE_NONE};
	uint8_t *tcp = f->bytes + (family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN);

	memset(f, 0, sizeof(*f));
	tg_form_write(w, s, f, &syn, &offered);
	f->ts_mask = f->ts ? ~0ULL : 0;
	f->tcp_sum = (uint16_t)~tg_load16(tcp + TG_TCP_SUM);
	tg_store16(tcp + TG_TCP_SUM, 0);
	if (family == 4) {
		f->ip_sum = (uint16_t)~tg_load16(f->bytes + 10);
		tg_store16(f->bytes + 10, 0);
	}
}

/* Computes what clients of the SYN's server are offered. */
static void tg_fast_learn(struct tg_worker *w, struct tg_fast_server *s, uint64_t addr0,
			  uint64_t addr1, uint16_t port_be, uint8_t family)
{
	const struct tg_packet packet = {.dst = {.d = {addr0, addr1}},
					 .ports = (uint32_t)port_be << 16,
					 .family = family},
			       *syn = &packet;
	const struct tg_config *config = w->config;
	uint32_t id = 0, i;

	if (tg_config_port_is_protected(config, TG_DST_PORT_BE(syn)))
		id = tg_config_service_find(config, syn);
	s->addr[0] = syn->dst.d[0];
	s->addr[1] = syn->dst.d[1];
	s->port_be = TG_DST_PORT_BE(syn);
	s->round = w->fast.round;
	s->id = (uint16_t)id;
	s->strategy = config->proxy_cfg[id].strategy;
	s->answers = id && config->services[id].mode == TG_MODE_ALWAYS && !tg_packet_is_group(syn) &&
		     (w->key_now || !tg_fast_gives_cookie(s->strategy)) &&
		     !tg_closed_is_near(w, syn);
	if (!s->answers)
		return;
	s->advertised = tg_strategy_translates(s->strategy) ? *tg_advertised(w, syn, id)
							    : config->services[id];
	if (tg_fast_gives_cookie(s->strategy)) {
		s->begin = tg_cookie_begin(family, &syn->dst, w->epoch, w->key_now);
		s->begin_no = ++w->fast.begin_no;
	}
	for (i = 0; i < 8; i++)
		s->form[i].len = 0;
}

/* True if the place is this server's, as of now. */
TG_INLINE bool tg_fast_is_server(const struct tg_worker *w, const struct tg_fast_server *s,
				 uint64_t addr0, uint64_t addr1, uint16_t port_be, uint8_t family)
{
	return s->addr[0] == addr0 && s->port_be == port_be && s->round == w->fast.round &&
	       (family == 4 || s->addr[1] == addr1);
}

/* The place of a server that is not in the first of its set's two: the second, or the one that was used longer ago, in which it is
 * learned now. NULL: frames of this burst will be answered from that. */
static struct tg_fast_server *__attribute__((noinline)) tg_fast_server_in(
	struct tg_worker *w, struct tg_fast_server *set, uint64_t addr0, uint64_t addr1,
	uint16_t port_be, uint8_t family)
{
	struct tg_fast_server *s = &set[1];

	if (tg_fast_is_server(w, s, addr0, addr1, port_be, family))
		return s;
	if (set[0].round != w->fast.round ||
	    (s->round == w->fast.round && (int32_t)(set[0].burst - s->burst) <= 0))
		s = &set[0];
	if (s->burst == w->fast.burst_no)
		return NULL;
	tg_fast_learn(w, s, addr0, addr1, port_be, family);
	return s;
}

/* The SYN's server; NULL: SYNs to it are not answered here. */
TG_INLINE struct tg_fast_server *tg_fast_server_of(struct tg_worker *w, const struct tg_packet *syn)
{
	struct tg_fast_server *all = syn->family == 4 ? w->fast.servers4 : w->fast.servers6, *s;
	uint64_t h = (syn->dst.d[0] ^ syn->dst.d[1] ^ (uint64_t)TG_DST_PORT_BE(syn) << 32);

	s = &all[(h * TG_MIX1 >> (64 - TG_FAST_SETS_LOG2)) * 2];
	if (TG_UNLIKELY(!tg_fast_is_server(w, s, syn->dst.d[0], syn->dst.d[1], TG_DST_PORT_BE(syn),
					   syn->family))) {
		/* By value: a packet whose address is not taken stays in registers. */
		s = tg_fast_server_in(w, s, syn->dst.d[0], syn->dst.d[1], TG_DST_PORT_BE(syn),
				      syn->family);
		if (!s)
			return NULL;
	}
	s->burst = w->fast.burst_no;
	return s->answers ? s : NULL;
}

/* True for most sources that cannot be clients, and for a few that can: those take the slow path. */
TG_INLINE bool tg_fast_source_is_odd(const struct tg_packet *pkt)
{
	uint8_t first = (uint8_t)pkt->src.w[0];

	if (pkt->family == 4)
		return (uint8_t)(first - 1) >= 223 || first == 127 || pkt->src.w[0] == pkt->dst.w[0];
	return first == 0xff || pkt->src.d[0] == 0 ||
	       (pkt->src.d[0] == pkt->dst.d[0] && pkt->src.d[1] == pkt->dst.d[1]);
}

/* The lane continues from the server's state. */
TG_INLINE void tg_fast_lane_begin(struct tg_fast_cookies *c, uint32_t lane,
				  const struct tg_fast_server *s)
{
	if (TG_LIKELY(c->begin_no[lane] == s->begin_no))
		return;
	tg_siphash_lane_begin(&c->batch, lane, &s->begin);
	c->begin_no[lane] = s->begin_no;
}

/* Puts the words of the cookie's MAC into a lane; `family` is known at compile time. */
TG_INLINE int16_t tg_fast_lane(struct tg_worker *w, const struct tg_fast_server *s,
			       const struct tg_packet *syn, uint8_t family, uint32_t option_bits,
			       bool ts)
{
	struct tg_cookie_message msg = tg_cookie_message(
		syn, syn->seq, option_bits, ts ? TG_COOKIE_TS : TG_COOKIE_PLAIN, w->epoch);
	struct tg_fast_cookies *c = family == 4 ? &w->fast.cookies4 : &w->fast.cookies6;
	uint32_t lane = c->batch.n++, i;

	tg_fast_lane_begin(c, lane, s);
	for (i = TG_COOKIE_BEGIN_WORDS(family); i < TG_COOKIE_WORDS(family); i++)
		c->batch.m[i - TG_COOKIE_BEGIN_WORDS(family)][lane] = msg.word[i];
	return (int16_t)lane;
}

/* tg_cookie_mss; a flood's SYNs mostly repeat the same value. */
TG_INLINE uint32_t tg_fast_mss(struct tg_worker *w, uint8_t family, uint16_t mss, bool ts)
{
	if (ts)
		return mss;
	if (family == 4) {
		if (TG_UNLIKELY(w->fast.mss4.mss != mss)) {
			w->fast.mss4.mss = mss;
			w->fast.mss4.index = (uint8_t)tg_mss_index(4, mss);
		}
		return w->fast.mss4.index;
	}
	if (TG_UNLIKELY(w->fast.mss6.mss != mss)) {
		w->fast.mss6.mss = mss;
		w->fast.mss6.index = (uint8_t)tg_mss_index(6, mss);
	}
	return w->fast.mss6.index;
}

/* tg_swap_maybe, for bits whose place is constant during a burst: their front, which a core's cache holds, answers
 * most. */
TG_INLINE bool tg_fast_bits_maybe(const struct tg_fast_bits *bits, uint32_t hash)
{
	uint32_t word = tg_presence_word(hash, TG_PRESENCE_FLOWS, 0);

	return TG_UNLIKELY(bits->front[TG_PRESENCE_FRONT_WORD(hash)] & tg_presence_front_bit(hash)) &&
	       ((bits->of[0][word] | bits->of[1][word]) & tg_presence_bit(hash)) != 0;
}

/* True if the checksums of a SYN without IP options or data are right, or the NIC says so; in doubt the slow
 * path checks them. */
TG_INLINE bool tg_fast_answer_sums(const struct tg_fast_frame *f, const struct tg_packet *syn,
				   const uint8_t *tcp, uint32_t hdr_len)
{
	uint64_t says = f->m->ol_flags & TG_NIC_SAYS;
	uint64_t addrs = f->v6 ? tg_intact_words(f->ip + TG_IPV6_SRC, 8)
			       : (uint64_t)syn->src.w[0] + syn->dst.w[0];

	if (tg_nic_says_good(says, f->v6))
		return true;
	if (TG_UNLIKELY(says & TG_NIC_SAYS_BAD))
		return false;
	if (!f->v6 && tg_csum_fold(addrs + tg_intact_words(f->ip, 3)) != 0xffff)
		return false;
	return tg_intact_tcp(addrs + TG_WIRE32(0, TG_IPPROTO_TCP, 0, hdr_len),
			     tg_intact_words(tcp, hdr_len / 4), tg_load16(tcp + TG_TCP_SUM));
}

/* A SYN in one piece, header of `hdr_len` bytes, at `tcp`; false: the slow path. */
TG_INLINE bool tg_fast_syn_take(struct tg_worker *w, struct tg_fast_frame *f,
				const struct tg_packet *syn, const uint8_t *tcp, uint32_t hdr_len)
{
	struct tg_fast_server *s;
	struct tg_tcp_options o;
	struct tg_form *form;
	uint32_t kinds;

	if (tg_fast_source_is_odd(syn) || !tg_fast_answer_sums(f, syn, tcp, hdr_len))
		return false;
	if (w->config->flows && tg_config_port_is_protected(w->config, TG_SRC_PORT_BE(syn)))
		return false;
	s = tg_fast_server_of(w, syn);
	if (!s || !tg_tcp_options_known(tcp + TG_TCP_HDR_LEN, hdr_len - TG_TCP_HDR_LEN, &o) ||
	    tg_config_denies(w->config, syn->family, &syn->src))
		return false;
	kinds = (uint32_t)o.ts_ok << 2 | (uint32_t)o.sack_ok << 1 | (o.wscale != TG_WSCALE_NONE);
	form = &s->form[kinds];
	if (TG_UNLIKELY(!form->len))
		tg_form_make(w, s, form, syn->family, kinds);
	f->server = s;
	f->form = form;
	if (w->config->flows)
		f->presence = tg_presence_flow(syn, w->presence_salt);
	if (!tg_strategy_translates(s->strategy))
		f->white = tg_presence_source(tg_white_key_of(w, syn), w->presence_salt);
	if (s->strategy == TG_STRATEGY_CACHE)
		f->half_lane = tg_lane_flow_put(
			syn->family == 4 ? &w->fast.halves4 : &w->fast.halves6, syn, TG_TO_SERVER);
	if (!tg_fast_gives_cookie(s->strategy))
		return true;
	f->tsval = tg_swap32(o.tsval);
	f->option_bits = form->option_bits |
			 tg_cookie_option_bits(tg_fast_mss(w, syn->family, o.mss, form->ts),
					       form->wscale ? o.wscale : 0, false, false);
	f->lane = syn->family == 4 ? tg_fast_lane(w, s, syn, 4, f->option_bits, form->ts)
				   : tg_fast_lane(w, s, syn, 6, f->option_bits, form->ts);
	return true;
}

/* ---- last stage ---- */

/* True if a table may contain the SYN's tuple or source: then it is not answered here. */
TG_INLINE bool tg_fast_syn_is_known(const struct tg_worker *w, const struct tg_fast_frame *f)
{
	return (w->config->flows && tg_fast_bits_maybe(&w->fast.flow_bits, f->presence)) ||
	       (!tg_strategy_translates(f->server->strategy) &&
		tg_fast_bits_maybe(&w->fast.white_bits, f->white));
}

TG_INLINE uint64_t tg_fast_half(const struct tg_worker *w, const struct tg_fast_frame *f)
{
	return (f->v6 ? &w->fast.halves6 : &w->fast.halves4)->out[f->half_lane];
}

/* The numbers of the answer, as on the wire. */
struct tg_fast_numbers {
	uint32_t isn, ack;
	uint64_t timestamps; /* TSval, TSecr; 0: none */
};

TG_INLINE struct tg_fast_numbers tg_fast_challenge(const struct tg_worker *w,
						   const struct tg_packet *syn,
						   const struct tg_fast_frame *f)
{
	uint8_t strategy = f->server->strategy;
	uint8_t ttl = strategy == TG_STRATEGY_AUTH_TTL ? f->ip[f->v6 ? 7 : 8] : 0;
	struct tg_segment c = tg_challenge(syn, &f->server->advertised, ttl, &w->challenge_key,
					   strategy == TG_STRATEGY_AUTH_WRONG);

	return (struct tg_fast_numbers){tg_swap32(c.seq), tg_swap32(c.ack), 0};
}

TG_INLINE struct tg_fast_numbers tg_fast_cookie(const struct tg_worker *w,
						const struct tg_packet *syn,
						const struct tg_fast_frame *f)
{
	uint64_t mac = (f->v6 ? &w->fast.cookies6 : &w->fast.cookies4)->batch.out[f->lane];
	struct tg_cookie c = tg_cookie_of_mac(mac, f->option_bits, f->form->ts, w->epoch);

	return (struct tg_fast_numbers){
		tg_swap32(c.isn),
		tg_swap32(syn->seq + 1),
		(tg_swap32(c.tsval) | (uint64_t)f->tsval << 32) & f->form->ts_mask,
	};
}

/* Inserts the numbers into the template, and writes the result over the SYN, 64 bits at a time. */
TG_INLINE void tg_fast_write4(uint8_t *ip, const struct tg_form *f, const struct tg_packet *syn,
			      struct tg_fast_numbers n)
{
	const uint8_t *t = f->bytes;
	uint64_t src = syn->src.w[0], ports = (uint64_t)(uint16_t)syn->ports << 48;
	uint64_t sum = f->tcp_sum + src + (syn->ports << 16) + n.isn + n.ack +
		       (uint32_t)n.timestamps + (n.timestamps >> 32);

	tg_store64(ip, tg_load64(t));
	tg_store64(ip + 8, tg_load64(t + 8) | (uint64_t)tg_csum_finish(f->ip_sum + src) << 16);
	tg_store64(ip + 16, tg_load64(t + 16) | src | ports);
	tg_store64(ip + 24, n.isn | (uint64_t)n.ack << 32);
	tg_store64(ip + 32, tg_load64(t + 32) | (uint64_t)tg_csum_finish(sum) << 32);
	tg_store64(ip + 40, tg_load64(t + 40));
	tg_store64(ip + 48, tg_load64(t + 48) | n.timestamps);
	tg_store64(ip + 56, tg_load64(t + 56));
}

TG_INLINE void tg_fast_write6(uint8_t *ip, const struct tg_form *f, const struct tg_packet *syn,
			      struct tg_fast_numbers n)
{
	const uint8_t *t = f->bytes;
	uint64_t sum = f->tcp_sum + (syn->ports << 16) + (uint64_t)n.isn + n.ack +
		       (uint32_t)n.timestamps + (n.timestamps >> 32);

	sum += (uint64_t)syn->src.w[0] + syn->src.w[1] + syn->src.w[2] + syn->src.w[3];
	tg_store64(ip, tg_load64(t) | tg_flow_word(n.isn, f->flow_key));
	tg_store64(ip + 8, tg_load64(t + 8));
	tg_store64(ip + 16, tg_load64(t + 16));
	tg_store64(ip + 24, syn->src.d[0]);
	tg_store64(ip + 32, syn->src.d[1]);
	tg_store64(ip + 40, tg_load64(t + 40) | (uint64_t)(uint16_t)syn->ports << 16 |
				    (uint64_t)n.isn << 32);
	tg_store64(ip + 48, tg_load64(t + 48) | n.ack);
	tg_store64(ip + 56, tg_load64(t + 56) | tg_csum_finish(sum));
	tg_store64(ip + 64, tg_load64(t + 64) | n.timestamps << 32);
	tg_store64(ip + 72, tg_load64(t + 72) | n.timestamps >> 32);
}

TG_INLINE void tg_fast_syn_write(const struct tg_worker *w, const struct tg_fast_frame *f, bool v6)
{
	struct tg_packet syn = tg_fast_packet(f->ip, v6);
	struct tg_fast_numbers n = TG_LIKELY(f->lane >= 0) ? tg_fast_cookie(w, &syn, f)
							   : tg_fast_challenge(w, &syn, f);

	if (v6)
		tg_fast_write6(f->ip, f->form, &syn, n);
	else
		tg_fast_write4(f->ip, f->form, &syn, n);
}

/* A SYN under `cache` that does not get a cookie from the template: it has a place of the SYN cache, or gets one.
 * `hash`: for the cache. False, with nothing done: the slow path. */
static bool __attribute__((noinline)) tg_fast_cache_answer(struct tg_worker *w, struct tg_item *it,
							   const struct tg_fast_frame *f,
							   uint64_t hash, uint16_t port)
{
	struct tg_halfopen_bucket *b = tg_halfopen_bucket_of(w, hash);
	const uint8_t *tcp = f->ip + (f->v6 ? TG_IPV6_HDR_LEN : TG_IPV4_HDR_LEN);
	uint32_t options_len = (uint32_t)(tcp[TG_TCP_DOFF] >> 4) * 4 - TG_TCP_HDR_LEN, slot;
	struct tg_tcp_options offered;
	uint64_t head = 0;

	it->pkt = tg_fast_packet(f->ip, f->v6);
	slot = tg_halfopen_find(b, hash, &it->pkt, &head);
	if ((slot >= TG_HALFOPEN_WAYS && tg_cache_is_full(w, b)) ||
	    !tg_tcp_options_known(tcp + TG_TCP_HDR_LEN, options_len, &offered))
		return false;
	it->pkt.flags = TG_TCP_SYN;
	it->pkt.l3_off = f->l3_off;
	it->m = f->m;
	it->port = port;
	it->id = f->server->id;
	tg_count(w, it->id, TG_COUNT_syn);
	w->fast.syns++;
	tg_cache_reply(w, it, b, hash, slot, head, &offered);
	return true;
}

/* Counts summed over a burst: consecutive frames are mostly for one service. */
struct tg_fast_tally {
	const struct tg_fast_server *server;
	uint64_t n;
};

static inline void tg_fast_tally_flush(struct tg_worker *w, struct tg_fast_tally *t)
{
	if (!t->n)
		return;
	w->rows[t->server->id].count[TG_COUNT_syn] += t->n;
	w->rows[t->server->id]
		.count[tg_fast_gives_cookie(t->server->strategy) ? TG_COUNT_cookie_sent
								 : TG_COUNT_challenge_sent] += t->n;
	w->fast.syns += t->n;
	t->n = 0;
}

TG_INLINE void tg_fast_tally_turn(struct tg_worker *w, struct tg_fast_tally *t,
				  const struct tg_fast_server *server)
{
	if (TG_UNLIKELY(t->server != server)) {
		tg_fast_tally_flush(w, t);
		t->server = server;
	}
}

/* Answers the SYN in its own buffer. */
TG_INLINE void tg_fast_answer(struct tg_worker *w, const struct tg_fast_frame *f, uint16_t port,
			      struct tg_fast_tally *tally)
{
	struct rte_mbuf *m = f->m;
	uint32_t len = f->l3_off + f->form->len;

	if (TG_LIKELY(!f->v6))
		tg_fast_syn_write(w, f, false);
	else
		tg_fast_syn_write(w, f, true);
	tg_ethernet_reflect(TG_DATA(m));
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	m->ol_flags = 0;
	tg_fast_tally_turn(w, tally, f->server);
	tally->n++;
	tg_send(w, port, m);
}

#endif
