/* SPDX-License-Identifier: Apache-2.0
 *
 * A network in memory around one lwIP: a server netif, a client netif for
 * lwIP's own client, and a wire at which the test speaks TCP by hand. Time
 * stands still unless the test moves it.
 */
#ifndef TG_TEST_NET_H
#define TG_TEST_NET_H

#include "lwip/ip_addr.h"
#include "lwip/netif.h"
#include "lwip/tcp.h"

#define NET_PORT 80
#define NET_DATA_MAX 2048

/* One TCP segment, numbers in host order. */
struct segment {
	ip_addr_t src, dst;
	u16_t src_port, dst_port;
	u32_t seq, ack;
	u8_t flags;
	u16_t wnd;
	u8_t opts[40];
	u8_t opts_len; /* a multiple of 4 */
	u8_t data[NET_DATA_MAX];
	u16_t data_len;
};

extern struct netif net_server, net_client;

/* Starts lwIP once; later calls do nothing. */
void net_init(void);
/* The server's address of a family, and the n-th client address off the net. */
const ip_addr_t *net_server_ip(int family);
const ip_addr_t *net_client_ip(int family);
ip_addr_t net_peer_ip(int family, u32_t n);

/* A segment from peer to server, ready to be filled in. */
struct segment net_segment(int family, u32_t peer, u16_t port, u8_t flags, u32_t seq, u32_t ack);
/* Passes a segment to lwIP. With cut != 0 the pbuf is split after that many bytes of
 * options, so that the options are in two pieces. */
void net_inject_cut(const struct segment *s, int cut);
void net_inject(const struct segment *s);
/* Passes arbitrary bytes to lwIP as an IP packet. */
void net_inject_bytes(const u8_t *bytes, u16_t len);

/* What lwIP sent to peers, oldest first, with checksums verified. */
struct segment *net_sent(void); /* NULL: nothing more */
void net_sent_clear(void);
u32_t net_bad_checksums(void);

/* Time. net_time_set moves the clock without running timers. */
u32_t net_now_ms(void);
void net_time_set(u32_t ms);
void net_advance(u32_t ms);

/* The echo server's listener, and how many bytes it has received. */
struct tcp_pcb *net_listen(u16_t port, u8_t backlog);
u32_t net_received(void);
u32_t net_accepted(void);
/* How many accepted connections the application leaves unaccepted (delays). */
extern int net_delay_accept;

/* The PCB of a peer, or NULL; the number of PCBs in a state (any: -1). */
struct tcp_pcb *net_pcb(u16_t remote_port);
u32_t net_pcb_count(int state);
/* Aborts every connection silently. */
void net_abort_all(void);

/* Everything that lwIP can run out of. */
struct net_usage {
	u32_t tcp_pcb, tcp_seg, pbuf, pbuf_pool, heap;
};
struct net_usage net_usage(void);

#endif
