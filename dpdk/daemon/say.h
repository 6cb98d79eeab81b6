/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's messages, on stderr.
 */
#ifndef TG_DPDK_SAY_H
#define TG_DPDK_SAY_H

#include <stdbool.h>

/* Writes the message on a line of its own and returns false. */
bool tg_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
