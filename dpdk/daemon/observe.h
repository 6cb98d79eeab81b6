/* SPDX-License-Identifier: Apache-2.0
 *
 * observe.c: what the daemon reads in pieces too large for lines of text.
 */
#ifndef TG_DPDK_OBSERVE_H
#define TG_DPDK_OBSERVE_H

#include "../core/capture.h"
#include "program.h"

#define TG_OBSERVE_SUFFIX "-observe" /* of the control socket's path */

/* What a client asks, in one message; everything is in this machine's byte order. */
enum tg_observe_what {
	TG_OBSERVE_CAPTURE = 1,
	TG_OBSERVE_PROVEN = 2,
};

struct tg_observe_request {
	uint64_t what;
	int64_t left; /* of a capture: packets that are wanted */
	struct tg_capture_settings settings; /* likewise */
};

/* Listens beside the control socket. False on error, which has been printed. */
bool tg_observe_listen(struct tg_program *p);

/* Serves that socket until the program stops, on a thread of its own. The argument is the program. */
void *tg_observe_run(void *program);

#endif
