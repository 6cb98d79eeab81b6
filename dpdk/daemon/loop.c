/* SPDX-License-Identifier: Apache-2.0
 *
 * One core's loop: receive from every port, process the burst, look at the clock a thousand times a
 * second. What a transmit queue does not accept is freed and counted: nothing waits for a port.
 */
#include "loop.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>
#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "buffers.h"
#include "capture.h"
#include "kernel_frame.h"
#include "pipeline.h"
#include "say.h"

#define POLLS_A_LOOK 32    /* between looks at the cycle counter */
#define IDLE_POLLS 256    /* without a frame, before sleeping (if idle_us is set) */
#define NICE (-10)    /* ten times an ordinary process's share */

static uint32_t transmit(struct tg_worker *w, uint16_t port, struct rte_mbuf **m, uint32_t n)
{
	const struct tg_core *core = w->owner;
	uint32_t sent = rte_eth_tx_burst(port, core->queue, m, (uint16_t)n), i;

	for (i = sent; i < n; i++)
		rte_pktmbuf_free(m[i]);
	return sent;
}

/* Counts to be reset: only their core writes them. */
static void forget(struct tg_core *core)
{
	uint32_t i;

	for (i = 0; i <= TG_SERVICES_MAX / 64; i++) {
		uint64_t bits = atomic_load_explicit(&core->forget[i], memory_order_relaxed);

		if (TG_LIKELY(!bits))
			continue;
		for (bits = atomic_exchange(&core->forget[i], 0); bits; bits &= bits - 1)
			memset(&core->w->rows[i * 64 + (uint32_t)__builtin_ctzll(bits)], 0,
			       sizeof(struct tg_counter_row));
	}
}

static void take_capture(struct tg_core *core)
{
	struct tg_capturing *c = atomic_load_explicit(&core->capture, memory_order_acquire);

	if (TG_LIKELY(c == core->w->capture))
		return;
	tg_capture_turn_to(core->w, c);
	atomic_store_explicit(&core->captures, c, memory_order_release);
}

static void tick(struct tg_core *core)
{
	const struct tg_config *config = atomic_load_explicit(&core->config, memory_order_acquire);
	struct timespec wall, mono;

	clock_gettime(CLOCK_REALTIME, &wall); /* no system call: vDSO */
	clock_gettime(CLOCK_MONOTONIC, &mono);
	tg_worker_tick(core->w, config, (uint64_t)wall.tv_sec * 1000000000U + (uint64_t)wall.tv_nsec,
		       (uint32_t)(mono.tv_sec * 1000 + mono.tv_nsec / 1000000));
	if (atomic_load(&core->swap_flows) && tg_worker_swap_flows(core->w))
		atomic_store(&core->swap_flows, 0);
	if (atomic_load(&core->swap_sources) && tg_worker_swap_sources(core->w))
		atomic_store(&core->swap_sources, 0);
	forget(core);
	take_capture(core);
	atomic_store_explicit(&core->seen, config->number, memory_order_release);
}

/* On interfaces of the kernel, and sleeping when nothing comes, this thread shares its processor
 * with others and acts like a softirq in the kernel's forwarding: other work gets what it leaves,
 * instead of half. Without the privilege, it runs as usual. */
static void prefer(const struct tg_program *p)
{
	if (p->from_kernel && p->opt.idle_us && setpriority(PRIO_PROCESS, 0, NICE))
		tg_say("no higher priority for the forwarding thread: %s; under load other work "
		       "delays it (it needs CAP_SYS_NICE)",
		       strerror(errno));
}

int tg_core_loop(void *arg)
{
	struct tg_core *core = arg;
	const struct tg_program *p = core->program;
	uint64_t look = rte_get_tsc_hz() / 1000, next = 0;
	struct rte_mbuf *m[TG_BURST_MAX];
	uint32_t idle = 0, polls = 0, port, n;

	prefer(p);
	while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
		if (polls++ % POLLS_A_LOOK == 0 || idle > IDLE_POLLS) {
			uint64_t now = rte_rdtsc();

			if (now >= next) {
				next = now + look;
				tick(core);
			}
		}
		idle++;
		for (port = 0; port < p->ports_n; port++) {
			n = rte_eth_rx_burst((uint16_t)port, core->queue, m, (uint16_t)p->opt.burst);
			if (!n)
				continue;
			idle = 0;
			if (p->from_kernel >> port & 1)
				n = tg_kernel_frames(core->w, m, n);
			tg_pipeline_burst(core->w, m, n, (uint16_t)port);
		}
		if (idle > IDLE_POLLS && p->opt.idle_us)
			usleep(p->opt.idle_us);
	}
	return 0;
}

static int populate(void *core)
{
	return tg_worker_populate(((struct tg_core *)core)->w) ? 0 : -1;
}

/* Makes each core touch the pages of its own tables, all at once: they are then on its own node,
 * and no packet waits for a page fault. */
static bool cores_populate(struct tg_program *p)
{
	bool ok = true;
	uint32_t i;

	for (i = 0; i < p->cores_n; i++)
		if (p->cores[i].lcore != rte_get_main_lcore())
			rte_eal_remote_launch(populate, &p->cores[i], p->cores[i].lcore);
	for (i = 0; i < p->cores_n; i++)
		ok &= (p->cores[i].lcore == rte_get_main_lcore()
			       ? populate(&p->cores[i])
			       : rte_eal_wait_lcore(p->cores[i].lcore)) == 0;
	return ok || tg_say("no memory for the tables: %s; lower --max-flows, --max-sources or "
			    "--cache-entries, or leave out --white-bitmap",
			    strerror(ENOMEM));
}

bool tg_cores_make(struct tg_program *p, const struct tg_config *first)
{
	struct tg_worker_options o = {
		.max_flows = RTE_MAX(p->opt.max_flows / p->cores_n, 1024U),
		.max_sources = RTE_MAX(p->opt.max_sources / p->cores_n, 1024U),
		.max_halfopens = RTE_MAX(p->opt.max_halfopens / p->cores_n, 1024U),
		.white_bitmap = p->opt.white_bitmap,
		.variant = tg_siphash_choose(p->opt.hash),
	};
	uint64_t random[10];
	uint32_t i;

	if (!o.variant)
		return tg_say("--hash %s: unknown, or this CPU cannot do it; leave it out to have "
			      "the best it can",
			      p->opt.hash);
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return tg_say("no random numbers from the kernel");
	o.challenge_key = (struct tg_siphash_key){random[0], random[8]};
	o.presence_salt = random[7];
	o.sample_key = random[9];
	o.table_key = (struct tg_siphash_key){random[1], random[2]};
	o.cache_key = (struct tg_siphash_key){random[3], random[4]};
	o.ask_key = (struct tg_siphash_key){random[5], random[6]};
	o.limits = p->limits = tg_pages_get(sizeof(*p->limits));
	if (!o.limits)
		return tg_say("no memory for the limits of sources");
	for (i = 0; i < p->cores_n; i++) {
		char name[32];

		snprintf(name, sizeof(name), "tidegate%u", i);
		o.pool = tg_buffers_make(name, p->opt.buffers, 256,
					 (int)rte_lcore_to_socket_id(p->cores[i].lcore));
		if (!o.pool)
			return tg_say("%u buffers for core %u: %s; give DPDK more memory (-m) or "
				      "fewer --buffers",
				      p->opt.buffers, p->cores[i].lcore, rte_strerror(rte_errno));
		p->cores[i].w = tg_worker_new(&o);
		if (!p->cores[i].w)
			return tg_say("no memory for the tables of core %u; lower --max-flows or "
				      "--max-sources",
				      p->cores[i].lcore);
		p->cores[i].w->transmit = transmit;
		p->cores[i].w->owner = &p->cores[i];
		p->cores[i].program = p;
		p->cores[i].queue = (uint16_t)i;
		atomic_store(&p->cores[i].config, first);
		tick(&p->cores[i]);
	}
	return cores_populate(p);
}
