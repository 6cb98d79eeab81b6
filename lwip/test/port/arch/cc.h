/* SPDX-License-Identifier: Apache-2.0
 *
 * lwIP on the machine that runs the tests: a failed assertion ends the program.
 */
#ifndef TG_TEST_ARCH_CC_H
#define TG_TEST_ARCH_CC_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define LWIP_PLATFORM_DIAG(x)                                                                      \
	do {                                                                                       \
		printf x;                                                                          \
	} while (0)
#define LWIP_PLATFORM_ASSERT(x)                                                                    \
	do {                                                                                       \
		printf("lwIP assertion: %s, %s:%d\n", x, __FILE__, __LINE__);                      \
		fflush(stdout);                                                                    \
		abort();                                                                           \
	} while (0)
#define LWIP_RAND() ((u32_t)rand())

#endif
