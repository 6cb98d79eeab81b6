/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to `counts`: the sums over all cores of what mode auto counts, one line a service in that
 * mode and one a place with SYNs, while the cores go on counting.
 *
 *   service ID SYN DETECT_SYN HANDSHAKE COOKIE_SENT CHALLENGE_SENT CACHE_KEPT
 *   place AT SYNS HANDSHAKES SERVICE FAMILY PREFIX
 *   ok
 *
 * Must never: write what a core reads; make a core wait.
 */
#include "counts.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#define LINE_MOST 192
#define TAKE_MS 5000 /* a client that takes nothing for so long has gone */

struct text {
	int fd;
	size_t len;
	char bytes[1 << 15];
};

static bool text_flush(struct text *t)
{
	struct pollfd out = {.fd = t->fd, .events = POLLOUT};
	size_t at = 0;
	ssize_t n;

	while (at < t->len) {
		n = send(t->fd, t->bytes + at, t->len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			at += (size_t)n;
		else if ((errno != EAGAIN && errno != EINTR) || poll(&out, 1, TAKE_MS) == 0)
			return false;
	}
	t->len = 0;
	return true;
}

/* Room for one more line. */
static bool text_room(struct text *t)
{
	return t->len + LINE_MOST <= sizeof(t->bytes) || text_flush(t);
}

static void put_service(struct text *t, const struct tg_program *p, uint32_t id)
{
	static const enum tg_counter read[] = {
		TG_COUNT_syn,         TG_COUNT_detect_syn,     TG_COUNT_handshake,
		TG_COUNT_cookie_sent, TG_COUNT_challenge_sent, TG_COUNT_cache_kept};
	uint32_t i, c;

	t->len += (size_t)snprintf(t->bytes + t->len, LINE_MOST, "service %" PRIu32, id);
	for (c = 0; c < sizeof(read) / sizeof(read[0]); c++) {
		uint64_t sum = 0;

		for (i = 0; i < p->cores_n; i++)
			sum += p->cores[i].w->rows[id].count[read[c]];
		t->len += (size_t)snprintf(t->bytes + t->len, 24, " %" PRIu64, sum);
	}
	t->bytes[t->len++] = '\n';
}

/* Cores have tables of their own: a place may have been noted for different prefixes. */
static void put_place(struct text *t, const struct tg_program *p, uint32_t at)
{
	struct tg_place sum = {0};
	uint8_t prefix[8];
	uint32_t i;

	for (i = 0; i < p->cores_n; i++) {
		const struct tg_place *one = &p->cores[i].w->automatic.places[at];

		sum.syns += one->syns;
		sum.handshakes += one->handshakes;
		if (!one->family)
			continue;
		sum.prefix = one->prefix;
		sum.service = one->service;
		sum.family = one->family;
	}
	if (!sum.syns)
		return;
	memcpy(prefix, &sum.prefix, sizeof(prefix));
	t->len += (size_t)snprintf(t->bytes + t->len, LINE_MOST,
				   "place %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32
				   " ",
				   at, sum.syns, sum.handshakes, sum.service, sum.family);
	for (i = 0; i < sizeof(prefix); i++)
		t->len += (size_t)snprintf(t->bytes + t->len, 3, "%02x", prefix[i]);
	t->bytes[t->len++] = '\n';
}

bool tg_counts_tell(const struct tg_program *p, const struct tg_config *config, int fd)
{
	static struct text t; /* of the control thread */
	uint32_t i;

	t.fd = fd;
	t.len = 0;
	for (i = 1; i <= config->top; i++) {
		if (!config->services[i].automatic)
			continue;
		if (!text_room(&t))
			return false;
		put_service(&t, p, i);
	}
	for (i = 0; i < TG_PLACES; i++) {
		if (!text_room(&t))
			return false;
		put_place(&t, p, i);
	}
	if (!text_room(&t))
		return false;
	t.len += (size_t)snprintf(t.bytes + t.len, LINE_MOST, "ok\n");
	return text_flush(&t);
}
