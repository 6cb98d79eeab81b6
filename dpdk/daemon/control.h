/* SPDX-License-Identifier: Apache-2.0
 *
 * The control thread: the settings in force, and how they change (control.c has the lines).
 */
#ifndef TG_DPDK_CONTROL_H
#define TG_DPDK_CONTROL_H

#include "program.h"

/* The initial settings. NULL on error, which has been printed. */
const struct tg_config *tg_control_first(struct tg_program *p);

/* The configuration in force, for another thread than a core's: it stays until it is released. */
const struct tg_config *tg_control_hold(void);
void tg_control_release(void);

/* Serves the control socket until the program stops. */
void tg_control_run(struct tg_program *p);

#endif
