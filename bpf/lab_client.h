/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The lab's clients: HTTP requests, one TCP connection each, whose frames go out between those of
 * the flood, frame by frame, by the same program. So no client is late because the generator
 * occupies the processor, and what a client sends meets the queue as full as the flood keeps it.
 * The server's packets are read by tg_lab_client and answered by the generator.
 *
 * They do what Linux clients do: SYN with MSS, SACK, timestamps and window scale; a bare ACK, then
 * the request when the window allows; retransmission after 200 ms, doubling; zero-window probes; an
 * ACK for each segment; FIN when the server has closed. They do not retransmit a SYN: Linux would
 * after a second, by when the request has failed. Responses come in order, or not at all.
 *
 * Generator and tg_lab_client run on one processor with softirqs off, so that nothing is locked.
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
/* One client, one connection at a time: the next is due this long after the end of the last; 0: many clients, client_gap_ns apart. */
__u64 client_pause_ns;
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

/* With one client: whether its last connection has ended, or was given up, and its pause, too. */
static __always_inline int client_paused(__u64 now)
{
	const struct tg_client_conn *c;
	__u32 slot = (client_next - 1) & (CLIENT_CONNS - 1);
	__u64 then_ns;

	if (!client_pause_ns || client_next == client_first)
		return 1;
	c = bpf_map_lookup_elem(&client_conns, &slot);
	if (!c)
		return 0;
	then_ns = (c->done_ns ? c->done_ns : c->due_ns + client_cfg.timeout_ns) + client_pause_ns;
	if (now < then_ns)
		return 0;
	client_due_ns = then_ns;
	return 1;
}

/* The next request, if it is due. */
static __always_inline int client_start(__u64 now, __u32 *item)
{
	struct tg_client_conn *c;
	__u32 slot = client_next & (CLIENT_CONNS - 1);

	if (client_next == client_end || now < client_due_ns || !client_paused(now))
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
	c->source = client_pause_ns
			    ? 0
			    : (client_next + client_next / CLIENT_CONNS) % client_cfg.sources;
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
