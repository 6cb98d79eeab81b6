/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of frame buffers. As rte_pktmbuf_pool_create makes one, but without huge pages DPDK gives
 * each buffer a page of its own, so that a device can reach it in one piece: all buffers then begin
 * in the same few sets of the caches, which hold a dozen of them, and a burst of 32 drives its own
 * first frames out. Where a device uses virtual addresses, any buffer is contiguous, and they may
 * be packed.
 */
#ifndef TG_DPDK_BUFFERS_H
#define TG_DPDK_BUFFERS_H

#include <rte_mempool.h>

/* `cache`: buffers that each core caches. NULL without memory: see rte_errno. */
struct rte_mempool *tg_buffers_make(const char *name, uint32_t buffers, uint32_t cache, int socket);

#endif
