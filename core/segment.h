/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * A TCP segment without data that a gate makes itself: the SYN and the ACK with
 * which it opens a connection to a server, RSTs, window updates. Written whole,
 * with whole checksums; IP header without options or extension headers.
 *
 * Must never: read the packet that it overwrites.
 */
#ifndef TG_SEGMENT_H
#define TG_SEGMENT_H

#include "checksum.h"
#include "packet.h"
#include "tcp_options.h"

enum tg_segment_options {
	TG_SEGMENT_PLAIN,      /* none */
	TG_SEGMENT_TIMESTAMPS, /* NOP, NOP, timestamps: every segment after the SYN (RFC 7323) */
	TG_SEGMENT_HANDSHAKE,  /* what tg_tcp_options_write writes: a SYN */
};

struct tg_segment {
	union tg_addr src, dst; /* of the segment to be written */
	uint32_t ports;         /* source port low, destination port high, as on the wire */
	uint32_t seq, ack;      /* host order */
	uint32_t l3_off;        /* bytes from the start of the frame to the IP header */
	struct tg_tcp_options options;
	uint16_t window;
	uint8_t flags;
	uint8_t kind; /* enum tg_segment_options */
	uint8_t family;
	uint8_t ttl;
	uint8_t dscp; /* the six bits; ECN is 0, as a handshake must have it (RFC 3168) */
	bool reflect; /* it leaves by the port that the packet in hand came from */
};

TG_INLINE uint32_t tg_segment_ip_len(const struct tg_segment *s)
{
	return s->family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN;
}

TG_INLINE uint32_t tg_segment_tcp_len(const struct tg_segment *s)
{
	if (s->kind == TG_SEGMENT_HANDSHAKE)
		return TG_TCP_HDR_LEN + tg_tcp_options_len(&s->options);
	return TG_TCP_HDR_LEN + (s->kind == TG_SEGMENT_TIMESTAMPS ? 12 : 0);
}

/* Bytes from the IP header to the end. */
TG_INLINE uint32_t tg_segment_len(const struct tg_segment *s)
{
	return tg_segment_ip_len(s) + tg_segment_tcp_len(s);
}

/* Writes the IP header; adds the pseudo-header to the TCP sum. */
TG_INLINE bool tg_segment_write_ip(struct tg_writer *w, const struct tg_segment *s,
				   uint32_t tcp_len, uint64_t *tcp_sum)
{
	uint32_t i;

	if (s->family == 4) {
		uint32_t w0 = TG_WIRE32(0x45, s->dscp << 2, (TG_IPV4_HDR_LEN + tcp_len) >> 8,
					TG_IPV4_HDR_LEN + tcp_len);
		uint32_t w1 = TG_WIRE32(0, 0, 0x40, 0); /* ID 0 with DF: RFC 6864 */
		uint32_t w2 = TG_WIRE32(s->ttl, TG_IPPROTO_TCP, 0, 0);
		uint64_t addrs = (uint64_t)s->src.w[0] + s->dst.w[0];

		if (!tg_writer_has(w, TG_IPV4_HDR_LEN))
			return false;
		tg_store32(w->at, w0);
		tg_store32(w->at + 4, w1);
		tg_store32(w->at + 8,
			   w2 | (uint32_t)tg_csum_finish_words((uint64_t)w0 + w1 + w2 + addrs) << 16);
		tg_store32(w->at + 12, s->src.w[0]);
		tg_store32(w->at + 16, s->dst.w[0]);
		w->at += TG_IPV4_HDR_LEN;
		*tcp_sum += addrs;
	} else {
		if (!tg_writer_has(w, TG_IPV6_HDR_LEN))
			return false;
		tg_store32(w->at, TG_WIRE32(0x60 | s->dscp >> 2, s->dscp << 6, 0, 0));
		tg_store32(w->at + 4, TG_WIRE32(tcp_len >> 8, tcp_len, TG_IPPROTO_TCP, s->ttl));
		for (i = 0; i < 4; i++) {
			tg_store32(w->at + 8 + 4 * i, s->src.w[i]);
			tg_store32(w->at + 24 + 4 * i, s->dst.w[i]);
			*tcp_sum += (uint64_t)s->src.w[i] + s->dst.w[i];
		}
		w->at += TG_IPV6_HDR_LEN;
	}
	*tcp_sum += TG_WIRE32(0, TG_IPPROTO_TCP, tcp_len >> 8, tcp_len);
	return true;
}

/* Writes the segment from the IP header on. `w` must have tg_segment_len bytes;
 * false (with the bytes undefined) if it has not. */
TG_INLINE bool tg_segment_write(struct tg_writer w, const struct tg_segment *s)
{
	uint32_t tcp_len = tg_segment_tcp_len(s);
	uint32_t w3 = TG_WIRE32(tcp_len / 4 << 4, s->flags, s->window >> 8, s->window);
	uint64_t sum = 0;
	uint8_t *tcp;
	bool ok = true;

	if (!tg_segment_write_ip(&w, s, tcp_len, &sum) || !tg_writer_has(&w, TG_TCP_HDR_LEN))
		return false;
	tcp = w.at;
	sum += (uint64_t)s->ports + tg_swap32(s->seq) + tg_swap32(s->ack) + w3;
	tg_store32(tcp, s->ports);
	tg_store32(tcp + TG_TCP_SEQ, tg_swap32(s->seq));
	tg_store32(tcp + TG_TCP_ACKED, tg_swap32(s->ack));
	tg_store32(tcp + TG_TCP_DOFF, w3);
	w.at += TG_TCP_HDR_LEN;
	if (s->kind == TG_SEGMENT_HANDSHAKE) {
		ok = tg_tcp_options_write(&w, &s->options, &sum);
	} else if (s->kind == TG_SEGMENT_TIMESTAMPS) {
		ok = tg_writer_put32(&w,
				     TG_WIRE32(TG_TCPOPT_NOP, TG_TCPOPT_NOP, TG_TCPOPT_TIMESTAMP, 10),
				     &sum) &&
		     tg_writer_put32(&w, tg_swap32(s->options.tsval), &sum) &&
		     tg_writer_put32(&w, tg_swap32(s->options.tsecr), &sum);
	}
	if (!ok)
		return false;
	tg_store32(tcp + TG_TCP_SUM, tg_csum_finish_words(sum)); /* urgent pointer 0 */
	return true;
}

#endif
