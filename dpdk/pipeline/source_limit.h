/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of connections that one source begins and holds, asked with an ACK whose cookie has verified,
 * or that the SYN cache accepts, once for each connection; as bpf/lib/source_limit.h. Costs a comparison on that
 * path where there is no limit, and nothing elsewhere.
 */
#ifndef TG_DPDK_SOURCE_LIMIT_H
#define TG_DPDK_SOURCE_LIMIT_H

#include "frame.h"

/* Counts a connection for its source; what is to happen to it. REPORT: it goes on as it would without a
 * limit. */
enum tg_limit_action tg_source_limited(struct tg_worker *w, const struct tg_packet *ack,
				       uint32_t service);

#endif
