/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of a segment that is forwarded as it is, where no service is translated: an ACK, whole, of a
 * source that has verified, to a service of strategies `auth-*`; or of anything that goes to no service, such as
 * the servers' answers.
 *
 * A whitelisted source costs one wait for memory, and all of a burst wait together: the bucket that most
 * likely has it. The presence bits are not read. A source that is not there takes the slow path before the
 * hashes of that are made.
 *
 * Must never: forward a segment of a source that is not in the table.
 */
#ifndef TG_DPDK_FAST_FORWARD_H
#define TG_DPDK_FAST_FORWARD_H

#include "fast_syn.h"
#include "route.h"

/* First stage: false: the slow path. */
TG_INLINE bool tg_fast_forward_take(struct tg_worker *w, struct tg_fast_frame *f,
				    const struct tg_packet *pkt)
{
	const struct tg_config *config = w->config;
	uint32_t id;

	if (config->flows || (f->m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) ==
				     RTE_MBUF_F_RX_L4_CKSUM_NONE) /* to be completed */
		return false;
	f->white_key = 0;
	if (!tg_config_port_is_protected(config, TG_DST_PORT_BE(pkt)))
		return true;
	id = tg_config_service_find(config, pkt);
	if (id && (config->services[id].automatic || config->services[id].verify))
		return false;
	if (!id || config->services[id].mode == TG_MODE_OFF)
		return true;
	if (config->services[id].mode == TG_MODE_MONITOR)
		return true;
	f->white_key = tg_white_key_of(w, pkt);
	tg_whitelist_fetch_first(&w->white, f->white_key);
	return true;
}

/* Second and last stage: true if nothing but the bucket that has been fetched is needed. */
TG_INLINE bool tg_fast_forward_may(const struct tg_worker *w, const struct tg_fast_frame *f)
{
	return !f->white_key || tg_whitelist_has_first(&w->white, f->white_key);
}

/* Last stage. */
TG_INLINE void tg_fast_forward_send(struct tg_worker *w, const struct tg_fast_frame *f, uint16_t port)
{
	union tg_addr dst = {.d = {0, 0}};

	if (TG_UNLIKELY(w->config->router)) {
		struct tg_packet pkt = tg_fast_packet(f->ip, f->v6);

		dst = pkt.dst;
	}
	w->fast.segments++;
	tg_forward_ip(w, f->m, port, f->l3_off, f->v6 ? 6 : 4, &dst, true);
}

#endif
