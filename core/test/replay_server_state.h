/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the translating server without a kernel: what replay_server.c keeps for its two ends,
 * replay_server_xdp.c and replay_server_tc.c.
 *
 * Must never: decide what happens to a frame.
 */
#ifndef TG_TEST_REPLAY_SERVER_STATE_H
#define TG_TEST_REPLAY_SERVER_STATE_H

#include "../server_flow.h"
#include "replay_plane.h"

#define SPLITS_MAX 4096
#define EDGES_MAX 8

struct server_state {
	uint64_t keys[TG_FILTER_KEYS];
	uint32_t generic, pass_unverified, adopt, smart, four_epochs;
	uint16_t confirm_port_be;
	struct {
		union tg_addr v4, v6;
	} edges[EDGES_MAX];
	struct tg_split splits[SPLITS_MAX];
	uint32_t splits_n;
	uint8_t mac[6];
	union tg_addr listens[2];
	uint16_t listens_port_be;
};

extern struct server_state server;

struct tg_split *split_find(const struct tg_packet *pkt, enum tg_direction dir);
void split_insert(const struct tg_split *e);
void split_note(struct tg_split *e, const struct tg_packet *pkt, enum tg_direction dir);
uint32_t row_of(const struct tg_packet *pkt, enum tg_direction dir);
bool port_is_protected(uint16_t port_be);

/* What happens to the frame in hand (replay_frame.h). */
enum verdict server_xdp(void);
enum verdict server_ingress(bool marked, bool retransmit);
enum verdict server_egress(void);
enum verdict server_confirm(const struct tg_packet *pkt, uint32_t edge);

#endif
