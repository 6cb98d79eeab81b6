/* SPDX-License-Identifier: Apache-2.0
 *
 * The firmware: lwIP with the module on a bare LM3S6965, one loop, no RTOS.
 */
#include "app.h"
#include "bench.h"
#include "board.h"
#include "ethernet.h"
#include "lwip/init.h"
#include "lwip/netif.h"
#include "lwip/timeouts.h"
#include "netif/ethernet.h"
#include "tg_lwip.h"

#define FRAMES_PER_TURN 8

static struct netif netif;
static u32_t rand_state = 0x2545f491;

u32_t sys_now(void)
{
	return board_now_ms();
}

u32_t app_idle_us(void)
{
	return board_idle_us();
}

/* For lwIP's port numbers and IPv6 timers; no secret comes from here. */
unsigned firmware_rand(void)
{
	rand_state ^= rand_state << 13;
	rand_state ^= rand_state >> 17;
	rand_state ^= rand_state << 5;
	return rand_state;
}

void firmware_assert(const char *what)
{
	board_puts("assertion: ");
	board_puts(what);
	board_puts("\n");
	board_exit(1);
}

int main(void)
{
	static struct app_config config;

	board_init();
	if (app_config_parse(&config, board_args()) != 0) {
		board_puts("bad argument: queue=1-255 beacon=0|1 bench=0|1 secret=64 hex digits\n");
		return 1;
	}
	if (!config.have_secret) {
		board_puts("no secret: give secret=64 hex digits, new at every start\n");
		return 1;
	}
	lwip_init();
#ifndef TG_FIRMWARE_BARE
	tg_lwip_init(config.secret);
#endif
	if (config.bench)
		return bench_run(&config);
	netif_add_noaddr(&netif, NULL, ethernet_init, ethernet_input);
	netif_set_default(&netif);
	netif_set_up(&netif);
	app_netif_addresses(&netif);
	app_start(&config);
	board_puts("ready\n");
	for (;;) {
		ethernet_poll(&netif, FRAMES_PER_TURN);
		sys_check_timeouts();
		app_poll();
		board_sleep();
	}
}
