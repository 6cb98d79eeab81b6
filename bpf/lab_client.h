/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The lab's clients: HTTP requests, one TCP connection each, whose frames go out between those of
 * the flood, frame by frame, by the same program. So no client is late because the generator
 * occupies the processor, and what a client sends meets the queue as full as the flood keeps it.
 * The server's packets are read by tg_lab_door and answered by the generator.
 *
 * They do what Linux clients do: SYN with MSS, SACK, timestamps and window scale; a bare ACK, then
 * the request when the window allows; retransmission after 200 ms, doubling; zero-window probes; an
 * ACK for each segment; FIN when the server has closed. They do not retransmit a SYN: Linux would
 * after a second, by when the request has failed. Responses come in order, or not at all.
 *
 * Generator and door run on one processor with softirqs off, so that nothing is locked.
 * Never loaded by `tidegate run`.
 */
#define CLIENT_CONNS 16384 /* requests are remembered so long; a power of two */
#define CLIENT_PORT_FIRST 1024 /* of a request's connection: this plus its place */
#define CLIENT_QUEUE 4096 /* frames that wait for the generator; a power of two */
#define CLIENT_RTO_NS 200000000ULL /* TCP_RTO_MIN */
#define CLIENT_TRIES 4
#define CLIENT_WINDOW 64240
#define CLIENT_WSCALE 10
#define REQUEST_WORDS 12
#define REQUEST_LEN (4 * REQUEST_WORDS)

#define TCP_FLAG_FIN 0x01
#define TCP_FLAG_RST 0x04
#define TCP_FLAG_PSH 0x08

enum tg_client_state {
	CLIENT_FREE,
	CLIENT_SYN_SENT,
	CLIENT_OPEN,
	CLIENT_DONE, /* has the whole response */
	CLIENT_RESET,
	CLIENT_BAD, /* the response is not what it should be */
};

enum tg_client_frame {
	SEND_SYN,
	SEND_ACK,
	SEND_REQUEST,
	SEND_FIN,
	SEND_PROBE,
	SEND_RST,
};

struct tg_client_conn {
	__u64 due_ns; /* all times by the monotonic clock */
	__u64 sent_ns;
	__u64 connected_ns;
	__u64 done_ns;
	__u64 timer_ns; /* 0: none runs */
	__u32 source; /* number of its address */
	__u32 isn;
	__u32 snd_una; /* relative to isn */
	__u32 irs;
	__u32 rcv_nxt;
	__u32 ts_recent;
	__u32 window;
	__u32 rst_seq;
	__u8 state;
	__u8 wscale;
	__u8 tries;
	__u8 retries; /* connections restarted after a reset */
	__u8 has_ts;
	__u8 requested;
	__u8 fin_seen;
	__u8 scaled; /* the server scales windows, and so does the client */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLIENT_CONNS);
	__type(key, __u32);
	__type(value, struct tg_client_conn);
} client_conns SEC(".maps");

struct tg_client_cfg {
	__u32 sources; /* how many addresses; 0: no clients */
	__u32 retries;
	__u64 timeout_ns;
	__u32 request[REQUEST_WORDS];
};

volatile const struct tg_client_cfg client_cfg = {};

/* Requests are numbered; those from client_next to before client_end are still to be made. */
__u32 client_first;
__u32 client_next;
__u32 client_end;
__u32 client_scan;
__u32 client_expect; /* bytes of the response */
__u32 client_looks;
__u64 client_due_ns; /* of client_next */
__u64 client_gap_ns;
__u64 client_finished;
__u64 client_frames;

__u32 client_queue[CLIENT_QUEUE];
__u32 client_head;
__u32 client_tail;
__u64 client_overflow; /* frames that found the queue full: must stay 0 */

/* A frame of the queue: connection, kind, and whether it comes after the request and after the FIN. */
#define ITEM_REQUESTED (1 << 24)
#define ITEM_FIN (1 << 25)

static __always_inline __u32 client_item(const struct tg_client_conn *c, __u32 slot,
					 enum tg_client_frame kind)
{
	return slot | kind << 16 | (c->requested ? ITEM_REQUESTED : 0) | (c->fin_seen ? ITEM_FIN : 0);
}

static __always_inline void client_send(const struct tg_client_conn *c, __u32 slot,
					enum tg_client_frame kind)
{
	if (client_tail - client_head >= CLIENT_QUEUE) {
		client_overflow++;
		return;
	}
	client_queue[client_tail & (CLIENT_QUEUE - 1)] = client_item(c, slot, kind);
	client_tail++;
}

static __always_inline void client_begin(struct tg_client_conn *c, __u32 slot)
{
	c->state = CLIENT_SYN_SENT;
	c->isn = bpf_get_prandom_u32();
	c->snd_una = 0;
	c->timer_ns = 0;
	c->tries = 0;
	c->requested = 0;
	c->fin_seen = 0;
	c->has_ts = 0;
	c->scaled = 0;
	c->ts_recent = 0;
	c->irs = 0;
	c->rcv_nxt = 0;
}

/* The next request, if it is due. */
static __always_inline int client_start(__u64 now, __u32 *item)
{
	struct tg_client_conn *c;
	__u32 slot = client_next & (CLIENT_CONNS - 1);

	if (client_next == client_end || now < client_due_ns)
		return 0;
	c = bpf_map_lookup_elem(&client_conns, &slot);
	if (!c)
		return 0;
	client_begin(c, slot);
	c->due_ns = client_due_ns;
	c->sent_ns = now;
	c->connected_ns = 0;
	c->done_ns = 0;
	c->retries = 0;
	/* A number, its place and its address come together again after millions of requests. */
	c->source = (client_next + client_next / CLIENT_CONNS) % client_cfg.sources;
	client_due_ns += client_gap_ns;
	client_next++;
	*item = client_item(c, slot, SEND_SYN);
	return 1;
}

/* Looks at one connection in turn: retransmissions. */
static __always_inline int client_timer(__u64 now, __u32 *item)
{
	struct tg_client_conn *c;
	enum tg_client_frame kind;
	__u32 slot;

	if (client_scan - client_first >= client_next - client_first)
		client_scan = client_first;
	slot = client_scan & (CLIENT_CONNS - 1);
	client_scan++;
	c = bpf_map_lookup_elem(&client_conns, &slot);
	if (!c || !c->timer_ns || now < c->timer_ns)
		return 0;
	if (c->state == CLIENT_SYN_SENT) {
		c->timer_ns = 0;
		kind = SEND_SYN;
	} else if (c->state != CLIENT_OPEN && !c->fin_seen) {
		c->timer_ns = 0;
		return 0;
	} else {
		kind = c->fin_seen ? SEND_FIN : c->requested ? SEND_REQUEST : SEND_PROBE;
		c->tries++;
		c->timer_ns = c->tries > CLIENT_TRIES ? 0 : now + (CLIENT_RTO_NS << (c->tries & 7));
	}
	*item = client_item(c, slot, kind);
	return 1;
}

/* What a client has to send now. */
static __always_inline int client_work(__u64 now, __u32 *item)
{
	return client_start(now, item) || client_timer(now, item);
}

struct tg_answer {
	__u32 seq, ack, window, payload, tsval;
	__u8 flags, wscale, scaled, has_ts, bad;
};

static __always_inline void client_done(struct tg_client_conn *c, enum tg_client_state state,
					__u64 now)
{
	c->state = state;
	c->timer_ns = 0;
	c->done_ns = now;
	client_finished++;
}

/* The request, if the window allows; else window probes. */
static __always_inline void client_request(struct tg_client_conn *c, __u32 slot, __u64 now)
{
	c->tries = 0;
	c->timer_ns = now + CLIENT_RTO_NS;
	if (c->window < REQUEST_LEN)
		return;
	c->requested = 1;
	client_send(c, slot, SEND_REQUEST);
}

static __always_inline void client_syn_sent(struct tg_client_conn *c, __u32 slot,
					    const struct tg_answer *a, __u64 now)
{
	if (!(a->flags & TCP_FLAG_ACK))
		return;
	if (a->ack != c->isn + 1) { /* a challenge: reset, and retry soon, as Linux does */
		c->rst_seq = a->ack;
		client_send(c, slot, SEND_RST);
		if (!c->tries) {
			c->tries = 1;
			c->timer_ns = now + 8000000;
		}
		return;
	}
	if (!(a->flags & TCP_FLAG_SYN))
		return;
	c->state = CLIENT_OPEN;
	if (!c->connected_ns)
		c->connected_ns = now;
	c->irs = a->seq;
	c->rcv_nxt = a->seq + 1;
	c->snd_una = 1;
	c->has_ts = a->has_ts;
	c->ts_recent = a->tsval;
	c->wscale = a->wscale;
	c->scaled = a->scaled;
	c->window = a->window; /* a SYN's is not scaled */
	client_send(c, slot, SEND_ACK);
	client_request(c, slot, now);
}

static __always_inline void client_open(struct tg_client_conn *c, __u32 slot,
					const struct tg_answer *a, __u64 now)
{
	__u32 acked = a->ack - c->isn;

	if (a->flags & TCP_FLAG_SYN) { /* our ACK was lost */
		client_send(c, slot, SEND_ACK);
		return;
	}
	if (!(a->flags & TCP_FLAG_ACK))
		return;
	if (acked > c->snd_una && acked <= 2 + REQUEST_LEN) {
		c->snd_una = acked;
		c->tries = 0;
		if (acked > REQUEST_LEN)
			c->timer_ns = c->fin_seen && acked <= 1 + REQUEST_LEN ? c->timer_ns : 0;
	}
	c->window = a->window << (c->wscale & 15);
	if (c->state == CLIENT_OPEN && !c->requested)
		client_request(c, slot, now);
	if (!a->payload && !(a->flags & TCP_FLAG_FIN))
		return;
	if (a->seq != c->rcv_nxt) {
		client_send(c, slot, c->fin_seen ? SEND_FIN : SEND_ACK);
		return;
	}
	c->ts_recent = a->tsval;
	c->rcv_nxt += a->payload;
	if (c->state == CLIENT_OPEN && a->bad)
		client_done(c, CLIENT_BAD, now);
	if (c->state == CLIENT_OPEN && a->payload && c->rcv_nxt - c->irs - 1 >= client_expect)
		client_done(c, c->rcv_nxt - c->irs - 1 == client_expect ? CLIENT_DONE : CLIENT_BAD,
			    now);
	if (a->flags & TCP_FLAG_FIN) {
		c->rcv_nxt++;
		c->fin_seen = 1;
		c->tries = 0;
		c->timer_ns = now + CLIENT_RTO_NS;
		if (c->state == CLIENT_OPEN) /* cut short */
			client_done(c, CLIENT_BAD, now);
		client_send(c, slot, SEND_FIN);
		return;
	}
	client_send(c, slot, SEND_ACK);
}

static __always_inline void client_reset(struct tg_client_conn *c, __u32 slot,
					 const struct tg_answer *a, __u64 now)
{
	if (c->state == CLIENT_SYN_SENT ? !(a->flags & TCP_FLAG_ACK) || a->ack != c->isn + 1
					: c->state != CLIENT_OPEN || a->seq != c->rcv_nxt)
		return; /* of an earlier connection */
	if (c->rcv_nxt - c->irs <= 1 && c->retries < client_cfg.retries) {
		c->retries++;
		client_begin(c, slot);
		client_send(c, slot, SEND_SYN);
		return;
	}
	client_done(c, CLIENT_RESET, now);
}

static __always_inline void client_answer(struct tg_client_conn *c, __u32 slot,
					  const struct tg_answer *a, __u64 now)
{
	if (now - c->due_ns > client_cfg.timeout_ns && c->state != CLIENT_DONE) { /* given up, closed */
		c->timer_ns = 0;
		if (!(a->flags & TCP_FLAG_RST)) {
			c->rst_seq = a->ack;
			client_send(c, slot, SEND_RST);
		}
		return;
	}
	if (a->flags & TCP_FLAG_RST)
		client_reset(c, slot, a, now);
	else if (c->state == CLIENT_SYN_SENT)
		client_syn_sent(c, slot, a, now);
	else
		client_open(c, slot, a, now);
}

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
