/* SPDX-License-Identifier: Apache-2.0
 *
 * What the functions of a configuration's lines read their values with. Each takes exactly what it says: anything
 * else in the line is an error.
 */
#ifndef TG_DPDK_CONFIG_SCAN_H
#define TG_DPDK_CONFIG_SCAN_H

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TG_LINE_BAD "cannot be read; docs/dpdk.md lists the lines"

/* A line by its first word. `args` is the rest; the answer is NULL, or what is wrong with it. */
struct tg_config_word {
	const char *name;
	const char *(*apply)(struct tg_config *b, const char *args);
};

/* Exactly `len` bytes, two digits each. */
static inline int tg_unhex(const char *hex, uint8_t *out, int len)
{
	int n;

	if (strspn(hex, "0123456789abcdefABCDEF") != 2 * (size_t)len || hex[2 * len])
		return -1;
	for (n = 0; n < len; n++)
		if (sscanf(hex + 2 * n, "%2hhx", &out[n]) != 1)
			return -1;
	return 0;
}

/* True if the line is exactly these n values: anything after them is an error, too,
 * such as a key that is too long. */
#define TG_SCAN(args, n, format, ...)                                                              \
	({                                                                                         \
		int used_ = -1;                                                                    \
		sscanf((args), format "%n", __VA_ARGS__, &used_) == (n) && used_ >= 0 &&           \
			!(args)[used_];                                                            \
	})

/* Reads up to `most` numbers, one space between them. How many; -1: there is something else. */
static inline int tg_scan_numbers(const char *args, uint32_t *v, int most)
{
	int n = 0, used;

	while (n < most && *args >= '0' && *args <= '9' && sscanf(args, "%u%n", &v[n], &used) == 1) {
		n++;
		args += used;
		if (!*args)
			return n;
		if (*args++ != ' ')
			return -1;
	}
	return -1;
}

#endif
