/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * XDP, server role, translating: what comes from clients through an edge. Removes tags, translates
 * what belongs to a connection, drops what no edge should have let through (the final ACK check),
 * answers SYNs that no edge has answered (lib/server_syn.h), and begins new connections; their SYN
 * is made by server_ingress.bpf.c, which also has the segments that must wait for its answer.
 *
 * Must never: let a tag go on to the stack; translate by anything but the table;
 * drop a segment of a service whose mode is not `always`.
 */
#define TG_FOUR_EPOCHS
#include "lib/server_syn.h"
#include "lib/server_translate.h"
#include "lib/intact.h"
#include "lib/proven.h"
#include "lib/source_limit.h"
#include "lib/tag.h"
#include "lib/server_meta.h"

/* What is left to the program itself. */
#define TG_NEXT_CASE 16
#define TG_NEXT_ONGOING 64 /* translate it */
#define TG_NEXT_UNTAG 17
#define TG_NEXT_NEW 18 /* as CASE: neither tag nor entry */

/* listen -> SYN_SENT. `old` is an entry of the same addresses and ports. */
static __always_inline int tg_server_open(struct xdp_md *ctx, const struct tg_packet *pkt,
					  const struct tg_server_settings *server,
					  const struct tg_ack *ack_info, bool smart, __u8 wscale,
					  __u8 edge, struct tg_split *old, struct tg_counter_row *row)
{
	const __u8 *tcp = (void *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX);
	__u32 bits, place;
	struct tg_split e;
	__u64 hash;
	int full;

	if (tcp + TG_TCP_HDR_LEN > (__u8 *)(long)ctx->data_end)
		return XDP_DROP;
	bits = smart ? tg_smart_claimed_bits(ack_info->cookie.isn)
		     : tg_cookie_claimed_bits(ack_info->cookie, ack_info->ts_ok);
	e = tg_split_open(pkt, ack_info, bits, wscale, tg_swap16(tg_load16(tcp + TG_TCP_WINDOW)),
			  edge, tg_tick_now());
	e.hash = hash = tg_split_hash(server->keys, pkt, TG_TO_SERVER);
	if (old)
		tg_split_release(old);
	full = tg_split_insert(&e, 2 * TG_SPLIT_WAYS);
	if (TG_UNLIKELY(full)) {
		place = (__u32)tg_split_contest(&e);
		full = place < 2 * TG_SPLIT_WAYS ? tg_split_insert(&e, place) : full;
		tg_count(row, full ? TG_COUNT_split_full : TG_COUNT_split_displaced);
		if (full)
			return XDP_DROP;
	}
	tg_split_count(e.hash, -1);
	tg_split_count(hash, 1);
	tg_count(row, TG_COUNT_split_opened);
	return server->generic || !tg_meta_set(ctx) ? XDP_PASS : XDP_DROP;
}

/* A segment of a connection that is ongoing. */
static __always_inline int tg_server_ongoing(struct xdp_md *ctx, const struct tg_packet *pkt,
					     struct tg_split *e)
{
	struct tg_flow f = tg_split_flow(e);

	if (tg_translate(ctx, pkt, &f, TG_TO_SERVER))
		return XDP_DROP;
	tg_split_acked(e, pkt);
	tg_split_note(e, pkt, TG_TO_SERVER);
	return XDP_PASS;
}

/* What is known of a segment beside its headers. */
struct tg_case {
	struct tg_tcp_options o; /* only the timestamps */
	struct tg_tag tag;       /* verified and taken off; what is 0: there was none */
};

/* Counts what became of a tag; false if the segment is dropped for it. */
static __always_inline bool tg_tag_judge(const struct tg_packet *pkt, int wrong)
{
	struct tg_counter_row *row = tg_server_row(pkt, TG_TO_SERVER);

	if (row)
		tg_count(row, wrong == 0               ? TG_COUNT_tag_valid
			      : wrong == TG_TAG_STALE  ? TG_COUNT_tag_stale
			      : wrong == TG_TAG_FORGED ? TG_COUNT_tag_forged
						       : TG_COUNT_tag_foreign);
	return wrong == 0;
}

/* True if this machine has a connection for the segment: one that is older than the
 * listener that is translated for. */
static __always_inline bool tg_server_has_socket(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	int state = tg_server_socket_state(ctx, pkt);

	return state && state != BPF_TCP_LISTEN;
}

/* True if the entry yields to the connection that a verified segment begins. A RST with any number
 * marks an entry as closed; whether it was valid, the socket knows. */
static __always_inline bool tg_server_gives_way(struct xdp_md *ctx, const struct tg_packet *pkt,
						const struct tg_split *e, bool strong)
{
	int state;

	if (!tg_split_gives_way(e, strong))
		return false;
	if (strong ||
	    (e->state & (TG_SPLIT_READY | TG_FLOW_RESET)) != (TG_SPLIT_READY | TG_FLOW_RESET))
		return true;
	state = tg_server_socket_state(ctx, pkt);
	return state == 0 || state == BPF_TCP_LISTEN || state == BPF_TCP_TIME_WAIT;
}

/* What neither table nor cookie knows. */
static __always_inline int tg_server_final_check(struct xdp_md *ctx, const struct tg_packet *pkt,
						 const struct tg_host_settings *settings,
						 const struct tg_server_settings *server,
						 const struct tg_service *svc,
						 struct tg_counter_row *row)
{
	if (server->adopt && tg_service_listener(svc, pkt->family) != TG_LISTENER_GUEST &&
	    tg_server_has_socket(ctx, pkt)) {
		tg_count(row, TG_COUNT_pass_socket);
		return XDP_PASS;
	}
	if (TG_UNLIKELY(tg_service_listener(svc, pkt->family) == TG_LISTENER_NONE))
		return XDP_PASS; /* the kernel resets it, as it refuses the SYN */
	if (TG_UNLIKELY(tg_keys_fail_open(settings, tg_epoch_verifying_now(settings)))) {
		tg_count(row, TG_COUNT_pass_no_key); /* nothing can be verified here any more */
		return XDP_PASS;
	}
	if (TG_UNLIKELY(tg_service_is_passive(svc))) {
		tg_count(row, svc->mode == TG_MODE_MONITOR ? TG_COUNT_would_drop : TG_COUNT_NOTHING);
		return XDP_PASS;
	}
	tg_count(row, TG_COUNT_drop_unmatched_ack);
	return server->unverified == TG_UNVERIFIED_PASS ? XDP_PASS : XDP_DROP;
}

/* CHECK and OPEN: a new connection, if the cookie in it is one of ours or an edge has
 * said so. TG_NEXT_ONGOING: it is of the one in `e`. */
static __always_inline int tg_server_new(struct xdp_md *ctx, const struct tg_packet *pkt,
					 const struct tg_case *what, struct tg_server_judgement j,
					 struct tg_split *e, const struct tg_service *svc,
					 struct tg_counter_row *row)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_server_settings *server = tg_server_get();
	struct tg_ack ack_info = tg_host_read_ack(pkt, &what->o);
	struct tg_decision d;

	if (settings->smart)
		ack_info.ts_ok = false; /* a gate with this layout offers none */
	if (j.step == TG_SERVER_CHECK &&
	    !(settings->smart
		      ? tg_smart_check(pkt, 0) || tg_smart_check(pkt, TG_EPOCHS_OLDER)
		      : tg_cookie_check(pkt, &ack_info) || tg_cookie_check_older(pkt, &ack_info))) {
		if (j.otherwise == TG_SERVER_TRANSLATE && e)
			return TG_NEXT_ONGOING;
		return tg_server_final_check(ctx, pkt, settings, server, svc, row);
	}
	d = tg_host_judge_intact(tg_intact(ctx, pkt));
	if (d.verdict != TG_REPLY) {
		tg_count(row, d.counter);
		return XDP_DROP;
	}
	if (j.step == TG_SERVER_CHECK)
		tg_count(row, TG_COUNT_cookie_valid);
	if (e && !tg_server_gives_way(ctx, pkt, e, ack_info.ts_ok))
		return TG_NEXT_ONGOING;
	if (TG_UNLIKELY(settings->report))
		tg_proven_note(pkt, 0);
	if (TG_UNLIKELY(settings->source_limited)) {
		enum tg_limit_action limited = tg_source_limited(pkt, row);

		if (limited !=
		    TG_LIMIT_REPORT) /* RESET: the stack knows nothing of it, unless there is an entry */
			return limited == TG_LIMIT_RESET && !e ? XDP_PASS : XDP_DROP;
	}
	if (e && e->state & TG_SPLIT_READY && !(e->state & TG_FLOW_CLOSED))
		tg_count(row, TG_COUNT_split_replaced);
	return tg_server_open(ctx, pkt, server, &ack_info, settings->smart,
			      what->tag.what ? what->tag.wscale : svc->wscale, (__u8)what->tag.edge,
			      e, row);
}

/* A segment to a service that does not clearly belong to an ongoing connection. */
TG_GLOBAL int tg_server_case(struct xdp_md *ctx, struct tg_packet *pkt, const struct tg_case *what)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_server_settings *server = tg_server_get();
	struct tg_server_judgement j;
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_split *e;
	int verdict;
	__u32 id;

	if (!pkt || !what)
		return XDP_PASS;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row)
		return XDP_PASS;
	e = tg_split_find(server, pkt, TG_TO_SERVER);
	j = tg_server_judge(pkt, e, what->tag.what);
	if (e && what->tag.what && j.step != TG_SERVER_OPEN) {
		e->edge = (__u8)what->tag.edge; /* it has not heard, or has the flow only now */
		if (e->state & TG_SPLIT_READY)
			tg_split_set(e, TG_SPLIT_CONFIRM);
	}
	if (what->tag.what == TG_TAG_PROBE)
		tg_count(row, e ? TG_COUNT_probe_known : TG_COUNT_probe_unknown);
	if (j.step == TG_SERVER_TRANSLATE && e)
		goto ongoing;
	if (!e && !what->tag.what && server->adopt &&
	    tg_service_listener(svc, pkt->family) == TG_LISTENER_OK)
		return XDP_PASS; /* left to the adopting gate */
	if (!tg_service_verifies(svc) || j.step == TG_SERVER_PASS) {
		if (e && pkt->flags & TG_TCP_RST)
			tg_split_clear(e, TG_SPLIT_RESET_PASSES); /* ours, and this was it */
		return XDP_PASS;
	}
	if (j.step == TG_SERVER_CHECK || j.step == TG_SERVER_OPEN) {
		verdict = tg_server_new(ctx, pkt, what, j, e, svc, row);
		if (verdict != TG_NEXT_ONGOING || !e)
			return verdict;
		goto ongoing;
	}
	if (j.step == TG_SERVER_WAIT) {
		if (server->generic || !tg_meta_set(ctx))
			return XDP_PASS;
		tg_count(row, TG_COUNT_split_early);
		return XDP_DROP;
	}
	if (j.step == TG_SERVER_FORGET && e) {
		tg_split_release(e);
		tg_count(row, TG_COUNT_split_closed);
		return XDP_DROP;
	}
	if (e || (what->tag.what && !tg_service_is_passive(svc)))
		return XDP_DROP;
	return tg_server_final_check(ctx, pkt, settings, server, svc, row);

ongoing: /* once in this function, for its stack */
	return tg_server_ongoing(ctx, pkt, e);
}

/* TCP to a protected port. To the verifier, the header's offset is one unknown number here, not one
 * of many known ones. */
TG_GLOBAL int tg_server_tcp(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	const struct tg_server_settings *server = tg_server_get();
	struct tg_split *e;

	if (!pkt || pkt->l4_off > TG_L4_OFF_MAX ||
	    !tg_host_ack_is_whole(pkt, (__u32)bpf_xdp_get_buff_len(ctx)))
		return XDP_PASS; /* the stack drops segments with false lengths */
	if (tg_tag_is_there(ctx, pkt))
		return TG_NEXT_UNTAG;
	if (pkt->flags & TG_TCP_SYN)
		return TG_NEXT_CASE;
	e = tg_split_find(server, pkt, TG_TO_SERVER);
	if (!e)
		return TG_NEXT_NEW;
	if ((e->state & (TG_SPLIT_READY | TG_FLOW_CLOSED)) != TG_SPLIT_READY ||
	    TG_UNLIKELY(tg_split_ack_jumps(e, pkt)))
		return TG_NEXT_CASE;
	return tg_server_ongoing(ctx, pkt, e);
}

/* An ACK that neither table nor tag knows, and whose options are laid out as usual: what
 * tg_server_case does with it, if it carries no cookie. TG_NEXT_CASE, with nothing done and
 * nothing counted, if it may carry one, or is anything else. */
TG_GLOBAL int tg_server_stray(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_server_settings *server = tg_server_get();
	struct tg_counter_row *row;
	struct tg_ack ack_info = {};
	struct tg_service *svc;
	__u64 epoch;
	__u32 id;

	if (!pkt || settings->smart || settings->four_epochs || !tg_host_is_ack(pkt))
		return TG_NEXT_CASE;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row)
		return XDP_PASS;
	if (server->adopt && tg_service_listener(svc, pkt->family) == TG_LISTENER_OK)
		return XDP_PASS; /* left to the adopting gate */
	if (!tg_service_verifies(svc))
		return XDP_PASS;
	ack_info.cookie.isn = pkt->ack - 1;
	if (pkt->tcp_hdr_len != TG_TCP_HDR_LEN) {
		const __u8 *at = (void *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX) +
				 TG_TCP_HDR_LEN;

		if (pkt->tcp_hdr_len < TG_TCP_HDR_LEN + 12 || at + 12 > (__u8 *)(long)ctx->data_end ||
		    !tg_tcp_timestamps_aligned(tg_load32(at), tg_load32(at + 4), tg_load32(at + 8),
					       &ack_info.tsval, &ack_info.cookie.tsval))
			return TG_NEXT_CASE;
		ack_info.ts_ok = true;
	}
	epoch = tg_cookie_epoch(ack_info.cookie.isn, tg_epoch_verifying_now(settings));
	if (tg_cookie_verify_at(tg_destination_of(pkt), pkt, ack_info.cookie, ack_info.ts_ok, epoch))
		return TG_NEXT_CASE;
	return tg_server_final_check(ctx, pkt, settings, server, svc, row);
}

/* The first of a segment's fragments. One that belongs to nothing is dropped as a whole segment
 * would be, and thereby the rest, which is then never reassembled; a SYN always is. What belongs to
 * something goes to the stack: a connection that is translated loses it, and its client retransmits
 * it. */
TG_GLOBAL int tg_server_fragment(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_server_settings *server = tg_server_get();
	struct tg_counter_row *row;
	struct tg_service *svc;
	__u32 id;

	if (!pkt)
		return XDP_PASS;
	id = tg_service_find(pkt);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || svc->mode != TG_MODE_ALWAYS)
		return XDP_PASS;
	if (tg_host_is_syn(pkt)) {
		tg_count(row, TG_COUNT_syn);
		tg_count(row, TG_COUNT_drop_fragment);
		return XDP_DROP;
	}
	if (!tg_host_is_ack(pkt) || tg_split_find(server, pkt, TG_TO_SERVER) ||
	    (server->adopt && tg_service_listener(svc, pkt->family) == TG_LISTENER_OK))
		return XDP_PASS;
	return tg_server_final_check(ctx, pkt, settings, server, svc, row);
}

/* What is no whole TCP segment. */
static __always_inline int tg_server_condemned(enum tg_parse_result parsed)
{
	struct tg_decision d = tg_host_judge_parse(parsed);
	const struct tg_host_settings *settings;
	struct tg_counter_row *row;

	if (TG_LIKELY(d.verdict != TG_DROP))
		return XDP_PASS;
	settings = tg_settings_get();
	row = tg_counter_row_get(0);
	if (!row)
		return XDP_PASS;
	tg_count(row, settings->enforce ? d.counter : TG_COUNT_would_drop);
	return settings->enforce ? XDP_DROP : XDP_PASS;
}

SEC("xdp.frags")
int tg_server_xdp(struct xdp_md *ctx)
{
	enum tg_parse_result parsed;
	struct tg_packet pkt = {};
	struct tg_case what = {};
	__u32 at, len;
	int verdict;

	parsed = tg_packet_parse(&pkt, (void *)(long)ctx->data, (void *)(long)ctx->data_end);
	if (TG_UNLIKELY(parsed != TG_PARSE_TCP)) {
		if (parsed == TG_PARSE_OTHER && pkt.l3_off)
			tg_server_icmp(ctx, pkt.l3_off);
		if (parsed == TG_PARSE_FRAGMENT && tg_port_is_protected(TG_DST_PORT_BE(&pkt)))
			return tg_server_fragment(ctx, &pkt);
		return tg_server_condemned(parsed);
	}
	if (!tg_port_is_protected(TG_DST_PORT_BE(&pkt)))
		return XDP_PASS;
	tg_frame_measure(ctx, &pkt);
	if (TG_UNLIKELY(tg_host_is_syn(&pkt))) {
		verdict = tg_server_syn(ctx, &pkt);
		return verdict & TG_NEXT_ANSWER
			       ? tg_server_answer(ctx, &pkt, (__u32)verdict & ~TG_NEXT_ANSWER)
			       : verdict;
	}
	verdict = tg_server_tcp(ctx, &pkt);
	if (verdict == TG_NEXT_NEW)
		verdict = tg_server_stray(ctx, &pkt);
	if (TG_LIKELY(verdict < TG_NEXT_CASE))
		return verdict;
	at = pkt.l4_off + TG_TCP_HDR_LEN;
	len = (__u32)pkt.tcp_hdr_len - TG_TCP_HDR_LEN;
	if (verdict == TG_NEXT_UNTAG) {
		tg_timestamps_at(ctx, at + TG_TAG_LEN, len - TG_TAG_LEN, &what.o);
		if (!tg_tag_judge(&pkt, tg_tag_take(ctx, &pkt, &what.o, &what.tag)))
			return XDP_DROP;
	} else {
		tg_timestamps_at(ctx, at, len, &what.o);
	}
	return tg_server_case(ctx, &pkt, &what);
}

char LICENSE[] SEC("license") = "GPL";
