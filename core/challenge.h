/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Challenges without a cookie, with which strategies auth-full, auth-wrong and auth-ttl answer
 * SYNs, and the responses to them.
 */
#ifndef TG_CHALLENGE_H
#define TG_CHALLENGE_H

#include "segment.h"
#include "service.h"
#include "siphash.h"

/* The words that are hashed of an IPv4 SYN; they may be vectors, a SYN in each lane. */
#define TG_CHALLENGE_V4_WORD(src, ports) ((src) | (ports) << 32)
#define TG_CHALLENGE_V4_TAIL(client_isn, ttl)                                                      \
	((client_isn) | (uint64_t)(ttl) << 32 | TG_SIPHASH_LEN(4 + 4 + 4 + 1))
/* The last word of an IPv6 SYN's: its addresses' halves, and ports | number << 32, come before. */
#define TG_CHALLENGE_V6_TAIL(ttl) ((ttl) | TG_SIPHASH_LEN(16 + 4 + 4 + 1))

/* The ISN of a challenge without a cookie. It distinguishes an answer to a challenge from a segment
 * of a connection that is older than the proxy. With auth-ttl it encodes the SYN's TTL too, so that
 * nothing is stored, and is the only proof of a source; otherwise ttl is 0. SipHash-1-3 of address,
 * ports, the client's ISN and TTL: a client that sees any number of challenges to itself cannot
 * compute one to another. */
TG_INLINE uint32_t tg_challenge_isn(const struct tg_packet *pkt, uint32_t client_isn, uint8_t ttl,
				    const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_siphash_begin(key);

	if (pkt->family == 4) {
		tg_siphash13_word(&s, TG_CHALLENGE_V4_WORD(pkt->src.d[0], (uint64_t)pkt->ports));
		return (uint32_t)tg_siphash13_end(&s, TG_CHALLENGE_V4_TAIL(client_isn, ttl));
	}
	tg_siphash13_word(&s, pkt->src.d[0]);
	tg_siphash13_word(&s, pkt->src.d[1]);
	tg_siphash13_word(&s, pkt->ports | (uint64_t)client_isn << 32);
	return (uint32_t)tg_siphash13_end(&s, TG_CHALLENGE_V6_TAIL(ttl));
}

/* True if the ACK, which came with this TTL, answers a challenge of ours, as the
 * first segment after it. */
TG_INLINE bool tg_challenge_answered(const struct tg_packet *ack, uint8_t ttl,
				     const struct tg_siphash_key *key)
{
	return ack->ack - 1 == tg_challenge_isn(ack, ack->seq - 1, ttl, key);
}

/* A plain challenge: MSS alone, so that the client's answer is as short as it
 * can be. `wrong`: acknowledge what was never sent, which a client in SYN-SENT
 * answers with a RST (RFC 9293 section 3.10.7.3), and sends its SYN again. */
TG_INLINE struct tg_segment tg_challenge(const struct tg_packet *syn, const struct tg_service *svc,
					 uint8_t ttl, const struct tg_siphash_key *key, bool wrong)
{
	uint32_t isn = tg_challenge_isn(syn, syn->seq, ttl, key);

	return (struct tg_segment){
		.src = syn->dst,
		.dst = syn->src,
		.ports = syn->ports << 16 | syn->ports >> 16,
		.seq = isn,
		.ack = wrong ? syn->seq + 0x40000000U + (isn & 0x3fffffffU) : syn->seq + 1,
		.l3_off = syn->l3_off,
		.options = {.mss = syn->family == 4 ? svc->mss_v4 : svc->mss_v6,
			    .wscale = TG_WSCALE_NONE},
		.window = svc->window,
		.flags = TG_TCP_SYN | TG_TCP_ACK,
		.kind = TG_SEGMENT_HANDSHAKE,
		.family = syn->family,
		.ttl = 64,
		.reflect = true,
	};
}

/* A RST for the sender of `pkt`, from its destination: RFC 9293 section 3.10.7.1. */
TG_INLINE struct tg_segment tg_reset_for(const struct tg_packet *pkt)
{
	return (struct tg_segment){
		.src = pkt->dst,
		.dst = pkt->src,
		.ports = pkt->ports << 16 | pkt->ports >> 16,
		.seq = pkt->ack,
		.l3_off = pkt->l3_off,
		.flags = TG_TCP_RST,
		.kind = TG_SEGMENT_PLAIN,
		.family = pkt->family,
		.ttl = 64,
		.reflect = true,
	};
}

#endif
