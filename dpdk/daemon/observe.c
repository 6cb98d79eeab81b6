/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket beside the control socket, of messages (SOCK_SEQPACKET): captures, and the tables of proven
 * sources. A client sends one struct tg_observe_request.
 *
 *   TG_OBSERVE_CAPTURE  answered by struct tg_capture_event, one a message, and by struct tg_capture_counts: first when
 *                       all cores capture, then when these have changed. Lasts until the client closes the
 *                       connection, whatever ends it. One at a time
 *   TG_OBSERVE_PROVEN   answered by slots (struct tg_proven), TABLE_PIECE a message, the tables of all cores one
 *                       after the other, with times in CLOCK_MONOTONIC; by nothing if nobody is remembered. Then the
 *                       connection is closed
 *
 * A thread of its own, since it waits for its clients: for who reads nothing, a second.
 *
 * Must never: make a core or the control thread wait; write what a core reads, but in a capture's ring.
 */
#include "observe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "control.h"
#include "local_socket.h"
#include "memory.h"
#include "say.h"

#define LOOK_MS 5 /* between looks at the rings of a capture */
#define IDLE_MS 50
#define TABLE_PIECE 256 /* slots in a message */
#define TURN_LOOKS 1000 /* a core looks every millisecond whether it is to capture */
#define BUFFER_BYTES (1 << 20)

static int listener = -1;
static char path[256];

/* The capture under way. */
static struct {
	int fd; /* -1: none */
	struct tg_capture all;
	struct tg_capturing *core[TG_CORES_MAX];
	struct tg_capture_counts told;
	bool heard; /* `told` has been sent */
} capture = {.fd = -1};

bool tg_observe_listen(struct tg_program *p)
{
	if (!p->opt.socket)
		return true;
	if (snprintf(path, sizeof(path), "%s%s", p->opt.socket, TG_OBSERVE_SUFFIX) >=
	    (int)sizeof(path))
		return tg_say("--socket: the path is too long");
	listener = tg_local_listen(path, SOCK_SEQPACKET);
	return listener >= 0;
}

/* ---- captures ---- */

/* Gives each core its part, or takes it away (`on` is false), and waits until all cores have seen it. False: one has not. */
static bool turn_cores(struct tg_program *p, bool on)
{
	uint32_t i, waited;

	for (i = 0; i < p->cores_n; i++)
		atomic_store_explicit(&p->cores[i].capture, on ? capture.core[i] : NULL,
				      memory_order_release);
	for (i = 0, waited = 0; i < p->cores_n; i++) {
		while (atomic_load_explicit(&p->cores[i].captures, memory_order_acquire) !=
		       (on ? capture.core[i] : NULL)) {
			if (atomic_load(&p->stop) || waited++ == TURN_LOOKS)
				return false;
			usleep(1000);
		}
	}
	return true;
}

static void capture_end(struct tg_program *p)
{
	bool seen = turn_cores(p, false);
	uint32_t i;

	for (i = 0; i < p->cores_n; i++) {
		if (seen && capture.core[i]) /* otherwise a core may still write there */
			tg_pages_put(capture.core[i], sizeof(*capture.core[i]));
		capture.core[i] = NULL;
	}
	close(capture.fd);
	capture.fd = -1;
}

static void capture_begin(struct tg_program *p, int fd, const struct tg_observe_request *r)
{
	const int room = BUFFER_BYTES;
	uint32_t i;

	capture.fd = fd;
	capture.heard = false;
	memset(&capture.told, 0, sizeof(capture.told));
	capture.all.settings = r->settings;
	capture.all.left = r->left;
	capture.all.lost = capture.all.beyond = 0;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	for (i = 0; i < p->cores_n; i++) {
		capture.core[i] = tg_pages_get(sizeof(*capture.core[i]));
		if (!capture.core[i])
			break;
		capture.core[i]->all = &capture.all;
	}
	if (i < p->cores_n || !turn_cores(p, true)) {
		tg_say("no capture: %s",
		       i < p->cores_n ? strerror(ENOMEM) : "a core does not answer");
		capture_end(p);
	}
}

/* True if the client has taken it; false: later, or never. */
static bool tell(const void *message, size_t len)
{
	return send(capture.fd, message, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

/* Passes on what the cores have captured, as far as the client takes it. */
static void capture_look(struct tg_program *p)
{
	struct tg_capture_counts now = {
		.left = capture.all.left, .lost = capture.all.lost, .beyond = capture.all.beyond};
	const struct tg_capture_event *e;
	uint32_t i;
	char byte;
	ssize_t n = recv(capture.fd, &byte, 1, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) { /* the client has gone */
		capture_end(p);
		return;
	}
	for (i = 0; i < p->cores_n; i++)
		while ((e = tg_capturing_oldest(capture.core[i])) && tell(e, sizeof(*e)))
			tg_capturing_take(capture.core[i]);
	if (capture.heard && memcmp(&now, &capture.told, sizeof(now)) == 0)
		return;
	if (tell(&now, sizeof(now))) {
		capture.told = now;
		capture.heard = true;
	}
}

/* ---- proven sources ---- */

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static bool remembers(void)
{
	bool yes = tg_control_hold()->remember;

	tg_control_release();
	return yes;
}

/* One core's table. False: the client does not take it. */
static bool table_tell(const struct tg_worker *w, int fd)
{
	static struct tg_proven piece[TABLE_PIECE]; /* of this thread */
	uint64_t ahead = monotonic_ns() - w->now_ns; /* of the core's clock */
	uint32_t at, i;

	for (at = 0; at < TG_PROVEN_SLOTS; at += TABLE_PIECE) {
		memcpy(piece, w->proven + at, sizeof(piece));
		for (i = 0; i < TABLE_PIECE; i++) {
			piece[i].first_ns += ahead;
			piece[i].last_ns += ahead;
		}
		if (send(fd, piece, sizeof(piece), MSG_NOSIGNAL) != (ssize_t)sizeof(piece))
			return false;
	}
	return true;
}

static void proven_tell(const struct tg_program *p, int fd)
{
	uint32_t i;

	if (remembers())
		for (i = 0; i < p->cores_n && table_tell(p->cores[i].w, fd); i++)
			;
	close(fd);
}

/* ---- clients ---- */

static void serve(struct tg_program *p, int fd)
{
	const struct timeval second = {.tv_sec = 1};
	struct tg_observe_request r;
	ssize_t n;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));
	n = recv(fd, &r, sizeof(r), 0);
	if (n == (ssize_t)sizeof(r) && r.what == TG_OBSERVE_PROVEN)
		proven_tell(p, fd);
	else if (n == (ssize_t)sizeof(r) && r.what == TG_OBSERVE_CAPTURE && capture.fd < 0)
		capture_begin(p, fd, &r);
	else
		close(fd);
}

void *tg_observe_run(void *program)
{
	struct tg_program *p = program;
	struct pollfd fds = {.fd = listener, .events = POLLIN};

	while (!atomic_load(&p->stop)) {
		if (poll(&fds, 1, capture.fd < 0 ? IDLE_MS : LOOK_MS) > 0) {
			int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

			if (fd >= 0)
				serve(p, fd);
		}
		if (capture.fd >= 0)
			capture_look(p);
	}
	if (capture.fd >= 0)
		close(capture.fd);
	close(listener);
	(void)unlink(path);
	return NULL;
}
