/* SPDX-License-Identifier: Apache-2.0
 *
 * The ports: of any poll-mode driver, one queue a core.
 */
#ifndef TG_DPDK_PORT_H
#define TG_DPDK_PORT_H

#include "program.h"

/* Configures and starts every port. False on error, which has been printed. */
bool tg_ports_start(struct tg_program *p);
void tg_ports_stop(struct tg_program *p);

#endif
