/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC egress (TCX), server role, translating: what the local stack (or a guest behind it) sends to
 * clients. Its SYN-ACK is absorbed: it determines the difference, becomes the ACK that the stack
 * waits for, and then the confirmation to the edge. Everything after it is translated.
 *
 * Must never: touch a segment of a connection that is not in the table; determine a difference
 * twice.
 */
#define TG_SKB
#include "lib/server_skb.h"
#include "lib/listeners.h"
#include "lib/proof.h"
#ifdef TG_HOST
#include "lib/host_idle.h"
#include "lib/host_parts.h"
#endif

#define TG_UDP_HDR_LEN 8
#define TG_IPPROTO_UDP 17
#define TG_CONFIRM_TTL 64

/* What is left to the program itself: the stacks of nested functions add up to at most 512 bytes. */
#define TG_NEXT_SETUP 0x100
#define TG_NEXT_CONFIRM 0x200 /* plus the edge */
#define TG_NEXT_EVIDENCE 0x300 /* tg_egress_evidence */

/* What becomes of the packet in hand that is to be put back in, and of which nothing else is needed. Not a
 * copy of it that is put back, and the packet dropped: where the stack sends its SYN-ACK again, a
 * drop would tell it that it could not, and it would forget the request that the ACK is for. */
static __always_inline int tg_egress_turn_round(const struct __sk_buff *skb)
{
	return (int)bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

/* Puts a copy of the packet in hand back in, as if it had come from the client. */
static __always_inline bool tg_egress_inject(struct __sk_buff *skb, const struct tg_segment *s)
{
	return tg_skb_put(skb, s) == 0 && bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS) == 0;
}

/* The ACK that completes the stack's handshake. Where XDP will process it, it carries the client's
 * numbers. */
static __always_inline struct tg_segment tg_egress_ack(const struct tg_packet *synack,
						       const struct tg_flow *f,
						       const struct tg_tcp_options *o, bool generic)
{
	struct tg_segment s = tg_flow_ack(synack, f, o);

	if (generic) {
		s.ack -= f->seq_delta;
		if (f->flags & TG_FLOW_TS)
			s.options.tsecr -= f->ts_delta;
	}
	return s;
}

/* The IP and the UDP header of a confirmation, at `ip`. */
static __always_inline void tg_confirm_headers(__u8 *ip, const struct tg_confirm *c,
					       const struct tg_edge_address *edge, __u16 port_be)
{
	__u32 udp_len = TG_UDP_HDR_LEN + TG_CONFIRM_LEN, i;
	__u8 *udp = ip + (c->family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN);

	if (c->family == 4) {
		__u32 w0 = TG_WIRE32(0x45, 0, 0, TG_IPV4_HDR_LEN + udp_len);
		__u32 w1 = TG_WIRE32(0, 0, 0x40, 0);
		__u32 w2 = TG_WIRE32(TG_CONFIRM_TTL, TG_IPPROTO_UDP, 0, 0);
		uint64_t sum = (uint64_t)w0 + w1 + w2 + c->server.w[0] + edge->v4;

		tg_store32(ip, w0);
		tg_store32(ip + TG_IPV4_ID, w1);
		tg_store32(ip + TG_IPV4_TTL, w2 | (__u32)tg_csum_finish(sum) << 16);
		tg_store32(ip + TG_IPV4_SRC, c->server.w[0]);
		tg_store32(ip + TG_IPV4_DST, edge->v4);
	} else {
		tg_store32(ip, TG_WIRE32(0x60, 0, 0, 0));
		tg_store32(ip + TG_IPV6_LEN,
			   TG_WIRE32(udp_len >> 8, udp_len, TG_IPPROTO_UDP, TG_CONFIRM_TTL));
		for (i = 0; i < 4; i++) {
			tg_store32(ip + TG_IPV6_SRC + 4 * i, c->server.w[i]);
			tg_store32(ip + TG_IPV6_DST + 4 * i, edge->v6[i]);
		}
	}
	tg_store16(udp, port_be);
	tg_store16(udp + TG_UDP_DPORT, port_be);
	tg_store16(udp + TG_UDP_LEN, tg_swap16(udp_len));
	tg_store16(udp + TG_UDP_SUM, 0); /* no checksum: the MAC is more than one (RFC 6935 for IPv6) */
}

/* The packet in hand, of a connection that lives, becomes the confirmation of it to
 * its edge. `pkt` is what it was: a segment to the client. */
TG_GLOBAL int tg_confirm_send(struct __sk_buff *skb, const struct tg_packet *pkt, __u32 edge)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_server_settings *server = tg_server_get();
	const struct tg_edge_address *to;
	struct tg_counter_row *row;
	const struct tg_tag_epoch *keys;
	struct tg_confirm c = {};
	__u32 l3_off, ip_len, len, out;
	__u8 *data, *end;
	__u64 epoch;

	if (!pkt)
		return TCX_DROP;
	row = tg_server_row(pkt, TG_TO_CLIENT);
	to = bpf_map_lookup_elem(&tg_edges, &edge);
	epoch = tg_epoch_now(settings);
	keys = tg_tag_keys_of(settings, epoch);
	l3_off = pkt->l3_off;
	if (!row || !to || !keys || l3_off > TG_ETH_OFF_MAX ||
	    (pkt->family == 4 ? !to->v4 : !(to->v6[0] | to->v6[1] | to->v6[2] | to->v6[3])))
		goto failed;
	c.client = pkt->dst;
	c.server = pkt->src;
	c.ports = pkt->ports << 16 | pkt->ports >> 16;
	c.epoch = (__u32)epoch;
	c.edge = (__u16)edge;
	c.family = pkt->family;
	ip_len = pkt->family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN;
	len = l3_off + ip_len + TG_UDP_HDR_LEN + TG_CONFIRM_LEN;
	if (bpf_skb_change_tail(skb, len, 0) || bpf_skb_pull_data(skb, len))
		goto failed;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	data += l3_off;
	if (pkt->family == 4) {
		if (data + TG_IPV4_HDR_LEN + TG_UDP_HDR_LEN + TG_CONFIRM_LEN > end)
			goto failed;
		tg_confirm_headers(data, &c, to, server->confirm_port_be);
		data += TG_IPV4_HDR_LEN;
	} else {
		if (data + TG_IPV6_HDR_LEN + TG_UDP_HDR_LEN + TG_CONFIRM_LEN > end)
			goto failed;
		tg_confirm_headers(data, &c, to, server->confirm_port_be);
		data += TG_IPV6_HDR_LEN;
	}
	tg_confirm_write(data + TG_UDP_HDR_LEN, &c, tg_confirm_mac(&c, &keys->confirm));
	tg_count(row, TG_COUNT_confirm_sent);
	out = pkt->family == 4 ? to->ifindex4 : to->ifindex6;
	return (int)bpf_redirect_neigh(out ? out : skb->ifindex, 0, 0, 0);
failed:
	if (row)
		tg_count(row, TG_COUNT_confirm_failed);
	return TCX_DROP;
}

/* True where adoptions are proven by translating: role host, and a server beside whose translating gate an adopting
 * one runs. Both then use the same tg_listeners, tg_bell and tg_recent. */
static __always_inline bool tg_egress_proves(const struct tg_server_settings *server)
{
#ifdef TG_HOST
	(void)server;
	return true;
#else
	return server->adopt;
#endif
}

/* The stack has answered a SYN whose ACK it had not made a socket from: so adoption does not work
 * for that listener. `pkt` is the answer. */
TG_GLOBAL int tg_egress_evidence(const struct tg_packet *pkt)
{
	struct tg_packet turned = {};
	struct tg_listener_key at = {};
	__u32 id;

	if (!pkt)
		return 0;
	turned.family = at.family = pkt->family;
	turned.dst = at.addr = pkt->src;
	turned.ports = pkt->ports << 16 | pkt->ports >> 16;
	at.port_be = TG_SRC_PORT_BE(pkt);
	id = tg_service_find(&turned);
	if (!id || !tg_listener_fails(&at, pkt->ack))
		return 0;
#ifdef TG_HOST /* else it is the adopting gate that has such a service, and that has done so (lib/ack_adopt.h) */
	*tg_service_listener_at(tg_service_at(id), at.family) = TG_LISTENER_VARIES;
#endif
	tg_bell_ring(TG_BELL_REFUSED, tg_swap16(at.port_be));
	return 0;
}

/* A RST for a connection that was adopted and has no socket yet. What becomes of it, the copy of
 * the ACK decides (lib/proof.h). */
static __always_inline bool tg_egress_is_premature(const struct tg_packet *pkt)
{
	return pkt->flags & TG_TCP_RST && tg_adoption_of(pkt->seq - 1) == TG_ADOPTION_UNDECIDED;
}

/* SYN_SENT -> ongoing. */
static __always_inline int tg_egress_ready(struct __sk_buff *skb, const struct tg_packet *pkt,
					   struct tg_split *e, bool generic)
{
	struct tg_counter_row *row = tg_server_row(pkt, TG_TO_CLIENT);
	struct tg_flow f = tg_split_flow(e);
	struct tg_tcp_options o = {};
	struct tg_segment ack;
	bool evidence = e->agreed & TG_SPLIT_EVIDENCE;
	__u32 edge = e->edge;

	if (!row || !tg_skb_options(skb, pkt, &o))
		return TCX_DROP;
	tg_flow_ready(&f, pkt, &o, 0);
	ack = tg_egress_ack(pkt, &f, &o, generic);
	tg_split_settle(e, &f);
	tg_split_seen(e);
	tg_count(row, TG_COUNT_split_ready);
	if (tg_skb_put(skb, &ack))
		return TCX_DROP;
	if (evidence)
		return TG_NEXT_EVIDENCE;
	if (!edge)
		return tg_egress_turn_round(skb);
	if (bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
		return TCX_DROP;
	return TG_NEXT_CONFIRM | edge;
}

/* The stack's SYN-ACK again: it has not taken the ACK (a full accept queue, say). */
static __always_inline int tg_egress_reack(struct __sk_buff *skb, const struct tg_packet *pkt,
					   const struct tg_split *e, bool generic)
{
	struct tg_counter_row *row = tg_server_row(pkt, TG_TO_CLIENT);
	struct tg_flow f = tg_split_flow(e);
	struct tg_tcp_options o = {};
	struct tg_segment ack;

	if (!row || !tg_skb_options(skb, pkt, &o))
		return TCX_DROP;
	/* The client's window is not stored; this is what it certainly has room for until its next
	 * segment. */
	f.client_window = 1;
	ack = tg_egress_ack(pkt, &f, &o, generic);
	tg_count(row, TG_COUNT_split_reack);
	return tg_skb_put(skb, &ack) ? TCX_DROP : tg_egress_turn_round(skb);
}

/* The stack answered from an older connection of the same addresses and ports. A client would reset
 * that and retry: this is done on its behalf, once. */
static __always_inline int tg_egress_older(struct __sk_buff *skb, const struct tg_packet *pkt,
					   struct tg_split *e, bool generic)
{
	struct tg_counter_row *row = tg_server_row(pkt, TG_TO_CLIENT);
	struct tg_segment s = tg_reset_for(pkt);
	struct tg_flow f;

	if (row)
		tg_count(row, TG_COUNT_split_older);
	tg_split_set(e, TG_SPLIT_RESET_OLDER | (generic ? TG_SPLIT_RESET_PASSES : 0));
	if (!tg_egress_inject(skb, &s))
		return TCX_DROP;
	f = tg_split_flow(e);
	s = tg_flow_syn(pkt, &f, f.client_isn, true);
	s.reflect = false; /* the frame has been turned round for the RST */
#ifdef TG_HOST
	/* Generic XDP would see a SYN and answer it. So the ACK that opened the connection is
	 * injected again, and becomes the SYN at TC. */
	s.kind = TG_SEGMENT_PLAIN;
	s.flags = TG_TCP_ACK;
	s.seq = f.client_isn + 1;
	s.ack = tg_split_cookie_isn(e) + 1;
	tg_split_set(e, TG_SPLIT_FRESH);
#endif
	return tg_skb_put(skb, &s) ? TCX_DROP : tg_egress_turn_round(skb);
}

/* The stack refuses: the client sees a RST with the number that it expects. */
static __always_inline int tg_egress_refused(struct __sk_buff *skb, const struct tg_packet *pkt,
					     struct tg_split *e)
{
	struct tg_counter_row *row = tg_server_row(pkt, TG_TO_CLIENT);
	struct tg_flow f = {.seq_delta = pkt->seq - (e->seq_delta + 1)};

	tg_split_release(e);
	if (row)
		tg_count(row, TG_COUNT_split_refused);
	return tg_translate(skb, pkt, &f, TG_TO_CLIENT) ? TCX_DROP : TCX_NEXT;
}

/* A segment of an ongoing connection; and the confirmation, if it is due. */
static __always_inline int tg_egress_ongoing(struct __sk_buff *skb, const struct tg_packet *pkt,
					     struct tg_split *e)
{
	struct tg_flow f = tg_split_flow(e);
	__u32 edge = e->edge;

	if (tg_translate(skb, pkt, &f, TG_TO_CLIENT))
		return TCX_DROP;
	tg_split_note(e, pkt, TG_TO_CLIENT);
	if (TG_LIKELY(!(e->state & TG_SPLIT_CONFIRM)))
		return TCX_NEXT;
	tg_split_clear(e, TG_SPLIT_CONFIRM);
	if (!edge)
		return TCX_NEXT;
	skb->mark = TG_MARK_DONE;
	if (bpf_clone_redirect(skb, skb->ifindex, 0)) {
		skb->mark = 0;
		return TCX_NEXT;
	}
	skb->mark = 0;
	return TG_NEXT_CONFIRM | edge;
}

/* A segment of a connection that is being set up, or of its handshake again. */
TG_GLOBAL int tg_egress_setup(struct __sk_buff *skb, const struct tg_packet *pkt)
{
	const struct tg_server_settings *server = tg_server_get();
	struct tg_split *e;

	if (!pkt)
		return TCX_NEXT;
	e = tg_split_find(server, pkt, TG_TO_CLIENT);
	if (!e)
		return TCX_NEXT;
	switch (tg_server_judge_answer(pkt, e)) {
	case TG_ANSWER_READY:
		return tg_egress_ready(skb, pkt, e, server->generic);
	case TG_ANSWER_REACK:
		return tg_egress_reack(skb, pkt, e, server->generic);
	case TG_ANSWER_OLDER:
		return tg_egress_older(skb, pkt, e, server->generic);
	case TG_ANSWER_FOREIGN:
		tg_split_release(e);
		return TCX_NEXT;
	default:
		return TCX_DROP;
	}
}

/* A segment from a protected port. */
TG_GLOBAL int tg_egress_tcp(struct __sk_buff *skb, const struct tg_packet *pkt)
{
	const struct tg_server_settings *server = tg_server_get();
	enum tg_server_answer answer;
	struct tg_split *e;

	if (!pkt || pkt->l4_off > TG_L4_OFF_MAX || pkt->tcp_hdr_len < TG_TCP_HDR_LEN)
		return TCX_NEXT;
	e = tg_split_find(server, pkt, TG_TO_CLIENT);
	if (!e && tg_egress_proves(server) && tg_egress_is_premature(pkt))
		return TCX_DROP;
	if (!e)
		return TCX_NEXT;
	answer = tg_server_judge_answer(pkt, e);
	if (TG_LIKELY(answer == TG_ANSWER_TRANSLATE))
		return tg_egress_ongoing(skb, pkt, e);
	if (answer == TG_ANSWER_REFUSED)
		return tg_egress_refused(skb, pkt, e);
	return TG_NEXT_SETUP;
}

SEC("tc")
int tg_server_egress(struct __sk_buff *skb)
{
	enum tg_parse_result parsed;
	struct tg_packet pkt = {};
	int verdict;

#ifdef TG_HOST
	if (TG_LIKELY(!tg_host_translates() && !tg_adoption_any()))
		return TCX_NEXT;
#endif
	if (TG_UNLIKELY(skb->mark == TG_MARK_DONE)) {
		skb->mark = 0;
		return TCX_NEXT;
	}
	parsed = tg_skb_parse(skb, &pkt, false);
	if (parsed == TG_PARSE_OTHER && pkt.l3_off)
		tg_server_icmp(skb, pkt.l3_off); /* of the stack, or of a router before a guest */
	if (parsed != TG_PARSE_TCP || !tg_port_is_protected(TG_SRC_PORT_BE(&pkt)))
		return TCX_NEXT;
	verdict = tg_egress_tcp(skb, &pkt);
	if (verdict == TG_NEXT_SETUP)
		verdict = tg_egress_setup(skb, &pkt);
	if (TG_LIKELY(verdict < TG_NEXT_CONFIRM))
		return verdict;
	if (TG_LIKELY(verdict != TG_NEXT_EVIDENCE))
		return tg_confirm_send(skb, &pkt, (__u32)verdict & 0xff);
	tg_egress_evidence(&pkt);
	return tg_egress_turn_round(skb);
}

char LICENSE[] SEC("license") = "GPL";
