/* SPDX-License-Identifier: Apache-2.0
 *
 * counts.c: what the detector of mode auto reads.
 */
#ifndef TG_DPDK_COUNTS_H
#define TG_DPDK_COUNTS_H

#include "program.h"

/* Writes the counts of services in mode auto and of their places to the control socket, then "ok".
 * False: the client does not take them. */
bool tg_counts_tell(const struct tg_program *p, const struct tg_config *config, int fd);

#endif
