/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program reports of itself (telemetry.c has the commands).
 */
#ifndef TG_DPDK_TELEMETRY_H
#define TG_DPDK_TELEMETRY_H

#include "program.h"

bool tg_telemetry_start(const struct tg_program *p);

#endif
