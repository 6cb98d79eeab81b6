/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program reports over DPDK's own telemetry socket:
 *
 *   /tidegate/status         hash, cores, ports, flows and sources in the tables, frames that took
 * the fast path
 *   /tidegate/counters,ID    the counters of a service (0: of none) that are not zero
 *   /tidegate/ports          frames and losses, port by port
 *
 * Must never: write what a core reads.
 */
#include "telemetry.h"

#include <stdlib.h>
#include <unistd.h>
#include <rte_ethdev.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include "packet_socket.h"

#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
#define rte_tel_data_add_dict_uint rte_tel_data_add_dict_u64 /* its name then */
#endif

static const struct tg_program *program; /* DPDK gives the functions below no argument for it */

static const char *const counter_names[] = {
#define X(name, help) #name,
#include "../core/counters.def"
#undef X
};

static int on_status(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct tg_program *p = program;
	uint64_t flows = 0, full = 0, sources = 0, syns = 0, segments = 0, icmp = 0;
	uint32_t i;

	(void)cmd;
	(void)params;
	for (i = 0; i < p->cores_n; i++) {
		flows += p->cores[i].w->flows.swap.active->used;
		full += tg_flow_table_is_full(&p->cores[i].w->flows);
		sources += p->cores[i].w->white.hash.active->used;
		syns += p->cores[i].w->fast.syns;
		segments += p->cores[i].w->fast.segments;
		icmp += p->cores[i].w->icmp_errors;
	}
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "dpdk", rte_version());
	rte_tel_data_add_dict_string(d, "hash", p->cores[0].w->variant->name);
	rte_tel_data_add_dict_uint(d, "pid", (uint64_t)getpid());
	rte_tel_data_add_dict_uint(d, "cores", p->cores_n);
	rte_tel_data_add_dict_uint(d, "ports", p->ports_n);
	rte_tel_data_add_dict_uint(d, "config", atomic_load(&p->cores[0].seen));
	rte_tel_data_add_dict_uint(d, "flows", flows);
	rte_tel_data_add_dict_uint(d, "flows_full", full);
	rte_tel_data_add_dict_uint(d, "sources", sources);
	rte_tel_data_add_dict_uint(d, "fast_path_syns", syns);
	rte_tel_data_add_dict_uint(d, "fast_path_segments", segments);
	rte_tel_data_add_dict_uint(d, "icmp_errors", icmp);
	return 0;
}

static bool service_of(const char *params, uint32_t *id)
{
	char *end;
	unsigned long v = params ? strtoul(params, &end, 10) : TG_SERVICES_MAX + 1UL;

	*id = (uint32_t)v;
	return v <= TG_SERVICES_MAX;
}

static int on_counters(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct tg_program *p = program;
	uint32_t id, i, c;

	(void)cmd;
	if (!service_of(params, &id))
		return -1;
	rte_tel_data_start_dict(d);
	for (c = 0; c < TG_COUNTERS; c++) {
		uint64_t sum = 0;

		for (i = 0; i < p->cores_n; i++)
			sum += p->cores[i].w->rows[id].count[c];
		if (sum)
			rte_tel_data_add_dict_uint(d, counter_names[c], sum);
	}
	return 0;
}

static int on_ports(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct tg_program *p = program;
	uint32_t i;

	(void)cmd;
	(void)params;
	rte_tel_data_start_dict(d);
	for (i = 0; i < p->ports_n; i++) {
		struct rte_eth_stats s = {0};
		struct rte_eth_dev_info info;
		char name[32];

		(void)rte_eth_stats_get((uint16_t)i, &s);
		snprintf(name, sizeof(name), "rx_%u", i);
		rte_tel_data_add_dict_uint(d, name, s.ipackets);
		snprintf(name, sizeof(name), "tx_%u", i);
		rte_tel_data_add_dict_uint(d, name, s.opackets);
		snprintf(name, sizeof(name), "missed_%u", i);
		if (p->from_kernel >> i & 1 && rte_eth_dev_info_get((uint16_t)i, &info) == 0)
			s.imissed += tg_packet_sockets_lost(info.if_index);
		rte_tel_data_add_dict_uint(d, name, s.imissed + s.rx_nombuf);
	}
	return 0;
}

bool tg_telemetry_start(const struct tg_program *p)
{
	program = p;
	return rte_telemetry_register_cmd("/tidegate/status", on_status,
					  "What is running. No parameters") == 0 &&
	       rte_telemetry_register_cmd(
		       "/tidegate/counters", on_counters,
		       "Counters of a service. Parameter: its number; 0: none") == 0 &&
	       rte_telemetry_register_cmd("/tidegate/ports", on_ports,
					  "Frames by port. No parameters") == 0;
}
