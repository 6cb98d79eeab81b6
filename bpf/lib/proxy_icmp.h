/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * ICMP errors about connections that the proxy translates: icmp.h, with its tables.
 */
#ifndef TG_BPF_PROXY_ICMP_H
#define TG_BPF_PROXY_ICMP_H

#include "icmp.h"
#include "proxy_flow_tables.h"

/* Translates what the ICMP error in hand quotes, if it is of a flow. */
TG_GLOBAL int tg_proxy_icmp(struct xdp_md *ctx, __u32 l3_off)
{
	struct tg_icmp_error e = {};
	struct tg_counter_row *row;
	enum tg_direction dir;
	struct tg_flow *f;

	if (l3_off > TG_ETH_HDR_LEN + TG_VLAN_TAGS_MAX * TG_VLAN_TAG_LEN ||
	    !tg_icmp_read(ctx, l3_off, &e))
		return 0;
	dir = tg_port_is_protected(TG_SRC_PORT_BE(&e.quoted)) ? TG_TO_CLIENT : TG_TO_SERVER;
	f = tg_flow_find(&e.quoted, dir);
	if (!f || f->state != TG_FLOW_READY || !tg_icmp_translate(ctx, &e, f, dir))
		return 0;
	row = tg_counter_row_get(f->service);
	if (row)
		tg_count(row, TG_COUNT_icmp_translated);
	return 1;
}

#endif
