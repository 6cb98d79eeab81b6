/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate-dpdk: the proxy role on DPDK. Starts DPDK, ports and cores, then is the
 * control thread until SIGINT or SIGTERM.
 *
 *   tidegate-dpdk EAL-OPTIONS -- [OPTIONS]
 */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "program.h"

struct tg_program tg_program = {
	.opt = {.max_flows = 1 << 20,
		.max_sources = 1 << 20,
		.max_halfopens = 1 << 16,
		.burst = 32,
		.buffers = 16383},
};

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

bool tg_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "tidegate-dpdk: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	return false;
}

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&tg_program.stop, true);
}

static bool number(const char *name, const char *text, uint32_t lowest, uint32_t highest, uint32_t *to)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*end || end == text || v < lowest || v > highest)
		return tg_say("--%s %s: want a number from %u to %u", name, text, lowest, highest);
	*to = (uint32_t)v;
	return true;
}

static bool parse(struct tg_options *o, int argc, char **argv)
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

/* The cores that forward: all but the main one, or that one if it is alone. */
static void choose_cores(struct tg_program *p)
{
	uint32_t lcore;

	RTE_LCORE_FOREACH_WORKER(lcore)
	if (p->cores_n < TG_CORES_MAX)
		p->cores[p->cores_n++].lcore = lcore;
	if (!p->cores_n)
		p->cores[p->cores_n++].lcore = rte_get_main_lcore();
}

static void *control_thread(void *p)
{
	tg_control_run(p);
	return NULL;
}

/* A thread beside the loop of the main core: on the processors that the program was
 * given, but for that core's own, if there is another. `given` is from before DPDK
 * pinned this thread. DPDK's own call for this changed its name between 22.11 and 24.11. */
static bool start_control(pthread_t *thread, struct tg_program *p, const cpu_set_t *given)
{
	rte_cpuset_t pinned = rte_lcore_cpuset(rte_get_main_lcore());
	cpu_set_t others, both;
	pthread_attr_t attr;
	int err;

	CPU_AND(&both, given, &pinned);
	CPU_XOR(&others, given, &both);
	err = pthread_attr_init(&attr);
	if (err)
		return tg_say("no thread for the control socket: %s", strerror(err));
	if (CPU_COUNT(&others))
		err = pthread_attr_setaffinity_np(&attr, sizeof(others), &others);
	if (!err)
		err = pthread_create(thread, &attr, control_thread, p);
	pthread_attr_destroy(&attr);
	return !err || tg_say("no thread for the control socket: %s", strerror(err));
}

/* Runs the loops and, meanwhile, the control thread. A core that is alone has the
 * loop itself, for buffers are cached only for DPDK's own threads. */
static bool run(struct tg_program *p, const cpu_set_t *given)
{
	pthread_t thread;
	uint32_t i;

	if (p->cores[0].lcore == rte_get_main_lcore()) {
		if (!start_control(&thread, p, given))
			return false;
		tg_core_loop(&p->cores[0]);
		pthread_join(thread, NULL);
		return true;
	}
	for (i = 0; i < p->cores_n; i++)
		rte_eal_remote_launch(tg_core_loop, &p->cores[i], p->cores[i].lcore);
	tg_control_run(p);
	rte_eal_mp_wait_lcore();
	return true;
}

/* This process is given keys: they shall not stand in a core file, nor be read by a
 * debugger of another user. */
static bool forbid_dumps(void)
{
	const struct rlimit none = {0, 0};

	return setrlimit(RLIMIT_CORE, &none) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

int main(int argc, char **argv)
{
	struct tg_program *p = &tg_program;
	const struct tg_box *first;
	cpu_set_t given;
	int used;
	bool ok;

	if (!forbid_dumps()) {
		tg_say("the kernel does not let this process forbid core files, which would hold "
		       "keys");
		return 1;
	}
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGPIPE, SIG_IGN);
	if (sched_getaffinity(0, sizeof(given), &given))
		CPU_ZERO(&given);
	used = rte_eal_init(argc, argv);
	if (used < 0) {
		tg_say("DPDK does not start: %s; its own messages above say why (without huge "
		       "pages: --no-huge -m 512)",
		       rte_strerror(rte_errno));
		return 1;
	}
	if (!parse(&p->opt, argc - used, argv + used))
		return 2;
	p->ports_n = rte_eth_dev_count_avail();
	if (p->ports_n < 1 || p->ports_n > TG_PORTS_MAX) {
		tg_say("%u ports; want 1 to %u: bind them to a driver (-a), or make virtual ones "
		       "(--vdev)",
		       p->ports_n, TG_PORTS_MAX);
		return 1;
	}
	choose_cores(p);
	first = tg_control_first(p);
	ok = first && tg_cores_make(p, first) && tg_ports_start(p) && tg_telemetry_start() &&
	     run(p, &given);
	tg_ports_stop(p);
	rte_eal_cleanup();
	return ok ? 0 : 1;
}
