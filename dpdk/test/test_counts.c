/* SPDX-License-Identifier: Apache-2.0
 *
 * What the detector reads: the sums of all cores, of services in mode auto only and of places with
 * SYNs; whole, however long it gets and however slowly it is taken; and no end of waiting for a
 * client that has gone.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "counts.h"
#include "talk.h"
#include "tests.h"

#define CORES 2
#define MANY 9000 /* services: more than any socket's buffer holds */

static struct harness *cores[CORES];
static struct tg_program *program;

static void begin(void)
{
	int i;

	program = calloc(1, sizeof(*program));
	if (!program)
		abort();
	program->cores_n = CORES;
	for (i = 0; i < CORES; i++) {
		cores[i] = harness_new(NULL, 1023, 1024);
		program->cores[i].w = cores[i]->w;
	}
}

static void end(void)
{
	int i;

	for (i = 0; i < CORES; i++)
		harness_free(cores[i]);
	free(program);
}

/* Reads to the end, late and in small pieces. */
struct reader {
	int fd;
	size_t len;
	char text[1 << 20];
};

static void *read_slowly(void *arg)
{
	struct reader *r = arg;
	ssize_t n;

	while (r->len < sizeof(r->text) &&
	       (n = read(r->fd, r->text + r->len, r->len + 1000 < sizeof(r->text) ? 1000 : 1)) > 0)
		r->len += (size_t)n;
	return NULL;
}

static struct reader *ask(bool *told)
{
	struct reader *r = calloc(1, sizeof(*r));
	pthread_t thread;
	int fds[2];

	if (!r || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		abort();
	r->fd = dup(fds[1]);
	close(fds[1]);
	(void)fcntl(r->fd, F_SETFL, 0);
	if (pthread_create(&thread, NULL, read_slowly, r))
		abort();
	*told = tg_counts_tell(program, cores[0]->config, fds[0]);
	close(fds[0]);
	pthread_join(thread, NULL);
	close(r->fd);
	return r;
}

static void sums(void)
{
	static const char want[] = "service 2 33 330 0 5 0 1\n"
				   "place 0 16 16 2 4 c612010100000000\n"
				   "place 1023 48 1 2 6 20010db900000000\n"
				   "ok\n";
	struct reader *r;
	uint64_t *row;
	bool told;
	int i;

	begin();
	talk_services(cores[0]);
	talk_automate(cores[0], 2, TG_MODE_AUTO, 0);
	for (i = 0; i < CORES; i++) {
		struct tg_auto_counts *c = &cores[i]->w->automatic;

		row = cores[i]->w->rows[2].count;
		row[TG_COUNT_syn] = 11 + 11u * (unsigned)i;
		row[TG_COUNT_detect_syn] = 110 + 110u * (unsigned)i;
		cores[i]->w->rows[1].count[TG_COUNT_syn] = 5; /* mode always */
		c->places[1023] = (struct tg_place){.syns = 16 + 16u * (unsigned)i,
						    .handshakes = (unsigned)i,
						    .prefix = TG_WIRE32(0x20, 1, 0x0d, 0xb9),
						    .service = 2,
						    .family = 6};
		c->places[7].handshakes = 9; /* by whitelisted sources, without a SYN that counts */
	}
	cores[0]->w->rows[2].count[TG_COUNT_cookie_sent] = 5;
	cores[1]->w->rows[2].count[TG_COUNT_cache_kept] = 1;
	cores[0]->w->automatic.places[0] = (struct tg_place){.syns = 16,
							     .handshakes = 16,
							     .prefix = TG_WIRE32(198, 18, 1, 1),
							     .service = 2,
							     .family = 4};
	r = ask(&told);
	CHECK(told, "told");
	CHECK(r->len == sizeof(want) - 1 && memcmp(r->text, want, r->len) == 0, "%.*s", (int)r->len,
	      r->text);
	free(r);
	end();
}

static void many(void)
{
	struct reader *r;
	uint32_t i, lines = 0;
	bool told;

	begin();
	for (i = 1; i <= MANY; i++) {
		struct tg_service *s = &cores[0]->config->services[i];

		s->mode = TG_MODE_AUTO;
		s->automatic = 1;
		cores[1]->w->rows[i].count[TG_COUNT_syn] = UINT64_MAX - i;
	}
	cores[0]->config->top = MANY;
	for (i = 0; i < TG_PLACES; i++)
		cores[1]->w->automatic.places[i] = (struct tg_place){
			UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX};
	r = ask(&told);
	CHECK(told, "told");
	for (i = 0; i < r->len; i++)
		lines += r->text[i] == '\n';
	CHECK_EQ(lines, MANY + TG_PLACES + 1, "lines");
	CHECK(r->len > 3 && memcmp(r->text + r->len - 4, "\nok\n", 4) == 0, "its end");
	free(r);
	end();
}

static void nobody_reads(void)
{
	int fds[2];

	begin();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		abort();
	close(fds[1]);
	CHECK(!tg_counts_tell(program, cores[0]->config, fds[0]), "the client has gone");
	close(fds[0]);
	end();
}

void test_counts(void)
{
	sums();
	many();
	nobody_reads();
}
