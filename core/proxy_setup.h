/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * A translated connection from the ACK that opens it to the server's SYN-ACK that makes it ready,
 * and its end: the flow, and the segments that we send for it. proxy_rules.h decides which segments
 * count.
 */
#ifndef TG_PROXY_SETUP_H
#define TG_PROXY_SETUP_H

#include "cookie.h"
#include "host.h"
#include "proxy_service.h"
#include "segment.h"
#include "syn_cache.h"
#include "translate.h"

#define TG_FLOW_OPTION_MASK ((1U << TG_COOKIE_FLAG_BITS) - 1)

/* What a flow in set-up has negotiated with its client. */
TG_INLINE struct tg_agreed tg_flow_agreed(const struct tg_flow *f)
{
	struct tg_agreed agreed = tg_cookie_agreed(4, f->option_bits, f->flags & TG_FLOW_TS);

	agreed.mss = f->syn.mss;
	return agreed;
}

/* The flow that an ACK with a verified cookie opens. `wscale` is what our
 * SYN-ACKs announce. */
TG_INLINE struct tg_flow tg_flow_open(const struct tg_packet *ack, const struct tg_ack *ack_info,
				      uint32_t option_bits, uint8_t wscale, uint16_t window,
				      uint16_t service, uint32_t now_ms)
{
	struct tg_agreed agreed = tg_cookie_agreed(ack->family, option_bits, ack_info->ts_ok);

	return (struct tg_flow){
		.seq_delta = ack_info->cookie.isn,
		.ts_delta = ack_info->cookie.tsval,
		.client_isn = ack->seq - 1,
		.client_tsval = ack_info->tsval,
		.syn.ms = (uint16_t)now_ms,
		.syn.mss = agreed.mss,
		.client_window = window,
		.option_bits = option_bits & TG_FLOW_OPTION_MASK,
		.service = service,
		.state = TG_FLOW_SETUP,
		.flags = ack_info->ts_ok ? TG_FLOW_TS : 0,
		.advertised_wscale = agreed.wscale != TG_WSCALE_NONE ? wscale : TG_WSCALE_NONE,
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
	return (uint32_t)tg_siphash_end(&s, f->client_tsval | TG_SIPHASH_LEN(12));
}

/* The SYN to the server, in the client's name: same options; all there are, if the server
 * is asked (TG_FLOW_ASKS): then what the client did not agree on says anything. `isn` is
 * tg_flow_syn_isn. `pkt` is a packet of the client, or, with `back`, one of the server. */
TG_INLINE struct tg_segment tg_flow_syn(const struct tg_packet *pkt, const struct tg_flow *f,
					uint32_t isn, bool back)
{
	bool ts = f->flags & TG_FLOW_TS, asks = f->flags & TG_FLOW_ASKS;
	struct tg_agreed agreed = tg_flow_agreed(f);
	bool ecn = agreed.ecn_ok || asks;

	if (asks && agreed.wscale == TG_WSCALE_NONE)
		agreed.wscale = 0;
	return (struct tg_segment){
		.src = back ? pkt->dst : pkt->src,
		.dst = back ? pkt->src : pkt->dst,
		.ports = back ? pkt->ports << 16 | pkt->ports >> 16 : pkt->ports,
		.seq = isn,
		.l3_off = pkt->l3_off,
		.options = {.mss = f->syn.mss,
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
	TG_SETUP_OTHER,   /* the server still has an older connection: reset that, retry */
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

/* How what the server gives agrees with what the client was offered. `fixed` is
 * the service's: a window scale that the configuration sets is translated whatever
 * the server says. */
enum tg_agreement {
	TG_AGREES,
	TG_GIVES_MORE, /* than was offered, after a SYN that asked */
	TG_GIVES_LESS, /* the client uses what its server does not understand */
};

TG_INLINE enum tg_agreement tg_flow_agreement(const struct tg_flow *f, const struct tg_packet *synack,
					      const struct tg_tcp_options *o, uint8_t fixed)
{
	struct tg_agreed advertised = tg_flow_agreed(f);
	bool scale = advertised.wscale != TG_WSCALE_NONE, scales = o->wscale != TG_WSCALE_NONE;
	bool ecn = tg_synack_gives_ecn(synack);

	if ((advertised.sack_ok && !o->sack_ok) || (advertised.ts_ok && !o->ts_ok) ||
	    (advertised.ecn_ok && !ecn) || (scale && !scales && !(fixed & TG_FIXED_WSCALE)))
		return TG_GIVES_LESS;
	/* A receiver that takes the RST and the SYN behind it in one batch may have looked the
	 * SYN's socket up before it acts on the RST (Linux, ip_list_rcv: early demux): then it
	 * answers the SYN from the connection that it is about to forget, with options that this
	 * SYN did not offer. */
	if (!(f->flags & (TG_FLOW_ASKS | TG_FLOW_RENEWED)))
		return TG_AGREES; /* it cannot agree to what was not offered */
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

#define TG_RENEWALS_MAX 8 /* resets of the server in one set-up: it may never agree */

/* After a SYN that probed always comes one of the connection itself, with the client's own number.
 * What contradicts the learned options is probed again before it ends a connection. */
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
	uint8_t client_wscale = tg_cookie_wscale(f->option_bits);
	bool advertised = f->advertised_wscale != TG_WSCALE_NONE;
	uint8_t server_wscale = advertised && o->wscale != TG_WSCALE_NONE ? o->wscale : 0;

	f->window_down = (int8_t)(server_wscale - (advertised ? f->advertised_wscale : 0));
	f->window_up = advertised && o->wscale == TG_WSCALE_NONE ? client_wscale : 0;
	f->seq_delta = synack->seq - f->seq_delta;
	if (f->flags & TG_FLOW_TS) {
		if (o->ts_ok)
			f->ts_delta = o->tsval - f->ts_delta;
		else
			f->ts_delta = 0; /* the server sends none, and ignores any */
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
 * has carried something, and is not half closed; one that was refused is considered again in
 * another tick. */
TG_INLINE enum tg_flow_wish tg_flow_wish(const struct tg_flow *f, const struct tg_packet *pkt,
					 uint32_t tick)
{
	if (f->flags & (TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN | TG_FLOW_CLOSED))
		return TG_FLOW_WAITS;
	if (f->waits == TG_FLOW_SILENT)
		return tg_flow_carries(f, pkt) ? TG_FLOW_SETTLES : TG_FLOW_WAITS;
	return f->waits == tg_flow_tick_mark(tick) ? TG_FLOW_WAITS : TG_FLOW_SETTLES;
}

/* A SYN-ACK of a ready flow that is not about our SYN: the server's answer to a SYN that was let
 * through because the flow was live, which to the server it was not. Client and server negotiate
 * this one themselves; the old differences serve as well as any. Only for one that came by the
 * server's port. */
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

/* What the client receives when the server has answered: the server's window, in an
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

/* The server's refusal, in the form that the client accepts. */
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
