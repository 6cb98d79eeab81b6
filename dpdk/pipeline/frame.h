/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: making them writable, changing their length, sending them.
 */
#ifndef TG_DPDK_FRAME_H
#define TG_DPDK_FRAME_H

#include "worker.h"

#define TG_ETHERTYPE_ARP ((tg_ethertype)0x0608)

/* The flags of a received frame that say who owns its memory. */
#define TG_FLAGS_KEPT (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)

#define TG_DATA(m) rte_pktmbuf_mtod(m, uint8_t *)

static inline void tg_count(struct tg_worker *w, uint32_t id, enum tg_counter counter)
{
	if ((uint32_t)counter < TG_COUNTERS)
		w->rows[id].count[counter]++;
}

static inline void tg_drop(struct tg_worker *w, struct rte_mbuf *m)
{
	(void)w;
	rte_pktmbuf_free(m);
}

static inline void tg_flush(struct tg_worker *w, uint16_t port)
{
	struct tg_out *out = &w->out[port];
	uint32_t sent;

	if (!out->n)
		return;
	sent = w->transmit(w, port, out->m, out->n);
	if (TG_UNLIKELY(sent < out->n))
		w->rows[0].count[TG_COUNT_drop_tx_full] += out->n - sent;
	out->n = 0;
}

static inline void tg_send(struct tg_worker *w, uint16_t port, struct rte_mbuf *m)
{
	struct tg_out *out = &w->out[port];

	if (TG_UNLIKELY(out->n == TG_OUT_MAX))
		tg_flush(w, port);
	out->m[out->n++] = m;
}

/* A frame that others hold, too, or whose first TG_HEADERS_MAX bytes stand in several pieces, becomes
 * one that may be written. NULL: it was dropped. */
struct rte_mbuf *tg_frame_make_own(struct tg_worker *w, struct rte_mbuf *m);

/* The frame with another length, in one piece, the first `keep` bytes as they
 * were. NULL: there is no buffer for it, and the frame is gone. */
static inline struct rte_mbuf *tg_frame_resize(struct tg_worker *w, struct rte_mbuf *m,
					       uint32_t len, uint32_t keep)
{
	struct rte_mbuf *n;

	if (TG_UNLIKELY(m->nb_segs > 1)) {
		rte_pktmbuf_free(m->next);
		m->next = NULL;
		m->nb_segs = 1;
	}
	if (TG_LIKELY((uint32_t)m->buf_len - m->data_off >= len)) {
		m->data_len = (uint16_t)len;
		m->pkt_len = len;
		return m;
	}
	n = rte_pktmbuf_alloc(w->pool);
	if (n && rte_pktmbuf_append(n, (uint16_t)len)) {
		memcpy(TG_DATA(n), TG_DATA(m), keep);
	} else {
		rte_pktmbuf_free(n);
		n = NULL;
		tg_count(w, 0, TG_COUNT_drop_no_buffer);
	}
	rte_pktmbuf_free(m);
	return n;
}

#endif
