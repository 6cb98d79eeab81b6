/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the server role does with a segment of a connection that is ongoing, beside
 * translating it (translate.h), and with ICMP errors about one.
 */
#ifndef TG_BPF_SERVER_TRANSLATE_H
#define TG_BPF_SERVER_TRANSLATE_H

#include "server_maps.h"
#include "icmp.h"

/* Records that the client was seen. */
TG_GLOBAL int tg_split_hear(struct tg_split *e, const struct tg_packet *pkt)
{
	if (e && pkt)
		tg_split_heard(e, pkt, tg_tick_now());
	return 0;
}

/* Records a segment of the connection: that its sender is alive, and whether it closes. */
static __always_inline void tg_split_note(struct tg_split *e, const struct tg_packet *pkt,
					  enum tg_direction dir)
{
	struct tg_counter_row *row;

	if (dir == TG_TO_SERVER && TG_UNLIKELY(tg_split_is_news(e, tg_tick_now())))
		tg_split_hear(e, pkt);
	if (TG_LIKELY(!tg_split_may_end(e, pkt)) || tg_split_track(e, pkt, dir) != TG_FLOW_ENDS)
		return;
	row = tg_server_row(pkt, dir);
	if (row)
		tg_count(row, TG_COUNT_split_closed);
}

/* Translates what the ICMP error in hand quotes, if it is of an ongoing connection. */
TG_GLOBAL int tg_server_icmp(TG_CTX *ctx, __u32 l3_off)
{
	const struct tg_server_settings *server = tg_server_get();
	struct tg_icmp_error error = {};
	struct tg_counter_row *row;
	enum tg_direction dir;
	struct tg_split *e;
	struct tg_flow f;

	if (l3_off > TG_ETH_HDR_LEN + TG_VLAN_TAGS_MAX * TG_VLAN_TAG_LEN ||
	    !tg_icmp_read(ctx, l3_off, &error))
		return 0;
	dir = tg_port_is_protected(TG_SRC_PORT_BE(&error.quoted)) ? TG_TO_CLIENT : TG_TO_SERVER;
	e = tg_split_find(server, &error.quoted, dir);
	if (!e || !(e->state & TG_SPLIT_READY))
		return 0;
	f = tg_split_flow(e);
	if (!tg_icmp_translate(ctx, &error, &f, dir))
		return 0;
	row = tg_server_row(&error.quoted, dir);
	if (row)
		tg_count(row, TG_COUNT_icmp_translated);
	return 1;
}

#endif
