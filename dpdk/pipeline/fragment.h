/* SPDX-License-Identifier: Apache-2.0
 *
 * IPv4 packets that are longer than the next link and may be cut (RFC 791). DPDK's
 * library cuts; headers are ours.
 */
#ifndef TG_DPDK_FRAGMENT_H
#define TG_DPDK_FRAGMENT_H

#include "worker.h"

#define TG_FRAGMENTS_MAX 64

/* Fragments frame `m`, which has no tags, and frees it. Returns the number of fragments; 0:
 * it cannot be fragmented, which is counted. */
int tg_fragment(struct tg_worker *w, struct rte_mbuf *m, uint32_t mtu, struct rte_mbuf **piece);

#endif
