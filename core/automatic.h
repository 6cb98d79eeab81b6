/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Mode auto: where SYNs and completed handshakes are counted, and how a gate on the path
 * recognises, for a sample, that a handshake was completed. The daemon decides from the counts
 * (internal/detect).
 *
 * Must never: decide; store more than these tables, whatever arrives.
 */
#ifndef TG_AUTOMATIC_H
#define TG_AUTOMATIC_H

#include "service.h"

/* Counts of the destination addresses (IPv4) or /64 prefixes (IPv6) of services. Each has a place;
 * those that share one are counted, and answered for, together: a table of fixed size cannot be
 * filled. */
#define TG_PLACES 1024U

struct tg_place {
	uint64_t syns;
	uint64_t handshakes;
	uint64_t prefix; /* the last one that was counted here, as it stands in the packet */
	uint32_t service;
	uint32_t family;
};
_Static_assert(sizeof(struct tg_place) == 32, "map ABI");

TG_INLINE uint64_t tg_place_prefix(const struct tg_packet *to_service)
{
	return to_service->family == 4 ? to_service->dst.w[0] : to_service->dst.d[0];
}

TG_INLINE uint32_t tg_place_of(uint64_t prefix, uint32_t service)
{
	uint64_t h = (prefix ^ (uint64_t)service << 40) * 0x9e3779b97f4a7c15ULL;

	return (uint32_t)(h >> 54);
}
_Static_assert(TG_PLACES == 1U << (64 - 54), "tg_place_of");

/* Counts SYNs to a place, and notes whose it is. */
TG_INLINE void tg_place_count(struct tg_place *p, uint64_t prefix, uint32_t family,
			      uint32_t service, uint32_t many)
{
	p->syns += many;
	p->prefix = prefix;
	p->service = service;
	p->family = family;
}

TG_INLINE void tg_place_syns(struct tg_place *p, const struct tg_packet *syn, uint32_t service,
			     uint32_t many)
{
	tg_place_count(p, tg_place_prefix(syn), syn->family, service, many);
}

/* A gate on the path sees handshakes pass. It stores one SYN of a sample, then the SYN-ACK; the ACK
 * that matches both completes the handshake. A forged ACK does not match. */
#define TG_SAMPLE 16U
#define TG_SAMPLES 16384U

struct tg_sample {
	uint32_t tag; /* 0: none */
	uint32_t client_next; /* the sequence number of the client's ACK */
	uint32_t server_next; /* what it acknowledges; valid if `answered` */
	uint32_t answered;
};
_Static_assert(sizeof(struct tg_sample) == 16, "map ABI");

/* The hash of the client's and server's addresses and ports, in the order of the client's packets.
 * Keyed, so that outsiders do not know which tuples are sampled. */
TG_INLINE uint64_t tg_sample_hash(uint8_t family, const union tg_addr *client,
				  const union tg_addr *server, uint32_t ports, uint64_t key)
{
	uint64_t a = family == 4 ? client->w[0]
				 : client->d[0] + (client->d[1] << 23 | client->d[1] >> 41);
	uint64_t b = family == 4 ? server->w[0]
				 : server->d[0] + (server->d[1] << 23 | server->d[1] >> 41);
	uint64_t h = (a ^ key) * 0x9e3779b97f4a7c15ULL;

	h = ((h ^ h >> 32) ^ b) * 0xff51afd7ed558ccdULL;
	h = ((h ^ h >> 29) ^ ports ^ key >> 32) * 0xc4ceb9fe1a85ec53ULL;
	return h ^ h >> 32;
}

/* The hash of a client's packet, and of a server's. */
TG_INLINE uint64_t tg_sample_of_client(const struct tg_packet *pkt, uint64_t key)
{
	return tg_sample_hash(pkt->family, &pkt->src, &pkt->dst, pkt->ports, key);
}

TG_INLINE uint64_t tg_sample_of_server(const struct tg_packet *pkt, uint64_t key)
{
	return tg_sample_hash(pkt->family, &pkt->dst, &pkt->src,
			      pkt->ports << 16 | pkt->ports >> 16, key);
}

TG_INLINE bool tg_sample_has(uint64_t hash)
{
	return (hash & (TG_SAMPLE - 1)) == 0;
}

TG_INLINE uint32_t tg_sample_at(uint64_t hash)
{
	return (uint32_t)(hash >> 4) & (TG_SAMPLES - 1);
}

TG_INLINE uint32_t tg_sample_tag(uint64_t hash)
{
	return (uint32_t)(hash >> 32) | 1;
}

TG_INLINE void tg_sample_syn(struct tg_sample *s, uint64_t hash, uint32_t seq)
{
	s->answered = 0;
	s->client_next = seq + 1;
	s->tag = tg_sample_tag(hash);
}

TG_INLINE void tg_sample_synack(struct tg_sample *s, uint64_t hash, uint32_t seq, uint32_t ack)
{
	if (s->tag != tg_sample_tag(hash) || s->client_next != ack)
		return;
	s->server_next = seq + 1;
	s->answered = 1;
}

/* True, once, for the ACK that completes it. */
TG_INLINE bool tg_sample_ack(struct tg_sample *s, uint64_t hash, uint32_t seq, uint32_t ack)
{
	if (s->tag != tg_sample_tag(hash) || !s->answered || s->client_next != seq ||
	    s->server_next != ack)
		return false;
	s->tag = 0;
	return true;
}

#endif
