/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of the strategy `cookie`: look-up, translation, the end. core/proxy.h and
 * core/translate.h decide and build, as for bpf/lib/proxy_forward.h. Their set-up is
 * flow_setup.h.
 */
#ifndef TG_DPDK_FLOW_H
#define TG_DPDK_FLOW_H

#include "item.h"

/* ---- look-up ---- */

/* First stage: prefetches the bits that show whether such a flow may exist. */
static inline void tg_fetch_flow(struct tg_worker *w, struct tg_item *it, enum tg_direction dir)
{
	it->presence = tg_presence_either(&it->pkt, dir, w->presence_salt);
	it->flow_dir = dir;
	tg_swap_prefetch(&w->flows.swap, it->presence);
}

/* Puts the words of the flow's hash into a lane. */
TG_INLINE int16_t tg_lane_flow_put(struct tg_siphash_batch *b, const struct tg_packet *pkt,
				   enum tg_direction dir)
{
	struct tg_flow_key key = tg_flow_key_of(pkt, dir);
	uint32_t lane = b->n++, i = 0;

	b->m[i++][lane] = key.a[0];
	if (key.family != 4) {
		b->m[i++][lane] = key.a[1];
		b->m[i++][lane] = key.a[2];
		b->m[i++][lane] = key.a[3];
	}
	b->m[i][lane] = tg_flow_key_tail(&key);
	return (int16_t)lane;
}

/* Second stage: requests the flow's hash, if such a flow may exist. */
static inline bool tg_foresee_flow(struct tg_worker *w, struct tg_item *it)
{
	if (!tg_swap_maybe(&w->flows.swap, it->presence))
		return false;
	it->flow_lane = tg_lane_flow_put(it->pkt.family == 4 ? &w->flows4 : &w->flows6, &it->pkt,
					 it->flow_dir);
	return true;
}

static inline uint64_t tg_lane_flow(const struct tg_worker *w, const struct tg_item *it)
{
	return it->pkt.family == 4 ? w->flows4.out[it->flow_lane] : w->flows6.out[it->flow_lane];
}

/* The frame's flow, or NULL. Sets the frame's presence and flow hash in any case. */
static inline struct tg_flow_entry *tg_flow_find(struct tg_worker *w, struct tg_item *it,
						 enum tg_direction dir)
{
	struct tg_flow_key key;

	if (it->flow_lane < 0 || it->flow_dir != dir) {
		if (it->flow_dir != dir) {
			it->presence = tg_presence_either(&it->pkt, dir, w->presence_salt);
			it->flow_dir = dir;
			it->flow_lane = -1;
		}
		if (!tg_swap_maybe(&w->flows.swap, it->presence))
			return NULL;
		key = tg_flow_key_of(&it->pkt, dir);
		it->flow_hash = tg_flow_key_hash(&w->flows, &key);
	} else {
		key = tg_flow_key_of(&it->pkt, dir);
		it->flow_hash = tg_lane_flow(w, it);
	}
	return tg_flow_table_find(&w->flows, &key, it->flow_hash);
}

static inline void tg_flow_remove(struct tg_worker *w, const struct tg_item *it,
				  const struct tg_flow_entry *e)
{
	struct tg_flow_key key = e->key;

	tg_flow_table_remove(&w->flows, &key, it->flow_hash);
}

/* ---- ready: translation ---- */

/* Translates the current segment. False if it is incomplete. */
static inline bool tg_translate(const struct tg_item *it, const struct tg_flow *f,
				enum tg_direction dir)
{
	uint8_t *tcp = TG_DATA(it->m) + it->pkt.l4_off, *end = TG_DATA(it->m) + it->m->data_len;
	uint32_t len = (uint32_t)it->pkt.tcp_hdr_len - TG_TCP_HDR_LEN;
	bool ack = it->pkt.flags & TG_TCP_ACK;
	uint64_t sum = 0;

	if (TG_UNLIKELY(it->pkt.tcp_hdr_len > TG_TCP_HDR_LEN && tcp + TG_TCP_HDR_LEN + len > end))
		return false;
	tg_translate_header(tcp, f, dir, &sum);
	if (TG_LIKELY(len == 12 && tg_translate_is_aligned(tcp + TG_TCP_HDR_LEN))) {
		if (f->flags & TG_FLOW_TS)
			tg_translate_timestamps(tcp + TG_TCP_HDR_LEN + 4, f, ack, dir, &sum);
	} else if (it->pkt.tcp_hdr_len > TG_TCP_HDR_LEN) {
		struct tg_options_cursor c = {.len = len};

		memcpy(c.bytes, tcp + TG_TCP_HDR_LEN, len);
		tg_translate_options(&c, f, ack, dir, &sum);
		memcpy(tcp + TG_TCP_HDR_LEN, c.bytes, len);
	}
	tg_store16(tcp + TG_TCP_SUM, tg_translate_checksum(tg_load16(tcp + TG_TCP_SUM), sum));
	return true;
}

/* True if the current frame can leave; else it is refused, unchanged. */
static inline bool tg_item_output(struct tg_worker *w, struct tg_item *it)
{
	struct tg_output output;
	enum tg_output_state state = tg_output_find(w, it->m, it->port, it->pkt.l3_off,
						    it->pkt.family, &it->pkt.dst, &output);

	if (TG_LIKELY(state == TG_OUTPUT_OPEN || state == TG_OUTPUT_ASK || state == TG_OUTPUT_CUT))
		return true;
	tg_output_refuse(w, it->m, it->port, it->pkt.l3_off, it->pkt.family, &output, state, true);
	return false;
}

/* The client's segment of a flow that waits: decides whether the flow now gets a place of its own. */
void tg_flow_settle(struct tg_worker *w, const struct tg_packet *pkt, struct tg_flow_entry *e);

/* A segment of a flow that is ready: translate, send, see whether it ends. A flow
 * that has ended stays where it is until its place is needed. */
static inline void tg_flow_forward(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e,
				   enum tg_direction dir)
{
	struct tg_flow *f = &e->flow;
	enum tg_flow_turn turn;

	if (TG_UNLIKELY(w->config->router) && !tg_item_output(w, it))
		return;
	if (TG_UNLIKELY(!tg_translate(it, f, dir))) {
		tg_drop(w, it->m);
		return;
	}
	tg_flow_note_acked(f, &it->pkt, dir, it->port);
	turn = tg_flow_track(f, &it->pkt, dir, tg_flow_is_reset(f, &it->pkt, dir, it->port),
			     it->port);
	if (TG_UNLIKELY(turn != TG_FLOW_STAYS)) {
		tg_flow_table_ended(&w->flows, e, turn == TG_FLOW_REVIVES);
		if (turn == TG_FLOW_ENDS)
			tg_count(w, f->service, TG_COUNT_flow_closed);
	} else if (TG_UNLIKELY(f->waits) && dir == TG_TO_SERVER) {
		tg_flow_settle(w, &it->pkt, e);
	}
	tg_forward_changed(w, it);
}

#endif
