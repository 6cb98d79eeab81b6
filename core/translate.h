/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Translation of a connection whose client was given another initial sequence
 * number (and another timestamp clock) than its server chose.
 *
 *               to the server                     to the client
 *   seq         -                                 - seq_delta
 *   ack         + seq_delta (if ACK)              -
 *   SACK edges  + seq_delta                       -
 *   TSval       -                                 - ts_delta
 *   TSecr       + ts_delta (if ACK)               -
 *   window      << window_up                      << window_down or >> -window_down
 *
 * The client's own numbers pass untouched both ways, and so does the urgent
 * pointer. Checksums are updated incrementally: what was wrong stays wrong.
 */
#ifndef TG_TRANSLATE_H
#define TG_TRANSLATE_H

#include "checksum.h"
#include "packet.h"
#include "tcp_options.h"

#define TG_TCPOPT_SACK 5 /* RFC 2018, length 2 + 8 n */

enum tg_flow_state {
	TG_FLOW_SETUP = 1, /* the client is verified, the server has not answered */
	TG_FLOW_READY = 2, /* translated */
};

enum tg_flow_flag {
	TG_FLOW_TS = 1,         /* both sides use timestamps: they are translated */
	TG_FLOW_CLIENT_FIN = 2, /* seen */
	TG_FLOW_SERVER_FIN = 4,
	TG_FLOW_RESET = 8, /* a RST was seen that its receiver must have believed */
	TG_FLOW_CLOSED = 16, /* both of the above are over: it has been retired */
	TG_FLOW_ASKS = 32,  /* set-up: our SYN offers everything, to learn of the server */
	TG_FLOW_RENEWED = 128, /* set-up: our SYN came right behind a RST, after one that asked */
	TG_FLOW_HEARD = 64, /* set-up: the client has sent data that were dropped */
};

/* Whether a flow that is ready has a place of its own, as those have that have carried
 * something, or is among those that yield to newcomers. */
enum tg_flow_waits {
	TG_FLOW_SETTLED = 0,
	TG_FLOW_SILENT = 1,  /* it has carried nothing yet */
	TG_FLOW_REFUSED = 2, /* or-ed to the tick at which there was no place for it */
};

/* One connection; the value of the flow tables. Part of the map ABI. */
struct tg_flow {
	uint32_t seq_delta;    /* server's ISN - ours. Set-up: the ISN that we gave */
	uint32_t ts_delta;     /* server's clock - ours. Set-up: the TSval that we gave */
	uint32_t client_isn;
	union {
		uint32_t client_tsval; /* set-up: what our SYN says */
		uint32_t server_isn;   /* ready */
	};
	union {
		struct tg_flow_syn_sent {
			uint16_t ms;  /* when our SYN went, coarse clock, low bits */
			uint16_t mss; /* as it says, for the client */
		} syn; /* set-up */
		uint32_t server_acked; /* ready: what the server wants next, as its last segment says */
	};
	uint16_t client_window; /* set-up: as in the client's ACK, scaled */
	union {
		uint16_t option_bits; /* set-up: as in the cookie, without the MSS */
		uint16_t server_port; /* ready: the port of this box that its SYN-ACK came by */
	};
	uint16_t service; /* id */
	uint8_t state; /* enum tg_flow_state */
	uint8_t flags; /* enum tg_flow_flag */
	uint8_t advertised_wscale; /* set-up: the shift our SYN-ACK announced */
	union {
		int8_t window_down; /* ready: the server's shift less the announced one */
		uint8_t renewals; /* set-up: how often the server has been reset */
	};
	uint8_t window_up; /* the client's shift, if the server does not scale */
	union {
		uint8_t client_port; /* set-up: the port that the client's ACK came by, low bits */
		uint8_t waits; /* ready: enum tg_flow_waits, or when it was refused a place */
	};
};
_Static_assert(sizeof(struct tg_flow) == 32, "map ABI");

enum tg_direction { TG_TO_SERVER, TG_TO_CLIENT };

/* A window field moved to another scale; what does not fit is cut. */
TG_INLINE uint16_t tg_window_shift(uint16_t window, int shift)
{
	uint32_t w = window;

	if (shift < 0)
		return (uint16_t)(w >> ((uint32_t)-shift & 15));
	w <<= (uint32_t)shift & 15;
	return (uint16_t)(w > 0xffff ? 0xffff : w);
}

/* Changes the fixed part of the TCP header at `tcp` (TG_TCP_HDR_LEN bytes that
 * may be written); adds the differences to `sum`. */
TG_INLINE void tg_translate_header(uint8_t *tcp, const struct tg_flow *f, enum tg_direction dir,
				   uint64_t *sum)
{
	int shift = dir == TG_TO_SERVER ? f->window_up : f->window_down;
	uint32_t was, is;

	if (dir == TG_TO_SERVER) {
		if (tcp[TG_TCP_FLAGS] & TG_TCP_ACK) {
			was = tg_load32(tcp + TG_TCP_ACKED);
			is = tg_swap32(tg_swap32(was) + f->seq_delta);
			tg_store32(tcp + TG_TCP_ACKED, is);
			*sum += (uint64_t)(uint32_t)~was + is;
		}
	} else {
		was = tg_load32(tcp + TG_TCP_SEQ);
		is = tg_swap32(tg_swap32(was) - f->seq_delta);
		tg_store32(tcp + TG_TCP_SEQ, is);
		*sum += (uint64_t)(uint32_t)~was + is;
	}
	if (TG_UNLIKELY(shift != 0) && !(tcp[TG_TCP_FLAGS] & TG_TCP_SYN)) {
		uint16_t window = tg_load16(tcp + TG_TCP_WINDOW);
		uint16_t moved = tg_swap16(tg_window_shift(tg_swap16(window), shift));

		tg_store16(tcp + TG_TCP_WINDOW, moved);
		*sum += (uint64_t)(uint16_t)~window + moved;
	}
}

/* Changes timestamps, given as the two words TSval, TSecr at `p`. */
TG_INLINE void tg_translate_timestamps(uint8_t *p, const struct tg_flow *f, bool ack,
				       enum tg_direction dir, uint64_t *sum)
{
	uint32_t was, is;

	if (dir == TG_TO_CLIENT) {
		was = tg_load32(p);
		is = tg_swap32(tg_swap32(was) - f->ts_delta);
		tg_store32(p, is);
	} else {
		if (!ack)
			return; /* TSecr means nothing: RFC 7323 section 3.2 */
		was = tg_load32(p + 4);
		is = tg_swap32(tg_swap32(was) + f->ts_delta);
		tg_store32(p + 4, is);
	}
	*sum += (uint64_t)(uint32_t)~was + is;
}

/* True if the options, of `len` bytes at `p`, are just the timestamps in the
 * layout that nearly every segment has: then they stand at p + 4. */
TG_INLINE bool tg_translate_is_aligned(const uint8_t *p)
{
	return tg_load32(p) == TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_TIMESTAMP, 10);
}

TG_INLINE void tg_options_poke32(struct tg_options_cursor *c, uint32_t ahead, uint32_t v)
{
	uint8_t *p = &c->bytes[TG_BOUND(c->at, 64)];

	p[ahead] = (uint8_t)(v >> 24);
	p[ahead + 1] = (uint8_t)(v >> 16);
	p[ahead + 2] = (uint8_t)(v >> 8);
	p[ahead + 3] = (uint8_t)v;
}

/* What is added to the words of the options of one segment; 0 where its direction leaves a word as
 * it is. Computed before the loop over the options, which so branches by the options alone: each
 * condition more that holds for all of them doubles what the BPF verifier goes through. */
struct tg_translate_deltas {
	uint32_t tsval, tsecr, sack;
};

TG_INLINE struct tg_translate_deltas tg_translate_deltas_of(const struct tg_flow *f, bool ack,
							    enum tg_direction dir)
{
	bool ts = f->flags & TG_FLOW_TS, up = dir == TG_TO_SERVER;

	return (struct tg_translate_deltas){
		.tsval = ts && !up ? -f->ts_delta : 0,
		.tsecr = ts && up && ack ? f->ts_delta : 0,
		.sack = up ? f->seq_delta : 0,
	};
}

/* Changes the option under the cursor and moves on. 0 at the end. */
TG_STEP int tg_translate_option(struct tg_options_cursor *c, const struct tg_translate_deltas *d)
{
	uint32_t kind, len, blocks, i;

	if (!c || !d || tg_options_left(c) < 1)
		return 0;
	kind = tg_options_peek(c, 0);
	if (kind == TG_TCPOPT_EOL)
		return 0;
	if (kind == TG_TCPOPT_NOP) {
		c->at += 1;
		return 1;
	}
	if (tg_options_left(c) < 2)
		return 0;
	len = tg_options_peek(c, 1);
	if (len < 2 || len > tg_options_left(c))
		return 0;
	if (kind == TG_TCPOPT_TIMESTAMP && len == 10) {
		tg_options_poke32(c, 2, tg_options_peek32(c, 2) + d->tsval);
		tg_options_poke32(c, 6, tg_options_peek32(c, 6) + d->tsecr);
		c->at += len;
	} else if (kind == TG_TCPOPT_SACK && len >= 10 && len % 8 == 2) {
		blocks = (len - 2) / 8;
		c->at += 2;
		for (i = 0; i < 4 && i < blocks; i++) { /* four fit into 40 bytes */
			tg_options_poke32(c, 0, tg_options_peek32(c, 0) + d->sack);
			tg_options_poke32(c, 4, tg_options_peek32(c, 4) + d->sack);
			c->at += 8;
		}
	} else {
		c->at += len;
	}
	return 1;
}

/* Changes all options. They have been copied into the cursor, all of whose 80
 * bytes are set; the plane writes the first `len` back. */
TG_INLINE void tg_translate_options(struct tg_options_cursor *c, const struct tg_flow *f, bool ack,
				    enum tg_direction dir, uint64_t *sum)
{
	struct tg_translate_deltas d = tg_translate_deltas_of(f, ack, dir);
	uint32_t i;

	if (c->len > TG_TCP_OPTIONS_MAX_LEN)
		return;
	for (i = 0; i < TG_TCP_OPTIONS_MAX_LEN / 4; i++)
		*sum += (uint32_t)~tg_load32(&c->bytes[4 * i]);
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < TG_TCP_OPTIONS_MAX_LEN; i++) {
		if (!tg_translate_option(c, &d))
			break;
	}
	for (i = 0; i < TG_TCP_OPTIONS_MAX_LEN / 4; i++)
		*sum += tg_load32(&c->bytes[4 * i]);
}

/* The checksum field after changes that add up to `sum` (RFC 1624 eq. 3). */
TG_INLINE uint16_t tg_translate_checksum(uint16_t field, uint64_t sum)
{
	return tg_csum_finish_words((uint64_t)(uint16_t)~field + sum);
}

/* The first 12 bytes of a TCP header that an ICMP error quotes, as its receiver
 * must see them to believe it (RFC 5927 section 4.1): the error travels against
 * the segment, so what was translated one way goes back the other. `dir` is where
 * the quoted segment was going. */
TG_INLINE void tg_translate_quoted(uint8_t *tcp, const struct tg_flow *f, enum tg_direction dir,
				   uint64_t *sum)
{
	uint32_t at = dir == TG_TO_CLIENT ? 4 : 8;
	uint32_t was = tg_load32(tcp + at), is;

	if (dir == TG_TO_CLIENT)
		is = tg_swap32(tg_swap32(was) + f->seq_delta); /* seq, for the server */
	else
		is = tg_swap32(tg_swap32(was) - f->seq_delta); /* ack, for the client */
	tg_store32(tcp + at, is);
	*sum += (uint64_t)(uint32_t)~was + is;
}

enum tg_flow_turn {
	TG_FLOW_STAYS,
	TG_FLOW_ENDS, /* nothing more than retransmissions can follow: retire it */
	TG_FLOW_REVIVES, /* a RST that seemed to end it was ignored by its receiver */
};

/* A RST ends a flow if its receiver must have believed it (RFC 5961 section 3.2): one of the
 * client has the very number that the server wants next; one of the server has come by the
 * port that the server is behind, `port` being the one that the segment in hand came by.
 * Anything else may be forged and is ignored: the flow then expires. */
TG_INLINE bool tg_flow_is_reset(const struct tg_flow *f, const struct tg_packet *pkt,
				enum tg_direction dir, uint16_t port)
{
	if (!(pkt->flags & TG_TCP_RST))
		return false;
	return dir == TG_TO_SERVER ? pkt->seq == f->server_acked : port == f->server_port;
}

/* Notes what the server wants next. To be called with each segment of a ready flow; only
 * what has come by the server's port is believed. Written only if it has changed: other
 * CPUs read the flow, too. */
TG_INLINE void tg_flow_note_acked(struct tg_flow *f, const struct tg_packet *pkt,
				  enum tg_direction dir, uint16_t port)
{
	if (dir == TG_TO_CLIENT && pkt->ack != f->server_acked && port == f->server_port &&
	    (pkt->flags & (TG_TCP_ACK | TG_TCP_RST)) == TG_TCP_ACK)
		f->server_acked = pkt->ack;
}

/* What the segment contributes to the connection's end: FINs both ways and then a bare ACK, or a
 * RST that counts (tg_flow_is_reset). `port`: that the segment came by; a FIN of the server
 * that came by another is ignored. */
TG_INLINE enum tg_flow_turn tg_flow_track(struct tg_flow *f, const struct tg_packet *pkt,
					  enum tg_direction dir, bool reset, uint16_t port)
{
	uint8_t fins = TG_FLOW_CLIENT_FIN | TG_FLOW_SERVER_FIN;
	uint8_t flags = f->flags;

	if (TG_LIKELY(!(pkt->flags & (TG_TCP_FIN | TG_TCP_RST)) && !(flags & ~TG_FLOW_TS)))
		return TG_FLOW_STAYS;
	if (pkt->flags & TG_TCP_RST) {
		if (!reset)
			return TG_FLOW_STAYS;
		f->flags = flags | TG_FLOW_RESET | TG_FLOW_CLOSED;
		return flags & TG_FLOW_CLOSED ? TG_FLOW_STAYS : TG_FLOW_ENDS;
	}
	if (flags & TG_FLOW_RESET) {
		f->flags = flags & ~(TG_FLOW_RESET | TG_FLOW_CLOSED);
		return TG_FLOW_REVIVES;
	}
	if (pkt->flags & TG_TCP_FIN) {
		if (dir == TG_TO_SERVER)
			f->flags = flags | TG_FLOW_CLIENT_FIN;
		else if (port == f->server_port)
			f->flags = flags | TG_FLOW_SERVER_FIN;
		return TG_FLOW_STAYS;
	}
	if ((flags & fins) != fins || flags & TG_FLOW_CLOSED || pkt->l4_len != pkt->tcp_hdr_len)
		return TG_FLOW_STAYS;
	f->flags = flags | TG_FLOW_CLOSED;
	return TG_FLOW_ENDS;
}

#endif
