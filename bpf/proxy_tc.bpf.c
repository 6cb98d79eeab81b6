/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC ingress (TCX), proxy role: a server's answer to a connection that is being set up. One packet
 * becomes two here, which XDP cannot do: the ACK that the server waits for and the window that the
 * client waits for; or, if the server still has an older connection or was only probed for its
 * options, a RST and the SYN again. Only what lib/proxy_open.h leaves to it.
 *
 * Must never: touch a packet of any other kind. The XDP program has handled translated ones; what
 * arrives here and is not of a flow in set-up passes.
 */
#include "lib/skb_bare.h"
#include "lib/skb_headers.h"
#include "lib/skb_segment.h"
#include "lib/fib.h"
#include "lib/proxy_synack.h"

/* Writes `s` over a segment of ours that is as long; not 0 if it is not. The kernel has given the packet bytes
 * of its own again since it was cloned (bpf_clone_redirect). */
TG_GLOBAL int tg_skb_over(struct __sk_buff *skb, const struct tg_segment *s)
{
	__u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 l3_off;

	if (!s)
		return -TG_EINVAL;
	l3_off = s->l3_off;
	if (l3_off > TG_ETH_OFF_MAX || skb->len != l3_off + tg_segment_len(s) ||
	    data + TG_ETH_HDR_LEN > end ||
	    !tg_segment_write((struct tg_writer){data + l3_off, end}, s))
		return -TG_EINVAL;
	if (s->reflect)
		tg_ethernet_reflect(data);
	return 0;
}

/* Sends a copy of the packet in hand, an answer, out of the port it came from, and puts `next` into
 * its place. Its Ethernet header is that of the answer, so for what does not answer it is turned
 * back. */
static __always_inline bool tg_skb_send_back(struct __sk_buff *skb, struct tg_segment *next)
{
	next->reflect = !next->reflect;
	return !bpf_clone_redirect(skb, skb->ifindex, 0) &&
	       (!tg_skb_over(skb, next) || !tg_skb_put(skb, next));
}

/* The bridge's other port. */
static __always_inline __u32 tg_skb_other_port(const struct __sk_buff *skb,
					       const struct tg_proxy_settings *proxy)
{
	return skb->ifindex == proxy->bridge[0] ? proxy->bridge[1] : proxy->bridge[0];
}

/* The packet in hand goes on to the client: over the bridge, or to the kernel,
 * which routes it. */
static __always_inline int tg_skb_onwards(struct __sk_buff *skb)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	if (!proxy->bridge[0])
		return TCX_NEXT;
	return bpf_redirect(tg_skb_other_port(skb, proxy), 0);
}

/* A router's port towards the client, whose MAC addresses it puts into the frame; 0 if only
 * the kernel knows, as for VLANs, unresolved neighbours and what is no port of this box.
 * `s` is the segment in hand. */
TG_GLOBAL int tg_skb_route(struct __sk_buff *skb, const struct tg_segment *s)
{
	struct bpf_fib_lookup fib = {.l4_protocol = TG_IPPROTO_TCP};
	__u8 *data;

	if (!s)
		return 0;
	if (s->l3_off != TG_ETH_HDR_LEN || skb->vlan_present)
		return 0;
	fib.ifindex = skb->ifindex;
	tg_fib_between(&fib, s->family, &s->src, &s->dst);
	if (bpf_fib_lookup(skb, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS ||
	    !bpf_map_lookup_elem(&tg_devices, &fib.ifindex) || bpf_skb_pull_data(skb, TG_ETH_HDR_LEN))
		return 0;
	data = (void *)(long)skb->data;
	if (data + TG_ETH_HDR_LEN > (__u8 *)(long)skb->data_end)
		return 0;
	__builtin_memcpy(data, fib.dmac, 6);
	__builtin_memcpy(data + TG_ETH_SRC, fib.smac, 6);
	return (int)fib.ifindex;
}

/* Sends the window in hand to the client and, behind it, `copies` of it. Where only the kernel
 * knows the route it gets the copies as if they had arrived here, too; the flow is ready by now, so
 * this program ignores them. */
static __always_inline int tg_skb_window(struct __sk_buff *skb, const struct tg_segment *window,
					 int copies)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	int i, port;

	port = proxy->bridge[0] ? (int)tg_skb_other_port(skb, proxy) : tg_skb_route(skb, window);
	for (i = 0; i < TG_DUPLICATES && i < copies; i++)
		if (bpf_clone_redirect(skb, port ? (__u32)port : skb->ifindex,
				       port ? 0 : BPF_F_INGRESS))
			break;
	return port ? (int)bpf_redirect((__u32)port, 0) : TCX_NEXT;
}

/* What to do with a server's answer. Each is a separate function that the program itself calls: the
 * stacks of nested functions add up. */
enum tg_step {
	TG_STEP_NONE, /* the packet goes on as it is */
	TG_STEP_DROP,
	TG_STEP_ACCEPT,
	TG_STEP_NOTIFY, /* accept, and show the client that its data were lost */
	TG_STEP_AGAIN, /* of a flow that is ready: both packets once more */
	TG_STEP_RENEW,
	TG_STEP_ASK,
	TG_STEP_MISMATCH,
};

/* The server has an older connection, or was only probed, or is to be: it is reset and sent another
 * SYN. */
TG_GLOBAL int tg_setup_renew(struct __sk_buff *skb, const struct tg_packet *pkt, __u32 ask)
{
	struct tg_flow *f = pkt ? tg_flow_find_again(pkt, TG_TO_CLIENT) : 0;
	struct tg_segment s;
	struct tg_flow copy;

	if (!f || !tg_flow_renew(f, ask))
		return TCX_DROP;
	f->syn.ms = (__u16)tg_now_ms();
	copy = *f;
	tg_skb_strip(skb, pkt);
	s = tg_reset_for(pkt);
	if (tg_skb_put(skb, &s))
		return TCX_DROP;
	s = tg_flow_syn(pkt, &copy, tg_flow_isn(&copy), true);
	if (!tg_skb_send_back(skb, &s))
		return TCX_DROP;
	return bpf_redirect(skb->ifindex, 0);
}

/* The server does not agree to what the client was offered: both are reset, and the next client is
 * offered what has just been learned. */
TG_GLOBAL int tg_setup_mismatch(struct __sk_buff *skb, const struct tg_packet *pkt)
{
	struct tg_flow *f = pkt ? tg_flow_find_again(pkt, TG_TO_CLIENT) : 0;
	struct tg_segment s;
	struct tg_flow copy;

	if (!f)
		return TCX_DROP;
	copy = *f;
	tg_flow_remove(pkt, TG_TO_CLIENT);
	tg_skb_strip(skb, pkt);
	s = tg_reset_for(pkt);
	if (tg_skb_put(skb, &s))
		return TCX_DROP;
	s = tg_flow_refusal(pkt, &copy);
	if (!tg_skb_send_back(skb, &s))
		return TCX_DROP;
	return tg_skb_onwards(skb);
}

/* The server has accepted for good, with these options; or says so again. */
TG_GLOBAL int tg_setup_accept(struct __sk_buff *skb, const struct tg_packet *pkt,
			      const struct tg_tcp_options *o, __u32 step, struct tg_flow *f)
{
	struct tg_counter_row *row;
	struct tg_segment s;
	struct tg_flow ready;
	const __u8 *tcp;
	__u16 window;

	if (!pkt || !f || !o)
		return TCX_DROP;
	tcp = (void *)(long)skb->data + (pkt->l4_off & TG_L4_OFF_MAX);
	if (tcp + TG_TCP_HDR_LEN > (const __u8 *)(long)skb->data_end)
		return TCX_DROP;
	window = tg_swap16(tg_load16(tcp + TG_TCP_WINDOW));
	row = tg_counter_row_get(f->service);
	if (TG_LIKELY(step != TG_STEP_AGAIN)) {
		tg_setup_ready(f, &ready, pkt, o, (__u16)skb->ifindex, row);
	} else {
		ready = *f;
		if (row)
			tg_count(row, TG_COUNT_flow_reack);
	}
	tg_skb_strip(skb, pkt);
	s = tg_flow_ack(pkt, &ready, o);
	if (tg_skb_put(skb, &s))
		return TCX_DROP;
	s = tg_flow_window(pkt, &ready, o, window);
	if (!tg_skb_send_back(skb, &s))
		return TCX_DROP;
	if (step != TG_STEP_NOTIFY)
		return tg_skb_window(skb, &s, 0);
	/* The client has data outstanding that never arrived, and duplicate ACKs are how a
	 * receiver says so. */
	if (row)
		tg_count(row, TG_COUNT_flow_notified);
	return tg_skb_window(skb, &s, TG_DUPLICATES);
}

/* The options of the packet in hand; false if they lie about their length. */
static __always_inline bool tg_setup_options(struct __sk_buff *skb, const struct tg_packet *pkt,
					     struct tg_tcp_options *o)
{
	const __u8 *at = (void *)(long)skb->data + (pkt->l4_off & TG_L4_OFF_MAX) + TG_TCP_HDR_LEN;

	return TG_LIKELY(tg_tcp_options_common(at, (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN,
					       (void *)(long)skb->data_end, o)) ||
	       tg_skb_options(skb, pkt, o);
}

/* The server's SYN-ACK to our SYN: what it agrees to, in `o`, and what follows. */
static __always_inline enum tg_step tg_setup_synack(struct __sk_buff *skb,
						    const struct tg_packet *pkt,
						    const struct tg_flow *f,
						    struct tg_counter_row *row,
						    struct tg_tcp_options *o)
{
	__u32 id = f->service;
	const struct tg_proxy_service *proxy_cfg = tg_strategy_at(id);

	if (!tg_setup_options(skb, pkt, o))
		return TG_STEP_DROP;
	tg_setup_learn(pkt, o, f->flags & TG_FLOW_ASKS);
	if (f->flags & TG_FLOW_ASKS)
		tg_count(row, TG_COUNT_server_asked);
	switch (tg_setup_next(f, pkt, o, proxy_cfg->fixed)) {
	case TG_SETUP_MISMATCH:
		tg_count(row, TG_COUNT_flow_mismatch);
		return TG_STEP_MISMATCH;
	case TG_SETUP_RENEW:
		return TG_STEP_RENEW;
	case TG_SETUP_ASK:
		return TG_STEP_ASK;
	default:
		return tg_setup_notifies(f, proxy_cfg->first_data) ? TG_STEP_NOTIFY : TG_STEP_ACCEPT;
	}
}

/* Of a flow that is ready, the XDP program leaves here a SYN-ACK that is repeated, if it needs two packets
 * (tg_ready_opens_again); what it has translated has another number. */
static __always_inline enum tg_step tg_ready_step(struct __sk_buff *skb, const struct tg_packet *pkt,
						  const struct tg_flow *f, struct tg_tcp_options *o)
{
	if (tg_flow_from_server(f, pkt, 0) != TG_FROM_SERVER_REACK || pkt->seq != f->server_isn)
		return TG_STEP_NONE;
	return tg_setup_options(skb, pkt, o) ? TG_STEP_AGAIN : TG_STEP_DROP;
}

/* enum tg_step; `o` is filled for TG_STEP_ACCEPT, TG_STEP_NOTIFY and TG_STEP_AGAIN. */
TG_GLOBAL int tg_setup_step(struct __sk_buff *skb, const struct tg_packet *pkt,
			    struct tg_tcp_options *o, struct tg_flow *f)
{
	struct tg_counter_row *row;

	if (!pkt || !f || !o)
		return TG_STEP_NONE;
	if (TG_UNLIKELY(f->state != TG_FLOW_SETUP))
		return tg_ready_step(skb, pkt, f, o);
	row = tg_counter_row_get(f->service);
	if (!row)
		return TG_STEP_NONE;
	switch (tg_setup_judge(pkt, tg_flow_isn(f))) {
	case TG_SETUP_READY:
		return tg_setup_synack(skb, pkt, f, row, o);
	case TG_SETUP_OTHER:
		tg_count(row, TG_COUNT_flow_older);
		return f->flags & TG_FLOW_ASKS ? TG_STEP_ASK : TG_STEP_RENEW;
	default:
		return TG_STEP_NONE;
	}
}

SEC("tc")
int tg_proxy_tc(struct __sk_buff *skb)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_packet pkt = {};
	struct tg_tcp_options o = {};
	enum tg_parse_result result;
	const __u8 *data, *end;
	struct tg_flow *f;
	bool bare;
	int step;

	if (!proxy->flows)
		return TCX_NEXT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (tg_skb_headers_are_far(skb, data, end)) {
		if (!tg_skb_headers_pull(skb))
			return TCX_NEXT;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	/* A first fragment has the whole header: what XDP leaves to this program is never for the kernel,
	 * which would send it on as the server has numbered it. */
	bare = tg_skb_is_bare(skb, data, end);
	result = TG_UNLIKELY(bare) ? tg_packet_l3(&pkt, (tg_ethertype)skb->protocol, data, end)
				   : tg_packet_parse(&pkt, data, end);
	if ((result != TG_PARSE_TCP && result != TG_PARSE_FRAGMENT) ||
	    !tg_port_is_protected(TG_SRC_PORT_BE(&pkt)))
		return TCX_NEXT;
	f = tg_flow_find_of_server(&pkt);
	if (!f)
		return TCX_NEXT;
	tg_packet_measure(&pkt, skb->len);
	step = tg_setup_step(skb, &pkt, &o, f);
	if (TG_UNLIKELY(bare) && step != TG_STEP_NONE) {
		if (!tg_skb_dress(skb))
			return TCX_DROP;
		pkt.l3_off += TG_ETH_HDR_LEN;
		pkt.l4_off += TG_ETH_HDR_LEN;
	}
	switch (step) {
	case TG_STEP_ACCEPT:
	case TG_STEP_NOTIFY:
	case TG_STEP_AGAIN:
		return tg_setup_accept(skb, &pkt, &o, step, f);
	case TG_STEP_RENEW:
	case TG_STEP_ASK:
		return tg_setup_renew(skb, &pkt, step == TG_STEP_ASK);
	case TG_STEP_MISMATCH:
		return tg_setup_mismatch(skb, &pkt);
	case TG_STEP_DROP:
		return TCX_DROP;
	default:
		return TCX_NEXT;
	}
}

char LICENSE[] SEC("license") = "GPL";
