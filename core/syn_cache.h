/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Strategy `cache`: half-open connections in a table of fixed size. A keyed hash of addresses and
 * ports names a bucket of eight places; a newcomer takes a free place, or one whose client has had its time.
 * So a SYN costs one hash and one bucket, whatever arrived before it, unlike the linear list of a
 * listen queue. If the clients of all eight may still answer, the newcomer gets a cookie, and the
 * bucket notes the epoch: it accepts cookies only while one that it gave may come back.
 *
 * A place is a head, which tells owner and age, and a body. Heads of a bucket share a cache line, if
 * the plane puts buckets where one begins, and the epoch stands in the next one: both are all that a
 * flood's SYN touches of a full bucket.
 * CPUs share places without locks: a writer takes a place by a compare-and-swap of its head to
 * TG_HALFOPEN_BUSY, fills the body, and sets the head; a reader reads head, body, and the head
 * again, and trusts the body if the head is unchanged. Loads stay in order on x86-64; a plane on a
 * weaker machine must order them at tg_halfopen_still.
 *
 *    63                    36  35    32  31                       0
 *   +------------------------+---------+---------------------------+
 *   |  tag: hash bits 36-63  |  sent   |  tick of the first SYN    |  head; 0: free
 *   +------------------------+---------+---------------------------+
 *
 * Must never: reveal by what it sends which bucket a connection is in. The ISN
 * takes hash bits 0-31, the bucket bits from 32 on; or the bucket has a hash of its own
 * (syn_cache_front.h).
 */
#ifndef TG_SYN_CACHE_H
#define TG_SYN_CACHE_H

#include "host.h"
#include "segment.h"
#include "siphash.h"

#define TG_HALFOPEN_WAYS 8
#define TG_HALFOPEN_LINK_LEN 22 /* Ethernet with two VLAN tags */
#define TG_HALFOPEN_BUSY (~0ULL)
#define TG_HALFOPEN_TAG_SHIFT 36
#define TG_HALFOPEN_SENT_SHIFT 32
#define TG_HALFOPEN_SENT_ONE (1ULL << TG_HALFOPEN_SENT_SHIFT)

/* Time in ticks of 2^20 ns, about a millisecond. A SYN-ACK is sent again after
 * 1, 3 and 7 s (RFC 6298: 1 s, doubled); after 15 s the client has gone. */
#define TG_HALFOPEN_TICK(ns) ((uint32_t)((ns) >> 20))
#define TG_HALFOPEN_SECOND 954
#define TG_HALFOPEN_SENDS 4
#define TG_HALFOPEN_LIFE (((1 << TG_HALFOPEN_SENDS) - 1) * TG_HALFOPEN_SECOND)

enum tg_halfopen_flag {
	TG_HALFOPEN_V6 = 1,
	TG_HALFOPEN_SACK = 2, /* agreed */
	TG_HALFOPEN_TS = 4,
	TG_HALFOPEN_ECN = 8,
};

/* What a client's SYN offered and how it was answered. Part of the map ABI. */
struct tg_halfopen {
	uint16_t cookie_epoch; /* of the bucket, in its first place: TG_HALFOPEN_EPOCH; 0: never */
	uint16_t service; /* id */
	uint32_t ports; /* as the client sends them */
	union tg_addr client, server;
	uint32_t client_isn; /* host order */
	uint32_t isn; /* ours; with timestamps, our TSval, too */
	uint32_t client_tsval; /* valid if TG_HALFOPEN_TS */
	uint32_t ifindex; /* the port that the SYN came by, as the plane numbers it */
	uint16_t client_mss; /* as it was offered; never rounded */
	uint16_t advertised_mss;
	uint16_t window; /* of our SYN-ACK */
	uint8_t client_wscale; /* TG_WSCALE_NONE: not agreed */
	uint8_t advertised_wscale;
	uint8_t flags; /* enum tg_halfopen_flag, or-ed */
	uint8_t l3_off;
	uint8_t link[TG_HALFOPEN_LINK_LEN]; /* the answer's link header: l3_off bytes */
};
_Static_assert(sizeof(struct tg_halfopen) == 88, "map ABI");

struct tg_halfopen_bucket {
	uint64_t heads[TG_HALFOPEN_WAYS];
	struct tg_halfopen halfopens[TG_HALFOPEN_WAYS];
};
_Static_assert(sizeof(struct tg_halfopen_bucket) == 768, "96 bytes a half-open connection");
_Static_assert(sizeof(((struct tg_halfopen_bucket *)0)->heads) == 64, "one cache line");

/* The epoch in which a bucket has last given a cookie, in 15 bits and one that is set. */
#define TG_HALFOPEN_EPOCH(epoch) ((uint16_t)((epoch) | 0x8000))

/* Of addresses and ports of a client's packet: SipHash-2-4 of them as on the wire. */
TG_INLINE uint64_t tg_halfopen_hash(const struct tg_packet *pkt, const struct tg_siphash_key *key)
{
	struct tg_siphash s = tg_siphash_begin(key);

	if (pkt->family == 4) {
		tg_siphash_word(&s, pkt->src.d[0] | pkt->dst.d[0] << 32);
		return tg_siphash_end(&s, TG_TUPLE_TAIL(4, pkt->ports));
	}
	tg_siphash_word(&s, pkt->src.d[0]);
	tg_siphash_word(&s, pkt->src.d[1]);
	tg_siphash_word(&s, pkt->dst.d[0]);
	tg_siphash_word(&s, pkt->dst.d[1]);
	return tg_siphash_end(&s, TG_TUPLE_TAIL(6, pkt->ports));
}

/* `mask` is the number of buckets, a power of two, less one. */
TG_INLINE uint32_t tg_halfopen_index(uint64_t hash, uint32_t mask)
{
	return (uint32_t)(hash >> 32) & mask;
}

/* RFC 6528: a secret function of the tuple plus a clock of about 4 µs. */
TG_INLINE uint32_t tg_halfopen_isn(uint64_t hash, uint64_t now_ns)
{
	return (uint32_t)hash + (uint32_t)(now_ns >> 12);
}

TG_INLINE uint64_t tg_halfopen_head(uint64_t hash, uint32_t tick, uint32_t sent)
{
	return (hash >> TG_HALFOPEN_TAG_SHIFT << TG_HALFOPEN_TAG_SHIFT) |
	       (uint64_t)sent << TG_HALFOPEN_SENT_SHIFT | tick;
}

TG_INLINE uint32_t tg_halfopen_age(uint64_t head, uint32_t tick)
{
	return tick - (uint32_t)head;
}

TG_INLINE uint32_t tg_halfopen_sent(uint64_t head)
{
	return (uint32_t)(head >> TG_HALFOPEN_SENT_SHIFT) & 15;
}

TG_INLINE uint64_t tg_halfopen_read(const uint64_t *head)
{
	uint64_t h = *(const volatile uint64_t *)head;

	TG_BARRIER();
	return h;
}

/* True if what was read of the body since `head` was read is one connection's. */
TG_INLINE bool tg_halfopen_still(const uint64_t *head, uint64_t was)
{
	TG_BARRIER();
	return *(const volatile uint64_t *)head == was;
}

/* Changes a head unless another CPU has changed it meanwhile. */
TG_INLINE bool tg_halfopen_swap(uint64_t *head, uint64_t was, uint64_t is)
{
	return __sync_val_compare_and_swap(head, was, is) == was;
}

/* Publishes a body that has been filled. */
TG_INLINE void tg_halfopen_publish(uint64_t *head, uint64_t is)
{
	TG_BARRIER();
	*(volatile uint64_t *)head = is;
}

TG_INLINE bool tg_halfopen_is(const struct tg_halfopen *h, const struct tg_packet *pkt)
{
	return h->ports == pkt->ports && h->client.d[0] == pkt->src.d[0] &&
	       h->server.d[0] == pkt->dst.d[0] && h->client.d[1] == pkt->src.d[1] &&
	       h->server.d[1] == pkt->dst.d[1] && !(h->flags & TG_HALFOPEN_V6) == (pkt->family == 4);
}

/* The place of the client's packet, with its head; TG_HALFOPEN_WAYS if it has none. */
TG_INLINE uint32_t tg_halfopen_find(const struct tg_halfopen_bucket *b, uint64_t hash,
				    const struct tg_packet *pkt, uint64_t *head)
{
	uint32_t i;

	for (i = 0; i < TG_HALFOPEN_WAYS; i++) {
		uint64_t h = tg_halfopen_read(&b->heads[i]);

		if (h >> TG_HALFOPEN_TAG_SHIFT == hash >> TG_HALFOPEN_TAG_SHIFT && h &&
		    h != TG_HALFOPEN_BUSY && tg_halfopen_is(&b->halfopens[i], pkt)) {
			*head = h;
			return i;
		}
	}
	return TG_HALFOPEN_WAYS;
}

/* The place for a newcomer, with its head: free, or the oldest. TG_HALFOPEN_WAYS if
 * others are writing in all of them. */
TG_INLINE uint32_t tg_halfopen_victim(const struct tg_halfopen_bucket *b, uint32_t tick,
				      uint64_t *head)
{
	uint32_t i, at = TG_HALFOPEN_WAYS, oldest = 0;

	for (i = 0; i < TG_HALFOPEN_WAYS; i++) {
		uint64_t h = tg_halfopen_read(&b->heads[i]);

		if (h == TG_HALFOPEN_BUSY)
			continue;
		if (!h) {
			*head = 0;
			return i;
		}
		if (at == TG_HALFOPEN_WAYS || tg_halfopen_age(h, tick) > oldest) {
			oldest = tg_halfopen_age(h, tick);
			at = i;
			*head = h;
		}
	}
	return at;
}

/* True if the client of this head may still answer: evicting it is a loss. */
TG_INLINE bool tg_halfopen_lives(uint64_t head, uint32_t tick)
{
	return head && tg_halfopen_age(head, tick) < TG_HALFOPEN_LIFE;
}

/* Notes that a client of the bucket is given a cookie. Written only if it changes: a flood fills
 * the bucket on all CPUs. */
TG_INLINE void tg_halfopen_gives_cookie(struct tg_halfopen_bucket *b, uint64_t epoch)
{
	uint16_t *last = &b->halfopens[0].cookie_epoch;

	if (*last != TG_HALFOPEN_EPOCH(epoch))
		*last = TG_HALFOPEN_EPOCH(epoch);
}

/* True if a cookie that the bucket gave may come back; `epoch` is the one that ACKs are held to. So
 * nobody can try cookies on a bucket that has given none: there, an ACK has to match 32 random bits. */
TG_INLINE bool tg_halfopen_takes_cookie(const struct tg_halfopen_bucket *b, uint64_t epoch)
{
	uint16_t last = b->halfopens[0].cookie_epoch;

	return last && (uint16_t)((TG_HALFOPEN_EPOCH(epoch) - last) & 0x7fff) <= 1;
}

/* True if the SYN-ACK is due to be retransmitted. */
TG_INLINE bool tg_halfopen_is_due(uint64_t head, uint32_t tick)
{
	uint32_t sent = tg_halfopen_sent(head);

	return head && head != TG_HALFOPEN_BUSY && sent < TG_HALFOPEN_SENDS &&
	       tg_halfopen_age(head, tick) < TG_HALFOPEN_LIFE &&
	       tg_halfopen_age(head, tick) >= ((1U << sent) - 1) * TG_HALFOPEN_SECOND;
}

/* The head after a retransmission of the SYN-ACK. Missed retransmissions are not made up for. */
TG_INLINE uint64_t tg_halfopen_retransmit(uint64_t head, uint32_t tick)
{
	uint32_t i;

	for (i = 0; i < TG_HALFOPEN_SENDS && tg_halfopen_is_due(head, tick); i++)
		head += TG_HALFOPEN_SENT_ONE;
	return head;
}

/* The head of a connection that has been completed: its place may be taken and nothing is
 * retransmitted; but its ACK is still accepted, in case the plane had no room for the connection
 * this time. */
TG_INLINE uint64_t tg_halfopen_done(uint64_t head, uint32_t tick)
{
	return tg_halfopen_head(head, tick - TG_HALFOPEN_LIFE, TG_HALFOPEN_SENDS);
}

/* Fills a body. `offered` are the SYN's options, `a` is what the service agrees to;
 * `frame` holds TG_HALFOPEN_LINK_LEN bytes at least. */
TG_INLINE void tg_halfopen_fill(struct tg_halfopen *h, const struct tg_packet *syn,
				const struct tg_tcp_options *offered, const struct tg_synack *a,
				uint32_t isn, const uint8_t *frame)
{
	bool scaled = a->options.wscale != TG_WSCALE_NONE;
	uint32_t i;

	h->client = syn->src;
	h->server = syn->dst;
	h->ports = syn->ports;
	h->client_isn = syn->seq;
	h->isn = isn;
	h->client_tsval = offered->tsval;
	/* RFC 9293 section 3.7.1: what an absent option means. */
	h->client_mss = offered->mss ? offered->mss : tg_mss_value(syn->family, 0);
	h->advertised_mss = a->options.mss;
	h->window = a->window;
	h->client_wscale = scaled ? offered->wscale : TG_WSCALE_NONE;
	h->advertised_wscale = a->options.wscale;
	h->flags = (syn->family == 4 ? 0 : TG_HALFOPEN_V6) |
		   (a->options.sack_ok ? TG_HALFOPEN_SACK : 0) |
		   (a->options.ts_ok ? TG_HALFOPEN_TS : 0) | (a->ecn ? TG_HALFOPEN_ECN : 0);
	h->l3_off = (uint8_t)syn->l3_off;
	for (i = 0; i < 6; i++) {
		h->link[i] = frame[6 + i];
		h->link[6 + i] = frame[i];
	}
	for (i = 12; i < TG_HALFOPEN_LINK_LEN; i++)
		h->link[i] = frame[i];
}

/* The SYN-ACK: the same each time that it is sent. */
TG_INLINE struct tg_segment tg_halfopen_answer(const struct tg_halfopen *h)
{
	return (struct tg_segment){
		.src = h->server,
		.dst = h->client,
		.ports = h->ports << 16 | h->ports >> 16,
		.seq = h->isn,
		.ack = h->client_isn + 1, /* never of data in the SYN (RFC 7413 section 3) */
		.l3_off = h->l3_off,
		.options = {.mss = h->advertised_mss,
			    .wscale = h->advertised_wscale,
			    .sack_ok = h->flags & TG_HALFOPEN_SACK,
			    .ts_ok = h->flags & TG_HALFOPEN_TS,
			    .tsval = h->isn,
			    .tsecr = h->client_tsval},
		.window = h->window,
		.flags = TG_TCP_SYN | TG_TCP_ACK | (h->flags & TG_HALFOPEN_ECN ? TG_TCP_ECE : 0),
		.kind = TG_SEGMENT_HANDSHAKE,
		.family = h->flags & TG_HALFOPEN_V6 ? 6 : 4,
		.ttl = TG_SYNACK_TTL,
		.reflect = true,
	};
}

/* True if the ACK may be a probe of a window of zero: without data, and with a number
 * one less than the next to be sent (Linux, tcp_xmit_probe_skb; RFC 1122 section
 * 4.2.2.17 leaves the form open). The SYN's number is then the packet's own. */
TG_INLINE bool tg_may_be_window_probe(const struct tg_packet *ack)
{
	return ack->l4_len == ack->tcp_hdr_len && !ack->as_probe;
}

/* True if the ACK completes this handshake: both numbers are exact, and the timestamp, if
 * negotiated, is echoed (RFC 7323 3.2). If the ACK that was to do so is lost, the next one is a
 * probe of our SYN-ACK's window of zero. */
TG_INLINE bool tg_halfopen_accepts(const struct tg_halfopen *h, const struct tg_packet *ack,
				   const struct tg_ack *ack_info)
{
	return (ack->seq == h->client_isn + 1 ||
		(ack->seq == h->client_isn && tg_may_be_window_probe(ack))) &&
	       ack->ack == h->isn + 1 &&
	       (!(h->flags & TG_HALFOPEN_TS) ||
		(ack_info->ts_ok && ack_info->cookie.tsval == h->isn));
}

/* True if the RST is the client's refusal of our SYN-ACK (RFC 5961 section 3: the exact number). */
TG_INLINE bool tg_halfopen_refused(const struct tg_halfopen *h, const struct tg_packet *rst)
{
	return (rst->flags & TG_TCP_RST) && rst->seq == h->client_isn + 1;
}

#endif
