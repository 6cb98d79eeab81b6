/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What each server behind a proxy answers to TCP options, and what clients are offered because of
 * it: never an option that their server would not have agreed to.
 *
 * A server is not probed before a client has verified, or a flood would cause probes. So clients of
 * an unknown server are offered the least that RFC 9293 allows, and the first of them that verifies
 * causes a probe: the SYN in its name offers everything, the answer is learned and reset, and a
 * second SYN offers what the client was offered. That costs one client one more round trip between
 * proxy and server. It is repeated when what is known is five minutes old, or in doubt.
 *
 * A client could answer in its server's name, and so decide for all the others what the server
 * agrees to. Therefore the SYN that probes has a number that the client does not know
 * (tg_flow_syn_isn), and nothing is learned from other SYNs: what contradicts it only causes
 * another probe.
 */
#ifndef TG_SERVERS_H
#define TG_SERVERS_H

#include "cookie.h"
#include "packet.h"
#include "service.h"
#include "tcp_options.h"

#define TG_LEARNED_FRESH_MS (5 * 60 * 1000)
#define TG_LEARNED_DOUBT_MS 1000 /* how long what was learned is trusted */

/* One server: an address and a port. Map ABI. */
struct tg_server_key {
	union tg_addr addr;
	uint16_t port_be;
	uint8_t family;
	uint8_t pad[5];
};
_Static_assert(sizeof(struct tg_server_key) == 24, "map ABI");

/* What it answers to a SYN that offers everything. Map ABI. */
struct tg_learned {
	uint32_t asked_ms; /* when it was last asked for everything, coarse clock */
	uint16_t mss;
	uint8_t wscale; /* TG_WSCALE_NONE: it does not scale */
	uint8_t sack;
	uint8_t timestamps;
	uint8_t ecn;
	uint8_t pad[2];
};
_Static_assert(sizeof(struct tg_learned) == 12, "map ABI");

/* The same once more without the time, for a gate that is asked about few servers a million times a second: a table of
 * TG_SERVERS_NEAR places by the server's hash. What is learned overwrites whoever has the place; who is not here may still
 * be known. Nothing locks an entry, so `check` is the hash xor `gives`: halves of two writes do not fit each other. Map ABI. */
#define TG_SERVERS_NEAR_BITS 12
#define TG_SERVERS_NEAR (1U << TG_SERVERS_NEAR_BITS)

/* `gives`: the window scale from bit 16, the MSS below it, and these. */
#define TG_SERVER_GIVES (1ULL << 63) /* it says something */
#define TG_SERVER_SACK (1ULL << 24)
#define TG_SERVER_TIMESTAMPS (1ULL << 25)
#define TG_SERVER_ECN (1ULL << 26)

struct tg_server_near {
	uint64_t check;
	uint64_t gives;
};
_Static_assert(sizeof(struct tg_server_near) == 16, "map ABI");

/* Keyed with what senders do not know, so that they cannot choose addresses that share a place. */
TG_INLINE uint64_t tg_server_hash(const union tg_addr *addr, uint16_t port_be, uint8_t family,
				  uint64_t salt)
{
	uint64_t h = (addr->d[0] ^ salt) * TG_MIX1 + port_be;

	if (family == 6)
		h = ((h ^ h >> 32) + addr->d[1]) * TG_MIX3;
	return (h ^ h >> 29) * TG_MIX2;
}

TG_INLINE uint32_t tg_server_place(uint64_t hash)
{
	return (uint32_t)(hash >> (64 - TG_SERVERS_NEAR_BITS));
}

TG_INLINE uint64_t tg_server_gives(const struct tg_learned *l)
{
	return TG_SERVER_GIVES | (l->ecn ? TG_SERVER_ECN : 0) |
	       (l->timestamps ? TG_SERVER_TIMESTAMPS : 0) | (l->sack ? TG_SERVER_SACK : 0) |
	       (uint64_t)l->wscale << 16 | l->mss;
}

TG_INLINE struct tg_server_near tg_server_near(uint64_t hash, uint64_t gives)
{
	return (struct tg_server_near){hash ^ gives, gives};
}

/* What the server with that hash gives, if the entry is about it; else 0. */
TG_INLINE uint64_t tg_server_recalled(const struct tg_server_near *near, uint64_t hash)
{
	uint64_t gives = near->gives;

	return (near->check ^ gives) == hash ? gives : 0;
}

/* What is known of a server that gives this, but for the time. */
TG_INLINE struct tg_learned tg_learned_of(uint64_t gives)
{
	return (struct tg_learned){
		.mss = (uint16_t)gives,
		.wscale = (uint8_t)(gives >> 16),
		.sack = (gives & TG_SERVER_SACK) != 0,
		.timestamps = (gives & TG_SERVER_TIMESTAMPS) != 0,
		.ecn = (gives & TG_SERVER_ECN) != 0,
	};
}

/* What the configuration fixes, whatever servers answer. */
enum tg_fixed {
#define TG_ABI_FIXED(name, number, word, help) TG_FIXED_##name = number,
#include "abi.def"
};

/* The server that a packet of a client is for; with `back`, that it came from. */
TG_INLINE struct tg_server_key tg_server_key(const struct tg_packet *pkt, bool back)
{
	return (struct tg_server_key){
		.addr = back ? pkt->src : pkt->dst,
		.port_be = (uint16_t)(back ? pkt->ports : pkt->ports >> 16),
		.family = pkt->family,
	};
}

/* What clients of this server are offered; `l` is NULL if nothing is known of it. */
TG_INLINE struct tg_service tg_service_advertised(const struct tg_service *svc, uint8_t fixed,
						  const struct tg_learned *l, uint8_t family)
{
	struct tg_service advertised = *svc;
	uint16_t mss = l ? l->mss : tg_mss_least(family);

	if (!(fixed & TG_FIXED_MSS)) {
		if (advertised.mss_v4 > mss)
			advertised.mss_v4 = mss;
		if (advertised.mss_v6 > mss)
			advertised.mss_v6 = mss;
	}
	if (!(fixed & TG_FIXED_WSCALE))
		advertised.wscale = l ? l->wscale : TG_WSCALE_NONE;
	advertised.sack = svc->sack && l && l->sack;
	advertised.timestamps = svc->timestamps && l && l->timestamps;
	advertised.ecn = svc->ecn && l && l->ecn;
	return advertised;
}

/* True if the server is to be probed. */
TG_INLINE bool tg_learned_is_stale(const struct tg_learned *l, uint32_t now_ms)
{
	return !l || now_ms - l->asked_ms >= TG_LEARNED_FRESH_MS;
}

/* RFC 3168 section 6.1.1: an ECN-setup SYN-ACK has ECE and not CWR. */
TG_INLINE bool tg_synack_gives_ecn(const struct tg_packet *synack)
{
	return (synack->flags & (TG_TCP_ECE | TG_TCP_CWR)) == TG_TCP_ECE;
}

/* The MSS that a server announces: never less than any host must accept. */
TG_INLINE uint16_t tg_mss_given(uint8_t family, const struct tg_tcp_options *o)
{
	uint16_t least = tg_mss_least(family);

	return o->mss > least ? o->mss : least;
}

/* A SYN-ACK to a SYN that did not probe contradicts what is known: the next client's SYN probes. At
 * most once a second, because it may be forged. */
TG_INLINE void tg_learned_doubt(struct tg_learned *l, const struct tg_packet *synack,
				const struct tg_tcp_options *o, uint32_t now_ms)
{
	if (l->mss != tg_mss_given(synack->family, o) && now_ms - l->asked_ms >= TG_LEARNED_DOUBT_MS)
		l->asked_ms = now_ms - TG_LEARNED_FRESH_MS;
}

/* What the SYN-ACK to a SYN that offered everything says. */
TG_INLINE struct tg_learned tg_learn(const struct tg_packet *synack, const struct tg_tcp_options *o,
				     uint32_t now_ms)
{
	return (struct tg_learned){
		.asked_ms = now_ms,
		.mss = tg_mss_given(synack->family, o),
		.wscale = o->wscale,
		.sack = o->sack_ok,
		.timestamps = o->ts_ok,
		.ecn = tg_synack_gives_ecn(synack),
	};
}

/* A server's SYN-ACK, to a SYN that offered everything (`asked`) or to another; `known` is what the table has of it, or NULL.
 * True: *l is to be put there. */
TG_INLINE bool tg_server_heard(struct tg_learned *known, bool asked, const struct tg_packet *synack,
			       const struct tg_tcp_options *o, uint32_t now_ms, struct tg_learned *l)
{
	if (asked)
		*l = tg_learn(synack, o, now_ms);
	else if (known)
		tg_learned_doubt(known, synack, o, now_ms);
	return asked;
}

#endif
