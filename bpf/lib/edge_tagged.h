/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The edge's side of the `tagged` protocol (docs/split-protocol.md): where the plain protocol puts
 * a flow into the filter after verifying, it tags the segment; what it forwards as unknown, it
 * sends as a probe; and it puts flows into the filter when the server confirms them.
 *
 * Must never: change a segment of a flow that the filter knows.
 */
#ifndef TG_BPF_EDGE_TAGGED_H
#define TG_BPF_EDGE_TAGGED_H

#include "edge_maps.h"
#include "tag.h"

#define TG_UDP_HDR_LEN 8
#define TG_IPPROTO_UDP 17

struct tg_tagged_settings {
	__u16 edge;            /* our number; 0: the protocol is `plain` */
	__u16 confirm_port_be;
	__u32 mtu;             /* of the path to the servers */
};

struct tg_tagged_settings tg_tagged TG_VARIABLE(tg_tagged);

/* Flows whose cookie has been verified a moment ago. A client's first data follow its
 * ACK before the server has confirmed, and only the first segment of them has a
 * number that the cookie is bound to; the others go as probes. Not a memory of
 * connections: 65,536 slots, the newest wins, two to three seconds.
 *
 *    31              16 15               0
 *   +------------------+------------------+
 *   | hash, 16 bits    | time, 2^30 ns    |
 *   +------------------+------------------+
 */
#define TG_PENDING_SLOTS 65536
#define TG_PENDING_SHIFT 30
#define TG_PENDING_TICKS 2

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_PENDING_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} tg_pending SEC(".maps");

static __always_inline const struct tg_tagged_settings *tg_tagged_get(void)
{
	return &tg_tagged;
}

static __always_inline __u32 tg_pending_hash(const struct tg_edge_settings *edge,
					     const struct tg_packet *pkt)
{
	return (__u32)(tg_bloom_hash(pkt, TG_BLOOM_FROM_CLIENT, &edge->bloom_key) >> 16);
}

static __always_inline __u16 tg_pending_tick(void)
{
	return (__u16)(TG_CLOCK_NS() >> TG_PENDING_SHIFT);
}

static __always_inline void tg_pending_note(const struct tg_edge_settings *edge,
					    const struct tg_packet *pkt)
{
	__u32 hash = tg_pending_hash(edge, pkt), slot = hash & (TG_PENDING_SLOTS - 1);
	__u32 *p = bpf_map_lookup_elem(&tg_pending, &slot);

	if (p)
		*p = (hash & 0xffff0000U) | tg_pending_tick();
}

static __always_inline bool tg_pending_is(const struct tg_edge_settings *edge,
					  const struct tg_packet *pkt)
{
	__u32 hash = tg_pending_hash(edge, pkt), slot = hash & (TG_PENDING_SLOTS - 1);
	__u32 *p = bpf_map_lookup_elem(&tg_pending, &slot);

	return p && *p && (*p & 0xffff0000U) == (hash & 0xffff0000U) &&
	       (__u16)(tg_pending_tick() - (__u16)*p) <= TG_PENDING_TICKS;
}

/* What tg_edge_tcp leaves to the program itself: the stacks of nested functions add
 * up, and a program has 512 bytes. */
#define TG_NEXT_TAG 0x100 /* plus enum tg_tag_what */

/* Tags the segment in hand for its server. Negative if it cannot be tagged; then it
 * is of no use. */
TG_GLOBAL int tg_edge_tag(struct xdp_md *ctx, struct tg_packet *pkt, __u32 what)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_tagged_settings *tagged = tg_tagged_get();
	struct tg_tcp_options o = {};
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_tag t = {};
	__u32 id;

	if (!pkt)
		return -TG_EINVAL;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!row)
		return -TG_EINVAL;
	t.epoch = (__u32)tg_epoch_now(settings);
	t.edge = tagged->edge;
	t.what = (__u8)what;
	t.wscale = svc->wscale & 15;
	if (pkt->l4_off - pkt->l3_off + pkt->l4_len + TG_TAG_LEN > tagged->mtu ||
	    tg_timestamps_at(ctx, pkt->l4_off + TG_TCP_HDR_LEN,
			     (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN, &o) ||
	    tg_tag_put(ctx, pkt, &o, &t)) {
		tg_count(row, TG_COUNT_tag_no_room);
		return -TG_EINVAL;
	}
	tg_count(row, what == TG_TAG_SETUP ? TG_COUNT_tag_setup : TG_COUNT_tag_probe);
	return 0;
}

/* A UDP datagram from the servers' side: if it is a confirmation for this edge, its flow is known
 * from now on, and the datagram is consumed. `type` is what the frame says follows. True if it was
 * one. */
TG_GLOBAL int tg_confirm_take(struct xdp_md *ctx, __u32 l3_off)
{
	const struct tg_tagged_settings *tagged = tg_tagged_get();
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_edge_settings *edge = tg_edge_get();
	const __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct tg_tag_epoch *keys;
	struct tg_packet flow = {};
	struct tg_counter_row *row;
	const __u8 *ip, *udp;
	struct tg_confirm c = {};
	struct tg_bloom_at at;
	uint64_t mac = 0;

	if (!tagged->edge || l3_off > 22)
		return 0;
	ip = data + l3_off;
	if (ip + TG_IPV4_HDR_LEN > end)
		return 0;
	if (ip[0] == 0x45 && ip[TG_IPV4_PROTO] == TG_IPPROTO_UDP)
		udp = ip + TG_IPV4_HDR_LEN;
	else if (ip[0] >> 4 == 6 && ip[TG_IPV6_NEXT] == TG_IPPROTO_UDP)
		udp = ip + TG_IPV6_HDR_LEN;
	else
		return 0;
	if (udp + TG_UDP_HDR_LEN + TG_CONFIRM_LEN > end ||
	    tg_load16(udp + TG_UDP_DPORT) != tagged->confirm_port_be ||
	    tg_confirm_read(udp + TG_UDP_HDR_LEN,
			    tg_swap16(tg_load16(udp + TG_UDP_LEN)) - TG_UDP_HDR_LEN, end, &c,
			    &mac) != TG_TAG_READ ||
	    c.edge != tagged->edge)
		return 0;
	flow.family = c.family;
	flow.src = c.client;
	flow.dst = c.server;
	flow.ports = c.ports;
	row = tg_counter_row_get(tg_service_find(&flow));
	keys = tg_tag_keys_find(settings, c.epoch);
	if (!row)
		return 0;
	if (!keys || !tg_mac_equal(mac, tg_confirm_mac(&c, &keys->confirm))) {
		tg_count(row, TG_COUNT_confirm_forged);
		return 1;
	}
	at = tg_bloom_find(edge, &flow, TG_BLOOM_FROM_CLIENT);
	tg_bloom_put(&at, edge->generation);
	tg_count(row, TG_COUNT_confirm_taken);
	return 1;
}

#endif
