/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the proxy knows of a service beside struct tg_service: the strategy, what becomes of
 * clients' first data, what the configuration fixes; and what its clients are offered.
 */
#ifndef TG_PROXY_SERVICE_H
#define TG_PROXY_SERVICE_H

#include "servers.h"

enum tg_strategy {
#define TG_ABI_STRATEGY(name, number, word, help) TG_STRATEGY_##name = number,
#include "abi.def"
	TG_STRATEGIES /* how many there are: the last one stands last in abi.def */
};

/* True if connections under this strategy are translated. */
TG_INLINE bool tg_strategy_translates(uint32_t strategy)
{
	return strategy == TG_STRATEGY_COOKIE || strategy == TG_STRATEGY_CACHE;
}

/* When clients may send their first data, which has nowhere to go before the
 * server is there. */
enum tg_first_data {
#define TG_ABI_FIRST_DATA(name, number, word, help) TG_FIRST_DATA_##name = number,
#include "abi.def"
};

/* What the proxy knows of a service beside struct tg_service. Map ABI. */
struct tg_proxy_service {
	uint8_t strategy;   /* enum tg_strategy */
	uint8_t first_data; /* enum tg_first_data */
	uint8_t fixed;      /* enum tg_fixed, or-ed */
	uint8_t defer_accept; /* 1: the client's first segment completes the server's handshake */
};

/* What clients of a server are offered in our SYN-ACKs; `l` is NULL if nothing is known of it. */
TG_INLINE struct tg_service tg_proxy_advertised(const struct tg_service *svc,
						const struct tg_proxy_service *cfg,
						const struct tg_learned *l, uint8_t family)
{
	struct tg_service advertised = tg_service_advertised(svc, cfg->fixed, l, family);

	if (cfg->first_data == TG_FIRST_DATA_ZERO_WINDOW)
		advertised.window = 0;
	return advertised;
}

/* The same for a SYN of the most common form (fast_syn.h), of a server that `gives` this. False if they
 * do not agree to every option of it. */
TG_INLINE bool tg_proxy_advertised_fast(const struct tg_service *svc,
					const struct tg_proxy_service *cfg, uint64_t gives,
					uint8_t family, bool ts, struct tg_service *advertised)
{
	const uint64_t wanted = TG_SERVER_GIVES | TG_SERVER_SACK | (ts ? TG_SERVER_TIMESTAMPS : 0);
	uint16_t mss = family == 4 ? svc->mss_v4 : svc->mss_v6;

	if ((gives & wanted) != wanted || !svc->sack || (ts && !svc->timestamps))
		return false;
	if (!(cfg->fixed & TG_FIXED_MSS) && mss > (uint16_t)gives)
		mss = (uint16_t)gives;
	advertised->mss_v4 = advertised->mss_v6 = mss;
	advertised->wscale = cfg->fixed & TG_FIXED_WSCALE ? svc->wscale : (uint8_t)(gives >> 16);
	advertised->window = cfg->first_data == TG_FIRST_DATA_ZERO_WINDOW ? 0 : svc->window;
	advertised->sack = true;
	advertised->timestamps = ts;
	advertised->ecn = false; /* which it does not ask for */
	advertised->flow_key = svc->flow_key;
	return advertised->wscale != TG_WSCALE_NONE;
}

#endif
