/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests expect of the policy and the layout that they were built with.
 * Written from the papers and core/'s drawings, not from the module.
 */
#ifndef TG_TEST_EXPECT_H
#define TG_TEST_EXPECT_H

#include "tg_lwip.h"

#define COOKIES (TG_LWIP_POLICY >= TG_LWIP_POLICY_COOKIES)
#define ALWAYS (TG_LWIP_POLICY == TG_LWIP_POLICY_COOKIES_ALWAYS)

/* A cookie lives until the end of the period after its own. */
#if TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_CLASSIC
#define PERIOD_MS 64000u
#define TURN_S 2048u /* the counter comes round */
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_LINUX
#define PERIOD_MS 60000u
#define TURN_S 15360u
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_FREEBSD
#define PERIOD_MS 15000u
#define TURN_S 30u
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_HYBRID
#define PERIOD_MS 1000u
#define TURN_S 16384u
#elif TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_TIDEGATE
#define PERIOD_MS 8000u
#define TURN_S 16u
#else
#error "what is expected of the layout?"
#endif

/* Window scale and SACK come back with these layouts only. */
#define KEEPS_OPTIONS                                                                              \
	(TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_FREEBSD || TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_TIDEGATE)

/* The MSS that comes back for one offered (0: none offered). */
static inline unsigned expect_mss(int family, unsigned offered)
{
	static const unsigned linux_v4[] = {536, 1300, 1440, 1460};
	static const unsigned linux_v6[] = {1220, 1280, 1420, 1440};
	static const unsigned freebsd[] = {216, 536, 1200, 1360, 1400, 1440, 1452, 1460};
	static const unsigned eight_v4[] = {536, 1220, 1300, 1360, 1400, 1440, 1460, 8960};
	static const unsigned eight_v6[] = {1220, 1280, 1340, 1360, 1400, 1420, 1440, 8940};
	const unsigned *table = family == 4 ? eight_v4 : eight_v6;
	unsigned n = 8, mss, i, limit = family == 4 ? 1460 : 1440;

	if (offered == 0)
		offered = family == 4 ? 536 : 1220;
	if (TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_LINUX || TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_HYBRID) {
		table = family == 4 ? linux_v4 : linux_v6;
		n = 4;
	} else if (TG_LWIP_LAYOUT == TG_LWIP_LAYOUT_FREEBSD) {
		table = freebsd;
	}
	mss = table[0];
	for (i = 0; i < n; i++)
		if (table[i] <= offered)
			mss = table[i];
	return mss < limit ? mss : limit; /* TCP_MSS, and the netif's MTU */
}

static inline unsigned expect_wscale(unsigned offered)
{
	static const unsigned freebsd[] = {0, 1, 2, 4, 6, 7, 8};
	unsigned i, shift = 0;

	if (TG_LWIP_LAYOUT != TG_LWIP_LAYOUT_FREEBSD)
		return offered > 14 ? 14 : offered;
	for (i = 0; i < sizeof(freebsd) / sizeof(freebsd[0]); i++)
		if (freebsd[i] <= offered)
			shift = freebsd[i];
	return shift;
}

#endif
