/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * A SYN that reaches a translating server: no edge has answered it, because there is none, or it
 * has been taken down. The server then answers as an edge would, with a cookie under the keys that
 * it has anyway; the ACK verifies as one from behind an edge.
 *
 * Must never: answer a frame that is not addressed to this machine.
 */
#ifndef TG_BPF_SERVER_SYN_H
#define TG_BPF_SERVER_SYN_H

#include "across.h"
#include "cookie_check.h"
#include "fib.h"
#include "ingress.h"
#include "intact.h"
#include "reflect.h"
#include "source_list.h"
#include "reply.h"
#include "server_maps.h"
#include "signed.h"
#include "smart_call.h"
#include "syn.h"
#include "../../core/proxy.h"

/* The MAC addresses of this machine's interfaces, by index, first byte lowest. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} tg_own_macs SEC(".maps");

static __always_inline bool tg_frame_is_ours(struct xdp_md *ctx)
{
	const __u8 *mac = (void *)(long)ctx->data;
	__u32 ifindex = tg_ingress(ctx);
	__u64 *own = bpf_map_lookup_elem(&tg_own_macs, &ifindex);

	if (!own || mac + TG_ETH_HDR_LEN > (__u8 *)(long)ctx->data_end)
		return false;
	return *own == ((__u64)tg_load16(mac + TG_MAC_LO) << 32 | tg_load32(mac));
}

/* True if a SYN goes to a closed port of this machine: the kernel refuses it. An address that the
 * kernel would forward to is a guest's, whose ports are not known here. */
TG_GLOBAL int tg_server_is_closed(struct xdp_md *ctx, const struct tg_packet *syn)
{
	struct bpf_fib_lookup fib = {};
	struct bpf_sock *sk;
	long route;

	if (!syn)
		return 0;
	sk = tg_socket_find(ctx, syn);
	if (sk) {
		bpf_sk_release(sk);
		return 0;
	}
	fib.l4_protocol = TG_IPPROTO_TCP;
	fib.ifindex = tg_ingress(ctx);
	tg_fib_between(&fib, syn->family, &syn->src, &syn->dst);
	route = bpf_fib_lookup(ctx, &fib, sizeof(fib), BPF_FIB_LOOKUP_SKIP_NEIGH);
	return route == BPF_FIB_LKUP_RET_NOT_FWDED || route == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

/* The state of this machine's socket for the segment, BPF_TCP_LISTEN if only a listener
 * is there, 0 if nothing is. */
TG_GLOBAL int tg_server_socket_state(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	struct bpf_sock *sk;
	int state;

	if (!pkt)
		return 0;
	sk = tg_socket_find(ctx, pkt);
	if (!sk)
		return 0;
	state = (int)sk->state;
	bpf_sk_release(sk);
	return state;
}

enum tg_syn_of {
	TG_SYN_OF_NOBODY,
	/* A connection that is translated and lives: the stack challenges the SYN, and what the client
	 * answers says whether that may end (RFC 5961, section 4). */
	TG_SYN_OF_LIVE,
	/* Ours, for the stack, which has just reset an older connection: generic XDP meets it. */
	TG_SYN_OF_GATE,
};

/* enum tg_syn_of. */
TG_GLOBAL int tg_server_syn_of(struct xdp_md *ctx, const struct tg_packet *syn)
{
	const struct tg_server_settings *server = tg_server_get();
	const struct tg_split *e;
	int state;

	if (!syn)
		return 0;
	e = tg_split_find(server, syn, TG_TO_SERVER);
	if (TG_LIKELY(!e))
		return TG_SYN_OF_NOBODY;
	if (!(e->state & TG_SPLIT_READY))
		return server->generic && e->state & TG_SPLIT_RESET_OLDER && syn->seq == e->client_isn
			       ? TG_SYN_OF_GATE
			       : TG_SYN_OF_NOBODY;
	/* Both sides have ended, and the last ACK may be in this batch, before the SYN: the socket is still there, and is not when the SYN
	 * comes to the stack, whose listener would answer it. After a RST it is there, if it did not believe it. */
	if ((e->state & (TG_FLOW_CLOSED | TG_FLOW_RESET)) == TG_FLOW_CLOSED)
		return TG_SYN_OF_NOBODY;
	state = tg_server_socket_state(ctx, syn);
	return state && state != BPF_TCP_LISTEN && state != BPF_TCP_TIME_WAIT ? TG_SYN_OF_LIVE
									      : TG_SYN_OF_NOBODY;
}

/* The SYN is one that we answer; plus the interface, if the answer leaves by another one. */
#define TG_NEXT_ANSWER 0x40000000

/* Has the answer to a SYN go where the kernel's route leads: TG_NEXT_ANSWER..., or XDP_DROP. An answer
 * goes to the SYN's sender, so the sender is written. No SYN is left to the kernel: the ACK that
 * completed its handshake would carry no cookie of ours. */
TG_GLOBAL int tg_server_route(struct xdp_md *ctx, const struct tg_packet *syn, __u32 id)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row = tg_counter_row_get(id);
	struct tg_decision d;
	__u8 *frame;
	__u64 route;

	if (!syn || !row)
		return TG_NEXT_ANSWER;
	route = tg_reply_for(ctx, syn);
	if (TG_LIKELY(TG_REPLY_KIND(route) == TG_REPLY_BACK))
		return TG_NEXT_ANSWER;
	/* Any listener may be translated for by the time the ACK comes. */
	if (TG_REPLY_KIND(route) == TG_REPLY_ACROSS)
		route = tg_across_route(settings, route, TG_TAKEOVER_TRANSLATE);
	d = tg_reply_judge(TG_REPLY_KIND(route), false, false);
	tg_count(row, d.counter);
	if (d.verdict != TG_REPLY)
		return XDP_DROP;
	if (d.counter == TG_COUNT_reply_across)
		return (int)(TG_NEXT_ANSWER | (__u32)route);
	frame = (void *)(long)ctx->data;
	if (frame + TG_ETH_HDR_LEN <= (__u8 *)(long)ctx->data_end)
		tg_reply_address(frame + TG_ETH_SRC, route);
	return TG_NEXT_ANSWER;
}

/* What becomes of a SYN to a protected port: an XDP verdict, or TG_NEXT_ANSWER.... This function and
 * the next are separate for the verifier, and not nested, for the stack. */
TG_GLOBAL int tg_server_syn(struct xdp_md *ctx, const struct tg_packet *syn)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_decision d;
	enum tg_syn_of of;
	__u32 id;

	if (!syn)
		return XDP_PASS;
	id = tg_service_find(syn);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!id || !row || svc->mode != TG_MODE_ALWAYS || !tg_frame_is_ours(ctx))
		return XDP_PASS;
	tg_count(row, TG_COUNT_syn);
	d = tg_service_listener(svc, syn->family) == TG_LISTENER_NONE || tg_server_is_closed(ctx, syn)
		    ? TG_DECIDE(TG_PASS, TG_COUNT_pass_listener)
		    : tg_proxy_judge_syn(syn, TG_PARSE_TCP, (__u32)bpf_xdp_get_buff_len(ctx));
	if (d.verdict == TG_REPLY)
		d = tg_host_judge_intact(tg_intact(ctx, syn));
	if (d.verdict == TG_REPLY && !tg_key_find(settings, tg_epoch_now(settings)))
		d = tg_host_judge_no_key(settings->stale_keys);
	if (d.verdict == TG_REPLY && TG_UNLIKELY((of = (enum tg_syn_of)tg_server_syn_of(ctx, syn)))) {
		if (of == TG_SYN_OF_GATE)
			return XDP_PASS;
		d = TG_DECIDE(TG_PASS, TG_COUNT_syn_challenged);
	}
	/* Last: what comes again to generic XDP is a SYN of ours, whose client an edge has let in. */
	if (d.verdict == TG_REPLY)
		d = tg_list_judge(tg_listed(settings, syn->family, &syn->src));
	if (d.verdict == TG_REPLY)
		return tg_server_route(ctx, syn, id);
	tg_count(row, d.counter);
	return d.verdict == TG_DROP ? XDP_DROP : XDP_PASS;
}

/* Turns the SYN into the answer, in the layout in use. */
static __always_inline struct tg_decision tg_server_write_answer(
	struct xdp_md *ctx, const struct tg_packet *syn, const struct tg_service *svc,
	const struct tg_tcp_options *offered, const struct tg_host_settings *settings)
{
	__u64 epoch = tg_epoch_now(settings);
	const struct tg_siphash_key *key = tg_key_find(settings, epoch);
	struct tg_synack answer = {};
	struct tg_cookie cookie = {};
	__u8 *data, *end;

	if (!key)
		return tg_host_judge_no_key(settings->stale_keys); /* it ended this moment */
	tg_synack_agreed(syn, offered, svc, &answer);
	if (settings->smart) {
		cookie.isn = tg_smart_made(syn, answer.option_bits, epoch, key);
	} else {
		cookie = tg_cookie_make_by_call(syn, answer.option_bits, answer.options.ts_ok, epoch);
	}
	if (!tg_frame_resize(ctx, syn->l3_off + tg_synack_len(syn, &answer)))
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_tx);
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + TG_ETH_HDR_LEN > end ||
	    !tg_synack_write((struct tg_writer){data + (syn->l3_off & 31), end}, syn, &answer, cookie))
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_tx);
	tg_ethernet_reflect(data);
	return TG_DECIDE(TG_REPLY, TG_COUNT_cookie_sent);
}

/* Answers the SYN for which tg_server_syn returned TG_NEXT_ANSWER, by another interface (`across`) or, if that is 0, by
 * the one that it came in by. */
TG_GLOBAL int tg_server_answer(struct xdp_md *ctx, const struct tg_packet *syn, __u32 across)
{
	const struct tg_host_settings *settings = tg_settings_get();
	struct tg_tcp_options offered = {};
	struct tg_counter_row *row;
	struct tg_service *svc;
	struct tg_decision d;
	__u32 id;

	if (!syn || syn->l4_off > TG_L4_OFF_MAX)
		return XDP_PASS;
	id = tg_service_find(syn);
	svc = tg_service_at(id);
	row = tg_counter_row_get(id);
	if (!row)
		return XDP_PASS;
	if (!tg_syn_options(ctx, syn, &offered)) {
		tg_count(row, TG_COUNT_drop_malformed);
		return XDP_DROP;
	}
	if (TG_UNLIKELY(offered.auth)) {
		int verdict = tg_signed_syn(offered.auth, id);

		if (verdict != TG_REPLY)
			return verdict == TG_DROP ? XDP_DROP : XDP_PASS;
	}
	if (tg_reflect_limits(settings, syn->family, &syn->src)) {
		tg_count(row, TG_COUNT_drop_reflected);
		return XDP_DROP;
	}
	d = tg_server_write_answer(ctx, syn, svc, &offered, settings);
	tg_count(row, d.counter);
	if (TG_UNLIKELY(across) && d.verdict == TG_REPLY) {
		__u8 *frame = (void *)(long)ctx->data;

		if (frame + TG_ETH_HDR_LEN > (__u8 *)(long)ctx->data_end)
			return XDP_DROP;
		tg_across_address(frame, settings, across);
		return XDP_PASS;
	}
	return d.verdict == TG_REPLY ? XDP_TX : d.verdict == TG_DROP ? XDP_DROP : XDP_PASS;
}

#endif
