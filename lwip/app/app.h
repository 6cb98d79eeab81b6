/* SPDX-License-Identifier: Apache-2.0
 *
 * The application that is attacked: a TCP sink (what an iperf client wants of
 * its server), a status page over HTTP, and a UDP beacon that gives the lab the
 * device's own time. The same on the board and as a host program on a tap.
 */
#ifndef TG_APP_H
#define TG_APP_H

#include "lwip/arch.h"

#define APP_SINK_PORT 5001
#define APP_HTTP_PORT 80
#define APP_BEACON_PORT 4999
#define APP_BEACON_INTERVAL_MS 20

/* The device's settings at its start: "key=value" pairs with spaces. */
struct app_config {
	u8_t secret[32];  /* secret=64 hexadecimal digits; a product uses its TRNG */
	u8_t have_secret;
	u16_t queue;      /* queue=N, the backlog of each listener; 1 to 255 */
	u8_t beacon;      /* beacon=1 */
	u8_t bench;       /* bench=1: count instructions and stop */
};

/* 0, or -1 if an argument is unknown or wrong. */
int app_config_parse(struct app_config *config, const char *args);

struct netif;

/* Addresses of the device: 198.18.7.2/24 and fd7d:7467:7::2/64, and the lab's
 * end, 198.18.7.1, which is the gateway too. */
void app_netif_addresses(struct netif *netif);

/* Starts the listeners and, if configured, the beacon. */
void app_start(const struct app_config *config);
/* Provided by the platform: microseconds that the device has slept for lack
 * of work. Wraps after 71 minutes. */
u32_t app_idle_us(void);
/* Call it at least every few milliseconds. */
void app_poll(void);

#endif
