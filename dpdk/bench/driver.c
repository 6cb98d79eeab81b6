/* SPDX-License-Identifier: Apache-2.0
 *
 * driver.h: making and freeing.
 */
#include "driver.h"

#include <stdlib.h>

bool tg_mem_port_init(struct tg_mem_port *p, struct rte_mempool *pool, uint32_t frames_n,
		      uint32_t stride)
{
	uint32_t i;

	memset(p, 0, sizeof(*p));
	p->pool = pool;
	p->frames_n = frames_n;
	p->stride = stride;
	p->frames = tg_pages_get((size_t)frames_n * stride + 64);
	p->lens = calloc(frames_n, sizeof(*p->lens));
	if (!p->frames || !p->lens)
		return false;
	for (i = 0; i < TG_RING / 2; i++) {
		p->ring[i] = rte_pktmbuf_alloc(pool);
		if (!p->ring[i])
			return false;
		p->tail++;
	}
	return true;
}

void tg_mem_port_free(struct tg_mem_port *p)
{
	while (p->head != p->tail)
		rte_pktmbuf_free(p->ring[p->head++ & (TG_RING - 1)]);
	tg_pages_put(p->frames, (size_t)p->frames_n * p->stride + 64);
	free(p->lens);
}
