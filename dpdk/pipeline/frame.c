/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames that cannot be written as they are.
 */
#include "frame.h"

struct rte_mbuf *tg_frame_make_own(struct tg_worker *w, struct rte_mbuf *m)
{
	uint32_t need = m->pkt_len < TG_HEADERS_MAX ? m->pkt_len : TG_HEADERS_MAX;
	bool shared = rte_mbuf_refcnt_read(m) != 1 || RTE_MBUF_CLONED(m) ||
		      (RTE_MBUF_HAS_EXTBUF(m) && rte_mbuf_ext_refcnt_read(m->shinfo) != 1);
	struct rte_mbuf *copy;

	if (!shared && m->data_len >= need)
		return m;
	copy = rte_pktmbuf_copy(m, w->pool, 0, UINT32_MAX);
	rte_pktmbuf_free(m);
	if (!copy || copy->data_len >= need)
		goto done;
	rte_pktmbuf_free(copy); /* buffers shorter than the headers: no pool has them */
	copy = NULL;
done:
	if (!copy)
		tg_count(w, 0, TG_COUNT_drop_no_buffer);
	return copy;
}
