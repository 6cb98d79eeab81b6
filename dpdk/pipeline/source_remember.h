/* SPDX-License-Identifier: Apache-2.0
 *
 * Who has completed handshakes lately (core/proven.h), for `tidegate why` and reports to a filter manager; as
 * bpf/lib/proven.h. Costs a comparison with an ACK that opens a connection where nothing is remembered, and
 * nothing elsewhere.
 *
 * Must never: be called for a source that neither a cookie nor the SYN cache has proven.
 */
#ifndef TG_DPDK_SOURCE_REMEMBER_H
#define TG_DPDK_SOURCE_REMEMBER_H

#include "worker.h"

/* Notes a completed handshake. */
void tg_source_remember(struct tg_worker *w, const struct tg_packet *ack);

#endif
