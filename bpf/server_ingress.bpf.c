/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC ingress (TCX), server role, translating: what XDP cannot do: make two packets of one, or wait; and
 * take over the ACK that the adopting gate beside this one could not adopt from (takeover: auto).
 * The segment that opens a connection becomes the SYN for the local stack; if it carries data, a
 * copy of it follows the SYN. So do the segments that arrive before the stack has answered: the
 * kernel runs TC for a whole batch of frames before TCP sees the first.
 *
 * Must never: touch a packet that neither the XDP program nor the adopting gate has marked, nor one that comes
 * a third time.
 */
#define TG_FOUR_EPOCHS
#define TG_SKB
#include "lib/cookie_check.h"
#include "lib/server_skb.h"
#include "lib/across.h"
#include "lib/intact.h"
#include "lib/split_begin.h"

/* 1 if the ACK's cookie is ours, and what else the ACK says. Functions of their own, for the stack: Linux 6.1
 * counts that of all nested calls together (internal/plane/stack_test.go). */
TG_GLOBAL int tg_ingress_verify(struct __sk_buff *skb, const struct tg_packet *pkt,
				struct tg_ack *ack_info)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_tcp_options o = {};

	if (!pkt || !ack_info || !tg_skb_options(skb, pkt, &o))
		return 0;
	*ack_info = tg_host_read_ack(pkt, &o);
	if (settings->smart) {
		ack_info->ts_ok = false; /* a gate with this layout offers none */
		return tg_smart_check(pkt, 0) || tg_smart_check(pkt, TG_EPOCHS_OLDER);
	}
	return tg_cookie_check(pkt, ack_info) || tg_cookie_check_older(pkt, ack_info);
}

/* Opens the connection of an ACK that the kernel refuses to adopt, unless it has been opened meanwhile. 0, or negative. Its
 * source's limits have been asked already, and count for both gates. */
TG_GLOBAL int tg_ingress_open(struct __sk_buff *skb, const struct tg_packet *pkt, __u32 evidence)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_server_settings *server = tg_server_get();
	struct tg_ack ack_info = {};
	struct tg_service *svc;
	struct tg_split fresh;
	__u16 window = 0;
	__u32 id, bits;

	if (!pkt)
		return -TG_EINVAL;
	if (tg_split_find(server, pkt, TG_TO_SERVER))
		return 0;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	if (!id || !tg_ingress_verify(skb, pkt, &ack_info) || tg_intact(skb, pkt) != TG_INTACT ||
	    bpf_skb_load_bytes(skb, pkt->l4_off + TG_TCP_WINDOW, &window, sizeof(window)))
		return -TG_EINVAL;
	bits = settings->smart ? tg_smart_claimed_bits(ack_info.cookie.isn)
			       : tg_cookie_claimed_bits(ack_info.cookie, ack_info.ts_ok);
	fresh = tg_split_open(pkt, &ack_info, bits, svc->wscale, tg_swap16(window), 0, tg_tick_now());
	if (evidence)
		fresh.agreed |= TG_SPLIT_EVIDENCE;
	fresh.hash = tg_split_hash(server->keys, pkt, TG_TO_SERVER);
	return tg_split_begin(&fresh, 0, id);
}

/* The packet in hand becomes the SYN, or the SYN again, of its entry. */
static __always_inline int tg_ingress_syn(struct __sk_buff *skb, const struct tg_packet *pkt,
					  const struct tg_split *e)
{
	struct tg_flow f = tg_split_flow(e);
	struct tg_segment syn = tg_flow_syn(pkt, &f, f.client_isn, false);

	tg_skb_strip(skb, pkt);
	return tg_skb_put(skb, &syn) ? TCX_DROP : TCX_NEXT;
}

/* A packet that has been in the queue, for the stack to answer the SYN. */
static __always_inline int tg_ingress_retransmit(struct __sk_buff *skb, const struct tg_packet *pkt,
						 struct tg_split *e,
						 const struct tg_server_settings *server)
{
	struct tg_counter_row *row = tg_server_row(pkt, TG_TO_SERVER);
	struct tg_flow f;

	if (!(e->state & TG_SPLIT_READY)) {
		/* A guest is slow to answer, or the stack has dropped the SYN. */
		if (row)
			tg_count(row, TG_COUNT_split_retransmit);
		return tg_ingress_syn(skb, pkt, e);
	}
	if (server->generic)
		return TCX_NEXT; /* XDP has seen it again and translated it */
	f = tg_split_flow(e);
	if (tg_translate(skb, pkt, &f, TG_TO_SERVER))
		return TCX_DROP;
	tg_split_note(e, pkt, TG_TO_SERVER);
	return TCX_NEXT;
}

/* A packet that is, or may be, of a connection in set-up. */
TG_GLOBAL int tg_ingress_tcp(struct __sk_buff *skb, const struct tg_packet *pkt, __u32 retransmit)
{
	const struct tg_server_settings *server = tg_server_get();
	struct tg_split *e;

	if (!pkt || pkt->l4_off > TG_L4_OFF_MAX)
		return TCX_NEXT;
	e = tg_split_find(server, pkt, TG_TO_SERVER);
	if (retransmit)
		return e ? tg_ingress_retransmit(skb, pkt, e, server) : TCX_DROP;
	if (!e || !tg_host_is_ack(pkt) || pkt->ack - 1 != tg_split_cookie_isn(e))
		return server->generic ? TCX_NEXT : TCX_DROP;
	/* READY: XDP has seen it before there was an entry, and the adopting gate would take the
	 * stack's socket for one that stands in the way. */
	if (!(e->state & TG_SPLIT_FRESH) || e->state & TG_SPLIT_READY) {
		if (pkt->l3_off == 0 && !tg_skb_dress(skb))
			return TCX_DROP;
		skb->mark = TG_MARK_RETRANSMIT;
		return (int)bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	}
	tg_split_clear(e, TG_SPLIT_FRESH);
	/* A packet without an Ethernet header cannot be queued and become the SYN: its data comes
	 * with the client's retransmission. */
	if (pkt->l3_off != 0 && (pkt->l4_len > pkt->tcp_hdr_len || pkt->flags & TG_TCP_FIN)) {
		skb->mark = TG_MARK_RETRANSMIT;
		if (bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS))
			return TCX_DROP;
		skb->mark = 0;
	}
	return tg_ingress_syn(skb, pkt, e);
}

/* The answer to a SYN, which XDP has made (lib/across.h). */
TG_GLOBAL int tg_ingress_across(struct __sk_buff *skb)
{
	struct tg_packet pkt = {};

	return tg_skb_parse(skb, &pkt, true) == TG_PARSE_TCP
		       ? tg_across_send(skb, &pkt, pkt.l3_off == 0)
		       : TCX_DROP;
}

SEC("tc")
int tg_server_ingress(struct __sk_buff *skb)
{
	const struct tg_server_settings *server = tg_server_get();
	bool retransmit = skb->mark == TG_MARK_RETRANSMIT, refused = tg_mark_is_refused(skb->mark);
	__u32 evidence = refused && skb->mark & TG_MARK_EVIDENCE;
	struct tg_packet pkt = {};

	if (TG_UNLIKELY(skb->pkt_type == TG_PACKET_OTHERHOST) && tg_across_of(skb))
		return tg_ingress_across(skb);
	if (!tg_meta_take(skb) && !retransmit && !refused && !server->generic)
		return TCX_NEXT;
	if (retransmit || refused)
		skb->mark = 0;
	if (tg_skb_parse(skb, &pkt, true) != TG_PARSE_TCP ||
	    !tg_port_is_protected(TG_DST_PORT_BE(&pkt)))
		return TCX_NEXT;
	if (TG_UNLIKELY(refused) && tg_ingress_open(skb, &pkt, evidence))
		return TCX_DROP; /* there is no room: the client's next segment tries again */
	return tg_ingress_tcp(skb, &pkt, retransmit);
}

char LICENSE[] SEC("license") = "GPL";
