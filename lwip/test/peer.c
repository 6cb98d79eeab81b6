/* SPDX-License-Identifier: Apache-2.0
 *
 * See peer.h.
 */
#include "peer.h"

static u32_t rng_state = 1;

u32_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 17;
	rng_state ^= rng_state << 5;
	return rng_state;
}

static const u8_t secret[TG_LWIP_SECRET_LEN] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3,
						2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5};

static struct net_usage idle_usage;

void remember_usage(void)
{
	idle_usage = net_usage();
}

/* Every case begins with no connections and with the clock reset. */
void begin(void)
{
	net_abort_all();
	net_sent_clear();
	tg_lwip_init(secret);
}

void check_no_leak(const char *what)
{
	struct net_usage u;

	net_abort_all();
	u = net_usage();
	CHECK(memcmp(&u, &idle_usage, sizeof(u)) == 0,
	      "%s: pcb %u seg %u pbuf %u pool %u heap %u (before: %u %u %u %u %u)", what, u.tcp_pcb,
	      u.tcp_seg, u.pbuf, u.pbuf_pool, u.heap, idle_usage.tcp_pcb, idle_usage.tcp_seg,
	      idle_usage.pbuf, idle_usage.pbuf_pool, idle_usage.heap);
	CHECK_EQ(net_bad_checksums(), 0, what);
}

void flood_syn(int family)
{
	struct segment s = net_segment(family, 1000 + rng() % 100000,
				       (u16_t)(FLOOD_PORT + rng() % 20000), TCP_SYN, rng(), 0);
	const u8_t opts[] = {OPT_MSS(1460)};

	memcpy(s.opts, opts, sizeof(opts));
	s.opts_len = sizeof(opts);
	net_inject(&s);
}

void fill_queue(int family)
{
	int i;

	for (i = 0; i < BACKLOG; i++)
		flood_syn(family);
	net_sent_clear();
}

/* Sends a SYN and returns its answer, or NULL. */
struct segment *syn(int family, u16_t port, u32_t isn, const u8_t *opts, u8_t opts_len)
{
	struct segment s = net_segment(family, 1, port, TCP_SYN, isn, 0), *answer;

	if (opts_len)
		memcpy(s.opts, opts, opts_len);
	s.opts_len = opts_len;
	net_sent_clear();
	net_inject(&s);
	while ((answer = net_sent()) != NULL)
		if (answer->dst_port == port)
			return answer;
	return NULL;
}

/* The ACK that completes a handshake, with some data. */
struct segment ack_for(int family, const struct segment *synack, u16_t data_len)
{
	struct segment s = net_segment(family, 1, synack->dst_port, TCP_ACK, synack->ack,
				       synack->seq + 1);

	s.data_len = data_len;
	memset(s.data, 'x', data_len);
	return s;
}

int established(u16_t port)
{
	struct tcp_pcb *pcb = net_pcb(port);

	return pcb != NULL && pcb->state == ESTABLISHED;
}

/* The client's RST ends the connection at once, in one packet. */
void reset_from_client(int family, u16_t port)
{
	struct tcp_pcb *pcb = net_pcb(port);
	struct segment s;

	if (pcb == NULL)
		return;
	s = net_segment(family, 1, port, TCP_RST, pcb->rcv_nxt, 0);
	net_inject(&s);
}

int sent_flags(u16_t port)
{
	struct segment *s;
	int flags = 0;

	while ((s = net_sent()) != NULL)
		if (s->dst_port == port)
			flags |= s->flags | 0x100;
	return flags;
}
