/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * How improbable it is that a cookie was guessed, which depends on the layout and its form, and
 * what a cookie of that strength may do.
 *
 * Must never: infer from an option that a sender chooses a form that the layout does not have.
 */
#ifndef TG_COOKIE_STRENGTH_H
#define TG_COOKIE_STRENGTH_H

#include "cookie.h"
#include "cookie_smartcookie.h"

/* Bits of MAC that a verified cookie has shown. `smart`: the layout smartcookie, which has
 * one form; else our own, in the form with timestamps if `ts_ok`. */
TG_INLINE uint32_t tg_cookie_strength_bits(bool smart, bool ts_ok)
{
	if (smart)
		return TG_SMART_HASH_BITS;
	return ts_ok ? TG_COOKIE_TS_ISN_MAC_BITS + TG_COOKIE_TS_VAL_MAC_BITS
		     : TG_COOKIE_PLAIN_MAC_BITS;
}

/* A guessed cookie must not end a live connection of another client. At a million guesses a second,
 * 22 bits take 4 seconds, 24 take 17, and 40 take 13 days. */
#define TG_STRENGTH_ENDS_LIVE_BITS 40

TG_INLINE bool tg_cookie_may_end_live(bool smart, bool ts_ok)
{
	return tg_cookie_strength_bits(smart, ts_ok) >= TG_STRENGTH_ENDS_LIVE_BITS;
}

#endif
