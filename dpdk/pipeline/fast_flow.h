/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of a segment of a connection that is translated: an ACK, whole, with
 * no options or with timestamps where nearly all senders put them, of a flow that is
 * ready, has a place of its own and has not begun to end. core/translate.h says what changes.
 *
 * Two waits for memory (bucket, entry) are waits for all of a burst. The presence bits are not
 * read: that a segment belongs to no flow shows in one bucket, and it then takes the slow path,
 * which reads them.
 */
#ifndef TG_DPDK_FAST_FLOW_H
#define TG_DPDK_FAST_FLOW_H

#include "fast_forward.h"
#include "fast_syn.h"
#include "flow.h"

#define TG_TCP_HDR_TS (TG_TCP_HDR_LEN + 12)

TG_INLINE uint8_t *tg_fast_tcp(const struct tg_fast_frame *f)
{
	return f->ip + (f->v6 ? TG_IPV6_HDR_LEN : TG_IPV4_HDR_LEN);
}

/* Puts the words of the flow's hash into a lane. */
TG_INLINE int16_t tg_fast_segment_lane(struct tg_worker *w, const struct tg_packet *pkt,
				       enum tg_direction dir)
{
	return tg_lane_flow_put(pkt->family == 4 ? &w->fast.flows4 : &w->fast.flows6, pkt, dir);
}

/* First stage: a segment in one piece, header of `hdr_len` bytes, at `tcp`; false: the
 * slow path. */
TG_INLINE bool tg_fast_segment_take(struct tg_worker *w, struct tg_fast_frame *f,
				    const struct tg_packet *pkt, const uint8_t *tcp, uint32_t hdr_len)
{
	bool to = tg_config_port_is_protected(w->config, TG_DST_PORT_BE(pkt));
	bool from = tg_config_port_is_protected(w->config, TG_SRC_PORT_BE(pkt));

	if (!w->config->flows || to == from)
		return false;
	if ((f->m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_NONE)
		return false; /* its checksum is to be completed */
	if (hdr_len != TG_TCP_HDR_LEN &&
	    !(hdr_len == TG_TCP_HDR_TS && tg_translate_is_aligned(tcp + TG_TCP_HDR_LEN)))
		return false;
	f->dir = to ? TG_TO_SERVER : TG_TO_CLIENT;
	f->lane = to ? tg_fast_segment_lane(w, pkt, TG_TO_SERVER)
		     : tg_fast_segment_lane(w, pkt, TG_TO_CLIENT);
	return true;
}

TG_INLINE uint64_t tg_fast_segment_hash(const struct tg_worker *w, const struct tg_fast_frame *f)
{
	return (f->v6 ? &w->fast.flows6 : &w->fast.flows4)->out[f->lane];
}

/* Second stage: the buckets have been fetched; fetches the entry. False: the flow is not in its
 * most likely place, if it exists: the slow path. */
TG_INLINE bool tg_fast_segment_fetch(struct tg_worker *w, struct tg_fast_frame *f)
{
	f->slot = tg_flow_prefetch(&w->flows, tg_fast_segment_hash(w, f), f->v6 ? 6 : 4);
	return f->slot != TG_NO_SLOT;
}

/* Translates what is at `tcp` and updates its checksum. */
TG_INLINE void tg_fast_translate(uint8_t *tcp, const struct tg_flow *flow, enum tg_direction dir)
{
	uint64_t sum = 0;

	tg_translate_header(tcp, flow, dir, &sum);
	if (tcp[TG_TCP_DOFF] >> 4 != TG_TCP_HDR_LEN / 4 && flow->flags & TG_FLOW_TS)
		tg_translate_timestamps(tcp + TG_TCP_HDR_LEN + 4, flow, true, dir, &sum);
	tg_store16(tcp + TG_TCP_SUM, tg_translate_checksum(tg_load16(tcp + TG_TCP_SUM), sum));
}

/* tg_flow_note_acked for an ACK of the server at `tcp`. */
TG_INLINE void tg_fast_note_acked(const uint8_t *tcp, struct tg_flow *flow, uint16_t port)
{
	struct tg_packet pkt = {.flags = TG_TCP_ACK, .ack = tg_swap32(tg_load32(tcp + TG_TCP_ACKED))};

	tg_flow_note_acked(flow, &pkt, TG_TO_CLIENT, port);
}

/* What is rarely needed is read from the frame again: values that the usual path keeps in registers
 * must not have their address taken. */
static struct tg_flow_entry *__attribute__((noinline)) tg_fast_segment_find(
	struct tg_worker *w, const struct tg_fast_frame *f)
{
	struct tg_packet pkt = tg_fast_packet(f->ip, f->v6);
	struct tg_flow_key key = tg_flow_key_of(&pkt, f->dir);

	return tg_flow_table_find(&w->flows, &key, tg_fast_segment_hash(w, f));
}

/* Where a router forwards it. */
static bool __attribute__((noinline)) tg_fast_segment_output(const struct tg_worker *w,
							     const struct tg_fast_frame *f,
							     struct tg_output *output)
{
	struct tg_packet pkt = tg_fast_packet(f->ip, f->v6);

	return tg_output_route(w, f->m, f->l3_off, pkt.family, &pkt.dst, output) == TG_OUTPUT_OPEN;
}

/* Last stage, with direction and family known at compile time. */
TG_INLINE bool tg_fast_segment_turn(struct tg_worker *w, struct tg_fast_frame *f, uint16_t port,
				    bool v6, enum tg_direction dir)
{
	struct tg_packet pkt = tg_fast_packet(f->ip, v6);
	struct tg_flow_key key = tg_flow_key_of(&pkt, dir);
	struct tg_flow_entry *e = tg_flow_table_at(&w->flows, f->slot, &key);
	struct tg_output output;

	if (TG_UNLIKELY(!e))
		e = tg_fast_segment_find(w, f);
	if (TG_UNLIKELY(!e || e->flow.state != TG_FLOW_READY || (e->flow.flags & ~TG_FLOW_TS) ||
			e->flow.waits))
		return false;
	if (TG_UNLIKELY(w->config->router) && !tg_fast_segment_output(w, f, &output))
		return false; /* its sender gets an ICMP error */
	if (dir == TG_TO_CLIENT)
		tg_fast_note_acked(tg_fast_tcp(f), &e->flow, port);
	tg_fast_translate(tg_fast_tcp(f), &e->flow, dir);
	w->fast.segments++;
	if (TG_LIKELY(!w->config->router))
		tg_forward_ip(w, f->m, port, 0, 0, NULL, false);
	else
		tg_output_send(w, f->m, f->l3_off, pkt.family, &output);
	return true;
}

/* Last stage: translates and sends. False, with nothing changed: the slow path. */
TG_INLINE bool tg_fast_segment_send(struct tg_worker *w, struct tg_fast_frame *f, uint16_t port)
{
	if (TG_UNLIKELY(f->v6))
		return f->dir == TG_TO_SERVER ? tg_fast_segment_turn(w, f, port, true, TG_TO_SERVER)
					      : tg_fast_segment_turn(w, f, port, true, TG_TO_CLIENT);
	return f->dir == TG_TO_SERVER ? tg_fast_segment_turn(w, f, port, false, TG_TO_SERVER)
				      : tg_fast_segment_turn(w, f, port, false, TG_TO_CLIENT);
}

/* ---- which path ---- */

/* The same from the IP header on; `v6` is known at compile time. `left`: bytes of
 * the frame from there on, at least an IP and a TCP header. */
TG_INLINE uint8_t tg_fast_take_ip(struct tg_worker *w, struct tg_fast_frame *f, uint32_t left, bool v6)
{
	const uint32_t ip_len = v6 ? TG_IPV6_HDR_LEN : TG_IPV4_HDR_LEN;
	uint64_t word = tg_load64(f->ip);
	const uint8_t *tcp = f->ip + ip_len;
	uint32_t l4_len, hdr_len = (uint32_t)(tcp[TG_TCP_DOFF] >> 4) * 4;
	uint8_t flags = tcp[TG_TCP_FLAGS];

	if (v6) {
		/* version 6; TCP */
		if ((word & 0x00ff0000000000f0ULL) != (0x60 | (uint64_t)TG_IPPROTO_TCP << 48))
			return TG_SLOW_PATH;
		l4_len = tg_swap16(word >> 32);
	} else {
		/* version 4, IHL 5; no fragment; TCP */
		if ((word & 0xff3f0000000000ffULL) != 0x45 || f->ip[TG_IPV4_PROTO] != TG_IPPROTO_TCP)
			return TG_SLOW_PATH;
		l4_len = (uint32_t)tg_swap16(word >> 16) - TG_IPV4_HDR_LEN;
	}
	if (hdr_len < TG_TCP_HDR_LEN || l4_len < hdr_len || l4_len > left - ip_len)
		return TG_SLOW_PATH;
	f->v6 = v6;
	f->lane = -1;
	/* Assigned later, it would be copied through memory, in pieces other than those written. */
	struct tg_packet pkt = tg_fast_packet(f->ip, v6);
	if (flags == TG_TCP_SYN && l4_len == hdr_len)
		return tg_fast_syn_take(w, f, &pkt, tcp, hdr_len) ? TG_FAST_SYN : TG_SLOW_PATH;
	if ((flags & (TG_TCP_SYN | TG_TCP_FIN | TG_TCP_RST | TG_TCP_ACK)) != TG_TCP_ACK)
		return TG_SLOW_PATH;
	if (w->config->flows)
		return tg_fast_segment_take(w, f, &pkt, tcp, hdr_len) ? TG_FAST_SEGMENT
								      : TG_SLOW_PATH;
	if (!tg_fast_forward_take(w, f, &pkt))
		return TG_SLOW_PATH;
	w->fast.forwards++;
	return TG_FAST_FORWARD;
}

/* First stage of every frame: classifies it without changing anything. `mac` and
 * `mask`: the required value of its first eight bytes, and which bits of them matter. */
TG_INLINE uint8_t tg_fast_take(struct tg_worker *w, struct tg_fast_frame *f, struct rte_mbuf *m,
			       uint64_t mac, uint64_t mask)
{
	uint32_t len = m->data_len, l3_off = TG_ETH_HDR_LEN;
	uint8_t *data = TG_DATA(m);
	tg_ethertype type;

	if (!tg_fast_is_plain(m) || len < TG_ETH_HDR_LEN + TG_VLAN_TAG_LEN ||
	    (tg_load64(data) & mask) != mac)
		return TG_SLOW_PATH;
	type = tg_load16(data + TG_ETH_TYPE);
	if (TG_UNLIKELY(tg_ethertype_is_vlan(type))) {
		type = tg_load16(data + TG_ETH_TYPE_TAGGED);
		l3_off += TG_VLAN_TAG_LEN;
	}
	f->m = m;
	f->ip = data + l3_off;
	f->l3_off = (uint8_t)l3_off;
	if (TG_LIKELY(type == TG_ETHERTYPE_IPV4 && len >= l3_off + TG_IPV4_HDR_LEN + TG_TCP_HDR_LEN))
		return tg_fast_take_ip(w, f, len - l3_off, false);
	if (type == TG_ETHERTYPE_IPV6 && len >= l3_off + TG_IPV6_HDR_LEN + TG_TCP_HDR_LEN)
		return tg_fast_take_ip(w, f, len - l3_off, true);
	return TG_SLOW_PATH;
}

#endif
