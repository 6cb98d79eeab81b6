/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of the command line.
 */
#ifndef TG_DPDK_OPTIONS_H
#define TG_DPDK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

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

/* Parses the arguments after `--` over the defaults. False on error, which has been printed. */
bool tg_options_parse(struct tg_options *o, int argc, char **argv);

#endif
