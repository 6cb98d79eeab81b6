/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections while they are set up with the server.
 */
#include "flow_setup.h"

#include "advertised.h"
#include "automatic.h"
#include "closed_port.h"
#include "source_limit.h"
#include "source_remember.h"

static bool tg_item_has_data(const struct tg_item *it)
{
	return it->pkt.l4_len > it->pkt.tcp_hdr_len && tg_host_ack_is_whole(&it->pkt, it->m->pkt_len);
}

/* Stores the current frame for the server. True: it is stored, or was already. */
static bool tg_flow_keep(struct tg_worker *w, struct tg_item *it, uint32_t service)
{
	bool kept = tg_store_put(&w->store, it->flow_hash, it->pkt.seq, it->m, w->now_ms);

	tg_count(w, service, kept ? TG_COUNT_store_kept : TG_COUNT_store_full);
	return kept;
}

/* Drops or answers a connection of a source above its limit; true: it goes on. */
static bool tg_flow_is_within_limits(struct tg_worker *w, struct tg_item *it, uint32_t service)
{
	struct tg_segment rst;

	switch (tg_source_limited(w, &it->pkt, service)) {
	case TG_LIMIT_REPORT:
		return true;
	case TG_LIMIT_RESET:
		rst = tg_reset_for(&it->pkt);
		(void)tg_segment_send(w, it->m, it->port, &rst);
		return false;
	default:
		tg_drop(w, it->m);
		return false;
	}
}

bool tg_flow_begin(struct tg_worker *w, struct tg_item *it, struct tg_flow *flow)
{
	struct tg_flow_key key = tg_flow_key_of(&it->pkt, TG_TO_SERVER);
	struct tg_server_key server = tg_server_key(&it->pkt, false);
	struct tg_segment syn;

	if (TG_UNLIKELY(w->config->remember))
		tg_source_remember(w, &it->pkt);
	tg_auto_done(w, &it->pkt, flow->service, 1);
	tg_flow_prepare(flow, &it->pkt, tg_servers_find(&w->servers, &server), w->now_ms,
			(uint8_t)it->port);
	it->presence = tg_presence_flow(&it->pkt, w->presence_salt);
	it->flow_hash = tg_flow_key_hash(&w->flows, &key);
	if (TG_UNLIKELY(!tg_flow_table_may_wait(&w->flows, &key))) {
		tg_count(w, flow->service, TG_COUNT_flow_share);
		tg_drop(w, it->m);
		return false;
	}
	/* What the table has no room for does not count: it is asked again with the client's next segment. */
	if (TG_UNLIKELY(tg_limits_are_on(&w->config->limits)) &&
	    !tg_flow_is_within_limits(w, it, flow->service))
		return false;
	if (!tg_flow_table_insert(&w->flows, &key, it->flow_hash, it->presence, flow)) {
		tg_count(w, flow->service, TG_COUNT_flow_full);
		tg_drop(w, it->m);
		return false;
	}
	tg_count(w, flow->service, TG_COUNT_flow_opened);
	syn = tg_flow_syn(&it->pkt, flow, tg_flow_syn_isn(flow, &w->ask_key), false);
	if (w->config->proxy_cfg[flow->service].first_data == TG_FIRST_DATA_STORE &&
	    tg_item_has_data(it)) {
		tg_segment_send_new(w, it, &syn);
		if (!tg_flow_keep(w, it, flow->service))
			tg_drop(w, it->m);
	} else {
		tg_segment_send(w, it->m, it->port, &syn);
	}
	return true;
}

void tg_setup_client(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	struct tg_flow *f = &e->flow;
	uint32_t service = f->service;
	enum tg_retry retry = tg_flow_retry(f, &it->pkt, w->now_ms);
	uint32_t isn = tg_flow_syn_isn(f, &w->ask_key);
	bool early = retry == TG_RETRY_EARLY;
	struct tg_segment s;

	if (retry == TG_RETRY_DROP) {
		tg_drop(w, it->m);
		return;
	}
	if (retry == TG_RETRY_GIVES_UP) {
		s = tg_flow_give_up(&it->pkt, f, isn);
		tg_flow_remove(w, it, e);
		tg_count(w, service, TG_COUNT_flow_closed);
		tg_segment_send(w, it->m, it->port, &s);
		return;
	}
	s = tg_flow_syn(&it->pkt, f, isn, false);
	if (!early) {
		f->syn.ms = (uint16_t)w->now_ms;
		tg_count(w, service, TG_COUNT_flow_retransmit);
	}
	if (w->config->proxy_cfg[service].first_data == TG_FIRST_DATA_STORE && tg_item_has_data(it)) {
		if (!early)
			tg_segment_send_new(w, it, &s);
		if (!tg_flow_keep(w, it, service))
			tg_drop(w, it->m);
	} else if (early) {
		tg_count(w, service, TG_COUNT_flow_early);
		tg_drop(w, it->m);
	} else {
		tg_segment_send(w, it->m, it->port, &s);
	}
}

/* Forwards what was stored of the client's, in order. */
static bool tg_store_release(struct tg_worker *w, struct tg_flow_entry *e, uint64_t owner,
			     uint16_t client_port)
{
	struct tg_item it = {.flow_lane = -1,
			     .half_lane = -1,
			     .cookie_lane = -1,
			     .port = client_port,
			     .flow_dir = 255};
	bool any = false;

	while ((it.m = tg_store_take(&w->store, owner))) {
		const uint8_t *data = TG_DATA(it.m);

		if (tg_packet_parse(&it.pkt, data, data + it.m->data_len) != TG_PARSE_TCP) {
			tg_drop(w, it.m); /* impossible: it was TCP when it was stored */
			continue;
		}
		tg_packet_measure(&it.pkt, it.m->pkt_len);
		any = true;
		it.partial = (it.m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) ==
			     RTE_MBUF_F_RX_L4_CKSUM_NONE;
		tg_count(w, e->flow.service, TG_COUNT_store_sent);
		tg_flow_forward(w, &it, e, TG_TO_SERVER);
	}
	return any;
}

/* The port behind which the flow's client is, seen from the server. */
static uint16_t tg_client_port(const struct tg_worker *w, const struct tg_item *it)
{
	const struct tg_route *r;

	if (!w->config->router)
		return it->port ^ 1;
	r = tg_config_route(w->config, &it->pkt.dst, it->pkt.family);
	return r ? r->port : it->port;
}

/* The server has accepted: it gets its ACK and what was stored, and the client the
 * window update; if the client's data were dropped, it gets the same three more times, since duplicate ACKs
 * are how a receiver signals loss. */
static void tg_setup_accept(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e,
			    const struct tg_tcp_options *o)
{
	uint8_t first_data = w->config->proxy_cfg[e->flow.service].first_data;
	bool notifies = tg_setup_notifies(&e->flow, first_data); /* before the flow forgets it */
	uint16_t field = tg_item_window(it);
	struct tg_segment ack, window;
	int i;

	tg_flow_ready(&e->flow, &it->pkt, o, it->port);
	ack = tg_flow_ack(&it->pkt, &e->flow, o);
	window = tg_flow_window(&it->pkt, &e->flow, o, field);
	tg_count(w, e->flow.service, TG_COUNT_flow_ready);
	tg_segment_send_new(w, it, &ack);
	if (first_data == TG_FIRST_DATA_STORE &&
	    tg_store_release(w, e, it->flow_hash, tg_client_port(w, it))) {
		tg_drop(w, it->m); /* the server's own ACK of it carries the window */
		return;
	}
	if (notifies) {
		for (i = 0; i < TG_DUPLICATES; i++)
			tg_segment_send_new(w, it, &window);
		tg_count(w, e->flow.service, TG_COUNT_flow_notified);
	}
	tg_segment_send(w, it->m, it->port, &window);
}

/* The server has an older connection, or was only probed, or is to be probed: it is reset and sent another
 * SYN. */
static void tg_setup_renew(struct tg_worker *w, struct tg_item *it, struct tg_flow *f, bool ask)
{
	struct tg_segment rst = tg_reset_for(&it->pkt), syn;

	if (!tg_flow_renew(f, ask)) {
		tg_drop(w, it->m);
		return;
	}
	f->syn.ms = (uint16_t)w->now_ms;
	syn = tg_flow_syn(&it->pkt, f, tg_flow_syn_isn(f, &w->ask_key), true);
	tg_segment_send_new(w, it, &rst);
	tg_segment_send(w, it->m, it->port, &syn);
}

/* The server does not support what the client was offered: both are reset, and the next client is
 * offered what has just been learned. */
static void tg_setup_mismatch(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	struct tg_segment rst = tg_reset_for(&it->pkt), refusal = tg_flow_refusal(&it->pkt, &e->flow);

	tg_count(w, e->flow.service, TG_COUNT_flow_mismatch);
	tg_flow_remove(w, it, e);
	tg_segment_send_new(w, it, &rst);
	tg_segment_send(w, it->m, it->port, &refusal);
}

/* The server's SYN-ACK to our SYN: what it supports, and what follows. */
static void tg_setup_synack(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	struct tg_server_key server = tg_server_key(&it->pkt, true);
	struct tg_tcp_options o;
	enum tg_setup_next next;
	struct tg_learned l;

	if (!tg_item_options(it, &o)) {
		tg_drop(w, it->m);
		return;
	}
	if (tg_server_heard(tg_servers_find(&w->servers, &server), e->flow.flags & TG_FLOW_ASKS,
			    &it->pkt, &o, w->now_ms, &l)) {
		tg_servers_put(&w->servers, &server, &l);
		tg_advertised_forget(w);
		tg_count(w, e->flow.service, TG_COUNT_server_asked);
	}
	next = tg_setup_next(&e->flow, &it->pkt, &o, w->config->proxy_cfg[e->flow.service].fixed);
	if (next == TG_SETUP_MISMATCH)
		tg_setup_mismatch(w, it, e);
	else if (next == TG_SETUP_ACCEPT)
		tg_setup_accept(w, it, e, &o);
	else
		tg_setup_renew(w, it, &e->flow, next == TG_SETUP_ASK);
}

static bool tg_setup_is_forged(const struct tg_worker *w, const struct tg_item *it,
			       const struct tg_flow *f)
{
	enum tg_origin origin = tg_setup_origin(f, it->port, !w->config->router);
	const struct tg_route *r;

	if (origin != TG_ORIGIN_ROUTE)
		return origin == TG_ORIGIN_CLIENT;
	r = tg_config_route(w->config, &it->pkt.src, it->pkt.family);
	return r && r->port != it->port;
}

void tg_setup_server(struct tg_worker *w, struct tg_item *it, struct tg_flow_entry *e)
{
	struct tg_segment s;

	if (tg_setup_is_forged(w, it, &e->flow)) {
		tg_count(w, e->flow.service, TG_COUNT_flow_forged);
		tg_drop(w, it->m);
		return;
	}
	switch (tg_setup_judge(&it->pkt, tg_flow_syn_isn(&e->flow, &w->ask_key))) {
	case TG_SETUP_READY:
		tg_setup_synack(w, it, e);
		break;
	case TG_SETUP_OTHER:
		tg_count(w, e->flow.service, TG_COUNT_flow_older);
		tg_setup_renew(w, it, &e->flow, e->flow.flags & TG_FLOW_ASKS);
		break;
	case TG_SETUP_REFUSED:
		s = tg_flow_refusal(&it->pkt, &e->flow);
		tg_count(w, e->flow.service, TG_COUNT_flow_refused);
		if (tg_closed_learn(w, it, e->flow.service))
			tg_advertised_forget(w);
		tg_flow_remove(w, it, e);
		tg_segment_send(w, it->m, it->port, &s);
		break;
	default:
		tg_drop(w, it->m);
	}
}

void tg_ready_reack(struct tg_worker *w, struct tg_item *it, struct tg_flow *f)
{
	struct tg_tcp_options o;
	struct tg_segment s;

	if (it->pkt.seq != f->server_isn || !tg_item_options(it, &o)) {
		tg_drop(w, it->m);
		return;
	}
	s = tg_flow_ack(&it->pkt, f, &o);
	if (tg_segment_send(w, it->m, it->port, &s))
		tg_count(w, f->service, TG_COUNT_flow_reack);
}
