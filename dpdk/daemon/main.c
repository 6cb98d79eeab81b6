/* SPDX-License-Identifier: Apache-2.0
 *
 * tidegate-dpdk: the proxy role on DPDK. Starts DPDK, ports and cores, then is the
 * control thread until SIGINT or SIGTERM.
 *
 *   tidegate-dpdk EAL-OPTIONS -- [OPTIONS]
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "control.h"
#include "loop.h"
#include "observe.h"
#include "port.h"
#include "program.h"
#include "say.h"
#include "telemetry.h"

static struct tg_program program;

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&program.stop, true);
}

/* The forwarding cores: all but the main one, or the main one if it is the only one. */
static void choose_cores(struct tg_program *p)
{
	uint32_t lcore;

	RTE_LCORE_FOREACH_WORKER(lcore)
	if (p->cores_n < TG_CORES_MAX)
		p->cores[p->cores_n++].lcore = lcore;
	if (!p->cores_n)
		p->cores[p->cores_n++].lcore = rte_get_main_lcore();
}

static bool main_forwards(const struct tg_program *p)
{
	return p->cores[0].lcore == rte_get_main_lcore();
}

static void *control_thread(void *p)
{
	tg_control_run(p);
	return NULL;
}

/* A thread that forwards nothing. If the main core forwards, it runs on the processors that the program was
 * given, without that core's own, if there is another; else on the main core. `given` is from before DPDK
 * pinned this thread. DPDK's own call for this changed its name between 22.11 and 24.11. */
static bool start_thread(pthread_t *thread, void *(*body)(void *), struct tg_program *p,
			 const cpu_set_t *given)
{
	rte_cpuset_t pinned = rte_lcore_cpuset(rte_get_main_lcore());
	cpu_set_t others, both;
	pthread_attr_t attr;
	int err;

	CPU_AND(&both, given, &pinned);
	CPU_XOR(&others, given, &both);
	err = pthread_attr_init(&attr);
	if (err)
		return tg_say("no thread for the sockets: %s", strerror(err));
	if (main_forwards(p) && CPU_COUNT(&others))
		err = pthread_attr_setaffinity_np(&attr, sizeof(others), &others);
	if (!err)
		err = pthread_create(thread, &attr, body, p);
	pthread_attr_destroy(&attr);
	return !err || tg_say("no thread for the sockets: %s", strerror(err));
}

/* Runs the loops and, meanwhile, the control thread. A single core runs the
 * loop on the main thread, since buffers are cached only for DPDK's own threads. */
static bool run(struct tg_program *p, const cpu_set_t *given)
{
	pthread_t control, observe;
	uint32_t i;

	if (p->opt.socket && !start_thread(&observe, tg_observe_run, p, given))
		return false;
	if (main_forwards(p)) {
		if (!start_thread(&control, control_thread, p, given))
			return false;
		tg_core_loop(&p->cores[0]);
		pthread_join(control, NULL);
	} else {
		for (i = 0; i < p->cores_n; i++)
			rte_eal_remote_launch(tg_core_loop, &p->cores[i], p->cores[i].lcore);
		tg_control_run(p);
		rte_eal_mp_wait_lcore();
	}
	if (p->opt.socket)
		pthread_join(observe, NULL);
	return true;
}

/* This process holds keys: they must not appear in a core file, nor be readable by another user's
 * debugger. */
static bool forbid_dumps(void)
{
	const struct rlimit none = {0, 0};

	return setrlimit(RLIMIT_CORE, &none) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

int main(int argc, char **argv)
{
	struct tg_program *p = &program;
	const struct tg_config *first;
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
	if (!tg_options_parse(&p->opt, argc - used, argv + used))
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
	ok = first && tg_cores_make(p, first) && tg_ports_start(p) && tg_telemetry_start(p) &&
	     tg_observe_listen(p) && run(p, &given);
	tg_ports_stop(p);
	rte_eal_cleanup();
	return ok ? 0 : 1;
}
