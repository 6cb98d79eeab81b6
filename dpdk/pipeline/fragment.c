/* SPDX-License-Identifier: Apache-2.0
 *
 * IPv4 fragments.
 */
#include "fragment.h"

#include <rte_ip_frag.h>

#include "frame.h"

int tg_fragment(struct tg_worker *w, struct rte_mbuf *m, uint32_t mtu, struct rte_mbuf **piece)
{
	uint8_t ethernet[TG_ETH_HDR_LEN];
	int n, i;

	memcpy(ethernet, TG_DATA(m), TG_ETH_HDR_LEN);
	n = rte_pktmbuf_adj(m, TG_ETH_HDR_LEN) && mtu <= UINT16_MAX
		    ? rte_ipv4_fragment_packet(m, piece, TG_FRAGMENTS_MAX, (uint16_t)mtu, w->pool,
					       w->pool)
		    : -1;
	rte_pktmbuf_free(m);
	if (n < 0)
		tg_count(w, 0, TG_COUNT_drop_no_route);
	for (i = 0; i < n; i++) {
		uint8_t *ip = TG_DATA(piece[i]),
			*frame = (uint8_t *)rte_pktmbuf_prepend(piece[i], TG_ETH_HDR_LEN);
		uint32_t hdr_len = (ip[0] & 15U) * 4;

		memcpy(frame, ethernet, TG_ETH_HDR_LEN); /* every pool's buffers have head room for it */
		tg_store16(ip + TG_IPV4_SUM, 0);
		tg_store16(ip + TG_IPV4_SUM, tg_csum_finish(tg_csum_add(0, ip, hdr_len)));
	}
	return n < 0 ? 0 : n;
}
