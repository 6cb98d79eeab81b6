/* SPDX-License-Identifier: Apache-2.0
 *
 * A port in memory for benchmarks: receiving copies the next of many prepared frames into a buffer,
 * as a network card's DMA does; sending returns the buffer. Buffers are used first in, first out,
 * as a card's rings do. Its cost is measured by the reference that only swaps MAC addresses.
 */
#ifndef TG_BENCH_DRIVER_H
#define TG_BENCH_DRIVER_H

#include "pipeline.h"

#define TG_RING 1024 /* buffers, a power of two */

struct tg_mem_port {
	uint8_t *frames; /* prepared, `stride` bytes apart */
	uint16_t *lens;
	uint32_t stride, frames_n, next;
	struct rte_mempool *pool;
	uint32_t head, tail; /* of the ring of free buffers */
	struct rte_mbuf *ring[TG_RING];
	uint64_t sent;
	uint64_t says; /* of each frame: flags of RTE_MBUF_F_RX_* */
};

bool tg_mem_port_init(struct tg_mem_port *p, struct rte_mempool *pool, uint32_t frames_n,
		      uint32_t stride);
void tg_mem_port_free(struct tg_mem_port *p);

#define TG_AHEAD 8 /* frames */

/* Prefetches the source and destination of a later copy while earlier frames are copied. */
TG_INLINE void tg_mem_port_fetch(const struct tg_mem_port *p)
{
	const uint8_t *from = p->frames + (size_t)(p->next + TG_AHEAD) * p->stride;
	const struct rte_mbuf *m = p->ring[(p->head + TG_AHEAD) & (TG_RING - 1)];

	__builtin_prefetch(from);
	__builtin_prefetch(from + 64);
	if (m) {
		__builtin_prefetch(m, 1);
		__builtin_prefetch((const uint8_t *)(m + 1) + RTE_PKTMBUF_HEADROOM, 1);
		__builtin_prefetch((const uint8_t *)(m + 1) + RTE_PKTMBUF_HEADROOM + 64, 1);
	}
}

/* Fills in what a driver does: the mbuf's first cache line, in three stores. */
TG_INLINE void tg_mem_port_describe(struct rte_mbuf *m, uint16_t len, uint64_t says)
{
	const uint64_t rearm = RTE_PKTMBUF_HEADROOM | 1ULL << 16 |
			       1ULL << 32; /* data_off, refcnt, nb_segs */
	const uint64_t words[2] = {(uint64_t)len << 32,
				   len}; /* packet_type, pkt_len; data_len, vlan_tci, rss */

	memcpy(&m->rearm_data, &rearm, sizeof(rearm));
	m->ol_flags = says;
	memcpy(&m->rx_descriptor_fields1, words, sizeof(words));
}

static inline uint32_t tg_mem_port_receive(struct tg_mem_port *p, struct rte_mbuf **m, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		const uint8_t *from = p->frames + (size_t)p->next * p->stride;
		uint16_t len = p->lens[p->next];
		uint8_t *to;

		tg_mem_port_fetch(p);
		if (TG_LIKELY(p->head != p->tail))
			m[i] = p->ring[p->head++ & (TG_RING - 1)];
		else if (!(m[i] = rte_pktmbuf_alloc(p->pool)))
			break;
		tg_mem_port_describe(m[i], len, p->says);
		to = (uint8_t *)m[i]->buf_addr + RTE_PKTMBUF_HEADROOM;
		memcpy(to, from, 64);
		memcpy(to + 64, from + 64, 32);
		if (++p->next == p->frames_n)
			p->next = 0;
	}
	return i;
}

static inline void tg_mem_port_send(struct tg_mem_port *p, struct rte_mbuf **m, uint32_t n)
{
	uint32_t i, at = p->tail & (TG_RING - 1);

	p->sent += n;
	if (TG_LIKELY(p->tail - p->head + n <= TG_RING && at + n <= TG_RING)) {
		memcpy(&p->ring[at], m, n * sizeof(*m));
		p->tail += n;
		return;
	}
	for (i = 0; i < n; i++) {
		if (TG_LIKELY(p->tail - p->head < TG_RING))
			p->ring[p->tail++ & (TG_RING - 1)] = m[i];
		else
			rte_pktmbuf_free(m[i]);
	}
}

#endif
