/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate-dpdk, the program around the pipeline: ports of any poll-mode driver,
 * one loop a core, a thread that takes the configuration and empties tables.
 */
#ifndef TG_DPDK_PROGRAM_H
#define TG_DPDK_PROGRAM_H

#include "pipeline.h"

#define TG_CORES_MAX 64

struct tg_options {
	const char *socket;  /* control socket; NULL: none */
	const char *config;  /* file of control lines to begin with; NULL: none */
	const char *hash;    /* NULL: the best that the CPU has */
	uint32_t max_flows;  /* of all cores together */
	uint32_t max_sources;
	uint32_t max_halfopens; /* in the SYN cache */
	uint32_t burst;
	uint32_t buffers; /* of one core */
	uint32_t idle_us; /* sleep when nothing has come for a while; 0: never */
	bool white_bitmap;
};

/* One core. What is atomic is how the control thread talks with it. */
struct tg_core {
	struct tg_worker *w;
	uint32_t lcore;
	uint16_t queue;
	_Atomic(const struct tg_box *) box; /* the newest */
	_Atomic uint64_t seen;      /* the number of the one in use */
	_Atomic uint32_t swap_flows, swap_sources; /* wanted */
	_Atomic uint64_t forget[TG_SERVICES_MAX / 64 + 1]; /* services whose counts are to be zero: one bit each */
	_Atomic uint64_t polls;
};

struct tg_program {
	struct tg_options opt;
	struct tg_core cores[TG_CORES_MAX];
	uint32_t cores_n;
	uint32_t ports_n;
	uint16_t from_kernel; /* ports that are interfaces of the kernel: one bit each */
	_Atomic bool stop;
};
_Static_assert(TG_PORTS_MAX <= 16, "a bit for each port");

extern struct tg_program tg_program;

/* Tells why on stderr and returns false. */
bool tg_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* port.c: configures and starts every port, one queue a core. */
bool tg_ports_start(struct tg_program *p);
void tg_ports_stop(struct tg_program *p);

/* loop.c */
bool tg_cores_make(struct tg_program *p, const struct tg_box *first);
int tg_core_loop(void *core);

/* control.c: the box in force, and what the control thread does until stop. */
const struct tg_box *tg_control_first(struct tg_program *p);
void tg_control_run(struct tg_program *p);

/* packet_socket.c: frames of an interface of the kernel that found no place with us. Of one
 * thread. */
uint64_t tg_packet_sockets_lost(uint32_t ifindex);

/* telemetry.c */
bool tg_telemetry_start(void);

#endif
