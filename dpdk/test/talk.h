/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations for tests: what a client and a server say to one another through
 * the pipeline, and reading what comes out of it.
 */
#ifndef TG_TEST_TALK_H
#define TG_TEST_TALK_H

#include "harness.h"

#define TALK_EPOCH 218750000ULL
#define TALK_FRAME_MAX 200

struct talk {
	uint8_t family;
	bool ts;
	uint16_t port; /* of the service */
	uint32_t number; /* makes addresses and ports */
	uint32_t client_isn, server_isn;
};

#define TALK_SERVICES 8

/* Makes services 1 to 8 on ports 80 to 87: cookie, the four auth strategies in their
 * order, cookie with first_data store, cache, cookie with first_data notify; all in
 * mode always, and their servers known to give everything but ECN. */
void talk_services(struct harness *h);
void talk_know_server(struct harness *h, uint8_t family, uint16_t port);

/* Puts one of them into mode auto: `mode` is what the detector makes of it. */
void talk_automate(struct harness *h, uint32_t id, int mode, int verify);

/* Denies an IPv4 prefix, and of IPv6 2001:db8::/len6. */
void talk_deny(struct harness *h, uint32_t addr_be, uint8_t len, uint8_t len6);

/* Frames; each returns its length. `dir` is where it goes. */
uint32_t talk_segment(uint8_t *frame, const struct talk *t, enum tg_direction dir, uint32_t seq,
		      uint32_t ack, uint8_t flags, uint32_t data_len);
uint32_t talk_syn(uint8_t *frame, const struct talk *t);
/* The server's SYN-ACK of the SYN that the box sends it. */
uint32_t talk_synack(uint8_t *frame, const struct talk *t);

/* The cookie that the box gives this client. */
struct tg_cookie talk_cookie(const struct talk *t);

/* Processes one frame; on port 0 if it goes to the server, else 1. */
void talk_put(struct harness *h, const uint8_t *frame, uint32_t len, enum tg_direction dir);

/* Checks that both caught the same frames, and counted the same. */
void talk_compare(const struct harness *a, const struct harness *b, const char *what);

/* The caught frame, parsed; checks lengths and both checksums. */
struct tg_packet talk_caught(const struct harness *h, uint32_t i);

#endif
