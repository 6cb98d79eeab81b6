/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The proxy role's judgement: what becomes of a packet to a protected server
 * behind this box, for each strategy; and the segments that set a translated
 * connection up. Plane-neutral: a plane parses, finds service, flow and
 * whitelist entry, asks here, and does what the verdict says.
 *
 *   strategy      first SYN is answered with       whitelisted, or connected, by
 *   cookie        cookie SYN-ACK                   ACK whose cookie verifies: translated
 *   auth-cookie   cookie SYN-ACK                   ACK whose cookie verifies
 *   auth-full     SYN-ACK                          any ACK
 *   auth-wrong    SYN-ACK that acknowledges wrong  any RST
 *   auth-ttl      SYN-ACK                          ACK with the TTL of the SYN
 *   cache         SYN-ACK, and is remembered       ACK of what is remembered: translated
 */
#ifndef TG_PROXY_H
#define TG_PROXY_H

#include "host.h"
#include "segment.h"
#include "servers.h"
#include "syn_cache.h"
#include "translate.h"
#include "white_bitmap.h"

enum tg_strategy {
	TG_STRATEGY_COOKIE = 0,
	TG_STRATEGY_AUTH_COOKIE = 1,
	TG_STRATEGY_AUTH_FULL = 2,
	TG_STRATEGY_AUTH_WRONG = 3,
	TG_STRATEGY_AUTH_TTL = 4,
	TG_STRATEGY_CACHE = 5,
};

/* True if connections under this strategy are translated. */
TG_INLINE bool tg_strategy_translates(uint32_t strategy)
{
	return strategy == TG_STRATEGY_COOKIE || strategy == TG_STRATEGY_CACHE;
}

/* When clients may send their first data, which has nowhere to go before the
 * server is there. */
enum tg_first_data {
	TG_FIRST_DATA_ZERO_WINDOW = 0, /* not before: the SYN-ACK's window is zero */
	TG_FIRST_DATA_NOTIFY = 1,      /* at once; it is lost, and they are told so */
};

/* What the proxy knows of a service beside struct tg_service. Map ABI. */
struct tg_proxy_service {
	uint8_t strategy;   /* enum tg_strategy */
	uint8_t first_data; /* enum tg_first_data */
	uint8_t fixed;      /* enum tg_fixed, or-ed */
	uint8_t pad;
};

/* Flow tables: the client's side first. Ports as the client sends them. */
struct tg_flow_key4 {
	uint32_t client, server, ports;
};
struct tg_flow_key6 {
	uint32_t client[4], server[4], ports;
};
_Static_assert(sizeof(struct tg_flow_key4) == 12 && sizeof(struct tg_flow_key6) == 36, "map ABI");

TG_INLINE struct tg_flow_key4 tg_flow_key4(const struct tg_packet *pkt, enum tg_direction dir)
{
	if (dir == TG_TO_SERVER)
		return (struct tg_flow_key4){pkt->src.w[0], pkt->dst.w[0], pkt->ports};
	return (struct tg_flow_key4){pkt->dst.w[0], pkt->src.w[0],
				     pkt->ports << 16 | pkt->ports >> 16};
}

TG_INLINE struct tg_flow_key6 tg_flow_key6(const struct tg_packet *pkt, enum tg_direction dir)
{
	const union tg_addr *client = dir == TG_TO_SERVER ? &pkt->src : &pkt->dst;
	const union tg_addr *server = dir == TG_TO_SERVER ? &pkt->dst : &pkt->src;
	struct tg_flow_key6 key;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		key.client[i] = client->w[i];
		key.server[i] = server->w[i];
	}
	key.ports = dir == TG_TO_SERVER ? pkt->ports : pkt->ports << 16 | pkt->ports >> 16;
	return key;
}

/* ---- whitelist ---- */

/* Sources are whitelisted by their prefix (IPv6: at most 64 bits; one site can have
 * no more entries than it has such prefixes). A key's lowest byte is the first of an
 * IPv6 address: none that begins with 0xff, the tag of IPv4, is a source. */
#define TG_WHITE_V4_TAG 0xffULL

TG_INLINE uint64_t tg_white_key(const union tg_addr *src, uint8_t family, uint32_t v4_mask,
				uint64_t v6_mask)
{
	return family == 4 ? (uint64_t)(src->w[0] & v4_mask) << 32 | TG_WHITE_V4_TAG
			   : src->d[0] & v6_mask;
}

TG_INLINE bool tg_white_key_is_v4(uint64_t key)
{
	return (key & 0xff) == TG_WHITE_V4_TAG;
}

/* ---- presence ---- */

/* Which sources and tuples may be in a table: one bit for each hash value, in two
 * generations like the tables themselves. A flood's random SYNs read a bit or two
 * that stay in a core's cache, instead of missing it in tables of many megabytes.
 * It errs only towards "maybe", which costs a look-up. */
#define TG_PRESENCE_BITS 21
#define TG_PRESENCE_WORDS (1U << (TG_PRESENCE_BITS - 6)) /* of one generation of one table */

enum tg_presence_table { TG_PRESENCE_FLOWS, TG_PRESENCE_SOURCES, TG_PRESENCE_TABLES };

/* Where the bit of a hash stands. */
TG_INLINE uint32_t tg_presence_word(uint32_t hash, enum tg_presence_table table, uint32_t generation)
{
	return (table * 2 + (generation & 1)) * TG_PRESENCE_WORDS +
	       (hash >> (32 - TG_PRESENCE_BITS + 6));
}

TG_INLINE uint64_t tg_presence_bit(uint32_t hash)
{
	return 1ULL << (hash >> (32 - TG_PRESENCE_BITS) & 63);
}

/* src is the client. The salt keeps senders from choosing tuples that hit, each of which would
 * cost a look-up and no more. This mix can be inverted by who sees what comes out of it; nothing that
 * is sent depends on it or on its salt. */
TG_INLINE uint32_t tg_presence_flow(const struct tg_packet *pkt, uint64_t salt)
{
	uint64_t h = (pkt->src.d[0] ^ salt) * 0x9e3779b97f4a7c15ULL + pkt->ports;

	if (pkt->family == 6)
		h = (h ^ pkt->src.d[1] ^ pkt->dst.d[1]) * 0x94d049bb133111ebULL;
	h = ((h ^ h >> 32) + pkt->dst.d[0]) * 0xbf58476d1ce4e5b9ULL;
	return (uint32_t)(h >> 32);
}

TG_INLINE uint32_t tg_presence_source(uint64_t white_key, uint64_t salt)
{
	uint64_t h = (white_key ^ salt) * 0x9e3779b97f4a7c15ULL;

	return (uint32_t)((h ^ h >> 29) * 0xbf58476d1ce4e5b9ULL >> 32);
}

/* ---- challenges ---- */

/* The ISN of a challenge without a cookie. It tells an answer to a challenge from a segment
 * of a connection that is older than the proxy. With auth-ttl it stands for the SYN's TTL too, so
 * that nothing is stored, and is all that proves a source; otherwise ttl is 0. SipHash-1-3 of
 * address, ports, the client's ISN and TTL: who sees challenges to itself, as many as it likes,
 * can make none to anybody else. */
TG_INLINE uint32_t tg_challenge_isn(const struct tg_packet *pkt, uint32_t client_isn, uint8_t ttl,
				    const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_siphash_begin(key);

	if (pkt->family == 4) {
		tg_siphash13_word(&s, pkt->src.d[0] | (uint64_t)pkt->ports << 32);
		return (uint32_t)tg_siphash13_end(&s, client_isn | (uint64_t)ttl << 32 | 13ULL << 56);
	}
	tg_siphash13_word(&s, pkt->src.d[0]);
	tg_siphash13_word(&s, pkt->src.d[1]);
	tg_siphash13_word(&s, pkt->ports | (uint64_t)client_isn << 32);
	return (uint32_t)tg_siphash13_end(&s, ttl | 25ULL << 56);
}

/* True if the ACK, which came with this TTL, answers a challenge of ours, as the
 * first segment after it. */
TG_INLINE bool tg_challenge_answered(const struct tg_packet *ack, uint8_t ttl,
				     const struct tg_siphash_key *key)
{
	return ack->ack - 1 == tg_challenge_isn(ack, ack->seq - 1, ttl, key);
}

/* A plain challenge: MSS alone, so that the client's answer is as short as it
 * can be. `wrong`: acknowledge what was never sent, which a client in SYN-SENT
 * answers with a RST (RFC 9293 section 3.10.7.3), and sends its SYN again. */
TG_INLINE struct tg_segment tg_challenge(const struct tg_packet *syn, const struct tg_service *svc,
					 uint8_t ttl, const struct tg_siphash_key *key, bool wrong)
{
	uint32_t isn = tg_challenge_isn(syn, syn->seq, ttl, key);

	return (struct tg_segment){
		.src = syn->dst,
		.dst = syn->src,
		.ports = syn->ports << 16 | syn->ports >> 16,
		.seq = isn,
		.ack = wrong ? syn->seq + 0x40000000U + (isn & 0x3fffffffU) : syn->seq + 1,
		.l3_off = syn->l3_off,
		.options = {.mss = syn->family == 4 ? svc->mss_v4 : svc->mss_v6,
			    .wscale = TG_WSCALE_NONE},
		.window = svc->window,
		.flags = TG_TCP_SYN | TG_TCP_ACK,
		.kind = TG_SEGMENT_HANDSHAKE,
		.family = syn->family,
		.ttl = 64,
		.reflect = true,
	};
}

/* A RST for the sender of `pkt`, from whom it came to: RFC 9293 section 3.10.7.1. */
TG_INLINE struct tg_segment tg_reset_for(const struct tg_packet *pkt)
{
	return (struct tg_segment){
		.src = pkt->dst,
		.dst = pkt->src,
		.ports = pkt->ports << 16 | pkt->ports >> 16,
		.seq = pkt->ack,
		.l3_off = pkt->l3_off,
		.flags = TG_TCP_RST,
		.kind = TG_SEGMENT_PLAIN,
		.family = pkt->family,
		.ttl = 64,
		.reflect = true,
	};
}

/* A SYN to a service whose mode is not off. As for the host role, but there is
 * no listener to ask, and broadcast frames are nobody's SYNs. */
TG_INLINE struct tg_decision tg_proxy_judge_syn(const struct tg_packet *syn,
						enum tg_parse_result result, uint32_t frame_len)
{
	return tg_host_judge_syn(syn, result, frame_len);
}

/* ---- cookie: set-up ---- */

/* True if the ACK may be a probe of a window of zero: without data, and with a number
 * one less than the next to be sent (Linux, tcp_xmit_probe_skb; RFC 1122 section
 * 4.2.2.17 leaves the form open). The SYN's number is then the packet's own. */
TG_INLINE bool tg_may_be_window_probe(const struct tg_packet *ack)
{
	return ack->l4_len == ack->tcp_hdr_len && !ack->as_probe;
}

/* The flow that an ACK with a verified cookie opens. `wscale` is what our
 * SYN-ACKs announce. */
TG_INLINE struct tg_flow tg_flow_open(const struct tg_packet *ack, const struct tg_ack *ack_info,
				      uint32_t option_bits, uint8_t wscale, uint16_t window,
				      uint16_t service, uint32_t now_ms)
{
	bool scaled = (option_bits >> 3 & 15) != TG_WSCALE_NONE;

	return (struct tg_flow){
		.seq_delta = ack_info->cookie.isn,
		.ts_delta = ack_info->cookie.tsval,
		.client_isn = ack->seq - 1,
		.client_tsval = ack_info->tsval,
		.syn.ms = (uint16_t)now_ms,
		.syn.mss = tg_mss_value(ack->family, option_bits & 7),
		.client_window = window,
		.option_bits = (uint16_t)option_bits,
		.service = service,
		.state = TG_FLOW_SETUP,
		.flags = ack_info->ts_ok ? TG_FLOW_TS : 0,
		.advertised_wscale = scaled ? wscale : TG_WSCALE_NONE,
	};
}

/* The flow that an ACK of a connection in the SYN cache opens; everything that
 * the client has offered is known, its MSS exactly. */
TG_INLINE struct tg_flow tg_flow_of_halfopen(const struct tg_halfopen *h,
					     const struct tg_ack *ack_info, uint16_t window,
					     uint32_t now_ms)
{
	return (struct tg_flow){
		.seq_delta = h->isn,
		.ts_delta = h->isn,
		.client_isn = h->client_isn,
		.client_tsval = ack_info->tsval,
		.syn.ms = (uint16_t)now_ms,
		.syn.mss = h->client_mss,
		.client_window = window,
		.option_bits = (uint16_t)tg_cookie_option_bits(
			0, h->client_wscale, h->flags & TG_HALFOPEN_SACK, h->flags & TG_HALFOPEN_ECN),
		.service = h->service,
		.state = TG_FLOW_SETUP,
		.flags = h->flags & TG_HALFOPEN_TS ? TG_FLOW_TS : 0,
		.advertised_wscale = h->advertised_wscale,
	};
}

/* The number of the SYN to the server: the client's own, but for one that asks. That one's
 * is a secret function of the flow, so that no client can answer for its server. */
TG_INLINE uint32_t tg_flow_syn_isn(const struct tg_flow *f, const struct tg_siphash_key *key)
{
	struct tg_siphash s;

	if (TG_LIKELY(!(f->flags & TG_FLOW_ASKS)))
		return f->client_isn;
	s = tg_siphash_begin(key);
	tg_siphash_word(&s, f->client_isn | (uint64_t)f->seq_delta << 32);
	return (uint32_t)tg_siphash_end(&s, f->client_tsval | 12ULL << 56);
}

/* The SYN to the server, in the client's name: same options; all there are, if the server
 * is asked (TG_FLOW_ASKS): then what the client did not agree on says anything. `isn` is
 * tg_flow_syn_isn. `pkt` is a packet of the client, or, with `back`, one of the server. */
TG_INLINE struct tg_segment tg_flow_syn(const struct tg_packet *pkt, const struct tg_flow *f,
					uint32_t isn, bool back)
{
	bool ts = f->flags & TG_FLOW_TS, asks = f->flags & TG_FLOW_ASKS;
	struct tg_agreed agreed = tg_cookie_agreed(pkt->family, f->option_bits, ts);
	bool ecn = agreed.ecn_ok || asks;

	if (asks && agreed.wscale == TG_WSCALE_NONE)
		agreed.wscale = 0;
	return (struct tg_segment){
		.src = back ? pkt->dst : pkt->src,
		.dst = back ? pkt->src : pkt->dst,
		.ports = back ? pkt->ports << 16 | pkt->ports >> 16 : pkt->ports,
		.seq = isn,
		.l3_off = pkt->l3_off,
		/* a flow of the server role has its MSS in the option bits alone */
		.options = {.mss = f->syn.mss ? f->syn.mss : agreed.mss,
			    .wscale = agreed.wscale,
			    .sack_ok = agreed.sack_ok || asks,
			    .ts_ok = ts || asks,
			    .tsval = f->client_tsval},
		.window = f->client_window,
		.flags = TG_TCP_SYN | (ecn ? TG_TCP_ECE | TG_TCP_CWR : 0),
		.kind = TG_SEGMENT_HANDSHAKE,
		.family = pkt->family,
		.ttl = 64,
		.reflect = back,
	};
}

/* What a server's segment means to a flow that is being set up, whose SYN had number `isn`. */
enum tg_setup_event {
	TG_SETUP_READY,   /* SYN-ACK of our SYN */
	TG_SETUP_REFUSED, /* RST of our SYN */
	TG_SETUP_OTHER,   /* the server thinks of an older connection: reset that, try again */
	TG_SETUP_IGNORE,
};

TG_INLINE enum tg_setup_event tg_setup_judge(const struct tg_packet *pkt, uint32_t isn)
{
	bool ours = (pkt->flags & TG_TCP_ACK) && pkt->ack == isn + 1;

	if (pkt->flags & TG_TCP_RST)
		return ours ? TG_SETUP_REFUSED : TG_SETUP_IGNORE;
	if (!(pkt->flags & TG_TCP_ACK))
		return TG_SETUP_IGNORE;
	if (pkt->flags & TG_TCP_SYN)
		return ours ? TG_SETUP_READY : TG_SETUP_OTHER;
	/* An ACK of just our SYN without a SYN: a connection of the same numbers. */
	return ours ? TG_SETUP_IGNORE : TG_SETUP_OTHER;
}

/* How what the server gives agrees with what the client has been told. `fixed` is
 * the service's: a window scale told by the configuration is translated whatever
 * the server says. */
enum tg_agreement {
	TG_AGREES,
	TG_GIVES_MORE, /* than was told, after a SYN that asked */
	TG_GIVES_LESS, /* the client uses what its server does not understand */
};

TG_INLINE enum tg_agreement tg_flow_agreement(const struct tg_flow *f, const struct tg_packet *synack,
					      const struct tg_tcp_options *o, uint8_t fixed)
{
	struct tg_agreed advertised = tg_cookie_agreed(synack->family, f->option_bits,
						       f->flags & TG_FLOW_TS);
	bool scale = advertised.wscale != TG_WSCALE_NONE, scales = o->wscale != TG_WSCALE_NONE;
	bool ecn = tg_synack_gives_ecn(synack);

	if ((advertised.sack_ok && !o->sack_ok) || (advertised.ts_ok && !o->ts_ok) ||
	    (advertised.ecn_ok && !ecn) || (scale && !scales && !(fixed & TG_FIXED_WSCALE)))
		return TG_GIVES_LESS;
	/* A receiver that takes the RST and the SYN behind it in one batch may have looked
	 * the SYN's socket up before it acts on the RST (Linux, ip_list_rcv: early demux):
	 * then it answers the SYN out of the connection that it is about to forget, with
	 * options that this SYN did not offer. */
	if (!(f->flags & (TG_FLOW_ASKS | TG_FLOW_RENEWED)))
		return TG_AGREES; /* what was not offered it cannot give */
	return (o->sack_ok && !advertised.sack_ok) || (o->ts_ok && !advertised.ts_ok) ||
			       (ecn && !advertised.ecn_ok) || (scales && !scale)
		       ? TG_GIVES_MORE
		       : TG_AGREES;
}

/* What follows the server's SYN-ACK. */
enum tg_setup_next {
	TG_SETUP_ACCEPT,
	TG_SETUP_RENEW,    /* reset it; a SYN of the connection itself is next */
	TG_SETUP_ASK,      /* reset it; a SYN that asks is next */
	TG_SETUP_MISMATCH, /* reset it and the client: they do not agree */
};

#define TG_RENEWALS_MAX 8 /* resets of the server in one set-up: it may never be content */

/* After a SYN that asked always comes one of the connection itself, with the client's own
 * number. What contradicts what was learned is asked about before it ends a connection. */
TG_INLINE enum tg_setup_next tg_setup_next(const struct tg_flow *f, const struct tg_packet *synack,
					   const struct tg_tcp_options *o, uint8_t fixed)
{
	enum tg_agreement agreement = tg_flow_agreement(f, synack, o, fixed);

	if (agreement == TG_AGREES && !(f->flags & TG_FLOW_ASKS))
		return TG_SETUP_ACCEPT;
	if (f->renewals >= TG_RENEWALS_MAX)
		return TG_SETUP_MISMATCH;
	if (agreement != TG_GIVES_LESS)
		return TG_SETUP_RENEW;
	return f->flags & (TG_FLOW_ASKS | TG_FLOW_RENEWED) ? TG_SETUP_MISMATCH : TG_SETUP_ASK;
}

/* The server is to be reset and gets a SYN that asks, or one of the connection itself: that
 * after one that asked, and once more if it was answered as the first. (One that thinks of an
 * older connection is asked again what it was asked.) False: that has been done too often. */
TG_INLINE bool tg_flow_renew(struct tg_flow *f, bool ask)
{
	if (f->renewals >= TG_RENEWALS_MAX)
		return false;
	f->renewals++;
	if (ask)
		f->flags = (uint8_t)((f->flags & ~TG_FLOW_RENEWED) | TG_FLOW_ASKS);
	else if (f->flags & TG_FLOW_ASKS)
		f->flags = (uint8_t)((f->flags & ~TG_FLOW_ASKS) | TG_FLOW_RENEWED);
	else
		f->flags &= (uint8_t)~TG_FLOW_RENEWED;
	return true;
}

/* Turns a flow that is being set up into one that translates. `o` are the options of the
 * server's SYN-ACK, `port` is where it came in. */
TG_INLINE void tg_flow_ready(struct tg_flow *f, const struct tg_packet *synack,
			     const struct tg_tcp_options *o, uint16_t port)
{
	uint8_t client_wscale = f->option_bits >> 3 & 15;
	bool advertised = f->advertised_wscale != TG_WSCALE_NONE;
	uint8_t server_wscale = advertised && o->wscale != TG_WSCALE_NONE ? o->wscale : 0;

	f->window_down = (int8_t)(server_wscale - (advertised ? f->advertised_wscale : 0));
	f->window_up = advertised && o->wscale == TG_WSCALE_NONE ? client_wscale : 0;
	f->seq_delta = synack->seq - f->seq_delta;
	if (f->flags & TG_FLOW_TS) {
		if (o->ts_ok)
			f->ts_delta = o->tsval - f->ts_delta;
		else
			f->ts_delta = 0; /* the server sends none, and looks at none */
	}
	f->server_isn = synack->seq;
	f->server_acked = synack->ack;
	f->server_port = port;
	f->flags &= TG_FLOW_TS;
	f->waits = TG_FLOW_SILENT;
	f->state = TG_FLOW_READY;
}

/* A tick of 4.3 s, which flows and shares count in. */
#define TG_FLOW_TICK_SHIFT 32

TG_INLINE uint32_t tg_flow_tick(uint64_t monotonic_ns)
{
	return (uint32_t)(monotonic_ns >> TG_FLOW_TICK_SHIFT);
}

/* A tick as `waits` of a flow has it. */
TG_INLINE uint8_t tg_flow_tick_mark(uint32_t tick)
{
	return (uint8_t)(TG_FLOW_REFUSED | tick << 2);
}

/* True if a client's segment of a ready flow carries data, or acknowledges some of the server. */
TG_INLINE bool tg_flow_carries(const struct tg_flow *f, const struct tg_packet *pkt)
{
	return pkt->l4_len > pkt->tcp_hdr_len ||
	       (pkt->flags & TG_TCP_ACK && pkt->ack - 1 != f->server_isn - f->seq_delta);
}

enum tg_flow_wish {
	TG_FLOW_WAITS,
	TG_FLOW_SETTLES, /* it is to have a place of its own, if there is one */
};

/* What a client's segment means to a ready flow that waits for a place of its own: that is for who
 * has carried something, and is not half closed; who was refused is heard again in another tick. */
TG_INLINE enum tg_flow_wish tg_flow_wish(const struct tg_flow *f, const struct tg_packet *pkt,
					 uint32_t tick)
{
	if (f->flags & (TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN | TG_FLOW_CLOSED))
		return TG_FLOW_WAITS;
	if (f->waits == TG_FLOW_SILENT)
		return tg_flow_carries(f, pkt) ? TG_FLOW_SETTLES : TG_FLOW_WAITS;
	return f->waits == tg_flow_tick_mark(tick) ? TG_FLOW_WAITS : TG_FLOW_SETTLES;
}

/* A SYN-ACK of a ready flow that is not about our SYN: the server's answer to a
 * SYN that was let through because the flow was live, which to the server it was
 * not. Client and server negotiate this one themselves; the differences of the
 * old one are as good as any. Only for one that came by the server's port. */
TG_INLINE void tg_flow_restart(struct tg_flow *f, const struct tg_packet *synack)
{
	f->client_isn = synack->ack - 1;
	f->server_isn = synack->seq;
	f->server_acked = synack->ack;
	f->window_up = 0;
	f->window_down = 0;
	f->flags &= TG_FLOW_TS;
}

/* The ACK that completes the server's handshake; also the answer to a SYN-ACK
 * that it sends again. TSecr is the server's own TSval: nothing else is sure to
 * be accepted (Linux 6.18 checks it). */
TG_INLINE struct tg_segment tg_flow_ack(const struct tg_packet *synack, const struct tg_flow *f,
					const struct tg_tcp_options *o)
{
	return (struct tg_segment){
		.src = synack->dst,
		.dst = synack->src,
		.ports = synack->ports << 16 | synack->ports >> 16,
		.seq = synack->ack,
		.ack = synack->seq + 1,
		.l3_off = synack->l3_off,
		.options = {.tsval = o->tsecr, .tsecr = o->tsval},
		.window = tg_window_shift(f->client_window, f->window_up),
		.flags = TG_TCP_ACK,
		.kind = o->ts_ok ? TG_SEGMENT_TIMESTAMPS : TG_SEGMENT_PLAIN,
		.family = synack->family,
		.ttl = 64,
		.reflect = true,
	};
}

/* What the client is told when the server is there: the server's window, in an
 * ACK that a client with nothing to send need not answer. `synack_window` is the
 * field of the server's SYN-ACK, which is not scaled. */
TG_INLINE struct tg_segment tg_flow_window(const struct tg_packet *synack, const struct tg_flow *f,
					   const struct tg_tcp_options *o, uint16_t synack_window)
{
	int advertised = f->advertised_wscale != TG_WSCALE_NONE ? f->advertised_wscale : 0;

	return (struct tg_segment){
		.src = synack->src,
		.dst = synack->dst,
		.ports = synack->ports,
		.seq = synack->seq + 1 - f->seq_delta,
		.ack = synack->ack,
		.l3_off = synack->l3_off,
		.options = {.tsval = o->tsval - f->ts_delta, .tsecr = o->tsecr},
		.window = tg_window_shift(synack_window, -advertised),
		.flags = TG_TCP_ACK,
		.kind = f->flags & TG_FLOW_TS && o->ts_ok ? TG_SEGMENT_TIMESTAMPS : TG_SEGMENT_PLAIN,
		.family = synack->family,
		.ttl = 64,
	};
}

/* The server's refusal, as the client has to see it to believe it. */
TG_INLINE struct tg_segment tg_flow_refusal(const struct tg_packet *rst, const struct tg_flow *f)
{
	return (struct tg_segment){
		.src = rst->src,
		.dst = rst->dst,
		.ports = rst->ports,
		.seq = f->seq_delta + 1,
		.ack = f->client_isn + 1,
		.l3_off = rst->l3_off,
		.flags = TG_TCP_RST | TG_TCP_ACK,
		.kind = TG_SEGMENT_PLAIN,
		.family = rst->family,
		.ttl = 64,
	};
}

#endif
