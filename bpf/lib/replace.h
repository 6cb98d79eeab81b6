/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Server role: a verified ACK meets a socket of an earlier connection of the same addresses and
 * ports. Behind an edge no SYN comes that would end it (RFC 9293 section 3.10.7.4, RFC 6191), so it
 * is ended here: the kernel is shown a RST with exactly the sequence number that it expects next,
 * and then the ACK, which meets the listener. A RST is safe where a SYN is not: of a SYN the kernel
 * would keep a request.
 *
 * (net.ipv4.tcp_rfc1337 must be 0, as it is by default: else TIME-WAIT ignores RSTs.)
 */
#ifndef TG_BPF_REPLACE_H
#define TG_BPF_REPLACE_H

#include "gate.h"
#include "sock_fields.h"
#include "../../core/cookie_strength.h"
#include "../../core/segment.h"

enum tg_meeting {
	TG_MEETS_ITS_OWN,  /* the socket was made from this very cookie, or is not ours to end */
	TG_MEETS_REPEATED, /* TIME-WAIT of the connection that this ACK has begun */
	TG_MEETS_OLD,
};

/* An ACK that repeats the beginning of a connection lies this close behind the end of it, in both
 * directions: what is acknowledged with a cookie of the last two epochs and longer than this, and
 * repeated after the connection has been closed, counts as new, and its client, which does not know
 * it, resets it. A new connection is taken for a repetition with a chance of 2^-16, if its client
 * chooses ISNs at random. */
#define TG_REPEAT_MAX (1U << 24)

/* A guessed weak cookie (core/cookie_strength.h) must not end a live connection, only one that is
 * ending anyway. */
static __always_inline bool tg_state_is_ending(__u32 state)
{
	return state == BPF_TCP_FIN_WAIT2 || state == BPF_TCP_LAST_ACK || state == BPF_TCP_CLOSING;
}

/* A request of the kernel's, for a SYN that was left to it, while the client took the cookie that
 * it got for the same SYN before or after. The kernel expects what follows that SYN. */
static __always_inline enum tg_meeting tg_request_met(const struct tg_packet *pkt, __u32 *rst_seq)
{
	*rst_seq = pkt->seq;
	return TG_MEETS_OLD;
}

/* `rst_seq` is what ends an OLD one. `sk` does not listen. `may_end_live`: the cookie is
 * strong enough. */
static __always_inline enum tg_meeting tg_socket_met(struct bpf_sock *sk, const struct tg_packet *pkt,
						     bool may_end_live, __u32 *rst_seq)
{
	struct tcp_timewait_sock *tw;
	struct bpf_tcp_sock *tp;

	if (sk->state == BPF_TCP_TIME_WAIT) {
		__u32 rcv_nxt, snd_nxt;

		tw = bpf_skc_to_tcp_timewait_sock(sk);
		if (!tw)
			return TG_MEETS_ITS_OWN;
		rcv_nxt = tw->tw_sk.__tw_common.skc_tw_rcv_nxt;
		snd_nxt = tw->tw_sk.__tw_common.skc_tw_snd_nxt;
		if (rcv_nxt - pkt->seq < TG_REPEAT_MAX && snd_nxt - pkt->ack < TG_REPEAT_MAX)
			return TG_MEETS_REPEATED;
		*rst_seq = rcv_nxt;
		return TG_MEETS_OLD;
	}
	tp = bpf_tcp_sock(sk);
	/* Our first sequence number is what is acknowledged less how much that is. */
	if (!tp || tp->snd_una - (__u32)tp->bytes_acked == pkt->ack ||
	    !(may_end_live || tg_state_is_ending(sk->state)))
		return TG_MEETS_ITS_OWN;
	*rst_seq = tp->rcv_nxt;
	return TG_MEETS_OLD;
}

/* Turns the packet in hand into a RST of its sender. Negative if it cannot be. */
static __always_inline int tg_become_reset(struct __sk_buff *skb, const struct tg_packet *pkt,
					   __u32 seq)
{
	struct tg_segment rst = {
		.src = pkt->src,
		.dst = pkt->dst,
		.ports = pkt->ports,
		.seq = seq,
		.flags = TG_TCP_RST,
		.kind = TG_SEGMENT_PLAIN,
		.family = pkt->family,
		.ttl = TG_SYNACK_TTL,
	};
	__u32 l3_off = pkt->l3_off & 31, len = l3_off + tg_segment_len(&rst);
	__u8 *data, *end;

	if (bpf_skb_change_tail(skb, len, 0) || bpf_skb_pull_data(skb, len))
		return -TG_EINVAL;
	bpf_csum_level(skb, BPF_CSUM_LEVEL_RESET); /* the device's verdict on the checksum */
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	return tg_segment_write((struct tg_writer){data + l3_off, end}, &rst) ? 0 : -TG_EINVAL;
}

#endif
