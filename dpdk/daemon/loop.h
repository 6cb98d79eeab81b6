/* SPDX-License-Identifier: Apache-2.0
 *
 * What each core does.
 */
#ifndef TG_DPDK_LOOP_H
#define TG_DPDK_LOOP_H

#include "program.h"

/* Makes the workers and their tables. False on error, which has been printed. */
bool tg_cores_make(struct tg_program *p, const struct tg_config *first);

/* Receives and forwards until the program stops; `core` is a struct tg_core. For
 * rte_eal_remote_launch. */
int tg_core_loop(void *core);

#endif
