/* SPDX-License-Identifier: Apache-2.0
 *
 * A minimal test harness: counted checks, and a last line "N passed, N failed". With the argument
 * "canary" a program makes one check that must fail, and no other, which proves that the harness can fail.
 */
#ifndef TG_TEST_CHECK_H
#define TG_TEST_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak, so that the files of one program share them. */
__attribute__((weak)) unsigned checks_passed, checks_failed;

#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (condition) {                                                                   \
			checks_passed++;                                                           \
		} else {                                                                           \
			checks_failed++;                                                           \
			printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);                     \
			printf(__VA_ARGS__);                                                       \
			printf("\n");                                                              \
		}                                                                                  \
	} while (0)

/* Compares two numbers. */
#define CHECK_EQ(got, want, what)                                                                  \
	do {                                                                                       \
		uint64_t got_ = (uint64_t)(got), want_ = (uint64_t)(want);                         \
		CHECK(got_ == want_,                                                               \
		      "%s: got %" PRIu64 " (0x%" PRIx64 "), want %" PRIu64 " (0x%" PRIx64 ")",     \
		      (what), got_, got_, want_, want_);                                           \
	} while (0)

/* The program's exit status; prints the last line. */
static inline int check_summary(void)
{
	printf("%u passed, %u failed\n", checks_passed, checks_failed);
	return checks_failed ? 1 : 0;
}

/* Comes before the tests: the canary ends here. */
static inline void check_begin(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "canary") == 0) {
		CHECK(argc == 1, "the canary, which must fail");
		exit(check_summary());
	}
}

#endif
