/* SPDX-License-Identifier: Apache-2.0
 *
 * The translating server without a kernel, at the local stack: the calls into core/ of
 * bpf/server_ingress.bpf.c and bpf/server_egress.bpf.c.
 */
#include <stdlib.h>

#include "../proxy_rules.h"
#include "replay_frame.h"
#include "replay_server_state.h"
#include "replay_translate.h"

/* As tg_skb_put. */
static void put(const struct tg_segment *s)
{
	uint32_t len = s->l3_off + tg_segment_len(s);

	if (!tg_segment_write((struct tg_writer){now.at + s->l3_off, now.at + len}, s))
		abort();
	now.len = len;
	if (s->reflect)
		tg_ethernet_reflect(now.at);
}

static enum verdict ingress_syn(const struct tg_packet *pkt, const struct tg_split *e)
{
	struct tg_flow f = tg_split_flow(e);
	struct tg_segment syn = tg_flow_syn(pkt, &f, f.client_isn, false);

	put(&syn);
	return VERDICT_PASS;
}

/* As tg_server_ingress, for frames that are not bare. */
enum verdict server_ingress(bool marked, bool retransmit)
{
	struct tg_packet pkt = {0};
	struct tg_split *e;
	struct tg_flow f;

	if ((!marked && !retransmit && !server.generic) ||
	    tg_packet_parse(&pkt, now.at, now.at + now.len) != TG_PARSE_TCP ||
	    !port_is_protected(TG_DST_PORT_BE(&pkt)))
		return VERDICT_PASS;
	tg_packet_measure(&pkt, now.len);
	if (pkt.l4_off > TG_L4_OFF_MAX)
		return VERDICT_PASS;
	e = split_find(&pkt, TG_TO_SERVER);
	if (retransmit) {
		if (!e)
			return VERDICT_DROP;
		if (!(e->state & TG_SPLIT_READY)) {
			count(row_of(&pkt, TG_TO_SERVER), TG_COUNT_split_retransmit);
			return ingress_syn(&pkt, e);
		}
		if (server.generic)
			return VERDICT_PASS;
		f = tg_split_flow(e);
		if (!translate_segment(now.at, now.len, &pkt, &f, TG_TO_SERVER))
			return VERDICT_DROP;
		split_note(e, &pkt, TG_TO_SERVER);
		return VERDICT_PASS;
	}
	if (!e || !tg_host_is_ack(&pkt) || pkt.ack - 1 != tg_split_cookie_isn(e))
		return server.generic ? VERDICT_PASS : VERDICT_DROP;
	if (!(e->state & TG_SPLIT_FRESH) || e->state & TG_SPLIT_READY)
		return VERDICT_REDIRECT;
	tg_split_clear(e, TG_SPLIT_FRESH);
	if (pkt.l4_len > pkt.tcp_hdr_len || pkt.flags & TG_TCP_FIN)
		send_copy();
	return ingress_syn(&pkt, e);
}

/* A confirmation in IP and UDP, written from docs/split-protocol.md. */
enum verdict server_confirm(const struct tg_packet *pkt, uint32_t edge)
{
	uint32_t id = row_of(pkt, TG_TO_CLIENT), ip_len = pkt->family == 4 ? 20 : 40;
	const struct tg_tag_epoch *keys = tag_keys_of(plane.epoch);
	const union tg_addr *to = pkt->family == 4 ? &server.edges[edge].v4 : &server.edges[edge].v6;
	uint8_t *ip = now.at + pkt->l3_off, *udp = ip + ip_len;
	uint32_t udp_len = 8 + TG_CONFIRM_LEN;
	struct tg_confirm c = {
		.client = pkt->dst,
		.server = pkt->src,
		.ports = pkt->ports << 16 | pkt->ports >> 16,
		.epoch = (uint32_t)plane.epoch,
		.edge = (uint16_t)edge,
		.family = pkt->family,
	};

	if (!keys || !(to->d[0] | to->d[1])) {
		count(id, TG_COUNT_confirm_failed);
		return VERDICT_DROP;
	}
	memset(ip, 0, ip_len + 8);
	if (pkt->family == 4) {
		ip[0] = 0x45;
		tg_store16(ip + 2, tg_swap16(20 + udp_len));
		ip[6] = 0x40; /* do not fragment */
		ip[8] = 64;
		ip[9] = 17;
		memcpy(ip + 12, &c.server, 4);
		memcpy(ip + 16, to, 4);
		tg_store16(ip + 10, tg_csum_finish(tg_csum_add(0, ip, 20)));
	} else {
		ip[0] = 0x60;
		tg_store16(ip + 4, tg_swap16(udp_len));
		ip[6] = 17;
		ip[7] = 64;
		memcpy(ip + 8, &c.server, 16);
		memcpy(ip + 24, to, 16);
	}
	tg_store16(udp, server.confirm_port_be);
	tg_store16(udp + 2, server.confirm_port_be);
	tg_store16(udp + 4, tg_swap16(udp_len));
	tg_confirm_write(udp + 8, &c, tg_confirm_mac(&c, &keys->confirm));
	now.len = pkt->l3_off + ip_len + udp_len;
	count(id, TG_COUNT_confirm_sent);
	return VERDICT_REDIRECT;
}

static bool egress_options(const struct tg_packet *pkt, struct tg_tcp_options *o)
{
	return syn_options(now.at, now.len, pkt, o);
}

/* As tg_egress_ready and tg_egress_reack. */
static enum verdict egress_synack(const struct tg_packet *pkt, struct tg_split *e, bool first)
{
	struct tg_flow f = tg_split_flow(e);
	uint32_t edge = e->edge;
	struct tg_tcp_options o;
	struct tg_segment ack;

	if (!egress_options(pkt, &o))
		return VERDICT_DROP;
	if (first)
		tg_flow_ready(&f, pkt, &o, 0);
	else
		f.client_window = 1;
	ack = tg_flow_ack(pkt, &f, &o);
	if (server.generic) {
		ack.ack -= f.seq_delta;
		if (f.flags & TG_FLOW_TS)
			ack.options.tsecr -= f.ts_delta;
	}
	if (first)
		tg_split_settle(e, &f);
	count(row_of(pkt, TG_TO_CLIENT), first ? TG_COUNT_split_ready : TG_COUNT_split_reack);
	put(&ack);
	if (!first || !edge)
		return VERDICT_REDIRECT;
	send_copy();
	return server_confirm(pkt, edge);
}

/* As tg_egress_older. */
static enum verdict egress_older(const struct tg_packet *pkt, struct tg_split *e)
{
	struct tg_segment s = tg_reset_for(pkt);
	struct tg_flow f;

	count(row_of(pkt, TG_TO_CLIENT), TG_COUNT_split_older);
	tg_split_set(e, TG_SPLIT_RESET_OLDER | (server.generic ? TG_SPLIT_RESET_PASSES : 0));
	put(&s);
	send_copy();
	f = tg_split_flow(e);
	s = tg_flow_syn(pkt, &f, f.client_isn, true);
	s.reflect = false;
	put(&s);
	return VERDICT_REDIRECT;
}

/* As tg_server_egress. */
enum verdict server_egress(void)
{
	struct tg_packet pkt = {0};
	struct tg_split *e;
	struct tg_flow f;
	uint32_t edge;

	if (tg_packet_parse(&pkt, now.at, now.at + now.len) != TG_PARSE_TCP ||
	    !port_is_protected(TG_SRC_PORT_BE(&pkt)))
		return VERDICT_PASS;
	tg_packet_measure(&pkt, now.len);
	if (pkt.l4_off > TG_L4_OFF_MAX || pkt.tcp_hdr_len < TG_TCP_HDR_LEN)
		return VERDICT_PASS;
	e = split_find(&pkt, TG_TO_CLIENT);
	if (!e)
		return VERDICT_PASS;
	switch (tg_server_judge_answer(&pkt, e)) {
	case TG_ANSWER_TRANSLATE:
		f = tg_split_flow(e);
		edge = e->edge;
		if (!translate_segment(now.at, now.len, &pkt, &f, TG_TO_CLIENT))
			return VERDICT_DROP;
		split_note(e, &pkt, TG_TO_CLIENT);
		if (!(e->state & TG_SPLIT_CONFIRM))
			return VERDICT_PASS;
		tg_split_clear(e, TG_SPLIT_CONFIRM);
		if (!edge)
			return VERDICT_PASS;
		send_copy();
		return server_confirm(&pkt, edge);
	case TG_ANSWER_READY:
		return egress_synack(&pkt, e, true);
	case TG_ANSWER_REACK:
		return egress_synack(&pkt, e, false);
	case TG_ANSWER_OLDER:
		return egress_older(&pkt, e);
	case TG_ANSWER_REFUSED:
		f = (struct tg_flow){.seq_delta = pkt.seq - (e->seq_delta + 1)};
		e->hash = TG_SPLIT_FREE;
		count(row_of(&pkt, TG_TO_CLIENT), TG_COUNT_split_refused);
		return translate_segment(now.at, now.len, &pkt, &f, TG_TO_CLIENT) ? VERDICT_PASS
										  : VERDICT_DROP;
	case TG_ANSWER_FOREIGN:
		e->hash = TG_SPLIT_FREE;
		return VERDICT_PASS;
	default:
		return VERDICT_DROP;
	}
}
