/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Mode auto: counts SYNs and completed handshakes by service and by place (core/automatic.h), and says
 * whether a place is answered for. The daemon reads the counts and writes `tg_places_on`.
 *
 * Must never: run for a service whose entry does not say `automatic`.
 */
#ifndef TG_BPF_AUTOMATIC_H
#define TG_BPF_AUTOMATIC_H

#include "gate.h"
#include "../../core/automatic.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_PLACES);
	__type(key, __u32);
	__type(value, struct tg_place);
} tg_places SEC(".maps");

/* 1: SYNs are answered there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_PLACES);
	__type(key, __u32);
	__type(value, __u32);
} tg_places_on SEC(".maps");

/* So many handshakes of a client's packet's tuple were completed. A separate function, for the
 * stack. */
TG_GLOBAL int tg_auto_done(const struct tg_packet *pkt, __u32 many)
{
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_place *p;
	__u32 id, at;

	if (!pkt)
		return 0;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || !svc->automatic)
		return 0;
	row->count[TG_COUNT_handshake] += many;
	at = tg_place_of(tg_place_prefix(pkt), id);
	p = bpf_map_lookup_elem(&tg_places, &at);
	if (p)
		p->handshakes += many;
	return 0;
}

#ifdef TG_AUTO_SAMPLES
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SAMPLES);
	__type(key, __u32);
	__type(value, struct tg_sample);
} tg_samples SEC(".maps");

/* A SYN that goes on, 0 or TG_SAMPLE: what it counts for. */
static __always_inline __u32 tg_auto_weight(const struct tg_packet *syn,
					    const struct tg_host_settings *settings)
{
	__u64 hash = tg_sample_of_client(syn, settings->filter_keys[0]);
	__u32 at = tg_sample_at(hash);
	struct tg_sample *s;

	if (!tg_sample_has(hash))
		return 0;
	s = bpf_map_lookup_elem(&tg_samples, &at);
	if (s)
		tg_sample_syn(s, hash, syn->seq);
	return TG_SAMPLE;
}

/* A server's SYN-ACK. A separate function, for the stack. */
TG_GLOBAL int tg_auto_synack(const struct tg_packet *pkt)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_sample *s;
	__u64 hash;
	__u32 at;

	if (!pkt)
		return 0;
	hash = tg_sample_of_server(pkt, settings->filter_keys[0]);
	at = tg_sample_at(hash);
	if (!tg_sample_has(hash))
		return 0;
	s = bpf_map_lookup_elem(&tg_samples, &at);
	if (s)
		tg_sample_synack(s, hash, pkt->seq, pkt->ack);
	return 0;
}

/* A client's packet that is no SYN, to an automatic service: 1 if it completes a handshake of the sample. */
TG_GLOBAL int tg_auto_ack(const struct tg_packet *pkt)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_sample *s;
	__u64 hash;
	__u32 at;

	if (!pkt)
		return 0;
	hash = tg_sample_of_client(pkt, settings->filter_keys[0]);
	if (TG_LIKELY(!tg_sample_has(hash)))
		return 0;
	at = tg_sample_at(hash);
	s = bpf_map_lookup_elem(&tg_samples, &at);
	return s && tg_host_is_ack(pkt) && tg_sample_ack(s, hash, pkt->seq, pkt->ack);
}
#else
/* A SYN to a service in mode AUTO, to that destination prefix: true if it goes on, because nothing is
 * answered there; it is counted. Else false, and nothing is counted. The same as tg_auto_syn, at less
 * cost, for fast paths of gates that count every SYN. */
static __always_inline bool tg_auto_quiet(__u64 prefix, __u32 family, __u32 id)
{
	struct tg_counter_row *row = tg_counter_row_get(id);
	__u32 at = tg_place_of(prefix, id), *on;
	struct tg_place *p;

	p = bpf_map_lookup_elem(&tg_places, &at);
	on = bpf_map_lookup_elem(&tg_places_on, &at);
	if (!row || !p || !on || *on)
		return false;
	tg_count(row, TG_COUNT_syn);
	tg_count(row, TG_COUNT_detect_syn);
	tg_place_count(p, prefix, family, id, 1);
	return true;
}

static __always_inline __u32 tg_auto_weight(const struct tg_packet *syn,
					    const struct tg_host_settings *settings)
{
	(void)syn;
	(void)settings;
	return 1;
}
#endif

/* A SYN to a service in mode AUTO: 1 if it is to be answered. It is counted. A separate function,
 * for the stack. */
TG_GLOBAL int tg_auto_syn(const struct tg_packet *syn, __u32 id)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	__u32 at, weight = 1, *on;
	struct tg_place *p;

	if (!syn || !row)
		return 0;
	at = tg_place_of(tg_place_prefix(syn), id);
	p = bpf_map_lookup_elem(&tg_places, &at);
	on = bpf_map_lookup_elem(&tg_places_on, &at);
	if (!p || !on)
		return 0;
	if (!*on)
		weight = tg_auto_weight(syn, settings);
	if (!weight)
		return 0;
	row->count[TG_COUNT_detect_syn] += weight;
	tg_place_syns(p, syn, id, weight);
	return *on != 0;
}

#endif
