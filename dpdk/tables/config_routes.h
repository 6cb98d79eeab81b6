/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a configuration that say where packets go.
 */
#ifndef TG_DPDK_CONFIG_ROUTES_H
#define TG_DPDK_CONFIG_ROUTES_H

#include "config_scan.h"

#define TG_CONFIG_ROUTES 7

extern const struct tg_config_word tg_config_routes[TG_CONFIG_ROUTES];

#endif
