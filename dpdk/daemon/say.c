/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages on stderr.
 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

bool tg_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "tidegate-dpdk: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	return false;
}
