/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame that a program without a kernel has in hand (replay_server.h, replay_edge.h), what it has sent beside it,
 * and the tags of the protocol `tagged`, which both ends write.
 */
#ifndef TG_TEST_REPLAY_FRAME_H
#define TG_TEST_REPLAY_FRAME_H

#include "../tag.h"
#include "commands.h"
#include "replay_plane.h"

#define MARGIN 512 /* what a frame may become longer by */

/* What a program returns. */
enum verdict {
	VERDICT_PASS,
	VERDICT_DROP,
	VERDICT_TX,
	VERDICT_SETUP,    /* to the TC program, with a mark */
	VERDICT_REDIRECT, /* elsewhere: into the queue again, or to an edge */
};

struct frame {
	uint8_t room[FRAME_MAX + 2 * MARGIN];
	uint8_t *at;
	uint32_t len;
};

extern struct frame now;

/* The frame of a command becomes the one in hand. */
bool take(const char *hex);
/* A copy of it goes, as by bpf_clone_redirect. */
void send_copy(void);
/* TG_REPLY: the frame in hand is the answer. */
enum verdict verdict_of(enum tg_verdict v);
/* Prints the verdict, the frame, and what was sent. */
void tell(enum verdict v);

const struct tg_tag_epoch *tag_keys_of(uint64_t epoch);
/* Puts a tag on the segment in hand, with a MAC in which the bits of `flip` are wrong. False, with nothing done, if it has
 * no room for one, or its epoch no key. */
bool tag_put(struct tg_packet *pkt, const struct tg_tag *t, uint64_t epoch, uint64_t flip);

/* Commands; see `commands` in replay.c. */
bool do_tag_key(const char *args);
bool do_tag(const char *args);

#endif
