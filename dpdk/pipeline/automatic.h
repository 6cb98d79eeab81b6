/* SPDX-License-Identifier: Apache-2.0
 *
 * Mode auto: counts SYNs and completed handshakes by service and by place, as bpf/lib/automatic.h,
 * and says what goes by unanswered. Each core counts in memory of its own; the daemon reads the sums
 * (daemon/counts.c) and decides.
 *
 * Must never: decide; run for a service whose entry does not say `automatic`.
 */
#ifndef TG_DPDK_AUTOMATIC_H
#define TG_DPDK_AUTOMATIC_H

#include "worker.h"

/* So many handshakes of a client's packet's tuple were completed. */
static inline void tg_auto_done(struct tg_worker *w, const struct tg_packet *pkt, uint32_t id,
				uint32_t many)
{
	if (TG_LIKELY(!w->config->services[id].automatic))
		return;
	w->rows[id].count[TG_COUNT_handshake] += many;
	w->automatic.places[tg_place_of(tg_place_prefix(pkt), id)].handshakes += many;
}

/* A SYN that goes on; 0 or TG_SAMPLE: what it counts for. */
static inline uint32_t tg_auto_weight(struct tg_worker *w, const struct tg_packet *syn)
{
	uint64_t hash = tg_sample_of_client(syn, w->automatic.key);

	if (TG_LIKELY(!tg_sample_has(hash)))
		return 0;
	tg_sample_syn(&w->automatic.samples[tg_sample_at(hash)], hash, syn->seq);
	return TG_SAMPLE;
}

/* A SYN to a service in mode AUTO: true if it is to be answered. It is counted. */
static inline bool tg_auto_syn(struct tg_worker *w, const struct tg_packet *syn, uint32_t id)
{
	uint32_t at = tg_place_of(tg_place_prefix(syn), id);
	bool on = tg_config_place_is_on(w->config, at);
	uint32_t weight = on ? 1 : tg_auto_weight(w, syn);

	if (weight) {
		w->rows[id].count[TG_COUNT_detect_syn] += weight;
		tg_place_syns(&w->automatic.places[at], syn, id, weight);
	}
	return on;
}

/* A SYN-ACK to anything but a service. */
static inline void tg_auto_synack(struct tg_worker *w, const struct tg_packet *pkt)
{
	uint64_t hash = tg_sample_of_server(pkt, w->automatic.key);

	if (tg_sample_has(hash))
		tg_sample_synack(&w->automatic.samples[tg_sample_at(hash)], hash, pkt->seq, pkt->ack);
}

/* A client's packet that is no SYN, to an automatic service: true if it completes a handshake of the sample. */
static inline bool tg_auto_ack(struct tg_worker *w, const struct tg_packet *pkt)
{
	uint64_t hash = tg_sample_of_client(pkt, w->automatic.key);

	return TG_UNLIKELY(tg_sample_has(hash)) && tg_host_is_ack(pkt) &&
	       tg_sample_ack(&w->automatic.samples[tg_sample_at(hash)], hash, pkt->seq, pkt->ack);
}

/* True for a SYN to a service whose mode is not off that goes by; nothing is counted. */
static inline bool tg_auto_lets_by(const struct tg_config *config, const struct tg_packet *syn,
				   uint32_t id)
{
	return TG_UNLIKELY(config->services[id].mode == TG_MODE_AUTO) &&
	       !tg_config_place_is_on(config, tg_place_of(tg_place_prefix(syn), id)) &&
	       !tg_config_denies(config, syn->family, &syn->src);
}

/* A packet to an automatic service, without a flow: true if it goes by. It is counted. A denied SYN
 * is dropped, whatever the detector says, and tells it nothing. */
static inline bool tg_auto_goes_by(struct tg_worker *w, const struct tg_packet *pkt, uint32_t id)
{
	const struct tg_service *svc = &w->config->services[id];

	if (!tg_host_is_syn(pkt)) {
		if (tg_auto_ack(w, pkt))
			tg_auto_done(w, pkt, id, TG_SAMPLE);
		return !tg_service_verifies(svc);
	}
	if (svc->mode != TG_MODE_AUTO || tg_config_denies(w->config, pkt->family, &pkt->src) ||
	    tg_auto_syn(w, pkt, id))
		return false;
	w->rows[id].count[TG_COUNT_syn]++;
	return true;
}

#endif
