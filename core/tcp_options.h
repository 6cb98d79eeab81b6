/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TCP options of a handshake: parser and writer, each on a bounded cursor.
 *
 * Reading follows what Linux does (so that a connection is the same with the gate and without): an
 * invalid length ends the list, what precedes it counts; of an option given twice the last counts;
 * an option of the wrong length is skipped. Kinds not listed here are skipped by their length.
 *
 * Linux goes through the list a second time for TCP-MD5 and TCP-AO, and drops the
 * segment if that finds something wrong; enum tg_tcp_auth says what it finds.
 */
#ifndef TG_TCP_OPTIONS_H
#define TG_TCP_OPTIONS_H

#include "base.h"

enum tg_tcp_option_kind {
	TG_TCPOPT_EOL = 0,
	TG_TCPOPT_NOP = 1,
	TG_TCPOPT_MSS = 2,       /* RFC 9293, length 4 */
	TG_TCPOPT_WSCALE = 3,    /* RFC 7323, length 3 */
	TG_TCPOPT_SACK_OK = 4,   /* RFC 2018, length 2 */
	TG_TCPOPT_TIMESTAMP = 8, /* RFC 7323, length 10 */
	TG_TCPOPT_MD5 = 19,      /* RFC 2385 */
	TG_TCPOPT_AO = 29,       /* RFC 5925 */
};

/* What a list says of signatures. Linux (6.7 and later; tried with 6.18 that has TCP-MD5 and no
 * TCP-AO) looks only where 18 bytes are left, the length of TCP-MD5; a kernel with TCP-AO looks
 * where 5 are left. What no kernel would act on is ignored. */
enum tg_tcp_auth {
	TG_AUTH_NONE,      /* nothing, or nothing that a kernel looks at */
	TG_AUTH_MD5,       /* one option, well formed: only the key's holder can verify it */
	TG_AUTH_AO,
	TG_AUTH_TWO_AO, /* the second where kernels without TCP-AO do not look: they ignore both */
	TG_AUTH_MALFORMED, /* wrong length, two of them, or an invalid length: kernels drop it */
};

/* The kinds that are read, a bit each. */
#define TG_TCPOPT_READ                                                                             \
	(1U << TG_TCPOPT_MSS | 1U << TG_TCPOPT_WSCALE | 1U << TG_TCPOPT_SACK_OK |                  \
	 1U << TG_TCPOPT_TIMESTAMP | 1U << TG_TCPOPT_MD5 | 1U << TG_TCPOPT_AO)

#define TG_TCPOPT_MD5_LEN 18
#define TG_TCPOPT_AO_MIN_LEN 5 /* kind, length, two key numbers, and a byte of the MAC at least */
#define TG_AUTH_LOOKS_AT 18 /* bytes left, from the option's kind on */

#define TG_TCP_OPTIONS_MAX_LEN 40
#define TG_WSCALE_MAX 14 /* RFC 7323 section 2.3 */
#define TG_WSCALE_NONE 15 /* no window scale option; also its code in a cookie */

struct tg_tcp_options {
	uint32_t tsval; /* host order; valid if ts_ok */
	uint32_t tsecr;
	uint16_t mss; /* bytes; 0: the option was absent */
	uint8_t wscale; /* 0-14, or TG_WSCALE_NONE */
	bool sack_ok;
	bool ts_ok;
	uint8_t auth; /* enum tg_tcp_auth */
};

/* The options of one segment, copied out of it by the plane, and the bounded cursor over them. Only
 * the first `len` bytes count; the rest of the buffer lets the longest field be read at any masked
 * position within it. */
#define TG_OPTIONS_ROOM 80
struct tg_options_cursor {
	uint8_t bytes[TG_OPTIONS_ROOM] __attribute__((aligned(8)));
	uint32_t at; /* next byte; never passes len */
	uint32_t len; /* <= TG_TCP_OPTIONS_MAX_LEN */
};
_Static_assert(64 + 10 <= TG_OPTIONS_ROOM, "a masked position plus the longest field");

TG_INLINE uint32_t tg_options_left(const struct tg_options_cursor *c)
{
	return c->len - c->at;
}

/* The byte, or the big-endian word, that stands `ahead` bytes from the cursor;
 * ask tg_options_left first. Byte by byte: the position has no alignment, and
 * BPF has no unaligned access to its stack. */
TG_INLINE uint8_t tg_options_peek(const struct tg_options_cursor *c, uint32_t ahead)
{
	return c->bytes[TG_BOUND(c->at, 64) + ahead];
}

TG_INLINE uint32_t tg_options_peek32(const struct tg_options_cursor *c, uint32_t ahead)
{
	const uint8_t *p = &c->bytes[TG_BOUND(c->at, 64)];

	return (uint32_t)p[ahead] << 24 | (uint32_t)p[ahead + 1] << 16 |
	       (uint32_t)p[ahead + 2] << 8 | p[ahead + 3];
}

/* The word, as on the wire, that stands `ahead` words from an aligned cursor. */
TG_INLINE uint32_t tg_options_peek_word(const struct tg_options_cursor *c, uint32_t ahead)
{
	return tg_load32(&c->bytes[TG_BOUND(c->at / 4, 16) * 4 + 4 * ahead]);
}

/* Reads what real senders put into a whole aligned word or three: one step for
 * what takes tg_tcp_option_next up to four. False, with nothing changed, if the
 * word is none of these. It says nothing that tg_tcp_option_next would not; the
 * fuzz target holds the two together. */
TG_INLINE bool tg_tcp_option_word(struct tg_options_cursor *c, struct tg_tcp_options *o)
{
	uint32_t left = tg_options_left(c);
	uint32_t word;

	if (c->at % 4 != 0 || left < 4)
		return false;
	word = tg_options_peek_word(c, 0);
	if ((word & 0xff) > TG_TCPOPT_SACK_OK)
		return false; /* all below begin with less */
	if ((word & 0xffff) == TG_WIRE32(TG_TCPOPT_MSS, 4, 0, 0) && word >> 16 != 0) {
		o->mss = tg_swap16(word >> 16);
	} else if ((word & 0xffffff) == TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_WSCALE, 3, 0)) {
		uint8_t shift = (uint8_t)(word >> 24);

		o->wscale = shift > TG_WSCALE_MAX ? TG_WSCALE_MAX : shift;
	} else if (word == TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_SACK_OK, 2)) {
		o->sack_ok = true;
	} else if ((word >> 16) == (TG_TCPOPT_TIMESTAMP | 10 << 8) && left >= 12 &&
		   ((word & 0xffff) == TG_WIRE32(TG_TCPOPT_SACK_OK, 2, 0, 0) ||
		    (word & 0xffff) == TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, 0, 0))) {
		if ((word & 0xff) == TG_TCPOPT_SACK_OK)
			o->sack_ok = true;
		o->ts_ok = true;
		o->tsval = tg_swap32(tg_options_peek_word(c, 1));
		o->tsecr = tg_swap32(tg_options_peek_word(c, 2));
		c->at += 8;
	} else if (word != TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_NOP)) {
		return false;
	}
	c->at += 4;
	return true;
}

/* What is known of signatures after an option of kind TCP-MD5 or TCP-AO and of this length,
 * with `left` bytes of the list from its kind on; `before` is what was known. */
TG_INLINE enum tg_tcp_auth tg_tcp_auth_after(enum tg_tcp_auth before, uint8_t kind, uint8_t len,
					     uint32_t left)
{
	bool good = kind == TG_TCPOPT_MD5 ? len == TG_TCPOPT_MD5_LEN : len >= TG_TCPOPT_AO_MIN_LEN;
	bool seen = left >= TG_AUTH_LOOKS_AT;

	if (!good)
		return seen ? TG_AUTH_MALFORMED : before;
	if (before == TG_AUTH_NONE)
		return kind == TG_TCPOPT_MD5 ? TG_AUTH_MD5 : TG_AUTH_AO;
	return before == TG_AUTH_AO && !seen ? TG_AUTH_TWO_AO
	       : before == TG_AUTH_TWO_AO    ? before
					     : TG_AUTH_MALFORMED;
}

/* Reads the option under the cursor into `o` and moves on. False at the end. */
TG_INLINE bool tg_tcp_option_next(struct tg_options_cursor *c, struct tg_tcp_options *o)
{
	uint8_t kind, len;

	if (tg_options_left(c) < 1)
		return false;
	kind = tg_options_peek(c, 0);
	if (kind == TG_TCPOPT_EOL)
		return false;
	if (kind == TG_TCPOPT_NOP) {
		c->at += 1;
		return true;
	}
	if (tg_options_left(c) < 2)
		return false;
	len = tg_options_peek(c, 1);
	if (len < 2 || len > tg_options_left(c)) {
		if (tg_options_left(c) >= TG_AUTH_LOOKS_AT)
			o->auth = TG_AUTH_MALFORMED;
		return false;
	}
	if (kind > TG_TCPOPT_AO || !(TG_TCPOPT_READ >> kind & 1)) {
		c->at += len;
		return true;
	}
	if (kind == TG_TCPOPT_MSS && len == 4) {
		uint16_t mss = (uint16_t)(tg_options_peek(c, 2) << 8 | tg_options_peek(c, 3));

		if (mss)
			o->mss = mss;
	} else if (kind == TG_TCPOPT_WSCALE && len == 3) {
		uint8_t shift = tg_options_peek(c, 2);

		o->wscale = shift > TG_WSCALE_MAX ? TG_WSCALE_MAX : shift;
	} else if (kind == TG_TCPOPT_SACK_OK && len == 2) {
		o->sack_ok = true;
	} else if (kind == TG_TCPOPT_TIMESTAMP && len == 10) {
		o->ts_ok = true;
		o->tsval = tg_options_peek32(c, 2);
		o->tsecr = tg_options_peek32(c, 6);
	} else if (kind == TG_TCPOPT_MD5 || kind == TG_TCPOPT_AO) {
		o->auth = (uint8_t)tg_tcp_auth_after((enum tg_tcp_auth)o->auth, kind, len,
						     tg_options_left(c));
	}
	c->at += len;
	return true;
}

/* Reads the next TG_OPTIONS_STEP options, or words of them. 0 at the end. In BPF, both are memory of which the verifier
 * knows nothing, and all that a turn of the loop leaves is there: so it follows every way through a turn once, and not
 * once for each way through those before. */
#define TG_OPTIONS_STEP 8
TG_STEP int tg_tcp_options_step(struct tg_options_cursor *c, struct tg_tcp_options *o)
{
	int i;

	if (!c || !o)
		return 0;
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < TG_OPTIONS_STEP; i++) {
		if (!tg_tcp_option_word(c, o) && !tg_tcp_option_next(c, o))
			return 0;
		TG_BARRIER();
	}
	return 1;
}

/* Parses the whole list into `o`. */
TG_INLINE void tg_tcp_options_parse_into(struct tg_options_cursor *c, struct tg_tcp_options *o)
{
	int i;

	*o = (struct tg_tcp_options){.wscale = TG_WSCALE_NONE};
	if (c->len > TG_TCP_OPTIONS_MAX_LEN)
		return;
	/* Each option takes at least one byte. */
#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = 0; i < TG_TCP_OPTIONS_MAX_LEN / TG_OPTIONS_STEP; i++) {
		if (!tg_tcp_options_step(c, o))
			break;
	}
}

/* Parses the whole list. */
TG_INLINE struct tg_tcp_options tg_tcp_options_parse(struct tg_options_cursor *c)
{
	struct tg_tcp_options o;

	tg_tcp_options_parse_into(c, &o);
	return o;
}

/* Options of a SYN laid out as Linux, Android, Windows and FreeBSD lay them out,
 * read straight from the packet: 20 bytes with timestamps, 12 without. False if
 * they are anything else; then the whole list has to be parsed. `at` is where the
 * options begin, `len` their length, `end` the end of the memory. */
TG_INLINE bool tg_tcp_options_common(const uint8_t *at, uint32_t len, const uint8_t *end,
				     struct tg_tcp_options *o)
{
	const uint32_t nop_wscale = TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_WSCALE, 3, 0);
	const uint32_t nop_nop_sack = TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_SACK_OK, 2);
	uint32_t mss, wscale;

	if (len == 20 && at + 20 <= end) {
		if (tg_load32(at + 4) != TG_WIRE32(TG_TCPOPT_SACK_OK, 2, TG_TCPOPT_TIMESTAMP, 10))
			return false;
		wscale = tg_load32(at + 16);
		o->ts_ok = true;
		o->tsval = tg_swap32(tg_load32(at + 8));
		o->tsecr = tg_swap32(tg_load32(at + 12));
	} else if (len == 12 && at + 12 <= end) {
		wscale = tg_load32(at + 4);
		if (wscale == nop_nop_sack)
			wscale = tg_load32(at + 8);
		else if (tg_load32(at + 8) != nop_nop_sack)
			return false;
		o->ts_ok = false;
	} else {
		return false;
	}
	o->auth = TG_AUTH_NONE;
	mss = tg_load32(at);
	if ((mss & 0xffff) != TG_WIRE32(TG_TCPOPT_MSS, 4, 0, 0) || mss >> 16 == 0 ||
	    (wscale & 0xffffff) != nop_wscale)
		return false;
	o->mss = tg_swap16(mss >> 16);
	o->wscale = wscale >> 24 > TG_WSCALE_MAX ? TG_WSCALE_MAX : (uint8_t)(wscale >> 24);
	o->sack_ok = true;
	return true;
}

/* The first three words of options as nearly every sender lays out timestamps
 * after the SYN: NOP, NOP, timestamps (RFC 7323 appendix A). False if they are
 * anything else; then the whole list has to be parsed. */
TG_INLINE bool tg_tcp_timestamps_aligned(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t *tsval,
					 uint32_t *tsecr)
{
	if (w0 != TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_TIMESTAMP, 10))
		return false;
	*tsval = tg_swap32(w1);
	*tsecr = tg_swap32(w2);
	return true;
}

/* A bounded cursor for writing: `at` never passes `end`. */
struct tg_writer {
	uint8_t *at;
	uint8_t *end;
};

TG_INLINE bool tg_writer_has(const struct tg_writer *w, uint32_t len)
{
	return w->at + len <= w->end;
}

/* Length in bytes of what tg_tcp_options_write writes; a multiple of 4, <= 20. */
TG_INLINE uint32_t tg_tcp_options_len(const struct tg_tcp_options *o)
{
	uint32_t len = 4; /* MSS is always sent */

	if (o->ts_ok)
		len += 12;
	else if (o->sack_ok)
		len += 4;
	if (o->wscale != TG_WSCALE_NONE)
		len += 4;
	return len;
}

/* Writes one word and adds it to the checksum sum. */
TG_INLINE bool tg_writer_put32(struct tg_writer *w, uint32_t wire, uint64_t *sum)
{
	if (!tg_writer_has(w, 4))
		return false;
	tg_store32(w->at, wire);
	*sum += wire;
	w->at += 4;
	return true;
}

/* Writes the options of a SYN-ACK in the order Linux uses: MSS, SACK-permitted with timestamps (or
 * two NOPs in place of either), NOP and window scale. False if there is not enough room. */
TG_INLINE bool tg_tcp_options_write(struct tg_writer *w, const struct tg_tcp_options *o, uint64_t *sum)
{
	bool ok = tg_writer_put32(w, TG_WIRE32(TG_TCPOPT_MSS, 4, o->mss >> 8, o->mss), sum);

	if (o->ts_ok) {
		ok = ok && tg_writer_put32(w,
					   o->sack_ok ? TG_WIRE32(TG_TCPOPT_SACK_OK, 2,
								  TG_TCPOPT_TIMESTAMP, 10)
						      : TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP,
								  TG_TCPOPT_TIMESTAMP, 10),
					   sum);
		ok = ok && tg_writer_put32(w, tg_swap32(o->tsval), sum);
		ok = ok && tg_writer_put32(w, tg_swap32(o->tsecr), sum);
	} else if (o->sack_ok) {
		ok = ok &&
		     tg_writer_put32(
			     w, TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_SACK_OK, 2), sum);
	}
	if (o->wscale != TG_WSCALE_NONE)
		ok = ok && tg_writer_put32(
				   w, TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_WSCALE, 3, o->wscale), sum);
	return ok;
}

#endif
