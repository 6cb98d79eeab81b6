/* SPDX-License-Identifier: Apache-2.0
 *
 * How many instructions one SYN and one ACK cost, from the moment that a frame
 * lies in a pbuf until lwIP is done with it, answer included. The driver's FIFO
 * loops are left out (they are the same for every layout), interrupts are off,
 * and the addresses are drawn from a fixed sequence, so that two runs of one
 * image print the same numbers.
 *
 * QEMU under `-icount shift=N` lets 2^N ns pass with every instruction, and the
 * SysTick counts 20 ns. How many ticks an instruction takes is measured first,
 * on a run of instructions whose number is known.
 */
#include "bench.h"

#include <string.h>

#include "board.h"
#include "lwip/etharp.h"
#include "lwip/inet_chksum.h"
#include "lwip/netif.h"
#include "lwip/priv/tcp_priv.h"
#include "netif/ethernet.h"

#define ROUNDS 64
#define FRAME_LEN (ETH_PAD_SIZE + 14 + 20 + 24)
#define IP_OFF (ETH_PAD_SIZE + 14)
#define TCP_OFF (IP_OFF + 20)

static struct netif netif;
static u8_t answer[128]; /* the last frame sent */
static u32_t answers;
static u32_t ticks_256; /* ticks of 256 instructions */
static const u8_t peer_mac[6] = {2, 0x54, 0x47, 0, 0, 1};

static err_t catch_output(struct netif *n, struct pbuf *p)
{
	LWIP_UNUSED_ARG(n);
	memcpy(answer, p->payload, LWIP_MIN(p->len, sizeof(answer)));
	answers++;
	return ERR_OK;
}

static err_t bench_netif_init(struct netif *n)
{
	n->output = etharp_output;
	n->linkoutput = catch_output;
	n->mtu = 1500;
	n->hwaddr_len = 6;
	memcpy(n->hwaddr, "\x02\x54\x47\x00\x00\x02", 6);
	n->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET |
		   NETIF_FLAG_LINK_UP;
	return ERR_OK;
}

static u32_t rng(void)
{
	static u32_t s = 0x9e3779b9;

	s ^= s << 13;
	s ^= s >> 17;
	s ^= s << 5;
	return s;
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
static u32_t get32(const u8_t *b)
{
	return (u32_t)b[0] << 24 | (u32_t)b[1] << 16 | (u32_t)b[2] << 8 | b[3];
}

/* An ARP reply: lwIP learns where the gateway is. */
static void teach_gateway(void)
{
	static const u8_t head[] = {0, 1, 8, 0, 6, 4, 0, 2};
	struct pbuf *p = pbuf_alloc(PBUF_RAW, ETH_PAD_SIZE + 14 + 28, PBUF_POOL);
	u8_t *b = (u8_t *)p->payload + ETH_PAD_SIZE;
	ip4_addr_t gw;

	memcpy(b, netif.hwaddr, 6);
	memcpy(b + 6, peer_mac, 6);
	put16(b + 12, ETHTYPE_ARP);
	memcpy(b + 14, head, sizeof(head));
	memcpy(b + 22, peer_mac, 6);
	put32(b + 28, 0xc6120701);
	memcpy(b + 32, netif.hwaddr, 6);
	put32(b + 38, 0xc6120702);
	IP4_ADDR(&gw, 198, 18, 7, 1);
	etharp_query(&netif, &gw, NULL); /* the entry must be in use to be kept */
	netif.input(p, &netif);
}

/* A TCP segment over IPv4 with an MSS option, in a pbuf of the pool. */
static struct pbuf *frame(u32_t src, u16_t src_port, u16_t dst_port, u32_t seq, u32_t ack, u8_t flags)
{
	struct pbuf *p = pbuf_alloc(PBUF_RAW, FRAME_LEN, PBUF_POOL), tcp;
	u8_t *b = p->payload;
	ip_addr_t s = IPADDR4_INIT(0), d = IPADDR4_INIT(0);

	memset(b, 0, FRAME_LEN);
	memcpy(b + ETH_PAD_SIZE, netif.hwaddr, 6);
	memcpy(b + ETH_PAD_SIZE + 6, peer_mac, 6);
	put16(b + ETH_PAD_SIZE + 12, ETHTYPE_IP);
	b[IP_OFF] = 0x45;
	put16(b + IP_OFF + 2, 44);
	b[IP_OFF + 8] = 64;
	b[IP_OFF + 9] = 6;
	put32(b + IP_OFF + 12, src);
	put32(b + IP_OFF + 16, 0xc6120702);
	put16(b + IP_OFF + 10, lwip_htons(inet_chksum(b + IP_OFF, 20)));
	put16(b + TCP_OFF, src_port);
	put16(b + TCP_OFF + 2, dst_port);
	put32(b + TCP_OFF + 4, seq);
	put32(b + TCP_OFF + 8, ack);
	b[TCP_OFF + 12] = 6 << 4;
	b[TCP_OFF + 13] = flags;
	put16(b + TCP_OFF + 14, 8192);
	put32(b + TCP_OFF + 20, 0x020405b4);
	ip4_addr_set_u32(ip_2_ip4(&s), lwip_htonl(src));
	ip4_addr_set_u32(ip_2_ip4(&d), PP_HTONL(0xc6120702));
	memset(&tcp, 0, sizeof(tcp));
	tcp.payload = b + TCP_OFF;
	tcp.len = tcp.tot_len = 24;
	put16(b + TCP_OFF + 16, lwip_htons(ip_chksum_pseudo(&tcp, 6, 24, &s, &d)));
	return p;
}

/* The instructions between two readings of the counter. */
static u32_t instructions(u32_t before, u32_t after)
{
	return (((before - after) & 0xffffff) * 256 + ticks_256 / 2) / ticks_256;
}

#define NOP4 "nop\n nop\n nop\n nop\n"
#define NOP16 NOP4 NOP4 NOP4 NOP4
#define NOP64 NOP16 NOP16 NOP16 NOP16

static void calibrate(void)
{
	u32_t a = board_count_now(), b = board_count_now(), c;

	__asm volatile(NOP64 NOP64 NOP64 NOP64);
	c = board_count_now();
	/* The cost of reading is in both differences. */
	ticks_256 = ((b - c) & 0xffffff) - ((a - b) & 0xffffff);
}

/* Passes a frame to lwIP; returns the instructions that it took. */
static u32_t input(struct pbuf *p)
{
	u32_t before = board_count_now();

	if (netif.input(p, &netif) != ERR_OK)
		pbuf_free(p);
	return instructions(before, board_count_now());
}

struct sum {
	u32_t n, total, min, max;
};

static void add(struct sum *s, u32_t v)
{
	s->min = s->n == 0 || v < s->min ? v : s->min;
	s->max = v > s->max ? v : s->max;
	s->total += v;
	s->n++;
}

static void print(const char *name, const struct sum *s)
{
	board_puts(" ");
	board_puts(name);
	board_puts("=");
	board_put_u32(s->n ? (s->total + s->n / 2) / s->n : 0);
	board_puts(" ");
	board_puts(name);
	board_puts("_min=");
	board_put_u32(s->min);
	board_puts(" ");
	board_puts(name);
	board_puts("_max=");
	board_put_u32(s->max);
}

static u32_t random_source(void)
{
	return 0x0b000000 | (rng() & 0xffffff);
}

static u32_t syn_from(u32_t src, u16_t port, u32_t isn)
{
	return input(frame(src, port, APP_SINK_PORT, isn, 0, TCP_SYN));
}

/* One honest handshake; counts its ACK if the SYN was answered. */
static void handshake(struct sum *ack)
{
	u32_t src = random_source(), isn = rng(), before = answers;
	u16_t port = (u16_t)(1024 + rng() % 60000);

	syn_from(src, port, isn);
	if (answers == before)
		return;
	add(ack, input(frame(src, port, APP_SINK_PORT, isn + 1, get32(answer + TCP_OFF + 4) + 1,
			     TCP_ACK)));
	/* End it, so that the next one finds the device in the same state. */
	input(frame(src, port, APP_SINK_PORT, isn + 1, 0, TCP_RST));
}

int bench_run(const struct app_config *config)
{
	struct sum syn = {0}, ack = {0}, bad_ack = {0}, rst = {0};
	u32_t i;

	board_count_setup();
	calibrate();
	if (ticks_256 < 256) {
		board_puts("bench: the clock is too coarse; run under -icount shift=6\n");
		return 1;
	}
	netif_add_noaddr(&netif, NULL, bench_netif_init, ethernet_input);
	netif_set_default(&netif);
	netif_set_up(&netif);
	app_netif_addresses(&netif);
	app_start(config);
	teach_gateway();
	for (i = 0; i < config->queue; i++) /* the flood is under way */
		syn_from(random_source(), (u16_t)(1024 + rng() % 60000), rng());
	for (i = 0; i < ROUNDS; i++) {
		add(&syn, syn_from(random_source(), (u16_t)(1024 + rng() % 60000), rng()));
		add(&bad_ack, input(frame(random_source(), 5, APP_SINK_PORT, rng(), rng(), TCP_ACK)));
		/* A closed port: lwIP's own answer, for comparison. */
		add(&rst, input(frame(random_source(), 5, 9, rng(), 0, TCP_SYN)));
	}
	for (i = 0; i < ROUNDS; i++)
		handshake(&ack);
	board_puts("bench queue=");
	board_put_u32(config->queue);
	print("syn", &syn);
	print("ack", &ack);
	print("bad_ack", &bad_ack);
	print("rst", &rst);
	board_puts("\n");
	return 0;
}
