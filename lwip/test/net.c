/* SPDX-License-Identifier: Apache-2.0
 *
 * See net.h.
 */
#include "net.h"

#include <stdlib.h>
#include <string.h>

#include "lwip/inet_chksum.h"
#include "lwip/init.h"
#include "lwip/ip.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include "lwip/timeouts.h"

#define QUEUE_MAX 4096
#define WRITE_MIN 64

struct netif net_server, net_client;
int net_delay_accept;

static u32_t now_ms;
static struct segment *sent;
static u32_t sent_at, sent_count, bad_checksums;
static struct pbuf *loop[64];
static u32_t loop_count;
static u32_t received_bytes, accepted;

u32_t sys_now(void)
{
	return now_ms;
}

u32_t net_now_ms(void)
{
	return now_ms;
}

void net_time_set(u32_t ms)
{
	now_ms = ms;
}

static ip_addr_t ip_of(int family, u32_t v4, u32_t v6_word2, u32_t v6_low)
{
	ip_addr_t ip;

	if (family == 4) {
		IP_SET_TYPE_VAL(ip, IPADDR_TYPE_V4);
		ip4_addr_set_u32(ip_2_ip4(&ip), lwip_htonl(v4));
		return ip;
	}
	IP_ADDR6_HOST(&ip, 0x20010db8, 0, v6_word2, v6_low);
	return ip;
}

ip_addr_t net_peer_ip(int family, u32_t n)
{
	return ip_of(family, 0x0b000001 + n, 7, 0x100 + n);
}

const ip_addr_t *net_server_ip(int family)
{
	return family == 4 ? &net_server.ip_addr : netif_ip_addr6(&net_server, 0);
}

const ip_addr_t *net_client_ip(int family)
{
	return family == 4 ? &net_client.ip_addr : netif_ip_addr6(&net_client, 0);
}

static u16_t get16(const u8_t *b)
{
	return (u16_t)(b[0] << 8 | b[1]);
}
static u32_t get32(const u8_t *b)
{
	return (u32_t)get16(b) << 16 | get16(b + 2);
}
static void put16(u8_t *b, u32_t v)
{
	b[0] = (u8_t)(v >> 8);
	b[1] = (u8_t)v;
}
static void put32(u8_t *b, u32_t v)
{
	put16(b, v >> 16);
	put16(b + 2, v);
}

/* The TCP checksum over a header and its data (0: a received one is right).
 * Takes nothing from lwIP's heap, which a test may have emptied. */
static u16_t tcp_checksum(u8_t *tcp, u16_t len, const ip_addr_t *src, const ip_addr_t *dst)
{
	struct pbuf *p = pbuf_alloc_reference(tcp, len, PBUF_REF);
	u16_t sum;

	LWIP_ASSERT("a pbuf for the checksum", p != NULL);
	sum = ip_chksum_pseudo(p, IP_PROTO_TCP, len, src, dst);
	pbuf_free(p);
	return sum;
}

/* Reads an IP packet that lwIP has sent to a peer. */
static void capture(struct pbuf *p, int family)
{
	static u8_t bytes[4096];
	u16_t len = pbuf_copy_partial(p, bytes, sizeof(bytes), 0);
	u16_t ip_len = family == 4 ? 20 : 40, hdr_len;
	struct segment *s;

	LWIP_ASSERT("a packet of the test network fits", len == p->tot_len);
	if (bytes[family == 4 ? 9 : 6] != IP_PROTO_TCP || sent_count == QUEUE_MAX)
		return;
	s = &sent[sent_count];
	memset(s, 0, sizeof(*s));
	if (family == 4) {
		IP_SET_TYPE_VAL(s->src, IPADDR_TYPE_V4);
		IP_SET_TYPE_VAL(s->dst, IPADDR_TYPE_V4);
		memcpy(ip_2_ip4(&s->src), bytes + 12, 4);
		memcpy(ip_2_ip4(&s->dst), bytes + 16, 4);
		bad_checksums += inet_chksum(bytes, 20) != 0;
	} else {
		IP_SET_TYPE_VAL(s->src, IPADDR_TYPE_V6);
		IP_SET_TYPE_VAL(s->dst, IPADDR_TYPE_V6);
		memcpy(ip_2_ip6(&s->src)->addr, bytes + 8, 16);
		memcpy(ip_2_ip6(&s->dst)->addr, bytes + 24, 16);
		ip6_addr_clear_zone(ip_2_ip6(&s->src));
		ip6_addr_clear_zone(ip_2_ip6(&s->dst));
	}
	memmove(bytes, bytes + ip_len, len - ip_len);
	len = (u16_t)(len - ip_len);
	bad_checksums += tcp_checksum(bytes, len, &s->src, &s->dst) != 0;
	hdr_len = (u16_t)((bytes[12] >> 4) * 4);
	s->src_port = get16(bytes);
	s->dst_port = get16(bytes + 2);
	s->seq = get32(bytes + 4);
	s->ack = get32(bytes + 8);
	s->flags = bytes[13];
	s->wnd = get16(bytes + 14);
	s->opts_len = (u8_t)(hdr_len - 20);
	memcpy(s->opts, bytes + 20, s->opts_len);
	s->data_len = (u16_t)(len - hdr_len);
	memcpy(s->data, bytes + hdr_len, s->data_len);
	sent_count++;
}

/* Packets between lwIP's own two addresses go round; others are captured. */
static err_t output(struct pbuf *p, int family, int ours)
{
	if (!ours) {
		capture(p, family);
		return ERR_OK;
	}
	LWIP_ASSERT("the loop has room", loop_count < LWIP_ARRAYSIZE(loop));
	loop[loop_count] = pbuf_clone(PBUF_LINK, PBUF_POOL, p);
	LWIP_ASSERT("a pbuf for the loop", loop[loop_count] != NULL);
	loop_count++;
	return ERR_OK;
}

static err_t output4(struct netif *n, struct pbuf *p, const ip4_addr_t *dst)
{
	LWIP_UNUSED_ARG(n);
	return output(p, 4,
		      ip4_addr_cmp(dst, ip_2_ip4(&net_server.ip_addr)) ||
			      ip4_addr_cmp(dst, ip_2_ip4(&net_client.ip_addr)));
}

static err_t output6(struct netif *n, struct pbuf *p, const ip6_addr_t *dst)
{
	LWIP_UNUSED_ARG(n);
	return output(p, 6,
		      ip6_addr_cmp_zoneless(dst, netif_ip6_addr(&net_server, 0)) ||
			      ip6_addr_cmp_zoneless(dst, netif_ip6_addr(&net_client, 0)));
}

static void pump(void)
{
	while (loop_count) {
		struct pbuf *p = loop[0];

		memmove(loop, loop + 1, --loop_count * sizeof(loop[0]));
		ip_input(p, &net_server);
	}
}

/* The same later MSS option meets the persist timer: it splits the segment at the head of the
 * queue to fill a window that has opened a little, and asserts that this part is within the MSS
 * ("split <= mss"). Such a connection is reset here, as an application might. */
static void abort_what_split_would_assert(void)
{
	struct tcp_pcb *pcb = tcp_active_pcbs, *next;

	for (; pcb != NULL; pcb = next) {
		next = pcb->next;
		if (pcb->persist_backoff > 0 && pcb->unsent != NULL && pcb->snd_wnd > pcb->mss &&
		    pcb->unsent->len > pcb->snd_wnd)
			tcp_abandon(pcb, 1);
	}
}

void net_advance(u32_t ms)
{
	u32_t step;

	pump();
	while (ms) {
		step = ms < 250 ? ms : 250;
		now_ms += step;
		ms -= step;
		abort_what_split_would_assert();
		sys_check_timeouts();
		pump();
	}
}

static err_t netif_setup(struct netif *n)
{
	n->output = output4;
	n->output_ip6 = output6;
	n->mtu = 1500;
	n->mtu6 = 1500;
	n->flags = NETIF_FLAG_LINK_UP;
	n->name[0] = 't';
	n->name[1] = 'g';
	return ERR_OK;
}

static void netif_start(struct netif *n, u32_t v4, u32_t v6_word2)
{
	ip_addr_t ip = ip_of(4, v4, 0, 0), mask = ip_of(4, 0xffffff00, 0, 0),
		  gw = ip_of(4, v4 ^ 2, 0, 0), ip6 = ip_of(6, 0, v6_word2, 0x50);

	netif_add(n, ip_2_ip4(&ip), ip_2_ip4(&mask), ip_2_ip4(&gw), NULL, netif_setup, ip_input);
	netif_ip6_addr_set(n, 0, ip_2_ip6(&ip6));
	netif_ip6_addr_set_state(n, 0, IP6_ADDR_PREFERRED);
	netif_set_up(n);
}

void net_init(void)
{
	if (sent)
		return;
	sent = calloc(QUEUE_MAX, sizeof(*sent));
	lwip_init();
	netif_start(&net_server, 0xc6120050, 1); /* 198.18.0.80 */
	netif_start(&net_client, 0x0a000102, 2); /* 10.0.1.2 */
	netif_set_default(&net_server);
}

struct segment net_segment(int family, u32_t peer, u16_t port, u8_t flags, u32_t seq, u32_t ack)
{
	struct segment s;

	memset(&s, 0, sizeof(s));
	s.src = net_peer_ip(family, peer);
	s.dst = *net_server_ip(family);
	s.src_port = port;
	s.dst_port = NET_PORT;
	s.seq = seq;
	s.ack = ack;
	s.flags = flags;
	s.wnd = 20000;
	return s;
}

/* Writes the IP header; returns its length. */
static u16_t put_ip(u8_t *b, const struct segment *s, u16_t tcp_len)
{
	if (IP_IS_V4(&s->src)) {
		memset(b, 0, 20);
		b[0] = 0x45;
		put16(b + 2, 20U + tcp_len);
		b[8] = 64;
		b[9] = IP_PROTO_TCP;
		memcpy(b + 12, ip_2_ip4(&s->src), 4);
		memcpy(b + 16, ip_2_ip4(&s->dst), 4);
		put16(b + 10, lwip_htons(inet_chksum(b, 20)));
		return 20;
	}
	memset(b, 0, 40);
	b[0] = 0x60;
	put16(b + 4, tcp_len);
	b[6] = IP_PROTO_TCP;
	b[7] = 64;
	memcpy(b + 8, ip_2_ip6(&s->src)->addr, 16);
	memcpy(b + 24, ip_2_ip6(&s->dst)->addr, 16);
	return 40;
}

static void put_tcp(u8_t *b, const struct segment *s, u16_t tcp_len)
{
	memset(b, 0, 20);
	put16(b, s->src_port);
	put16(b + 2, s->dst_port);
	put32(b + 4, s->seq);
	put32(b + 8, s->ack);
	b[12] = (u8_t)((20 + s->opts_len) / 4 << 4);
	b[13] = s->flags;
	put16(b + 14, s->wnd);
	memcpy(b + 20, s->opts, s->opts_len);
	memcpy(b + 20 + s->opts_len, s->data, s->data_len);
	put16(b + 16, lwip_htons(tcp_checksum(b, tcp_len, &s->src, &s->dst)));
}

void net_inject_cut(const struct segment *s, int cut)
{
	static u8_t b[4096];
	u16_t tcp_len = (u16_t)(20 + s->opts_len + s->data_len), len;
	struct pbuf *p, *rest;

	len = put_ip(b, s, tcp_len);
	put_tcp(b + len, s, tcp_len);
	if (cut && s->opts_len > cut) {
		u16_t first = (u16_t)(len + 20 + cut);

		p = pbuf_alloc(PBUF_LINK, first, PBUF_RAM);
		rest = pbuf_alloc(PBUF_RAW, (u16_t)(len + tcp_len - first), PBUF_RAM);
		if (p == NULL || rest == NULL) {
			if (p != NULL)
				pbuf_free(p);
			if (rest != NULL)
				pbuf_free(rest);
			return;
		}
		pbuf_take(p, b, first);
		pbuf_take(rest, b + first, rest->tot_len);
		pbuf_cat(p, rest);
	} else {
		p = pbuf_alloc(PBUF_LINK, (u16_t)(len + tcp_len), PBUF_POOL);
		if (p == NULL)
			return;
		pbuf_take(p, b, p->tot_len);
	}
	if (net_server.input(p, &net_server) != ERR_OK)
		pbuf_free(p);
}

void net_inject(const struct segment *s)
{
	net_inject_cut(s, 0);
}

void net_inject_bytes(const u8_t *bytes, u16_t len)
{
	struct pbuf *p = len ? pbuf_alloc(PBUF_LINK, len, PBUF_POOL) : NULL;

	if (p == NULL)
		return;
	pbuf_take(p, bytes, len);
	if (net_server.input(p, &net_server) != ERR_OK)
		pbuf_free(p);
}

struct segment *net_sent(void)
{
	return sent_at < sent_count ? &sent[sent_at++] : NULL;
}

void net_sent_clear(void)
{
	sent_at = sent_count = 0;
}

u32_t net_bad_checksums(void)
{
	return bad_checksums;
}

/* lwIP takes an MSS option out of any segment, and tcp_write() asserts that neither its own
 * options nor what it has queued are too long for it ("mss_local is too small",
 * "inconsistent oversize vs. space"; lwIP 2.1.3 and 2.2.1, with the module and without):
 * a client can so stop any lwIP server that is built with assertions and writes. */
static int write_would_assert(const struct tcp_pcb *pcb)
{
	const struct tcp_seg *last = pcb->unsent;
	u32_t queued;

	if (pcb->mss < WRITE_MIN || pcb->snd_wnd_max < 2 * WRITE_MIN)
		return 1;
	while (last != NULL && last->next != NULL)
		last = last->next;
	if (last == NULL)
		return 0;
	queued = (u32_t)last->len + LWIP_TCP_OPT_LENGTH(last->flags) + pcb->unsent_oversize;
	return queued > LWIP_MIN(pcb->mss, pcb->snd_wnd_max / 2);
}

static err_t echo_recv(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
	static u8_t bytes[4096];
	u16_t len;

	LWIP_UNUSED_ARG(arg);
	LWIP_UNUSED_ARG(err);
	if (p == NULL) {
		tcp_close(pcb);
		return ERR_OK;
	}
	received_bytes += p->tot_len;
	tcp_recved(pcb, p->tot_len);
	len = pbuf_copy_partial(p, bytes, sizeof(bytes), 0);
	pbuf_free(p);
	if (write_would_assert(pcb))
		return ERR_OK;
	if (tcp_write(pcb, bytes, len, TCP_WRITE_FLAG_COPY) == ERR_OK)
		tcp_output(pcb);
	return ERR_OK;
}

static err_t echo_accept(void *arg, struct tcp_pcb *pcb, err_t err)
{
	LWIP_UNUSED_ARG(arg);
	if (err != ERR_OK || pcb == NULL)
		return ERR_VAL;
	accepted++;
	if (net_delay_accept)
		tcp_backlog_delayed(pcb);
	tcp_recv(pcb, echo_recv);
	return ERR_OK;
}

struct tcp_pcb *net_listen(u16_t port, u8_t backlog)
{
	struct tcp_pcb *pcb = tcp_new_ip_type(IPADDR_TYPE_ANY), *lpcb;

	LWIP_ASSERT("a pcb for the listener", pcb != NULL);
	tcp_bind(pcb, IP_ANY_TYPE, port);
	lpcb = tcp_listen_with_backlog(pcb, backlog);
	LWIP_ASSERT("the listener", lpcb != NULL);
	tcp_accept(lpcb, echo_accept);
	return lpcb;
}

u32_t net_received(void)
{
	return received_bytes;
}

u32_t net_accepted(void)
{
	return accepted;
}

struct tcp_pcb *net_pcb(u16_t remote_port)
{
	struct tcp_pcb *pcb;

	for (pcb = tcp_active_pcbs; pcb != NULL; pcb = pcb->next)
		if (pcb->remote_port == remote_port)
			return pcb;
	return NULL;
}

u32_t net_pcb_count(int state)
{
	struct tcp_pcb *pcb;
	u32_t n = 0;

	for (pcb = tcp_active_pcbs; pcb != NULL; pcb = pcb->next)
		n += state < 0 || (int)pcb->state == state;
	return n;
}

void net_abort_all(void)
{
	while (tcp_active_pcbs != NULL)
		tcp_abandon(tcp_active_pcbs, 0);
	while (tcp_tw_pcbs != NULL)
		tcp_abandon(tcp_tw_pcbs, 0);
}

struct net_usage net_usage(void)
{
	return (struct net_usage){
		.tcp_pcb = lwip_stats.memp[MEMP_TCP_PCB]->used,
		.tcp_seg = lwip_stats.memp[MEMP_TCP_SEG]->used,
		.pbuf = lwip_stats.memp[MEMP_PBUF]->used,
		.pbuf_pool = lwip_stats.memp[MEMP_PBUF_POOL]->used,
		.heap = lwip_stats.mem.used,
	};
}
