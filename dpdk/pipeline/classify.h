/* SPDX-License-Identifier: Apache-2.0
 *
 * The first stage of the slow path: what a frame is, which service it is for, which hashes it will
 * need.
 */
#ifndef TG_DPDK_CLASSIFY_H
#define TG_DPDK_CLASSIFY_H

#include "answer.h"
#include "flow.h"

/* A router answers ARP for its own addresses, and takes only frames for itself. */
static bool router_takes(struct tg_worker *w, struct tg_item *it)
{
	uint8_t *d = TG_DATA(it->m);
	uint32_t i;

	if (it->m->data_len < TG_ETH_HDR_LEN + 28)
		return false;
	if (tg_load16(d + TG_ETH_TYPE) == TG_ETHERTYPE_ARP && tg_load16(d + 20) == 0x0100) {
		for (i = 0; i < w->config->own_addrs_n; i++) {
			if (w->config->own_addrs[i].addr != tg_load32(d + 38) ||
			    w->config->own_addrs[i].port != it->port)
				continue;
			tg_store16(d + 20, 0x0200); /* reply */
			memcpy(d + 32, d + 22, 10);
			memcpy(d + 22, w->ports[it->port].mac, 6);
			tg_store32(d + 28, w->config->own_addrs[i].addr);
			memcpy(d, d + 32, 6);
			memcpy(d + 6, w->ports[it->port].mac, 6);
			tg_send(w, it->port, it->m);
			it->todo = TG_TODO_GONE;
			return true;
		}
		return false;
	}
	return memcmp(d, w->ports[it->port].mac, 6) == 0;
}

static inline void classify_tcp(struct tg_worker *w, struct tg_item *it)
{
	const struct tg_config *config = w->config;

	it->todo = TG_TODO_TCP;
	it->to_service = tg_config_port_is_protected(config, TG_DST_PORT_BE(&it->pkt));
	it->from_service = tg_config_port_is_protected(config, TG_SRC_PORT_BE(&it->pkt));
	if (config->flows && (it->to_service || it->from_service))
		tg_fetch_flow(w, it, it->to_service ? TG_TO_SERVER : TG_TO_CLIENT);
	if (!it->to_service)
		return;
	it->id = (uint16_t)tg_config_service_find(config, &it->pkt);
	if (!it->id || (config->services[it->id].mode == TG_MODE_OFF &&
			(!config->services[it->id].verify || tg_host_is_syn(&it->pkt)))) {
		it->id = 0;
		return;
	}
	if (!tg_strategy_translates(config->proxy_cfg[it->id].strategy))
		tg_whitelist_prefetch(&w->white, tg_white_key_of(w, &it->pkt));
	if (tg_host_is_syn(&it->pkt) && !tg_auto_lets_by(config, &it->pkt, it->id))
		tg_foresee_syn(w, it);
}

/* For frames other than a flood's SYNs: their prefetches have completed. */
static inline void foresee(struct tg_worker *w, struct tg_item *it)
{
	bool syn = tg_host_is_syn(&it->pkt), known = false;

	if (it->flow_dir == TG_TO_CLIENT || (it->flow_dir == TG_TO_SERVER && !syn))
		known = tg_foresee_flow(w, it);
	if (syn || !it->id)
		return;
	if (!tg_strategy_translates(w->config->proxy_cfg[it->id].strategy))
		tg_whitelist_fetch(&w->white, tg_white_key_of(w, &it->pkt));
	if (!known && tg_service_verifies(&w->config->services[it->id]) &&
	    !tg_proxy_unasked(&w->config->services[it->id], it->parse) && tg_item_may_prove(w, it))
		tg_foresee_ack(w, it);
}

/* Classifies the frame; untagged IPv4, nearly all frames, first. */
static inline enum tg_parse_result parse(struct tg_packet *pkt, const uint8_t *data, uint32_t len)
{
	if (TG_LIKELY(len >= TG_ETH_HDR_LEN + TG_IPV4_HDR_LEN &&
		      tg_load16(data + TG_ETH_TYPE) == TG_ETHERTYPE_IPV4)) {
		pkt->group_frame = data[0] & 1;
		pkt->group_sender = data[TG_ETH_SRC] & 1;
		pkt->l3_off = TG_ETH_HDR_LEN;
		return tg_packet_ipv4(pkt, data, data + len);
	}
	pkt->l3_off = 0;
	return tg_packet_parse(pkt, data, data + len);
}

static inline void classify(struct tg_worker *w, struct tg_item *it, struct rte_mbuf *m, uint16_t port)
{
	bool shared = rte_mbuf_refcnt_read(m) != 1 ||
		      (m->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL));
	const uint8_t *data;

	if (TG_UNLIKELY(shared || m->nb_segs > 1)) {
		m = tg_frame_make_own(w, m);
		if (!m) {
			it->todo = TG_TODO_GONE;
			return;
		}
	}
	it->m = m;
	it->port = port;
	it->id = 0;
	it->cookie_lane = it->flow_lane = it->half_lane = -1;
	it->flow_dir = 255;
	it->pkt.as_probe = false;
	it->partial = (m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_NONE;
	it->todo = TG_TODO_OTHER;
	data = TG_DATA(m);
	it->parse = (uint8_t)parse(&it->pkt, data, m->data_len);
	if (TG_UNLIKELY(w->config->router) && !router_takes(w, it)) {
		if (it->todo != TG_TODO_GONE) {
			tg_count(w, 0, TG_COUNT_drop_no_route);
			tg_drop(w, m);
		}
		it->todo = TG_TODO_GONE;
		return;
	}
	if (TG_LIKELY(it->parse == TG_PARSE_TCP || it->parse == TG_PARSE_FRAGMENT)) {
		tg_packet_measure(&it->pkt, m->pkt_len);
		classify_tcp(w, it);
	} else if (it->parse != TG_PARSE_OTHER)
		it->todo = TG_TODO_PARSE;
}

#endif
