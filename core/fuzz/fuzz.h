/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuzz targets share. A violated PROMISE calls abort(); AddressSanitizer finds a byte read
 * outside the input.
 */
#ifndef TG_FUZZ_H
#define TG_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../host.h"

#define PROMISE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
