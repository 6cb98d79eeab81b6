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
	const uint8_t *ip = TG_DATA(it->m) + it->pkt.l3_off, *tcp = TG_DATA(it->m) + it->pkt.l4_off;
	enum tg_intact found = TG_INTACT;

	if (it->pkt.family == 4)
		found = ip_says == RTE_MBUF_F_RX_IP_CKSUM_BAD
				? TG_INTACT_BAD_SUM
				: tg_intact_ipv4(ip, it->pkt.l4_off - it->pkt.l3_off, ip_says);
	if (found != TG_INTACT)
		return found;
	if (l4_says)
		return l4_says == RTE_MBUF_F_RX_L4_CKSUM_BAD ? TG_INTACT_BAD_SUM : TG_INTACT;
	return tg_intact_tcp(tg_intact_pseudo(&it->pkt), tg_item_segment_sum(it),
			     tg_load16(tcp + TG_TCP_SUM))
		       ? TG_INTACT
		       : TG_INTACT_BAD_SUM;
}
