/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The `freebsd` cookie layout (Echevarria et al., equations 8-15):
 *
 *    31                                   8 7                 0
 *   +--------------------------------------+-------------------+
 *   |   h & ~0xff  (24 bits of the hash)   | options ^ h >> 24 |  ISN
 *   +--------------------------------------+-------------------+
 *                    options:   7   5 4   2  1   0
 *                             +------+------+---+---+
 *                             | WWW  | MMM  | S | P |
 *                             +------+------+---+---+
 *
 *   h = SipHash(K_P, addresses, ports, client ISN, options)
 *
 * P names one of two secrets; every 15 s the older one is replaced and becomes
 * the one in use, so a cookie lives for 15 to 30 s. Restored: MSS, window scale
 * (rounded down to the tables), SACK.
 */
#ifndef TG_COOKIE_FREEBSD_H
#define TG_COOKIE_FREEBSD_H

#include "cookie.h"
#include "cookie_tuple.h"

#define TG_FREEBSD_PERIOD_S 15

#define TG_FREEBSD_P 0x01U
#define TG_FREEBSD_S 0x02U
#define TG_FREEBSD_M_SHIFT 2
#define TG_FREEBSD_M 0x1cU
#define TG_FREEBSD_W_SHIFT 5
#define TG_FREEBSD_W 0xe0U
_Static_assert((TG_FREEBSD_W ^ TG_FREEBSD_M ^ TG_FREEBSD_S ^ TG_FREEBSD_P) == 0xff, "options");
_Static_assert(TG_FREEBSD_M == 7U << TG_FREEBSD_M_SHIFT, "MMM");
_Static_assert(TG_FREEBSD_W == 7U << TG_FREEBSD_W_SHIFT, "WWW");

TG_INLINE uint32_t tg_freebsd_mss_index(uint16_t mss)
{
	return (mss >= 536) + (mss >= 1200) + (mss >= 1360) + (mss >= 1400) + (mss >= 1440) +
	       (mss >= 1452) + (mss >= 1460);
}

TG_INLINE uint16_t tg_freebsd_mss_value(uint32_t index)
{
	switch (index & 7) {
	case 0:
		return 216;
	case 1:
		return 536;
	case 2:
		return 1200;
	case 3:
		return 1360;
	case 4:
		return 1400;
	case 5:
		return 1440;
	case 6:
		return 1452;
	default:
		return 1460;
	}
}

/* Index 0: no window scale option; 1-7: shifts 0, 1, 2, 4, 6, 7, 8. With a shift
 * rounded down we underestimate the peer's window: slow at
 * worst, never wrong. */
TG_INLINE uint32_t tg_freebsd_wscale_index(uint8_t wscale)
{
	if (wscale == TG_WSCALE_NONE)
		return 0;
	return 1U + (wscale >= 1) + (wscale >= 2) + (wscale >= 4) + (wscale >= 6) + (wscale >= 7) +
	       (wscale >= 8);
}

TG_INLINE uint8_t tg_freebsd_wscale_value(uint32_t index)
{
	index &= 7;
	if (index == 0)
		return TG_WSCALE_NONE;
	if (index < 4)
		return (uint8_t)(index - 1);
	return index == 4 ? 4 : (uint8_t)(index + 1);
}

/* `secret`, 0 or 1: the key in use. */
TG_INLINE uint8_t tg_freebsd_options(uint16_t mss, uint8_t wscale, bool sack_ok, uint32_t secret)
{
	return (uint8_t)(tg_freebsd_wscale_index(wscale) << TG_FREEBSD_W_SHIFT |
			 tg_freebsd_mss_index(mss) << TG_FREEBSD_M_SHIFT |
			 (sack_ok ? TG_FREEBSD_S : 0) | (secret & TG_FREEBSD_P));
}

/* Equations 8-10. */
TG_INLINE uint32_t tg_freebsd_make(const struct tg_packet *syn, uint8_t options,
				   const struct tg_key_pair *keys)
{
	uint32_t h = tg_tuple_siphash_u40(syn, syn->seq, options, &keys->k[options & TG_FREEBSD_P]);

	return (h & ~0xffU) | (options ^ h >> 24);
}

/* Equation 13: what the cookie claims; meaningless until verified. */
TG_INLINE uint8_t tg_freebsd_claimed(uint32_t isn)
{
	return (uint8_t)((isn & 0xff) ^ isn >> 24);
}

/* Equations 14 and 15. Both secrets are valid: a cookie becomes stale when
 * its secret is replaced. */
TG_INLINE bool tg_freebsd_verify(const struct tg_packet *ack, const struct tg_key_pair *keys,
				 struct tg_agreed *agreed)
{
	uint32_t isn = ack->ack - 1;
	uint8_t options = tg_freebsd_claimed(isn);
	uint32_t h = tg_tuple_siphash_u40(ack, ack->seq - 1, options,
					  &keys->k[options & TG_FREEBSD_P]);

	if ((isn ^ h) & ~0xffU)
		return false;
	*agreed = (struct tg_agreed){
		.mss = tg_freebsd_mss_value(options >> TG_FREEBSD_M_SHIFT),
		.wscale = tg_freebsd_wscale_value(options >> TG_FREEBSD_W_SHIFT),
		.sack_ok = options & TG_FREEBSD_S,
	};
	return true;
}

#endif
