/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of the command line.
 */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "say.h"
#include "worker.h"

static const char usage[] =
	"usage: tidegate-dpdk EAL-OPTIONS -- [OPTIONS]\n"
	"  --socket PATH      take the configuration from a unix socket (docs/dpdk.md)\n"
	"  --config FILE      lines to begin with, as the socket takes them\n"
	"  --max-flows N      connections that are translated, all cores together (1048576)\n"
	"  --max-sources N    whitelisted sources, all cores together (1048576)\n"
	"  --cache-entries N  half-open connections of strategy cache, all cores together (65536)\n"
	"  --white-bitmap     IPv4 sources in a bitmap of the whole address space: never full\n"
	"  --burst N          frames taken at once, 1 to 128 (32)\n"
	"  --buffers N        frame buffers of each core (16383)\n"
	"  --hash WAY         avx512, avx2 or scalar (the best that the CPU has)\n"
	"  --idle-us N        sleep so long when nothing comes (0: poll for ever)\n"
	"EAL options are DPDK's: -l CORES, --vdev ..., -a PCI, --no-huge -m MiB, --file-prefix "
	"...\n"
	"The core named first runs the control thread, unless it is the only one.\n";

static bool number(const char *name, const char *text, uint32_t lowest, uint32_t highest, uint32_t *to)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*end || end == text || v < lowest || v > highest)
		return tg_say("--%s %s: want a number from %u to %u", name, text, lowest, highest);
	*to = (uint32_t)v;
	return true;
}

bool tg_options_parse(struct tg_options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{"socket", 1, NULL, 's'},        {"config", 1, NULL, 'c'},
		{"max-flows", 1, NULL, 'f'},     {"max-sources", 1, NULL, 'w'},
		{"cache-entries", 1, NULL, 'e'}, {"white-bitmap", 0, NULL, 'm'},
		{"burst", 1, NULL, 'b'},         {"buffers", 1, NULL, 'n'},
		{"hash", 1, NULL, 'h'},          {"idle-us", 1, NULL, 'i'},
		{"help", 0, NULL, '?'},          {0},
	};
	bool ok = true;
	int c;

	*o = (struct tg_options){
		.max_flows = 1 << 20,
		.max_sources = 1 << 20,
		.max_halfopens = 1 << 16,
		.burst = 32,
		.buffers = 16383,
	};
	optind = 1;
	while (ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			o->socket = optarg;
			break;
		case 'c':
			o->config = optarg;
			break;
		case 'f':
			ok = number("max-flows", optarg, 1024, 1 << 24, &o->max_flows);
			break;
		case 'w':
			ok = number("max-sources", optarg, 1024, 1 << 24, &o->max_sources);
			break;
		case 'e':
			ok = number("cache-entries", optarg, 1024, 1 << 22, &o->max_halfopens);
			break;
		case 'm':
			o->white_bitmap = true;
			break;
		case 'b':
			ok = number("burst", optarg, 1, TG_BURST_MAX, &o->burst);
			break;
		case 'n':
			ok = number("buffers", optarg, 1023, 1 << 24, &o->buffers);
			break;
		case 'h':
			o->hash = optarg;
			break;
		case 'i':
			ok = number("idle-us", optarg, 0, 1000000, &o->idle_us);
			break;
		default:
			fputs(usage, stderr);
			return false;
		}
	}
	if (ok && optind < argc)
		return tg_say("%s: unexpected; --help tells the options", argv[optind]);
	return ok;
}
