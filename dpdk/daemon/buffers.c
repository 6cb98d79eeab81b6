/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools of frame buffers.
 */
#include "buffers.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>

#include "memory.h"

static void populate(struct rte_mempool *pool, void *arg, struct rte_mempool_memhdr *mem, unsigned i)
{
	bool *there = arg;

	(void)pool, (void)i;
	*there = *there && tg_pages_populate(mem->addr, mem->len);
}

struct rte_mempool *tg_buffers_make(const char *name, uint32_t buffers, uint32_t cache, int socket)
{
	bool close = !rte_eal_has_hugepages() && rte_eal_iova_mode() == RTE_IOVA_VA;
	struct rte_mempool *pool = rte_mempool_create_empty(
		name, buffers, sizeof(struct rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE, cache,
		sizeof(struct rte_pktmbuf_pool_private), socket,
		close ? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0);

	bool there = true;

	if (!pool)
		return NULL;
	if (rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL) == 0) {
		rte_pktmbuf_pool_init(pool, NULL);
		if (rte_mempool_populate_default(pool) >= 0) {
			rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
			rte_mempool_mem_iter(pool, populate, &there); /* huge pages are there */
			if (there)
				return pool;
			rte_errno = ENOMEM;
		}
	}
	rte_mempool_free(pool);
	return NULL;
}
