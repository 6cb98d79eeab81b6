/* SPDX-License-Identifier: Apache-2.0
 *
 * The LM3S6965's Ethernet controller as an lwIP netif.
 */
#ifndef TG_ETHERNET_H
#define TG_ETHERNET_H

struct netif;

/* For netif_add(). */
signed char ethernet_init(struct netif *netif);
/* True if the controller holds a frame. */
int ethernet_pending(void);
/* Passes at most `budget` received frames to lwIP; returns how many. */
int ethernet_poll(struct netif *netif, int budget);

#endif
