/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The frames of the lab's clients (lab_client.h): reads what has come for one, and writes what one sends.
 *
 * Must never: change a connection's state.
 */
static __always_inline __u32 opt_be32(const __u8 *opt, __u32 at)
{
	return (__u32)opt[at & 63] << 24 | opt[(at + 1) & 63] << 16 | opt[(at + 2) & 63] << 8 |
	       opt[(at + 3) & 63];
}

struct tg_options {
	__u8 opt[64];
	__u32 at, len;
	__u32 tsval;
	__u8 wscale, scaled, has_ts;
};

static long read_option(__u32 i, void *ctx)
{
	struct tg_options *o = ctx;
	__u32 at = o->at;
	__u8 kind = o->opt[at & 63], size = o->opt[(at + 1) & 63];

	if (at >= o->len || kind == 0)
		return 1;
	if (kind == 1) {
		o->at++;
		return 0;
	}
	if (size < 2)
		return 1;
	if (kind == 8 && size == 10) {
		o->has_ts = 1;
		o->tsval = opt_be32(o->opt, at + 2);
	} else if (kind == 3 && size == 3) {
		o->wscale = o->opt[(at + 2) & 63];
		o->scaled = 1;
	}
	o->at += size;
	return 0;
}

/* Timestamp and window scale. */
static __always_inline void answer_options(struct xdp_md *ctx, __u32 off, __u32 len,
					   struct tg_answer *a)
{
	struct tg_options o = {.len = len};
	__u32 last = len - 1;

	if (!len)
		return;
	asm volatile("%0 &= 63" : "+r"(last)); /* at most 39; said so that the verifier sees it */
	if (bpf_xdp_load_bytes(ctx, off, o.opt, last + 1))
		return;
	bpf_loop(20, read_option, &o, 0);
	a->has_ts = o.has_ts;
	a->tsval = o.tsval;
	a->wscale = o.wscale;
	a->scaled = o.scaled;
}

/* Reads what came for a client; false if it is for none of these. */
static __always_inline int client_receive(struct xdp_md *ctx, __u32 ip_len, __u32 ip_payload,
					  __u32 source)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u8 *tcp = data + ETH_LEN + ip_len;
	struct tg_client_conn *c;
	struct tg_answer a = {};
	__u32 slot, header;
	__u8 status[12];

	if ((void *)tcp + TCP_LEN > end)
		return 0;
	slot = (__u32)(tcp[2] << 8 | tcp[3]) - CLIENT_PORT_FIRST;
	if (slot >= CLIENT_CONNS)
		return 0;
	c = bpf_map_lookup_elem(&client_conns, &slot);
	if (!c || c->state == CLIENT_FREE || c->source != source)
		return 1; /* nobody's: of a request that is long over */
	a.seq = (__u32)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7];
	a.ack = (__u32)tcp[8] << 24 | tcp[9] << 16 | tcp[10] << 8 | tcp[11];
	header = (tcp[12] >> 4) * 4;
	a.flags = tcp[13];
	a.window = tcp[14] << 8 | tcp[15];
	if (header < TCP_LEN || ip_payload < header)
		return 1;
	a.payload = ip_payload - header;
	answer_options(ctx, ETH_LEN + ip_len + TCP_LEN, header - TCP_LEN, &a);
	if (a.payload && c->state == CLIENT_OPEN && c->rcv_nxt == c->irs + 1)
		a.bad = a.payload < sizeof(status) ||
			bpf_xdp_load_bytes(ctx, ETH_LEN + ip_len + header, status, sizeof(status)) ||
			status[0] != 'H' || status[9] != '2' || status[10] != '0' ||
			status[11] != '0';
	client_answer(c, slot, &a, bpf_ktime_get_ns());
	return 1;
}

static __always_inline int client_receive4(struct xdp_md *ctx, __u32 net_be)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u8 *ip = data + ETH_LEN;
	__u32 source;

	if ((void *)ip + IP4_LEN > end || ip[0] != 0x45 || ip[9] != PROTO_TCP)
		return 0;
	source = bpf_ntohl(*(const __u32 *)(ip + 16)) - bpf_ntohl(net_be) - 1;
	return client_receive(ctx, IP4_LEN, (__u32)(ip[2] << 8 | ip[3]) - IP4_LEN, source);
}

static __always_inline int client_receive6(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u8 *ip = data + ETH_LEN;

	if ((void *)ip + IP6_LEN > end || ip[6] != PROTO_TCP)
		return 0;
	return client_receive(ctx, IP6_LEN, ip[4] << 8 | ip[5], (__u32)(ip[38] << 8 | ip[39]) - 1);
}

/* Header, options and payload; the lengths are constants where it is called. */
static __always_inline int write_segment(void *tcp, void *end, const struct tg_client_conn *c,
					 __u32 item, enum tg_client_frame kind, __u32 opt_words,
					 __u32 load_words, __u64 sum)
{
	__u32 ts = (__u32)(bpf_ktime_get_ns() / 1000000) + c->source * 7919, *out = tcp;
	__u32 seq = c->isn, ack = c->rcv_nxt,
	      window = CLIENT_WINDOW >> (c->scaled ? CLIENT_WSCALE : 0), w[10] = {};
	__u8 flags = TCP_FLAG_ACK;

	if (kind == SEND_SYN) {
		flags = TCP_FLAG_SYN;
		window = CLIENT_WINDOW;
		ack = 0;
		w[5] = bpf_htonl(0x02040000 | (flood_cfg.ipv6 ? 1440 : 1460));
		w[6] = bpf_htonl(0x0402080a);
		w[7] = bpf_htonl(ts);
		w[9] = bpf_htonl(0x01030300 | CLIENT_WSCALE);
	} else if (kind == SEND_REQUEST) {
		seq += 1;
		flags |= TCP_FLAG_PSH;
	} else if (kind == SEND_RST) {
		seq = c->rst_seq;
		ack = 0;
		window = 0;
		flags = TCP_FLAG_RST;
	} else {
		seq += 1 + (item & ITEM_REQUESTED ? REQUEST_LEN : 0) - (kind == SEND_PROBE);
		if (kind == SEND_FIN)
			flags |= TCP_FLAG_FIN;
		else if (item & ITEM_FIN)
			seq++;
	}
	if (opt_words == 3) {
		w[5] = bpf_htonl(0x0101080a);
		w[6] = bpf_htonl(ts);
		w[7] = bpf_htonl(c->ts_recent);
	}
	w[0] = bpf_htonl(((item & (CLIENT_CONNS - 1)) + CLIENT_PORT_FIRST) << 16) |
	       (__u32)flood_cfg.port_be << 16;
	w[1] = bpf_htonl(seq);
	w[2] = bpf_htonl(ack);
	w[3] = bpf_htonl((5 + opt_words) << 28 | (__u32)flags << 16 | window);
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += w[i];
	if (load_words)
#pragma unroll
		for (int i = 0; i < REQUEST_WORDS; i++)
			sum += client_cfg.request[i];
	w[4] = fold16(sum);
	if ((void *)(out + 5 + opt_words + load_words) > end)
		return -1;
#pragma unroll
	for (int i = 0; i < 10; i++)
		if (i < 5 + opt_words)
			out[i] = w[i];
	if (load_words)
#pragma unroll
		for (int i = 0; i < REQUEST_WORDS; i++)
			out[5 + opt_words + i] = client_cfg.request[i];
	return 0;
}

static __always_inline int send_segment(struct xdp_md *ctx, const struct tg_client_conn *c,
					__u32 item, enum tg_client_frame kind, __u32 opt_words,
					__u32 load_words, __u32 net_be, const __u32 *net6_be)
{
	__u32 tcp_len = TCP_LEN + 4 * (opt_words + load_words), src6[4];
	int want = ETH_LEN + (flood_cfg.ipv6 ? IP6_LEN : IP4_LEN) + (int)tcp_len;
	void *data, *end;
	__u64 pseudo;

	if (bpf_xdp_adjust_tail(ctx, want - (int)(ctx->data_end - ctx->data)))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (flood_cfg.ipv6) {
		src6[0] = net6_be[0];
		src6[1] = net6_be[1];
		src6[2] = 0;
		src6[3] = bpf_htonl(c->source + 1);
		if (write_eth(data, end, ETHERTYPE_IP6) ||
		    write_ip6_from(data + ETH_LEN, end, tcp_len, 0, 64, src6, &pseudo) ||
		    write_segment(data + ETH_LEN + IP6_LEN, end, c, item, kind, opt_words,
				  load_words, pseudo))
			return XDP_ABORTED;
	} else if (write_eth(data, end, ETHERTYPE_IP4) ||
		   write_ip4(data + ETH_LEN, end, IP4_LEN + tcp_len,
			     bpf_htonl(bpf_ntohl(net_be) + c->source + 1),
			     (__u16)bpf_get_prandom_u32(), 64, &pseudo) ||
		   write_segment(data + ETH_LEN + IP4_LEN, end, c, item, kind, opt_words,
				 load_words, pseudo)) {
		return XDP_ABORTED;
	}
	client_frames++;
	return XDP_TX;
}

static __always_inline int send_client(struct xdp_md *ctx, __u32 item, __u32 net_be,
				       const __u32 *net6_be)
{
	__u32 slot = item & (CLIENT_CONNS - 1);
	enum tg_client_frame kind = item >> 16 & 255;
	struct tg_client_conn *c = bpf_map_lookup_elem(&client_conns, &slot);

	if (!c)
		return XDP_ABORTED;
	if (kind == SEND_SYN)
		return send_segment(ctx, c, item, SEND_SYN, 5, 0, net_be, net6_be);
	if (kind == SEND_REQUEST && c->has_ts)
		return send_segment(ctx, c, item, SEND_REQUEST, 3, REQUEST_WORDS, net_be, net6_be);
	if (kind == SEND_REQUEST)
		return send_segment(ctx, c, item, SEND_REQUEST, 0, REQUEST_WORDS, net_be, net6_be);
	if (kind == SEND_RST || !c->has_ts)
		return send_segment(ctx, c, item, kind, 0, 0, net_be, net6_be);
	return send_segment(ctx, c, item, kind, 3, 0, net_be, net6_be);
}
