/* SPDX-License-Identifier: Apache-2.0
 *
 * ICMP errors about translated connections: the header that they quote is
 * translated back, as bpf/lib/proxy_icmp.h does, or path MTU discovery ends here.
 */
#ifndef TG_DPDK_ICMP_H
#define TG_DPDK_ICMP_H

#include "worker.h"

/* Translates the quote in the current ICMP error, if it belongs to a flow. */
void tg_icmp_translate(struct tg_worker *w, struct tg_item *it);

#endif
