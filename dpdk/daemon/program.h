/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of tidegate-dpdk share: its options, its cores, its ports. main.c starts
 * the parts: ports of any poll-mode driver (port.c), one loop a core (loop.c), a thread that
 * takes the configuration and empties tables (control.c), telemetry.c.
 */
#ifndef TG_DPDK_PROGRAM_H
#define TG_DPDK_PROGRAM_H

#include <stdatomic.h>

#include "options.h"
#include "worker.h"

#define TG_CORES_MAX 64

/* One core. The control thread communicates with it through the atomic fields. */
struct tg_core {
	const struct tg_program *program;
	struct tg_worker *w;
	uint32_t lcore;
	uint16_t queue;
	_Atomic(const struct tg_config *) config; /* the newest */
	_Atomic uint64_t seen;      /* the number of the one in use */
	_Atomic uint32_t swap_flows, swap_sources; /* requested */
	_Atomic uint64_t forget[TG_SERVICES_MAX / 64 + 1]; /* services whose counts are to be reset: one bit each */
	_Atomic uint64_t polls;
	_Atomic(struct tg_capturing *) capture; /* its part of a capture; NULL: none */
	_Atomic(struct tg_capturing *) captures; /* the one in use */
};

struct tg_program {
	struct tg_options opt;
	struct tg_core cores[TG_CORES_MAX];
	uint32_t cores_n;
	struct tg_limits *limits; /* that all cores share */
	uint32_t ports_n;
	uint16_t from_kernel; /* ports that are interfaces of the kernel: one bit each */
	_Atomic bool stop;
};
_Static_assert(TG_PORTS_MAX <= 16, "a bit for each port");

#endif
