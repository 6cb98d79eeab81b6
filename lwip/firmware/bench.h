/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts instructions inside the firmware.
 */
#ifndef TG_BENCH_H
#define TG_BENCH_H

#include "app.h"

/* Prints one line of "name=value" and returns the exit status. */
int bench_run(const struct app_config *config);

#endif
