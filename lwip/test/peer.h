/* SPDX-License-Identifier: Apache-2.0
 *
 * A TCP peer spoken by hand, a flood, and what every case begins and ends with.
 */
#ifndef TG_TEST_PEER_H
#define TG_TEST_PEER_H

#include <stdlib.h>

#include "check.h"
#include "expect.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include "net.h"

#define BACKLOG 4
#define FLOOD_PORT 1024

#define OPT_MSS(v) 2, 4, (u8_t)((v) >> 8), (u8_t)(v)
#define OPT_TS(v)                                                                                  \
	8, 10, (u8_t)((v) >> 24), (u8_t)((v) >> 16), (u8_t)((v) >> 8), (u8_t)(v), 0, 0, 0, 0

u32_t rng(void);

/* Every case begins with no connections and with the clock at zero, and ends
 * with lwIP holding what it held at remember_usage(). */
void begin(void);
void remember_usage(void);
void check_no_leak(const char *what);

void flood_syn(int family);
void fill_queue(int family);

/* Sends a SYN and returns its answer, or NULL. */
struct segment *syn(int family, u16_t port, u32_t isn, const u8_t *opts, u8_t opts_len);
/* The ACK that completes a handshake, with some data. */
struct segment ack_for(int family, const struct segment *synack, u16_t data_len);
int established(u16_t port);
/* The client's RST ends the connection at once, in one packet. */
void reset_from_client(int family, u16_t port);
/* All flags sent to a port since the last call, and 0x100 if
 * anything was sent. */
int sent_flags(u16_t port);

/* The cases; each checks itself. */
void test_lwip_client(int family, int under_flood);
void test_every_offer(int family);
void test_bad_flags(void);
void test_lost_ack(void);

void test_bad_acks(int family);
void test_replay(void);
void test_one_packet(void);
void test_wraps(void);

void test_flood(int family);
void test_malformed_options(void);
void test_pool_exhausted(void);
void test_heap_exhausted(void);
void test_accept_queue(void);
void test_recycle(void);

#endif
