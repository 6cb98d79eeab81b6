/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program reports over DPDK's own telemetry socket:
 *
 *   /tidegate/status         hash, cores, ports, flows and sources in the tables, frames that took
 * the fast path
 *   /tidegate/counters,ID    the counters of a service (0: of none) that are not zero
 *   /tidegate/ports          frames and losses, port by port
 *   /tidegate/config         the configuration in force, without keys; of tables a digest, which is equal
 * where they are
 *   /tidegate/over_limit,N   sources above their limit, from slot N of all cores' tables on
 *   /tidegate/service,ID     the settings of a service in force
 *
 * Must never: write what a core reads.
 */
#include "telemetry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include <rte_ethdev.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include "control.h"
#include "packet_socket.h"

#define OVER_MOST 64 /* sources in an answer: 8 KiB of the 16 that DPDK sends */

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
	uint64_t flows = 0, full = 0, swaps = UINT64_MAX, sources = 0, syns = 0, segments = 0,
		 icmp = 0, capturing = 0;
	uint32_t i;

	(void)cmd;
	(void)params;
	for (i = 0; i < p->cores_n; i++) {
		flows += p->cores[i].w->flows.swap.active->used;
		full += tg_flow_table_is_full(&p->cores[i].w->flows);
		swaps = RTE_MIN(swaps, p->cores[i].w->flows.swap.turns);
		sources += p->cores[i].w->white.hash.active->used;
		syns += p->cores[i].w->fast.syns;
		segments += p->cores[i].w->fast.segments;
		icmp += p->cores[i].w->icmp_errors;
		capturing += atomic_load(&p->cores[i].captures) != NULL;
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
	rte_tel_data_add_dict_uint(d, "flow_swaps", swaps);
	rte_tel_data_add_dict_uint(d, "sources", sources);
	rte_tel_data_add_dict_uint(d, "fast_path_syns", syns);
	rte_tel_data_add_dict_uint(d, "fast_path_segments", segments);
	rte_tel_data_add_dict_uint(d, "icmp_errors", icmp);
	rte_tel_data_add_dict_uint(d, "capturing", capturing);
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

/* FNV-1a, 64 bits: to compare, not to protect. */
static uint64_t digest(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = 0xcbf29ce484222325ULL;
	size_t i;

	for (i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ULL;
	return h;
}

static uint64_t digest_of_lists(const struct tg_source_table *t)
{
	return t ? digest(t->blocks, (size_t)t->n * sizeof(t->blocks[0])) : 0;
}

static int on_config(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct tg_config *c = tg_control_hold();

	(void)cmd;
	(void)params;
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "forwarding", c->router ? "router" : "bridge");
	rte_tel_data_add_dict_string(d, "stale_keys",
				     c->stale_keys == TG_STALE_DROP ? "drop" : "pass");
	rte_tel_data_add_dict_uint(d, "epoch_ns", c->epoch_len_ns);
	rte_tel_data_add_dict_uint(d, "verify_ahead_ns", c->verify_ahead_ns);
	rte_tel_data_add_dict_uint(d, "white_v4_mask", c->white_v4_mask);
	rte_tel_data_add_dict_uint(d, "white_v6_mask", c->white_v6_mask);
	rte_tel_data_add_dict_uint(d, "limit_cost_ns", c->limits.cost_ns);
	rte_tel_data_add_dict_uint(d, "limit_held", c->limits.held);
	rte_tel_data_add_dict_uint(d, "limit_v4", c->limits.v4);
	rte_tel_data_add_dict_uint(d, "limit_v6", c->limits.v6);
	rte_tel_data_add_dict_uint(d, "limit_action", c->limits.action);
	rte_tel_data_add_dict_uint(d, "remember", c->remember);
	rte_tel_data_add_dict_uint(d, "true_source", c->true_source);
	rte_tel_data_add_dict_uint(d, "ports", digest(c->ports, sizeof(c->ports)));
	rte_tel_data_add_dict_uint(d, "prefixes", digest(c->prefixes, sizeof(c->prefixes)));
	rte_tel_data_add_dict_uint(d, "routes",
				   digest(c->routes->slots, ((size_t)c->routes->mask + 1) *
								    sizeof(c->routes->slots[0])));
	rte_tel_data_add_dict_uint(d, "addresses",
				   digest(c->own_addrs, c->own_addrs_n * sizeof(c->own_addrs[0])));
	rte_tel_data_add_dict_uint(d, "places_on", digest(c->places_on, sizeof(c->places_on)));
	rte_tel_data_add_dict_uint(d, "list_blocks", c->sources ? c->sources->n : 0);
	rte_tel_data_add_dict_uint(d, "lists", digest_of_lists(c->sources));
	tg_control_release();
	return 0;
}

static int on_service(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct tg_proxy_service *how;
	const struct tg_service *s;
	const struct tg_config *c;
	uint32_t id;

	(void)cmd;
	if (!service_of(params, &id) || id == 0)
		return -1;
	c = tg_control_hold();
	s = &c->services[id];
	how = &c->proxy_cfg[id];
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "mss_v4", s->mss_v4);
	rte_tel_data_add_dict_uint(d, "mss_v6", s->mss_v6);
	rte_tel_data_add_dict_uint(d, "window", s->window);
	rte_tel_data_add_dict_uint(d, "wscale", s->wscale);
	rte_tel_data_add_dict_uint(d, "sack", s->sack);
	rte_tel_data_add_dict_uint(d, "timestamps", s->timestamps);
	rte_tel_data_add_dict_uint(d, "ecn", s->ecn);
	rte_tel_data_add_dict_uint(d, "mode", s->mode);
	rte_tel_data_add_dict_uint(d, "automatic", s->automatic);
	rte_tel_data_add_dict_uint(d, "verify", s->verify);
	rte_tel_data_add_dict_uint(d, "signed_cost_us", s->signed_cost_us);
	rte_tel_data_add_dict_uint(d, "strategy", how->strategy);
	rte_tel_data_add_dict_uint(d, "first_data", how->first_data);
	rte_tel_data_add_dict_uint(d, "fixed", how->fixed);
	tg_control_release();
	return 0;
}

/* A source above its limit as text; false: the slot is empty, or is changing hands.
 *
 *   SLOT FAMILY PREFIX LENGTH DST OVER HELD FIRST LAST       the last two in ms ago */
static bool over_text(char *text, size_t size, uint32_t slot)
{
	const struct tg_worker *w = program->cores[slot / TG_OVER_SLOTS].w;
	struct tg_over o = w->over[slot % TG_OVER_SLOTS];
	const uint8_t *prefix = (const uint8_t *)&o.prefix, *dst = (const uint8_t *)o.dst;
	uint64_t now = w->now_ns;
	char hex[2 * 24 + 1];
	int i;

	if (!o.over || o.turn_before != o.turn_after)
		return false;
	for (i = 0; i < 24; i++)
		snprintf(hex + 2 * i, 3, "%02x", i < 8 ? prefix[i] : dst[i - 8]);
	snprintf(text, size, "%u %u %.16s %u %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, slot,
		 o.family, hex, o.len, hex + 16, o.over, o.over_held, (now - o.first_ns) / 1000000,
		 (now - o.last_ns) / 1000000);
	return true;
}

/* As many as one answer takes; the next request begins behind the last one's slot. */
static int on_over_limit(const char *cmd, const char *params, struct rte_tel_data *d)
{
	uint32_t slot = params ? (uint32_t)strtoul(params, NULL, 10) : 0, n = 0;
	char text[RTE_TEL_MAX_STRING_LEN];

	(void)cmd;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (; slot < program->cores_n * TG_OVER_SLOTS && n < OVER_MOST; slot++) {
		if (!over_text(text, sizeof(text), slot))
			continue;
		rte_tel_data_add_array_string(d, text);
		n++;
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
					  "Frames by port. No parameters") == 0 &&
	       rte_telemetry_register_cmd("/tidegate/config", on_config,
					  "The configuration in force. No parameters") == 0 &&
	       rte_telemetry_register_cmd("/tidegate/over_limit", on_over_limit,
					  "Sources above their limit. Parameter: the first slot") ==
		       0 &&
	       rte_telemetry_register_cmd("/tidegate/service", on_service,
					  "Settings of a service. Parameter: its number") == 0;
}
