/* SPDX-License-Identifier: Apache-2.0
 *
 * The control thread: takes lines (config_lines.c) from a unix socket, makes a new configuration
 * of them and gives it to the cores; swaps tables on request, and empties those that were
 * swapped out. One client at a time; its lines take effect at `commit`, all of them or none. If
 * the client dies, everything continues as it was.
 *
 *   ...lines of config.h...
 *   commit                        answered by "ok", or "error: line N: why"
 *   swap flows | swap sources     at once, whatever is committed: the tables' turn
 *   forget ID                     likewise: the counters of a service
 *   counts                        answered at once, and no part of a change: counts.c
 *
 * On its own, it reports neighbours that a router does not know (waiting.h):
 *
 *   unresolved FAMILY ADDRESS DPDK-PORT gateway|host
 *
 * Must never: make a core wait; repeat the contents of a line with a key; write what cores count in.
 */
#include "control.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "counts.h"
#include "local_socket.h"
#include "say.h"

#define LOOK_MS 5 /* between looks at what the cores ask for */
#define LINE_MAX_LEN 512
#define SEEN_LOOKS 200 /* a core looks at its configuration every millisecond */

static struct tg_config *in_force, *draft;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER; /* against freeing what another thread reads */
static struct tg_config *old[8]; /* given up, perhaps still read by a core */
static uint32_t line_no;
static char wrong[LINE_MAX_LEN + 128]; /* the first error since the last commit */

static bool seen_by_all(struct tg_program *p, uint64_t number)
{
	uint32_t i;

	for (i = 0; i < p->cores_n; i++)
		if (atomic_load_explicit(&p->cores[i].seen, memory_order_acquire) < number)
			return false;
	return true;
}

static void free_old(struct tg_program *p)
{
	size_t i;

	if (pthread_mutex_trylock(&held)) /* next time */
		return;
	for (i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
		if (old[i] && seen_by_all(p, old[i]->number + 1)) {
			tg_config_free(old[i]);
			old[i] = NULL;
		}
	}
	pthread_mutex_unlock(&held);
}

const struct tg_config *tg_control_hold(void)
{
	pthread_mutex_lock(&held);
	return in_force;
}

void tg_control_release(void)
{
	pthread_mutex_unlock(&held);
}

/* Connections that sources hold are counted anew under the draft: in a sum that no core uses any more, since
 * all have the configuration in force. False: they do not have it yet. */
static bool renew_limits(struct tg_program *p)
{
	struct tg_limit_settings *s = &draft->limits;
	uint32_t c, waited;

	s->era = in_force->limits.era;
	if (tg_limits_count_alike(&in_force->limits, s) || !p->limits) /* before the cores: all is new */
		return true;
	for (waited = 0; !seen_by_all(p, in_force->number); waited++) {
		if (waited == SEEN_LOOKS)
			return false;
		usleep(1000);
	}
	for (c = 0; c < p->cores_n; c++)
		tg_worker_clean(p->cores[c].w);
	tg_limits_begin(p->limits, ++s->era);
	return true;
}

/* Passes the draft to the cores. False: they have not applied the previous one yet. */
static bool publish(struct tg_program *p)
{
	size_t i;
	uint32_t c;

	for (i = 0; i < sizeof(old) / sizeof(old[0]) && old[i]; i++)
		;
	if (i == sizeof(old) / sizeof(old[0]) || !renew_limits(p))
		return false;
	pthread_mutex_lock(&held);
	old[i] = in_force;
	draft->number = in_force->number + 1;
	in_force = draft;
	draft = NULL;
	pthread_mutex_unlock(&held);
	for (c = 0; c < p->cores_n; c++)
		atomic_store_explicit(&p->cores[c].config, in_force, memory_order_release);
	return true;
}

/* The cores reset their own counts when they next read the clock. */
static const char *forget(struct tg_program *p, const char *args)
{
	char *end;
	unsigned long id = strtoul(args, &end, 10);
	uint32_t c;

	if (args[0] < '0' || args[0] > '9' || *end || id == 0 || id > TG_SERVICES_MAX)
		return "forget: want the number of a service";
	for (c = 0; c < p->cores_n; c++)
		atomic_fetch_or(&p->cores[c].forget[id / 64], 1ULL << (id & 63));
	return NULL;
}

static const char *swap(struct tg_program *p, const char *what)
{
	bool flows = strcmp(what, "flows") == 0;
	uint32_t c;

	if (!flows && strcmp(what, "sources") != 0)
		return "swap: want flows or sources";
	for (c = 0; c < p->cores_n; c++)
		atomic_store(flows ? &p->cores[c].swap_flows : &p->cores[c].swap_sources, 1);
	return NULL;
}

/* What follows a line's name; NULL if the line has another name. */
static const char *args_of(const char *line, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(line, name, len) != 0 || (line[len] && line[len] != ' '))
		return NULL;
	return line[len] ? line + len + 1 : line + len;
}

static const char *apply(struct tg_program *p, char *line)
{
	const char *args;

	if ((args = args_of(line, "swap")))
		return swap(p, args);
	if ((args = args_of(line, "forget")))
		return forget(p, args);
	if (!draft)
		draft = tg_config_copy(in_force);
	return draft ? tg_config_line(draft, line) : "out of memory";
}

/* The answer to `commit`. */
static const char *commit(struct tg_program *p)
{
	static char answer[sizeof(wrong) + 16];

	if (wrong[0]) {
		snprintf(answer, sizeof(answer), "error: %s\n", wrong);
		tg_config_free(draft);
		draft = NULL;
	} else if (draft && !publish(p)) {
		snprintf(answer, sizeof(answer),
			 "error: the cores have not taken the last changes yet; try again\n");
	} else {
		snprintf(answer, sizeof(answer), "ok\n");
	}
	wrong[0] = 0;
	line_no = 0;
	return answer;
}

/* Processes one line; returns an answer, or NULL. */
static const char *take(struct tg_program *p, char *line)
{
	const char *why, *name;

	line_no++;
	line[strcspn(line, "\r\n")] = 0;
	if (strcmp(line, "commit") == 0)
		return commit(p);
	if (wrong[0])
		return NULL;
	name = tg_config_line_name(line);
	why = apply(p, line);
	if (why) /* only the line's name is repeated: the rest may be a secret */
		snprintf(wrong, sizeof(wrong), "line %u: %s%s%s", line_no, name,
			 name[0] ? ": " : "", why);
	return NULL;
}

const struct tg_config *tg_control_first(struct tg_program *p)
{
	char line[LINE_MAX_LEN];
	const char *answer;
	FILE *f;

	in_force = tg_config_new();
	if (!in_force) {
		tg_say("out of memory");
		return NULL;
	}
	in_force->number = 1;
	if (!p->opt.config)
		return in_force;
	f = fopen(p->opt.config, "r");
	if (!f) {
		tg_say("%s: %s", p->opt.config, strerror(errno));
		return NULL;
	}
	while (fgets(line, sizeof(line), f))
		(void)take(p, line);
	fclose(f);
	answer = commit(p);
	if (strcmp(answer, "ok\n") != 0) {
		tg_say("%s: %s", p->opt.config, answer);
		return NULL;
	}
	return in_force;
}

/* Reads what has arrived; false: the client has disconnected. */
static bool serve(struct tg_program *p, int fd)
{
	static char buf[LINE_MAX_LEN];
	static size_t have;
	ssize_t n = recv(fd, buf + have, sizeof(buf) - 1 - have, 0);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		have = 0;
		wrong[0] = 0;
		line_no = 0;
		tg_config_free(draft); /* discard half a change */
		draft = NULL;
		return false;
	}
	have += (size_t)n;
	buf[have] = 0;
	while ((end = memchr(buf, '\n', have))) {
		size_t len = (size_t)(end + 1 - buf);
		const char *answer;

		*end = 0;
		if (strcmp(buf, "counts") == 0) {
			answer = NULL;
			if (!tg_counts_tell(p, in_force, fd))
				return false;
		} else {
			answer = take(p, buf);
		}
		have -= len;
		memmove(buf, buf + len, have + 1);
		explicit_bzero(buf + have + 1, len); /* perhaps a key */
		if (answer && send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
			return false;
	}
	if (have == sizeof(buf) - 1) {
		tg_say("control: a line is too long");
		return false;
	}
	return true;
}

/* Forwards the cores' requests. What the client does not accept now is reported again. */
static void pass_on(struct tg_program *p, int client)
{
	struct tg_ask ask;
	char line[96];
	uint32_t c;
	int i, n;

	for (c = 0; c < p->cores_n; c++) {
		while (tg_asks_take(&p->cores[c].w->waiting.asks, &ask)) {
			const uint8_t *a = (const uint8_t *)&ask.addr;

			n = snprintf(line, sizeof(line), "unresolved %u ", ask.family);
			for (i = 0; i < (ask.family == 4 ? 4 : 16); i++)
				n += snprintf(line + n, sizeof(line) - (size_t)n, "%02x", a[i]);
			n += snprintf(line + n, sizeof(line) - (size_t)n, " %u %s\n", ask.port,
				      ask.host ? "host" : "gateway");
			if (client >= 0)
				(void)!send(client, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
	}
}

void tg_control_run(struct tg_program *p)
{
	int listener = p->opt.socket ? tg_local_listen(p->opt.socket, SOCK_STREAM) : -1, client = -1;
	uint32_t c;

	if (p->opt.socket && listener < 0)
		atomic_store(&p->stop, true);
	else
		printf("ready\n"), fflush(stdout);
	while (!atomic_load(&p->stop)) {
		struct pollfd fds = {.fd = client >= 0 ? client : listener, .events = POLLIN};

		if (poll(&fds, 1, LOOK_MS) > 0) {
			if (client < 0)
				client = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			else if (!serve(p, client))
				close(client), client = -1;
		}
		pass_on(p, client);
		free_old(p);
		for (c = 0; c < p->cores_n; c++)
			tg_worker_clean(p->cores[c].w);
	}
	if (client >= 0)
		close(client);
	if (listener >= 0) {
		close(listener);
		(void)unlink(p->opt.socket);
	}
}
