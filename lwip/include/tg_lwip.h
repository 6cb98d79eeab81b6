/* SPDX-License-Identifier: Apache-2.0
 *
 * SYN-flood defence for lwIP 2.1 and 2.2, unmodified: what an application sees.
 * Options are in tg_lwip_opts.h, the hooks in tg_lwip_hooks.h.
 */
#ifndef TG_LWIP_H
#define TG_LWIP_H

#include "lwip/arch.h"
#include "tg_lwip_opts.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TG_LWIP_SECRET_LEN 32

/* Call once, before the first listener is made. `secret` must be random and new
 * at every start: the cookies' clock begins at zero each time. Until this is
 * called, cookies are neither sent nor accepted. */
void tg_lwip_init(const u8_t secret[TG_LWIP_SECRET_LEN]);

#if TG_LWIP_STATS
struct tg_lwip_stats {
	u32_t syn_queued;     /* SYNs left to lwIP, which stores them */
	u32_t syn_bad;        /* SYN with FIN or RST: dropped */
	u32_t recycled;       /* half-open connections recycled for another */
	u32_t cookie_sent;    /* SYNs answered with a cookie */
	u32_t cookie_nomem;   /* no pbuf or no route for the answer */
	u32_t cookie_valid;   /* ACKs with a valid cookie: connections made */
	u32_t cookie_invalid; /* ACKs without one: lwIP resets them */
	u32_t cookie_idle;    /* ACKs not checked: no cookie is outstanding */
	u32_t rebuild_full;   /* valid cookie, but no room: the client will retry */
};
extern struct tg_lwip_stats tg_lwip_stats;
#endif

#ifdef __cplusplus
}
#endif

#endif
