/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * TC ingress (TCX), proxy role: a server's answer to a connection that is being
 * set up. Two packets come of one here, which XDP cannot do: the ACK that the
 * server waits for and the window that the client waits for; or, if the server
 * thinks of an older connection, a RST and the SYN again.
 *
 * Must never: touch a packet of any other kind. The XDP program has taken those
 * that are translated; what arrives here and is not of a flow in set-up goes on.
 */
#include "lib/proxy_tables.h"

#define TG_HEADERS_MAX 256
#define TG_ETH_OFF_MAX 22

/* Puts a segment of our own into the place of the packet in hand. */
__attribute__((noinline)) int tg_skb_put(struct __sk_buff *skb, const struct tg_segment *s)
{
	__u8 *data, *end;
	__u32 l3_off, len;

	if (!s)
		return -TG_EINVAL;
	l3_off = s->l3_off;
	if (l3_off > TG_ETH_OFF_MAX)
		return -TG_EINVAL;
	len = l3_off + tg_segment_len(s);
	/* It also makes the bytes ours alone, after a clone. */
	if (bpf_skb_change_tail(skb, len, 0) || bpf_skb_pull_data(skb, len))
		return -TG_ENOENT;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + TG_ETH_HDR_LEN > end ||
	    !tg_segment_write((struct tg_writer){data + l3_off, end}, s))
		return -TG_ENOENT;
	if (s->reflect)
		tg_ethernet_reflect(data);
	return 0;
}

/* Sends a copy of the packet in hand out of the port it came from, and turns the
 * Ethernet header back. */
static __always_inline bool tg_skb_send_back(struct __sk_buff *skb)
{
	__u8 *data;

	if (bpf_clone_redirect(skb, skb->ifindex, 0))
		return false;
	if (bpf_skb_pull_data(skb, TG_ETH_HDR_LEN))
		return false;
	data = (void *)(long)skb->data;
	if (data + TG_ETH_HDR_LEN > (__u8 *)(long)skb->data_end)
		return false;
	tg_ethernet_reflect(data);
	return true;
}

static __always_inline bool tg_skb_options(struct __sk_buff *skb, const struct tg_packet *pkt,
					   struct tg_tcp_options *o)
{
	struct tg_options_cursor c;

	c.at = 0;
	c.len = (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	if (c.len > TG_TCP_OPTIONS_MAX_LEN)
		return false;
	if (c.len && bpf_skb_load_bytes(skb, pkt->l4_off + TG_TCP_HDR_LEN, c.bytes, c.len))
		return false;
	return tg_options_read(&c, o) == 0;
}

/* The packet in hand goes on to the client: over the bridge, or to the kernel,
 * which routes it. */
static __always_inline int tg_skb_onwards(struct __sk_buff *skb)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();

	if (!proxy || !proxy->bridge[0])
		return TCX_NEXT;
	return bpf_redirect(skb->ifindex == proxy->bridge[0] ? proxy->bridge[1] : proxy->bridge[0],
			    0);
}

/* Notes what the server's options are, where that is news. */
static __always_inline void tg_setup_learn(const struct tg_packet *pkt, const struct tg_flow *f,
					   const struct tg_tcp_options *o)
{
	__u32 id = f->service;
	struct tg_learned *l = bpf_map_lookup_elem(&tg_answers, &id);
	struct tg_learned next;

	if (!l)
		return;
	next = tg_learn(*l, pkt->family, f, o);
	if (next.mss_v4 != l->mss_v4 || next.mss_v6 != l->mss_v6 || next.wscale != l->wscale ||
	    next.sack != l->sack || next.timestamps != l->timestamps || next.known != l->known)
		*l = next;
}

/* The server has accepted. */
static __always_inline int tg_setup_ready(struct __sk_buff *skb, const struct tg_packet *pkt,
					  struct tg_flow *f, struct tg_counter_row *row)
{
	struct tg_tcp_options o = {};
	struct tg_segment ack, window;
	struct tg_flow ready = *f;
	__be16 field;

	if (!tg_skb_options(skb, pkt, &o) ||
	    bpf_skb_load_bytes(skb, pkt->l4_off + 14, &field, sizeof(field)))
		return TCX_DROP;
	tg_setup_learn(pkt, &ready, &o);
	tg_flow_ready(&ready, pkt, &o);
	ack = tg_flow_ack(pkt, &ready, &o);
	window = tg_flow_window(pkt, &ready, &o, tg_swap16(field));
	*f = ready;
	tg_count(row, TG_COUNT_flow_ready);
	if (tg_skb_put(skb, &ack) || !tg_skb_send_back(skb) || tg_skb_put(skb, &window))
		return TCX_DROP;
	return tg_skb_onwards(skb);
}

/* The server answered out of an older connection of the same addresses and
 * ports. A client would reset that and ask again: so it is done for it. */
static __always_inline int tg_setup_older(struct __sk_buff *skb, const struct tg_packet *pkt,
					  struct tg_flow *f, struct tg_counter_row *row)
{
	struct tg_segment rst = tg_reset_for(pkt), syn = tg_flow_syn(pkt, f, true);

	tg_count(row, TG_COUNT_flow_older);
	f->syn_ms = (__u16)tg_now_ms();
	if (tg_skb_put(skb, &rst) || !tg_skb_send_back(skb) || tg_skb_put(skb, &syn))
		return TCX_DROP;
	return bpf_redirect(skb->ifindex, 0);
}

SEC("tc")
int tg_proxy_tc(struct __sk_buff *skb)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_counter_row *row;
	struct tg_packet pkt = {};
	const __u8 *data, *end;
	struct tg_flow *f;
	__u32 need;

	if (!proxy || !proxy->flows)
		return TCX_NEXT;
	need = skb->len < TG_HEADERS_MAX ? skb->len : TG_HEADERS_MAX;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + TG_ETH_HDR_LEN + TG_IPV6_HDR_LEN + TG_TCP_HDR_LEN + TG_TCP_OPTIONS_MAX_LEN > end &&
	    (__u64)(end - data) < need) {
		if (bpf_skb_pull_data(skb, need))
			return TCX_NEXT;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	if (tg_packet_parse(&pkt, data, end) != TG_PARSE_TCP ||
	    !tg_port_is_protected(TG_SRC_PORT_BE(&pkt)))
		return TCX_NEXT;
	f = tg_flow_find(&pkt, TG_TO_CLIENT);
	if (!f || f->state != TG_FLOW_SETUP)
		return TCX_NEXT;
	row = tg_counter_row_get(f->service);
	if (!row)
		return TCX_NEXT;
	switch (tg_setup_judge(&pkt, f)) {
	case TG_SETUP_READY:
		return tg_setup_ready(skb, &pkt, f, row);
	case TG_SETUP_OTHER:
		return tg_setup_older(skb, &pkt, f, row);
	default:
		return TCX_NEXT;
	}
}

char LICENSE[] SEC("license") = "GPL";
