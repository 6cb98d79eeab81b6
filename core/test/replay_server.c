/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_server.h.
 */
#include "replay_server.h"

#include <stdlib.h>

#include "../cookie_smartcookie.h"
#include "../proxy_rules.h"
#include "../server_flow.h"
#include "replay_frame.h"
#include "replay_translate.h"

#define SPLITS_MAX 4096
#define EDGES_MAX 8

static struct {
	uint64_t keys[TG_FILTER_KEYS];
	uint32_t generic, pass_unverified, adopt, smart, four_epochs;
	uint16_t confirm_port_be;
	struct {
		union tg_addr v4, v6;
	} edges[EDGES_MAX];
	struct tg_split splits[SPLITS_MAX];
	uint32_t splits_n;
	uint8_t mac[6];
	union tg_addr listens[2];
	uint16_t listens_port_be;
} server;

void server_reset(void)
{
	memset(&server, 0, sizeof(server));
}

static struct tg_split *split_find(const struct tg_packet *pkt, enum tg_direction dir)
{
	uint64_t hash = tg_split_hash(server.keys, pkt, dir);
	uint32_t i;

	for (i = 0; i < server.splits_n; i++)
		if (server.splits[i].hash == hash)
			return &server.splits[i];
	return NULL;
}

/* The table of the programs has room for all that a test opens; which place an entry has, nobody sees. */
static void split_insert(const struct tg_split *e)
{
	uint32_t i;

	for (i = 0; i < server.splits_n && server.splits[i].hash != TG_SPLIT_FREE; i++)
		;
	if (i == SPLITS_MAX)
		abort();
	server.splits[i] = *e;
	if (i == server.splits_n)
		server.splits_n++;
}

static uint32_t row_of(const struct tg_packet *pkt, enum tg_direction dir)
{
	struct tg_packet turned = {.family = pkt->family,
				   .dst = pkt->src,
				   .ports = pkt->ports << 16 | pkt->ports >> 16};

	return service_find(dir == TG_TO_SERVER ? pkt : &turned);
}

static bool port_is_protected(uint16_t port_be)
{
	return plane.ports[tg_swap16(port_be)] != 0;
}

/* As tg_split_note. */
static void split_note(struct tg_split *e, const struct tg_packet *pkt, enum tg_direction dir)
{
	if (dir == TG_TO_SERVER)
		tg_split_heard(e, pkt, 0);
	if (tg_split_may_end(e, pkt) && tg_split_track(e, pkt, dir) == TG_FLOW_ENDS)
		count(row_of(pkt, dir), TG_COUNT_split_closed);
}

/* ---- XDP ---- */

struct segment_case {
	struct tg_tcp_options o;
	struct tg_tag tag;
};

static enum verdict final_check(uint32_t id)
{
	if (tg_host_fails_open(plane.stale_keys, key_find(plane.epoch))) {
		count(id, TG_COUNT_pass_no_key);
		return VERDICT_PASS;
	}
	count(id, TG_COUNT_drop_unmatched_ack);
	return server.pass_unverified ? VERDICT_PASS : VERDICT_DROP;
}

static enum verdict ongoing(const struct tg_packet *pkt, struct tg_split *e)
{
	struct tg_flow f = tg_split_flow(e);

	if (!translate_segment(now.at, now.len, pkt, &f, TG_TO_SERVER))
		return VERDICT_DROP;
	tg_split_acked(e, pkt);
	split_note(e, pkt, TG_TO_SERVER);
	return VERDICT_PASS;
}

static bool cookie_verifies(const struct tg_packet *pkt, const struct tg_ack *ack)
{
	uint64_t epoch = tg_cookie_epoch(ack->cookie.isn, plane.epoch);

	return cookie_is_ours(pkt, ack, epoch, server.smart) ||
	       (server.four_epochs && cookie_is_ours(pkt, ack, epoch - TG_EPOCHS_OLDER, server.smart));
}

/* As tg_server_new. True: *verdict; false: the segment is of the connection in `e`. */
static bool server_new(const struct tg_packet *pkt, const struct segment_case *what,
		       struct tg_server_judgement j, struct tg_split *e, uint32_t id,
		       enum verdict *verdict)
{
	struct tg_ack ack = tg_host_read_ack(pkt, &what->o);
	const uint8_t *tcp = now.at + pkt->l4_off;
	struct tg_decision d;
	struct tg_split fresh;

	if (server.smart)
		ack.ts_ok = false;
	if (j.step == TG_SERVER_CHECK && !cookie_verifies(pkt, &ack)) {
		if (j.otherwise == TG_SERVER_TRANSLATE && e)
			return false;
		*verdict = final_check(id);
		return true;
	}
	d = tg_host_judge_intact(intact(now.at, pkt));
	if (d.verdict != TG_REPLY) {
		count(id, d.counter);
		*verdict = VERDICT_DROP;
		return true;
	}
	if (j.step == TG_SERVER_CHECK)
		count(id, TG_COUNT_cookie_valid);
	if (e && !tg_split_gives_way(e, ack.ts_ok))
		return false;
	if (e && e->state & TG_SPLIT_READY && !(e->state & TG_FLOW_CLOSED))
		count(id, TG_COUNT_split_replaced);
	fresh = tg_split_open(pkt, &ack,
			      server.smart ? tg_smart_claimed_bits(ack.cookie.isn)
					   : tg_cookie_claimed_bits(ack.cookie, ack.ts_ok),
			      what->tag.what ? what->tag.wscale : plane.services[id].wscale,
			      tg_swap16(tg_load16(tcp + TG_TCP_WINDOW)), (uint8_t)what->tag.edge, 0);
	fresh.hash = tg_split_hash(server.keys, pkt, TG_TO_SERVER);
	if (e)
		e->hash = TG_SPLIT_FREE;
	split_insert(&fresh);
	count(id, TG_COUNT_split_opened);
	*verdict = server.generic ? VERDICT_PASS : VERDICT_SETUP;
	return true;
}

/* As tg_server_case. */
static enum verdict server_case(const struct tg_packet *pkt, const struct segment_case *what)
{
	struct tg_split *e = split_find(pkt, TG_TO_SERVER);
	struct tg_server_judgement j;
	const struct tg_service *svc;
	uint32_t id = service_find(pkt);
	enum verdict verdict;

	if (!id)
		return VERDICT_PASS;
	svc = &plane.services[id];
	j = tg_server_judge(pkt, e, what->tag.what);
	if (e && what->tag.what && j.step != TG_SERVER_OPEN) {
		e->edge = (uint8_t)what->tag.edge;
		if (e->state & TG_SPLIT_READY)
			tg_split_set(e, TG_SPLIT_CONFIRM);
	}
	if (what->tag.what == TG_TAG_PROBE)
		count(id, e ? TG_COUNT_probe_known : TG_COUNT_probe_unknown);
	if (j.step == TG_SERVER_TRANSLATE && e)
		return ongoing(pkt, e);
	if (!e && !what->tag.what && server.adopt &&
	    tg_service_listener(svc, pkt->family) == TG_LISTENER_OK)
		return VERDICT_PASS;
	if (svc->mode != TG_MODE_ALWAYS || j.step == TG_SERVER_PASS) {
		if (e && pkt->flags & TG_TCP_RST)
			tg_split_clear(e, TG_SPLIT_RESET_PASSES);
		return VERDICT_PASS;
	}
	switch (j.step) {
	case TG_SERVER_CHECK:
	case TG_SERVER_OPEN:
		return server_new(pkt, what, j, e, id, &verdict) ? verdict : ongoing(pkt, e);
	case TG_SERVER_WAIT:
		return server.generic ? VERDICT_PASS : VERDICT_SETUP;
	case TG_SERVER_FORGET:
		e->hash = TG_SPLIT_FREE;
		count(id, TG_COUNT_split_closed);
		return VERDICT_DROP;
	default:
		return e || what->tag.what ? VERDICT_DROP : final_check(id);
	}
}

/* As tg_tag_take and tg_tag_judge. False: the segment dies of its tag. */
static bool tag_take(struct tg_packet *pkt, struct segment_case *what)
{
	uint32_t len = (uint32_t)pkt->tcp_hdr_len - TG_TCP_HDR_LEN, words[TG_TAG_WORDS];
	const uint8_t *at = now.at + pkt->l4_off + TG_TCP_HDR_LEN;
	uint32_t id = row_of(pkt, TG_TO_SERVER);
	const struct tg_tag_epoch *keys;
	uint64_t epoch, mac = 0;

	timestamps_at(at + TG_TAG_LEN, len - TG_TAG_LEN, now.at + now.len, &what->o);
	if (at + TG_TAG_LEN > now.at + now.len ||
	    tg_tag_read(at, len, now.at + now.len, &what->tag, &mac) != TG_TAG_READ) {
		count(id, TG_COUNT_tag_foreign);
		return false;
	}
	keys = tg_tag_epoch(what->tag.epoch, plane.epoch, &epoch) ? tag_keys_of(epoch) : NULL;
	if (!keys) {
		count(id, TG_COUNT_tag_stale);
		return false;
	}
	if (mac != tg_tag_mac(pkt, what->o.tsecr, &what->tag, &keys->tag)) {
		count(id, TG_COUNT_tag_forged);
		return false;
	}
	tg_tag_words(words, &what->tag, mac);
	memmove(now.at + TG_TAG_LEN, now.at, pkt->l4_off + TG_TCP_HDR_LEN);
	now.at += TG_TAG_LEN;
	now.len -= TG_TAG_LEN;
	if (!tg_tag_fix(now.at + pkt->l3_off, now.at + pkt->l4_off, pkt->family, words, false,
			pkt->l4_len)) {
		count(id, TG_COUNT_tag_foreign);
		return false;
	}
	pkt->l4_len -= TG_TAG_LEN;
	pkt->tcp_hdr_len = (uint8_t)(pkt->tcp_hdr_len - TG_TAG_LEN);
	count(id, TG_COUNT_tag_valid);
	return true;
}

/* As tg_server_fragment. */
static enum verdict fragment(const struct tg_packet *pkt)
{
	uint32_t id = service_find(pkt);

	if (!id || plane.services[id].mode != TG_MODE_ALWAYS)
		return VERDICT_PASS;
	if (tg_host_is_syn(pkt)) {
		count(id, TG_COUNT_syn);
		count(id, TG_COUNT_drop_fragment);
		return VERDICT_DROP;
	}
	if (!tg_host_is_ack(pkt) || split_find(pkt, TG_TO_SERVER) ||
	    (server.adopt && tg_service_listener(&plane.services[id], pkt->family) == TG_LISTENER_OK))
		return VERDICT_PASS;
	return final_check(id);
}

/* As tg_server_syn and tg_server_answer. */
static enum verdict server_syn(const struct tg_packet *syn)
{
	uint32_t id = service_find(syn);
	const struct tg_service *svc = &plane.services[id];
	struct tg_tcp_options offered;
	struct tg_decision d;

	if (!id || svc->mode != TG_MODE_ALWAYS || memcmp(now.at, server.mac, 6) != 0)
		return VERDICT_PASS;
	count(id, TG_COUNT_syn);
	if (tg_service_listener(svc, syn->family) == TG_LISTENER_NONE ||
	    memcmp(&syn->dst, &server.listens[syn->family == 6], sizeof(syn->dst)) != 0 ||
	    TG_DST_PORT_BE(syn) != server.listens_port_be)
		d = TG_DECIDE(TG_PASS, TG_COUNT_pass_listener);
	else
		d = tg_proxy_judge_syn(syn, TG_PARSE_TCP, now.len);
	if (d.verdict == TG_REPLY)
		d = tg_host_judge_intact(intact(now.at, syn));
	if (d.verdict == TG_REPLY && !key_find(plane.epoch))
		d = tg_host_judge_no_key(plane.stale_keys);
	if (d.verdict == TG_REPLY && !syn_options(now.at, now.len, syn, &offered))
		d = TG_DECIDE(TG_DROP, TG_COUNT_drop_malformed);
	if (d.verdict == TG_REPLY && offered.auth) {
		d = tg_signed_judge_at(offered.auth, svc->signed_cost_us, &plane.allowances[id],
				       NOW_NS);
		if (d.verdict == TG_REPLY)
			count(id, d.counter);
	}
	if (d.verdict == TG_REPLY) {
		now.len = answer_write(now.at, syn, svc, &offered, server.smart);
		d.counter = TG_COUNT_cookie_sent;
	}
	count(id, d.counter);
	return d.verdict == TG_REPLY  ? VERDICT_TX
	       : d.verdict == TG_DROP ? VERDICT_DROP
				      : VERDICT_PASS;
}

/* As tg_server_xdp. */
static enum verdict server_xdp(void)
{
	struct tg_packet pkt = {0};
	enum tg_parse_result parsed = tg_packet_parse(&pkt, now.at, now.at + now.len);
	struct segment_case what = {0};
	const uint8_t *options;

	if (parsed == TG_PARSE_FRAGMENT && port_is_protected(TG_DST_PORT_BE(&pkt)))
		return fragment(&pkt);
	if (parsed != TG_PARSE_TCP)
		return is_condemned(parsed) ? VERDICT_DROP : VERDICT_PASS;
	if (!port_is_protected(TG_DST_PORT_BE(&pkt)))
		return VERDICT_PASS;
	tg_packet_measure(&pkt, now.len);
	if (tg_host_is_syn(&pkt))
		return server_syn(&pkt);
	if (pkt.l4_off > TG_L4_OFF_MAX || !tg_host_ack_is_whole(&pkt, now.len))
		return VERDICT_PASS;
	options = now.at + pkt.l4_off + TG_TCP_HDR_LEN;
	if (pkt.tcp_hdr_len >= TG_TCP_HDR_LEN + 4 && options[0] == TG_TAG_OPTION &&
	    options[2] == 'T' && options[3] == 'G') {
		if (!tag_take(&pkt, &what))
			return VERDICT_DROP;
	} else {
		timestamps_at(options, (uint32_t)pkt.tcp_hdr_len - TG_TCP_HDR_LEN, now.at + now.len,
			      &what.o);
	}
	return server_case(&pkt, &what);
}

/* ---- TC ---- */

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
static enum verdict server_ingress(bool marked, bool retransmit)
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
	if (!e || (e->state & TG_SPLIT_READY && server.generic) || !tg_host_is_ack(&pkt) ||
	    pkt.ack - 1 != tg_split_cookie_isn(e))
		return server.generic ? VERDICT_PASS : VERDICT_DROP;
	if (!(e->state & TG_SPLIT_FRESH))
		return VERDICT_REDIRECT;
	tg_split_clear(e, TG_SPLIT_FRESH);
	if (pkt.l4_len > pkt.tcp_hdr_len || pkt.flags & TG_TCP_FIN)
		send_copy();
	return ingress_syn(&pkt, e);
}

/* A confirmation in IP and UDP, written from docs/split-protocol.md. */
static enum verdict confirm(const struct tg_packet *pkt, uint32_t edge)
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
	return confirm(pkt, edge);
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
static enum verdict server_egress(void)
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
		return confirm(&pkt, edge);
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

/* ---- commands ---- */

bool do_server_xdp(const char *args)
{
	if (!take(args))
		return false;
	tell(server_xdp());
	return true;
}

bool do_server_ingress(const char *args)
{
	unsigned int marked, retransmit;
	int at = 0;

	if (sscanf(args, "%u %u %n", &marked, &retransmit, &at) != 2 || !at || !take(args + at))
		return false;
	tell(server_ingress(marked, retransmit));
	return true;
}

/* The confirmation that an edge would get for a segment of the stack. */
bool do_server_confirm(const char *args)
{
	struct tg_packet pkt = {0};
	uint32_t edge;
	int at = 0;

	if (sscanf(args, "%u %n", &edge, &at) != 1 || !at || edge >= EDGES_MAX ||
	    !take(args + at) || tg_packet_parse(&pkt, now.at, now.at + now.len) != TG_PARSE_TCP)
		return false;
	tell(confirm(&pkt, edge));
	return true;
}

bool do_server_egress(const char *args)
{
	if (!take(args))
		return false;
	tell(server_egress());
	return true;
}

bool do_server(const char *args)
{
	char mac[13], v4[33], v6[33];
	uint32_t confirm_port, port;
	int at = 0, n;
	size_t i;

	if (sscanf(args, "%u %u %u %u %u %u %12s %32s %32s %u %n", &server.generic,
		   &server.pass_unverified, &server.adopt, &server.smart, &server.four_epochs,
		   &confirm_port, mac, v4, v6, &port, &at) != 10 ||
	    !at || unhex(mac, server.mac, 6) != 6 ||
	    unhex(v4, (uint8_t *)&server.listens[0], 16) != 16 ||
	    unhex(v6, (uint8_t *)&server.listens[1], 16) != 16)
		return false;
	server.confirm_port_be = (uint16_t)confirm_port;
	server.listens_port_be = tg_swap16(port);
	for (i = 0; i < TG_FILTER_KEYS; i++, at += n)
		if (sscanf(args + at, "%" SCNu64 "%n", &server.keys[i], &n) != 1)
			return false;
	return true;
}

bool do_server_edge(const char *args)
{
	char v4[33], v6[33];
	uint32_t edge;

	return sscanf(args, "%u %32s %32s", &edge, v4, v6) == 3 && edge < EDGES_MAX &&
	       unhex(v4, (uint8_t *)&server.edges[edge].v4, 16) == 16 &&
	       unhex(v6, (uint8_t *)&server.edges[edge].v6, 16) == 16;
}
