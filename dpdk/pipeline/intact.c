/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of segments of any length, in any number of pieces.
 */
#include "intact.h"

#include "../core/intact.h"

/* The sum of the segment's words, not folded. */
static uint64_t tg_item_segment_sum(const struct tg_item *it)
{
	uint32_t left = it->pkt.l4_len, off = it->pkt.l4_off;
	const struct rte_mbuf *piece;
	uint64_t sum = 0;
	bool odd = false;

	for (piece = it->m; piece && left; piece = piece->next) {
		uint32_t n = piece->data_len - off < left ? piece->data_len - off : left;
		uint16_t part = tg_csum_fold(
			tg_csum_add(0, rte_pktmbuf_mtod(piece, const uint8_t *) + off, n));

		sum += odd ? tg_swap16(part) : part; /* RFC 1071, 2 (B) */
		odd ^= n & 1;
		left -= n;
		off = 0;
	}
	return sum;
}

enum tg_intact tg_item_intact(const struct tg_item *it)
{
	uint64_t ip_says = it->m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
	uint64_t l4_says = it->m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	uint32_t hdr_len = it->pkt.l4_off - it->pkt.l3_off;
	const uint8_t *ip = TG_DATA(it->m) + it->pkt.l3_off, *tcp = TG_DATA(it->m) + it->pkt.l4_off;
	uint8_t room[64] = {0};
	enum tg_intact found;

	if (it->pkt.family == 4) {
		if (ip_says == RTE_MBUF_F_RX_IP_CKSUM_BAD ||
		    (!ip_says && tg_csum_fold(tg_csum_add(0, ip, hdr_len)) != 0xffff))
			return TG_INTACT_BAD_SUM;
		if (hdr_len > TG_IPV4_HDR_LEN) {
			memcpy(room, ip, hdr_len);
			found = tg_intact_ip_options(room, hdr_len);
			if (found != TG_INTACT)
				return found;
		}
	}
	if (l4_says)
		return l4_says == RTE_MBUF_F_RX_L4_CKSUM_BAD ? TG_INTACT_BAD_SUM : TG_INTACT;
	return tg_intact_tcp(tg_intact_pseudo(&it->pkt), tg_item_segment_sum(it),
			     tg_load16(tcp + TG_TCP_SUM))
		       ? TG_INTACT
		       : TG_INTACT_BAD_SUM;
}
