/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame in hand on the slow path: its options, its checksum, sending it on, and
 * putting segments of our own into its place.
 */
#ifndef TG_DPDK_ITEM_H
#define TG_DPDK_ITEM_H

#include "route.h"

/* A sender that left the TCP checksum to its device (a virtual machine's, say)
 * wrote only part of it: the driver of the outgoing port completes it, or we do. */
static inline void tg_checksum_complete(struct tg_worker *w, struct tg_item *it)
{
	struct rte_mbuf *m = it->m;
	uint32_t l4_len = it->pkt.l4_len, off;
	uint8_t *tcp = TG_DATA(m) + it->pkt.l4_off;
	uint64_t sum = TG_WIRE32(0, TG_IPPROTO_TCP, l4_len >> 8, l4_len);
	const struct rte_mbuf *seg;
	int i;

	for (i = 0; i < 4; i++)
		sum += (uint64_t)it->pkt.src.w[i] + it->pkt.dst.w[i];
	m->ol_flags &= ~RTE_MBUF_F_RX_L4_CKSUM_MASK;
	if (w->tcp_checksum) {
		m->l2_len = it->pkt.l3_off;
		m->l3_len = it->pkt.l4_off - it->pkt.l3_off;
		m->l4_len = it->pkt.tcp_hdr_len;
		m->ol_flags |= RTE_MBUF_F_TX_TCP_CKSUM |
			       (it->pkt.family == 4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
		tg_store16(tcp + TG_TCP_SUM, tg_csum_fold(sum));
		return;
	}
	tg_store16(tcp + TG_TCP_SUM, 0);
	off = it->pkt.l4_off;
	for (seg = m; seg && l4_len; seg = seg->next) {
		uint32_t n = seg->data_len - off < l4_len ? seg->data_len - off : l4_len;

		if (n % 2 && n < l4_len)
			return; /* an odd piece in the middle: the receiver drops the frame */
		sum = tg_csum_add(sum, rte_pktmbuf_mtod(seg, const uint8_t *) + off, n);
		l4_len -= n;
		off = 0;
	}
	tg_store16(tcp + TG_TCP_SUM, tg_csum_finish(sum));
}

static inline void tg_forward(struct tg_worker *w, struct tg_item *it)
{
	if (TG_UNLIKELY(it->partial))
		tg_checksum_complete(w, it);
	tg_forward_ip(w, it->m, it->port, it->pkt.l3_off, it->pkt.family, &it->pkt.dst, true);
}

/* The same for a translated frame: its sender gets no ICMP error. */
static inline void tg_forward_changed(struct tg_worker *w, struct tg_item *it)
{
	if (TG_UNLIKELY(it->partial))
		tg_checksum_complete(w, it);
	tg_forward_ip(w, it->m, it->port, it->pkt.l3_off, it->pkt.family, &it->pkt.dst, false);
}

/* Replaces frame `m`, which arrived on `port`, by a segment of our own, and
 * sends it: back, or onwards. False: no buffer. */
static inline bool tg_segment_send(struct tg_worker *w, struct rte_mbuf *m, uint16_t port,
				   const struct tg_segment *s)
{
	uint32_t len = s->l3_off + tg_segment_len(s);
	uint8_t *data;

	m = tg_frame_resize(w, m, len, s->l3_off);
	if (!m)
		return false;
	data = TG_DATA(m);
	m->ol_flags &= TG_FLAGS_KEPT;
	(void)tg_segment_write((struct tg_writer){data + s->l3_off, data + len}, s);
	if (s->reflect) {
		tg_ethernet_reflect(data);
		tg_send(w, port, m);
	} else {
		tg_forward_ip(w, m, port, s->l3_off, s->family, &s->dst, false);
	}
	return true;
}

/* The same in a new frame; the current one is kept. */
static inline bool tg_segment_send_new(struct tg_worker *w, const struct tg_item *it,
				       const struct tg_segment *s)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(w->pool);

	if (!m || !rte_pktmbuf_append(m, (uint16_t)s->l3_off)) {
		rte_pktmbuf_free(m);
		tg_count(w, 0, TG_COUNT_drop_no_buffer);
		return false;
	}
	memcpy(TG_DATA(m), TG_DATA(it->m), s->l3_off);
	return tg_segment_send(w, m, it->port, s);
}

/* The options of the current segment. False if their lengths are inconsistent. */
TG_INLINE bool tg_item_options(const struct tg_item *it, struct tg_tcp_options *o)
{
	const uint8_t *data = TG_DATA(it->m), *end = data + it->m->data_len;
	const uint8_t *at = data + it->pkt.l4_off + TG_TCP_HDR_LEN;
	uint32_t len = (uint32_t)it->pkt.tcp_hdr_len - TG_TCP_HDR_LEN;
	struct tg_options_cursor c;

	o->tsval = o->tsecr = 0;
	if (TG_LIKELY(tg_tcp_options_common(at, len, end, o)))
		return true;
	if (len > TG_TCP_OPTIONS_MAX_LEN || at + len > end)
		return false;
	c.at = 0;
	c.len = len;
	memset(c.bytes, 0, sizeof(c.bytes));
	memcpy(c.bytes, at, len);
	*o = tg_tcp_options_parse(&c);
	return true;
}

/* Decides what happens to the current SYN, which would be answered, because of signature
 * options. */
static inline struct tg_decision tg_item_signed(struct tg_worker *w, const struct tg_item *it,
						const struct tg_tcp_options *offered)
{
	return tg_signed_judge_at(offered->auth, w->config->services[it->id].signed_cost_us,
				  &w->allowances[it->id], w->now_ns);
}

/* tg_proxy_may_prove for the current segment, under its service's strategy. */
static inline bool tg_item_may_prove(const struct tg_worker *w, const struct tg_item *it)
{
	return tg_proxy_may_prove(w->config->proxy_cfg[it->id].strategy, &it->pkt, it->m->pkt_len);
}

static inline uint8_t tg_item_ttl(const struct tg_item *it)
{
	const uint8_t *ip = TG_DATA(it->m) + it->pkt.l3_off;

	return it->pkt.family == 4 ? ip[TG_IPV4_TTL] : ip[TG_IPV6_HOPS];
}

#endif
