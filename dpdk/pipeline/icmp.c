/* SPDX-License-Identifier: Apache-2.0
 *
 * ICMP errors about translated connections.
 */
#include "icmp.h"

#include "flow.h"
#include "icmp_error.h"

#define QUOTED_TCP_LEN 12 /* up to the acknowledgement number */

/* Offset of the packet's ICMP header; 0 if it is not an error. */
static uint32_t tg_icmp_find(const uint8_t *data, uint32_t len, uint32_t l3_off, uint8_t *family)
{
	const uint8_t *ip = data + l3_off;
	uint32_t off;

	if (l3_off + TG_IPV6_HDR_LEN > len)
		return 0;
	if (ip[0] >> 4 == 4 && ip[TG_IPV4_PROTO] == TG_IPPROTO_ICMP && !(ip[TG_IPV4_FRAG] & 0x3f) &&
	    !ip[TG_IPV4_FRAG + 1]) {
		*family = 4;
		off = l3_off + (ip[0] & 15U) * 4;
	} else if (ip[0] >> 4 == 6 && ip[TG_IPV6_NEXT] == TG_IPPROTO_ICMPV6) {
		*family = 6;
		off = l3_off + TG_IPV6_HDR_LEN;
	} else {
		return 0;
	}
	if (off + TG_ICMP_HDR_LEN > len || !tg_icmp_is_error(*family, data[off]))
		return 0;
	return off;
}

/* The quoted packet, as far as it names a connection; where its TCP header
 * stands. 0 if it is none. */
static uint32_t tg_icmp_quoted(const uint8_t *data, uint32_t len, uint32_t off, struct tg_packet *q)
{
	const uint8_t *ip = data + off;
	uint32_t tcp;

	if (off + (q->family == 4 ? TG_IPV4_HDR_LEN : TG_IPV6_HDR_LEN) > len)
		return 0;
	if (q->family == 4) {
		if (ip[0] >> 4 != 4 || ip[TG_IPV4_PROTO] != TG_IPPROTO_TCP ||
		    ip[TG_IPV4_FRAG] & 0x1f || ip[TG_IPV4_FRAG + 1])
			return 0;
		q->src.w[0] = tg_load32(ip + TG_IPV4_SRC);
		q->dst.w[0] = tg_load32(ip + TG_IPV4_DST);
		tcp = off + (ip[0] & 15U) * 4;
	} else {
		if (ip[0] >> 4 != 6 || ip[TG_IPV6_NEXT] != TG_IPPROTO_TCP)
			return 0;
		memcpy(&q->src, ip + TG_IPV6_SRC, 16);
		memcpy(&q->dst, ip + TG_IPV6_DST, 16);
		tcp = off + TG_IPV6_HDR_LEN;
	}
	if (tcp + TG_TCP_SEQ > len)
		return 0;
	q->ports = tg_load32(data + tcp);
	return tcp;
}

void tg_icmp_translate(struct tg_worker *w, struct tg_item *it)
{
	struct tg_item q = {.flow_lane = -1, .half_lane = -1, .flow_dir = 255};
	uint8_t *data = TG_DATA(it->m);
	uint32_t len = it->m->data_len, off, tcp_off;
	enum tg_direction dir;
	struct tg_flow_entry *e;
	uint64_t sum = 0;

	off = tg_icmp_find(data, len, it->pkt.l3_off, &q.pkt.family);
	if (!off)
		return;
	tcp_off = tg_icmp_quoted(data, len, off + TG_ICMP_HDR_LEN, &q.pkt);
	if (!tcp_off)
		return;
	dir = tg_config_port_is_protected(w->config, TG_SRC_PORT_BE(&q.pkt)) ? TG_TO_CLIENT
									     : TG_TO_SERVER;
	e = tg_flow_find(w, &q, dir);
	/* RFC 792 guarantees eight bytes of TCP; towards the client they are unchanged. */
	if (!e || e->flow.state != TG_FLOW_READY ||
	    tcp_off + (dir == TG_TO_CLIENT ? 8 : QUOTED_TCP_LEN) > len)
		return;
	tg_translate_quoted(data + tcp_off, &e->flow, dir, &sum);
	tg_store16(data + off + 2, tg_translate_checksum(tg_load16(data + off + 2), sum));
	tg_count(w, e->flow.service, TG_COUNT_icmp_translated);
}
