/* SPDX-License-Identifier: Apache-2.0
 *
 * The fast path of several segments at once that a bridge forwards as they are, where no service is translated:
 * fast_forward.h, for ACKs of IPv4 that are whole.
 *
 * Must never: forward a segment of a source that is not in the table; send some of the frames, and have the others
 * processed one by one.
 */
#ifndef TG_DPDK_FAST_WIDE_FORWARD_H
#define TG_DPDK_FAST_WIDE_FORWARD_H

#include "fast_forward.h"
#include "wide.h"

#if TG_HAS_WIDE
/* ---- first stage ---- */

/* True if all are ACKs, and no checksum is to be completed. `first` is one of them. */
TG_INLINE bool tg_wide_are_acks(const struct tg_wide_frames *f, const struct rte_mbuf *first)
{
	const uint64_t flags = TG_TCP_SYN | TG_TCP_FIN | TG_TCP_RST | TG_TCP_ACK;
	const tg_wide_row ack = tg_wide_row_of(0, 0, 0, 0, (uint64_t)TG_TCP_ACK << 40, 0, 0, 0);
	const tg_wide_row mask = tg_wide_row_of(0, 0, 0, 0, flags << 40, 0, 0, 0);

	return tg_wide_are(&f->rows, ack, mask, tg_wide_row_none()) && !tg_wide_is_partial(f, first);
}

/* Lanes whose lengths are inconsistent. `first`, `fifth`: columns 0 and 4. */
TG_INLINE tg_wide_lanes tg_wide_lengths_odd(struct rte_mbuf *const *m, tg_wide first, tg_wide fifth)
{
	tg_wide total = tg_wide_swap16(tg_wide_shr(first, 48));
	tg_wide hdr = tg_wide_and(tg_wide_shr(fifth, 34), TG_WIDE_ALL(0x3c));

	return tg_wide_less(hdr, TG_WIDE_ALL(TG_TCP_HDR_LEN)) |
	       tg_wide_less(total, tg_wide_add(hdr, TG_WIDE_ALL(TG_IPV4_HDR_LEN))) |
	       tg_wide_less(tg_wide_data_len(tg_wide_lens(m)),
			    tg_wide_add(total, TG_WIDE_ALL(TG_ETH_HDR_LEN)));
}

/* Whom segments to a destination may come from. */
enum tg_wide_from { TG_WIDE_ANYONE, TG_WIDE_VERIFIED, TG_WIDE_UNKNOWN /* the slow path decides */ };

TG_INLINE enum tg_wide_from tg_wide_from(const struct tg_config *config, uint64_t addrs,
					 uint64_t ports)
{
	struct tg_packet pkt = {.dst = {.d = {addrs >> 32, 0}}, .ports = (uint32_t)ports, .family = 4};
	uint32_t id;

	if (!tg_config_port_is_protected(config, TG_DST_PORT_BE(&pkt)))
		return TG_WIDE_ANYONE;
	id = tg_config_service_find(config, &pkt);
	if (id && (config->services[id].automatic || config->services[id].verify))
		return TG_WIDE_UNKNOWN;
	if (!id || config->services[id].mode == TG_MODE_OFF)
		return TG_WIDE_ANYONE;
	return config->services[id].mode == TG_MODE_MONITOR ? TG_WIDE_ANYONE : TG_WIDE_VERIFIED;
}

/* The same of each frame: the key of who may send it, or 0. */
static bool __attribute__((noinline)) tg_wide_keys_each(const struct tg_config *config,
							struct tg_wide_forwards *g,
							const uint64_t *addrs, const uint64_t *ports)
{
	uint32_t i;

	for (i = 0; i < TG_WIDE; i++) {
		enum tg_wide_from from = tg_wide_from(config, addrs[i], ports[i]);

		if (from == TG_WIDE_UNKNOWN)
			return false;
		g->key[i] &= from == TG_WIDE_VERIFIED ? ~0ULL : 0;
	}
	return true;
}

/* Notes the keys of the sources that must have verified. False: the slow path. */
TG_INLINE bool tg_wide_keys(const struct tg_config *config, struct tg_wide_forwards *g,
			    const struct tg_wide_frames *f, tg_wide addrs, tg_wide ports)
{
	uint64_t each[2][TG_WIDE] __attribute__((aligned(64)));
	tg_wide_words src = (tg_wide_words)addrs & config->white_v4_mask;
	enum tg_wide_from from;

	g->keyed = true;
	tg_wide_store(g->key, (tg_wide)TG_WHITE_V4_KEY(src));
	if (TG_UNLIKELY(tg_wide_rows_differ(&f->rows, TG_WIDE_TO))) {
		tg_wide_store(each[0], addrs);
		tg_wide_store(each[1], ports);
		return tg_wide_keys_each(config, g, each[0], each[1]);
	}
	from = tg_wide_from(config, tg_wide_first(addrs), tg_wide_first(ports));
	g->keyed = from == TG_WIDE_VERIFIED;
	return from != TG_WIDE_UNKNOWN;
}

/* The frames, the first of which is number `at` of the burst. False: process them one by one. */
TG_INLINE bool tg_wide_forwards_take(struct tg_worker *w, struct rte_mbuf *const *m, uint32_t at,
				     const struct tg_wide_frames *f)
{
	struct tg_wide_forwards *g = &w->fast.forwards8[at / TG_WIDE];
	tg_wide first, fifth, addrs, seventh, ports, eighth;
	uint32_t i;

	if (!tg_wide_are_acks(f, m[0]))
		return false;
	tg_wide_columns(f->columns.even, false, &first, &fifth);
	tg_wide_columns(f->columns.even, true, &addrs, &seventh);
	tg_wide_columns(f->columns.odd, true, &ports, &eighth);
	if (tg_wide_lengths_odd(m, first, fifth) || !tg_wide_keys(w->config, g, f, addrs, ports))
		return false;
	for (i = 0; i < TG_WIDE && g->keyed; i++)
		tg_whitelist_fetch_first(&w->white, g->key[i]);
	w->fast.forwards += TG_WIDE;
	return true;
}

/* ---- second and last stage ---- */

/* True if all may be forwarded: nothing but the buckets that have been fetched is needed. */
TG_INLINE bool tg_wide_forwards_may(const struct tg_worker *w, uint32_t at)
{
	const struct tg_wide_forwards *g = &w->fast.forwards8[at / TG_WIDE];
	bool may = true;
	uint32_t i;

	for (i = 0; i < TG_WIDE && g->keyed; i++)
		may &= !g->key[i] || tg_whitelist_has_first(&w->white, g->key[i]);
	return may;
}

/* Makes single frames of them, which fast_forward.h decides about. */
static void __attribute__((noinline)) tg_wide_forwards_part(struct tg_worker *w,
							    struct rte_mbuf *const *m, uint32_t at)
{
	const struct tg_wide_forwards *g = &w->fast.forwards8[at / TG_WIDE];
	uint32_t i;

	for (i = 0; i < TG_WIDE; i++) {
		w->fast.path[at + i] = TG_FAST_FORWARD;
		w->fast.frame[at + i] = (struct tg_fast_frame){
			.m = m[i],
			.ip = TG_DATA(m[i]) + TG_ETH_HDR_LEN,
			.white_key = g->keyed ? g->key[i] : 0,
			.l3_off = TG_ETH_HDR_LEN,
		};
	}
}

/* Last stage. */
TG_INLINE void tg_wide_forwards_send(struct tg_worker *w, struct rte_mbuf *const *m, uint16_t port)
{
	const union tg_addr none = {.d = {0, 0}}; /* a bridge needs no destination */
	uint16_t to = port ^ 1;
	uint32_t longest = 0, i;

	for (i = 0; i < TG_WIDE; i++)
		longest = m[i]->pkt_len > longest ? m[i]->pkt_len : longest;
	w->fast.segments += TG_WIDE;
	w->fast.wide_forwards += TG_WIDE;
	if (TG_LIKELY(to < w->ports_n && longest <= w->ports[to].max_frame)) {
		tg_wide_send(w, to, m, TG_WIDE);
		return;
	}
	for (i = 0; i < TG_WIDE; i++)
		tg_forward_ip(w, m[i], port, TG_ETH_HDR_LEN, 4, &none, true);
}
#endif

#endif
