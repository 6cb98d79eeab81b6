/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames for benchmarks: SYNs as Linux sends them from random addresses and ports,
 * and segments of live connections. Lengths and checksums are right.
 */
#ifndef TG_BENCH_TRAFFIC_H
#define TG_BENCH_TRAFFIC_H

#include "../core/splitmix.h"
#include "driver.h"

#define TG_BENCH_STRIDE 96
#define TG_BENCH_SERVER TG_WIRE32(198, 18, 1, 1)
#define TG_BENCH_PORT_BE 0x5000 /* 80 */

/* The address of server `n` of a flood, below 65,536. */
uint32_t tg_traffic_server(uint32_t n);

/* A flood: every frame has another source, and one of `servers` destinations, up to 65,536; two take turns. */
void tg_traffic_syns(struct tg_mem_port *p, uint64_t seed, uint32_t servers);

/* A flood over IPv6: every frame from another site, to one server. */
void tg_traffic_syns_v6(struct tg_mem_port *p, uint64_t seed);
union tg_addr tg_traffic_server_v6(void);

/* Data segments, with timestamps, of `flows` connections, in random order and both
 * directions; flow i is tg_traffic_flow(i). */
void tg_traffic_segments(struct tg_mem_port *p, uint32_t flows, uint64_t seed);

/* Segments from clients only. */
void tg_traffic_client_segments(struct tg_mem_port *p, uint32_t flows, uint64_t seed);

/* The addresses of the first client segment of flow i. */
struct tg_packet tg_traffic_flow(uint32_t i);

#endif
