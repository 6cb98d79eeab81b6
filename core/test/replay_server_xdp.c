/* SPDX-License-Identifier: Apache-2.0
 *
 * The translating server without a kernel, where frames come in: the calls into core/ of bpf/server_xdp.bpf.c.
 */
#include "../cookie_smartcookie.h"
#include "../proxy_rules.h"
#include "replay_frame.h"
#include "replay_server_state.h"
#include "replay_translate.h"

struct segment_case {
	struct tg_tcp_options o;
	struct tg_tag tag;
};

static enum verdict final_check(const struct tg_packet *pkt, uint32_t id)
{
	if (tg_service_listener(&plane.services[id], pkt->family) == TG_LISTENER_NONE)
		return VERDICT_PASS;
	if (tg_host_fails_open(plane.stale_keys, key_find(plane.epoch))) {
		count(id, TG_COUNT_pass_no_key);
		return VERDICT_PASS;
	}
	if (tg_service_is_passive(&plane.services[id])) {
		if (plane.services[id].mode == TG_MODE_MONITOR)
			count(id, TG_COUNT_would_drop);
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
		*verdict = final_check(pkt, id);
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
	if (!tg_service_verifies(svc) || j.step == TG_SERVER_PASS) {
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
		return e || (what->tag.what && !tg_service_is_passive(svc)) ? VERDICT_DROP
									    : final_check(pkt, id);
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
	return final_check(pkt, id);
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
	if (d.verdict == TG_REPLY)
		d = syn_judge_answer(now.at, now.len, syn, id, &offered);
	if (d.verdict == TG_REPLY)
		now.len = answer_write(now.at, syn, svc, &offered, server.smart);
	count(id, d.counter);
	return verdict_of(d.verdict);
}

/* As tg_server_xdp. */
enum verdict server_xdp(void)
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
