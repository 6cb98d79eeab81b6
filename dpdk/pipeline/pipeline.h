/* SPDX-License-Identifier: Apache-2.0
 *
 * The burst pipeline: how a burst of frames goes through a worker.
 *
 *   flood     SYNs of a flood that the burst begins with are answered (flood.h); the rest goes through three stages:
 *   classify  what each frame is; which hashes its fate will need
 *   hash      all of them at once (hash.h), lookups prefetched; SYNs of a group have hashed their cookies already
 *   act       frame by frame and in order, as if there were no burst: what the
 *             first stage foresaw is there, what it did not is worked out now
 *   send      by port
 *
 * Decisions are those of core/; bpf/proxy_xdp.bpf.c makes the same calls.
 *
 * Must never: allocate memory or make a system call for a packet.
 */
#ifndef TG_DPDK_PIPELINE_H
#define TG_DPDK_PIPELINE_H

#include "worker.h"

/* Processes frames that arrived on one port; all of them are sent, stored or freed
 * when it returns. */
static inline void tg_pipeline_burst(struct tg_worker *w, struct rte_mbuf **m, uint32_t n,
				     uint16_t port)
{
	w->burst(w, m, n, port);
}

/* For any CPU, for x86-64-v3, and for x86-64-v4 (AVX-512): chosen by tg_worker_new. */
void tg_pipeline_burst_any(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port);
void tg_pipeline_burst_v3(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port);
void tg_pipeline_burst_v4(struct tg_worker *w, struct rte_mbuf **m, uint32_t n, uint16_t port);

#endif
