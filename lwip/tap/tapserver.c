/* SPDX-License-Identifier: Apache-2.0
 *
 * The firmware's application as a program on this machine, behind a tap device
 * that exists already: lwIP, module and application under the sanitizers, real
 * Linux clients in front of them.
 *
 *     tapserver TAP key=value...        (the keys of app.h)
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "lwip/etharp.h"
#include "lwip/ethip6.h"
#include "lwip/init.h"
#include "lwip/stats.h"
#include "lwip/timeouts.h"
#include "netif/ethernet.h"
#include "tg_lwip.h"

static int tap_fd;
static struct netif netif;

u32_t sys_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u32_t)((u64_t)t.tv_sec * 1000 + (u64_t)t.tv_nsec / 1000000);
}

/* The program's own time is this machine's; nobody counts its work. */
u32_t app_idle_us(void)
{
	return 0;
}

static int tap_open(const char *name)
{
	struct ifreq r;
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

	if (fd < 0)
		return -1;
	memset(&r, 0, sizeof(r));
	r.ifr_flags = IFF_TAP | IFF_NO_PI;
	if (strlen(name) >= sizeof(r.ifr_name)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(r.ifr_name, name);
	return ioctl(fd, TUNSETIFF, &r) < 0 ? -1 : fd;
}

static err_t transmit(struct netif *n, struct pbuf *p)
{
	u8_t frame[2048];
	u16_t len = pbuf_copy_partial(p, frame, sizeof(frame), 0);

	LWIP_UNUSED_ARG(n);
	return write(tap_fd, frame, len) == len ? ERR_OK : ERR_IF;
}

static err_t tap_init(struct netif *n)
{
	static const u8_t mac[6] = {0x02, 0x54, 0x47, 0x00, 0x00, 0x02};

	n->name[0] = 't';
	n->name[1] = 'p';
	n->output = etharp_output;
	n->output_ip6 = ethip6_output;
	n->linkoutput = transmit;
	n->mtu = 1500;
	n->hwaddr_len = sizeof(mac);
	memcpy(n->hwaddr, mac, sizeof(mac));
	n->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET |
		   NETIF_FLAG_LINK_UP | NETIF_FLAG_MLD6;
	return ERR_OK;
}

static void receive(void)
{
	u8_t frame[2048];
	ssize_t len;
	struct pbuf *p;

	while ((len = read(tap_fd, frame, sizeof(frame))) > 0) {
		p = pbuf_alloc(PBUF_RAW, (u16_t)len, PBUF_POOL);
		if (p == NULL)
			continue;
		pbuf_take(p, frame, (u16_t)len);
		if (netif.input(p, &netif) != ERR_OK)
			pbuf_free(p);
	}
}

int main(int argc, char **argv)
{
	static struct app_config config;
	char args[512] = "tapserver";
	int i;

	for (i = 2; i < argc; i++)
		snprintf(args + strlen(args), sizeof(args) - strlen(args), " %s", argv[i]);
	if (argc < 2 || app_config_parse(&config, args) != 0 || !config.have_secret) {
		fprintf(stderr, "usage: tapserver TAP secret=64HEX [queue=1-255] [beacon=0|1]\n");
		return 2;
	}
	tap_fd = tap_open(argv[1]);
	if (tap_fd < 0) {
		fprintf(stderr, "tapserver: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	lwip_init();
	tg_lwip_init(config.secret);
	netif_add_noaddr(&netif, NULL, tap_init, ethernet_input);
	netif_set_default(&netif);
	netif_set_up(&netif);
	app_netif_addresses(&netif);
	app_start(&config);
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct pollfd p = {.fd = tap_fd, .events = POLLIN};
		u32_t sleep_ms = sys_timeouts_sleeptime();

		if (config.beacon && sleep_ms > 5)
			sleep_ms = 5;
		poll(&p, 1, sleep_ms > 1000 ? 1000 : (int)sleep_ms);
		receive();
		sys_check_timeouts();
		app_poll();
	}
}
