/* SPDX-License-Identifier: Apache-2.0
 *
 * A port in memory for benchmarks: receiving copies the next of many prepared
 * frames into a buffer, as a network card's DMA does; sending gives the buffer
 * back. Buffers go round first in, first out, as a card's rings let them. What it
 * costs is told by the yardstick that only swaps MAC addresses.
 */
#ifndef TG_BENCH_DRIVER_H
#define TG_BENCH_DRIVER_H

#include "../pipeline.h"

#define TG_RING 1024 /* buffers, a power of two */

struct tg_mem_port {
	uint8_t *frames; /* prepared, `stride` bytes apart */
	uint16_t *lens;
	uint32_t stride, frames_n, next;
	struct rte_mempool *pool;
	uint32_t head, tail; /* of the ring of free buffers */
	struct rte_mbuf *ring[TG_RING];
	uint64_t sent;
};

bool tg_mem_port_init(struct tg_mem_port *p, struct rte_mempool *pool, uint32_t frames_n,
		      uint32_t stride);
void tg_mem_port_free(struct tg_mem_port *p);

static inline uint32_t tg_mem_port_receive(struct tg_mem_port *p, struct rte_mbuf **m, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		const uint8_t *from = p->frames + (size_t)p->next * p->stride;
		uint16_t len = p->lens[p->next];

		if (TG_LIKELY(p->head != p->tail))
			m[i] = p->ring[p->head++ & (TG_RING - 1)];
		else if (!(m[i] = rte_pktmbuf_alloc(p->pool)))
			break;
		m[i]->data_off = RTE_PKTMBUF_HEADROOM;
		m[i]->data_len = len;
		m[i]->pkt_len = len;
		m[i]->nb_segs = 1;
		m[i]->ol_flags = 0;
		m[i]->next = NULL;
		memcpy(rte_pktmbuf_mtod(m[i], void *), from, 64);
		memcpy(rte_pktmbuf_mtod(m[i], uint8_t *) + 64, from + 64, 32);
		if (++p->next == p->frames_n)
			p->next = 0;
	}
	return i;
}

static inline void tg_mem_port_send(struct tg_mem_port *p, struct rte_mbuf **m, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (TG_LIKELY(p->tail - p->head < TG_RING))
			p->ring[p->tail++ & (TG_RING - 1)] = m[i];
		else
			rte_pktmbuf_free(m[i]);
	}
	p->sent += n;
}

#endif
