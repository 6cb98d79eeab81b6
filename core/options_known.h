/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Options of a SYN in the layouts that common stacks use, distinguished by
 * comparing whole words. For planes that answer SYNs by the million: everything else is
 * tg_tcp_options_parse's.
 *
 *   bytes  layout                                        whose
 *   0      -                                             made by hand: floods, scanners
 *   4      MSS                                           scanners, small stacks
 *   8      MSS, NOP NOP SACK | MSS, NOP WS               Windows with scaling off; small stacks
 *   12     MSS, NOP WS, NOP NOP SACK | other way round   Windows; Linux without timestamps
 *   20     MSS, SACK TS, NOP WS                          Linux, Android
 *   20     MSS, NOP WS, SACK TS                          FreeBSD
 *   24     MSS, NOP WS, NOP NOP TS, SACK EOL EOL         macOS, iOS
 *
 * Must never: say anything that tg_tcp_options_parse does not; the fuzz target holds
 * the two together.
 */
#ifndef TG_OPTIONS_KNOWN_H
#define TG_OPTIONS_KNOWN_H

#include "tcp_options.h"

#define TG_WORD_SACK TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_SACK_OK, 2)
#define TG_WORD_TS TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_TIMESTAMP, 10)
#define TG_WORD_SACK_TS TG_WIRE32(TG_TCPOPT_SACK_OK, 2, TG_TCPOPT_TIMESTAMP, 10)
#define TG_WORD_SACK_EOL TG_WIRE32(TG_TCPOPT_SACK_OK, 2, TG_TCPOPT_EOL, TG_TCPOPT_EOL)

TG_INLINE bool tg_word_is_wscale(uint32_t word)
{
	return (word & 0xffffff) == TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_WSCALE, 3, 0);
}

/* Reads the `len` bytes of options at `at`, all of which are in memory; `len` is a multiple of 4. False if they
 * are none of the layouts above; `o` is then undefined. */
TG_INLINE bool tg_tcp_options_known(const uint8_t *at, uint32_t len, struct tg_tcp_options *o)
{
	uint32_t mss, wscale = 0, second;
	uint32_t ts = 0; /* where TSval stands */

	*o = (struct tg_tcp_options){.wscale = TG_WSCALE_NONE};
	if (len == 0)
		return true;
	mss = tg_load32(at);
	if ((mss & 0xffff) != TG_WIRE32(TG_TCPOPT_MSS, 4, 0, 0) || mss >> 16 == 0)
		return false;
	o->mss = tg_swap16(mss >> 16);
	if (len == 4)
		return true;
	second = tg_load32(at + 4);
	if (len == 20) {
		wscale = second;
		ts = 12;
		if (TG_LIKELY(second == TG_WORD_SACK_TS)) {
			wscale = tg_load32(at + 16);
			ts = 8;
		} else if (tg_load32(at + 8) != TG_WORD_SACK_TS) {
			return false;
		}
		o->sack_ok = true;
	} else if (len == 12) {
		wscale = second;
		if (second == TG_WORD_SACK)
			wscale = tg_load32(at + 8);
		else if (tg_load32(at + 8) != TG_WORD_SACK)
			return false;
		o->sack_ok = true;
	} else if (len == 24) {
		wscale = second;
		ts = 12;
		if (tg_load32(at + 8) != TG_WORD_TS || tg_load32(at + 20) != TG_WORD_SACK_EOL)
			return false;
		o->sack_ok = true;
	} else if (len == 8) {
		if (second == TG_WORD_SACK) {
			o->sack_ok = true;
			return true;
		}
		wscale = second;
	} else {
		return false;
	}
	if (!tg_word_is_wscale(wscale))
		return false;
	o->wscale = wscale >> 24 > TG_WSCALE_MAX ? TG_WSCALE_MAX : (uint8_t)(wscale >> 24);
	if (ts) {
		o->ts_ok = true;
		o->tsval = tg_swap32(tg_load32(at + ts));
		o->tsecr = tg_swap32(tg_load32(at + ts + 4));
	}
	return true;
}

#endif
