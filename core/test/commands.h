/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that obeys lines on stdin, as test/vectors drives the core (core/test/replay.c) and the DPDK pipeline
 * (dpdk/test/replay.c): every command is answered by one line on stdout: "ok", a result, or "error: ...".
 */
#ifndef TG_TEST_COMMANDS_H
#define TG_TEST_COMMANDS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FRAME_MAX 65536

struct command {
	const char *name;
	bool (*run)(const char *args); /* false: it does not understand them */
	bool silent;                   /* prints nothing; answered with "ok" */
};

struct commands {
	const struct command *list;
	size_t n;
	/* Optional: handles a line that is not in the list; an error or NULL. May change the line. */
	const char *(*other)(char *line);
	/* Optional: runs after each command that succeeds. */
	void (*after)(void);
};

static inline void commands_answer(const struct commands *cs, char *line)
{
	size_t i, len = strcspn(line, " ");
	const char *args = line[len] ? line + len + 1 : "", *err = NULL;
	bool silent = true;

	for (i = 0; i < cs->n; i++)
		if (strlen(cs->list[i].name) == len && memcmp(cs->list[i].name, line, len) == 0)
			break;
	if (i < cs->n) {
		silent = cs->list[i].silent;
		err = cs->list[i].run(args) ? NULL : "not understood";
	} else {
		err = cs->other ? cs->other(line) : "no such command";
	}
	if (!err && cs->after)
		cs->after();
	if (err)
		printf("error: %.*s: %s", (int)len, line, err);
	else if (silent)
		printf("ok");
	printf("\n");
}

/* Whoever drives it may send many lines at once: they are answered together, when no whole line is left. A line that
 * does not fit ends the program. */
static inline void commands_serve(const struct commands *cs)
{
	static char lines[4 * FRAME_MAX];
	char *begin, *end;
	size_t n = 0;
	ssize_t got;

	while ((got = read(STDIN_FILENO, lines + n, sizeof(lines) - n)) > 0) {
		n += (size_t)got;
		for (begin = lines; (end = memchr(begin, '\n', (size_t)(lines + n - begin)));
		     begin = end + 1) {
			*end = 0;
			commands_answer(cs, begin);
		}
		fflush(stdout);
		n = (size_t)(lines + n - begin);
		memmove(lines, begin, n);
	}
}

/* -1 if c is no hexadecimal digit. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The number of bytes read, at most `max`; -1 if the rest of the line is not hexadecimal (in lower case), or
 * longer. */
static inline int unhex(const char *hex, uint8_t *out, int max)
{
	int n;

	for (n = 0; n < max && hex[2 * n] && hex[2 * n + 1]; n++) {
		int high = hex_digit(hex[2 * n]), low = hex_digit(hex[2 * n + 1]);

		if (high < 0 || low < 0)
			return -1;
		out[n] = (uint8_t)(high << 4 | low);
	}
	return hex[2 * n] ? -1 : n;
}

static inline void print_frame(const char *verdict, const uint8_t *frame, uint32_t len)
{
	static const char digits[] = "0123456789abcdef";
	uint32_t i;

	printf("%s ", verdict);
	for (i = 0; i < len; i++) {
		putchar(digits[frame[i] >> 4]);
		putchar(digits[frame[i] & 15]);
	}
}

/* A counter of a service, if it is not zero. */
static inline void print_counter(uint32_t id, uint32_t counter, uint64_t value)
{
	static const char *const names[] = {
#define X(name, help) #name,
#include "../counters.def"
#undef X
	};

	if (value)
		printf(" %u:%s=%" PRIu64, id, names[counter], value);
}

#endif
