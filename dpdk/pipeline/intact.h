/* SPDX-License-Identifier: Apache-2.0
 *
 * core/intact.h for the frame in hand, on the slow path: what the NIC says of its checksums,
 * or sums over headers and segments of any length, in any number of pieces.
 */
#ifndef TG_DPDK_INTACT_H
#define TG_DPDK_INTACT_H

#include "item.h"

#define TG_NIC_SAYS_BAD                                                                            \
	(RTE_MBUF_F_RX_L4_CKSUM_BAD | RTE_MBUF_F_RX_IP_CKSUM_BAD) /* bits of NONE, too */
#define TG_NIC_SAYS_GOOD (RTE_MBUF_F_RX_L4_CKSUM_GOOD | RTE_MBUF_F_RX_IP_CKSUM_GOOD)
#define TG_NIC_SAYS (RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_RX_IP_CKSUM_MASK)

/* True if all checksums that a frame has are right; `says`: its flags of TG_NIC_SAYS. IPv6's header has none. */
TG_INLINE bool tg_nic_says_good(uint64_t says, bool v6)
{
	return v6 ? (says & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD
		  : says == TG_NIC_SAYS_GOOD;
}

/* For a segment whose lengths are consistent. */
enum tg_intact tg_item_intact(const struct tg_item *it);

/* Checks a segment that would create state. False: it is not intact, and has been counted and
 * dropped. */
static inline bool tg_noflow_intact(struct tg_worker *w, struct tg_item *it)
{
	struct tg_decision d = tg_host_judge_intact(tg_item_intact(it));

	if (TG_LIKELY(d.verdict == TG_REPLY))
		return true;
	tg_count(w, it->id, d.counter);
	tg_drop(w, it->m);
	return false;
}

#endif
