/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the answers of all strategies share: reading the packet, opening a flow, and what becomes of
 * packets without a flow.
 */
#ifndef TG_BPF_PROXY_ANSWER_COMMON_H
#define TG_BPF_PROXY_ANSWER_COMMON_H

#include "proxy_forward.h"
#include "intact.h"

/* What is left to the program itself: the stacks of nested functions add up to at most 512 bytes. */
enum tg_next {
	TG_NEXT_SETUP_CLIENT = 16,
	TG_NEXT_SETUP_SERVER,
	TG_NEXT_LATE, /* of a flow that is ready by now */
	TG_NEXT_OPEN, /* the server's SYN-ACK, which the client's first segment answers */
	TG_NEXT_OPEN_BOTH, /* the same, which the box answers */
	TG_NEXT_CASE,
	TG_NEXT_UNVERIFIED, /* likewise; its source is not on the whitelist */
	TG_NEXT_FLOWLESS, /* likewise; no table has a flow of its tuple */
	TG_NEXT_OTHER,
	TG_NEXT_OTHER_FLOWLESS,
	TG_NEXT_PROBE, /* the same once more, treating the packet as a window probe */
	TG_NEXT_AUTH_SYN,
	TG_NEXT_CHALLENGE,
	TG_NEXT_COOKIE_SYN,
	TG_NEXT_CACHE_SYN,
	TG_NEXT_CACHE_ANSWER, /* the place stands above the service */
	TG_NEXT_CACHE_OTHER,
	TG_NEXT_BEGIN, /* tg_next_flow is to be opened */
};

/* What is left to the program may be about a service: its id stands above. */
#define TG_NEXT_OF(next, service) ((int)((next) | (service) << 8))
#define TG_NEXT_WHAT(verdict) ((__u32)(verdict) & 255)
#define TG_NEXT_SERVICE(verdict) ((__u32)(verdict) >> 8)

/* What the slow path knows of the packet in hand, for which the stack has no room beside the fast path of
 * SYNs. Programs of one CPU do not interrupt each other. */
struct tg_in_hand {
	struct tg_packet pkt;
	struct tg_options_cursor options;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_in_hand);
} tg_in_hand SEC(".maps");

static __always_inline struct tg_in_hand *tg_in_hand_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&tg_in_hand, &zero);
}

static __always_inline __u8 tg_packet_ttl(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	bool may_fragment;
	__u8 ttl = 0;

	tg_ip_ttl((void *)(long)ctx->data, (void *)(long)ctx->data_end, pkt, &ttl, &may_fragment);
	return ttl;
}

/* The options of the packet in hand, in any order and number. */
TG_GLOBAL int tg_noflow_options_any(struct xdp_md *ctx, const struct tg_packet *pkt,
				    struct tg_tcp_options *o)
{
	struct tg_in_hand *hand = tg_in_hand_get();
	__u32 len;

	if (!pkt || !o || !hand)
		return -TG_EINVAL;
	len = (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	if (len > TG_TCP_OPTIONS_MAX_LEN)
		return -TG_EINVAL;
	if (len && bpf_xdp_load_bytes(ctx, pkt->l4_off + TG_TCP_HDR_LEN, hand->options.bytes, len))
		return -TG_EINVAL;
	hand->options.at = 0;
	hand->options.len = len;
	return tg_options_read(&hand->options, o);
}

/* The options of the packet in hand. Negative if they lie about their length. */
static __always_inline int tg_noflow_options(struct xdp_md *ctx, const struct tg_packet *pkt,
					     struct tg_tcp_options *o)
{
	const __u8 *at = (void *)(long)ctx->data + (pkt->l4_off & TG_L4_OFF_MAX) + TG_TCP_HDR_LEN;

	return TG_LIKELY(tg_tcp_options_common(at, (__u32)pkt->tcp_hdr_len - TG_TCP_HDR_LEN,
					       (void *)(long)ctx->data_end, o))
		       ? 0
		       : tg_noflow_options_any(ctx, pkt, o);
}

/* What an ACK says that tg_proxy_may_prove, and its window field. False if its options lie
 * about their length. */
static __always_inline bool tg_noflow_read_ack(struct xdp_md *ctx, const struct tg_packet *ack,
					       struct tg_ack *ack_info, __u16 *window)
{
	const __u8 *tcp = (void *)(long)ctx->data + (ack->l4_off & TG_L4_OFF_MAX);
	struct tg_tcp_options o = {};

	if (tcp + TG_TCP_HDR_LEN > (const __u8 *)(long)ctx->data_end)
		return false;
	*window = tg_swap16(tg_load16(tcp + TG_TCP_WINDOW));
	if (ack->tcp_hdr_len == TG_TCP_HDR_LEN + 12 &&
	    tcp + TG_TCP_HDR_LEN + 12 <= (const __u8 *)(long)ctx->data_end &&
	    tg_tcp_timestamps_aligned(tg_load32(tcp + TG_TCP_HDR_LEN),
				      tg_load32(tcp + TG_TCP_HDR_LEN + 4),
				      tg_load32(tcp + TG_TCP_HDR_LEN + 8), &o.tsval, &o.tsecr))
		o.ts_ok = true;
	else if (ack->tcp_hdr_len != TG_TCP_HDR_LEN && tg_noflow_options_any(ctx, ack, &o))
		return false;
	*ack_info = tg_host_read_ack(ack, &o);
	return true;
}

/* True if the bare segment in hand is intact, without IP options and with no options but timestamps; all
 * that cannot be told at once is left to tg_intact. */
static __always_inline bool tg_noflow_intact_bare(struct xdp_md *ctx, const struct tg_packet *pkt)
{
	const __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u8 *ip = data + (pkt->l3_off & 31), *tcp = data + (pkt->l4_off & TG_L4_OFF_MAX);
	__u64 sum;

	if (pkt->l4_len != pkt->tcp_hdr_len || tcp + TG_TCP_HDR_LEN > end)
		return false;
	if (pkt->family == 4 &&
	    (pkt->l4_off - pkt->l3_off != TG_IPV4_HDR_LEN || ip + TG_IPV4_HDR_LEN > end ||
	     tg_csum_fold_words(tg_intact_words(ip, TG_IPV4_HDR_LEN / 4)) != 0xffff))
		return false;
	sum = tg_intact_words(tcp, TG_TCP_HDR_LEN / 4);
	if (pkt->tcp_hdr_len == TG_TCP_HDR_LEN + 12) {
		if (tcp + TG_TCP_HDR_LEN + 12 > end)
			return false;
		sum += tg_intact_words(tcp + TG_TCP_HDR_LEN, 3);
	} else if (pkt->tcp_hdr_len != TG_TCP_HDR_LEN) {
		return false;
	}
	return tg_csum_fold_words(tg_intact_pseudo(pkt) + sum) == 0xffff;
}

/* False, and counted, if the packet, for which state would be stored, is not intact. */
static __always_inline bool tg_noflow_intact(struct xdp_md *ctx, const struct tg_packet *pkt,
					     struct tg_counter_row *row)
{
	struct tg_decision d;

	if (TG_LIKELY(tg_noflow_intact_bare(ctx, pkt)))
		return true;
	d = tg_host_judge_intact(tg_intact(ctx, pkt));
	if (TG_LIKELY(d.verdict == TG_REPLY))
		return true;
	tg_count(row, d.counter);
	return false;
}

/* clang 19 takes "one of two fields" of an aligned object on the stack for "address or
 * offset", which the verifier does not let it do with a pointer; so it must not see
 * that it is aligned. */
static __always_inline const struct tg_service *tg_advertised_hidden(const struct tg_service *advertised)
{
	TG_HIDE(advertised);
	return advertised;
}

/* What clients of the packet's server are offered. */
TG_GLOBAL int tg_advertised(const struct tg_packet *pkt, __u32 id, struct tg_service *advertised)
{
	const struct tg_proxy_service *proxy_cfg = tg_strategy_at(id);
	const struct tg_service *svc = tg_service_at(id);
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_learned l;
	__u64 gives;

	if (!pkt || !advertised)
		return -TG_EINVAL;
	gives = tg_server_known(proxy, pkt, true);
	l = tg_learned_of(gives);
	*advertised = tg_proxy_advertised(svc, proxy_cfg, gives ? &l : 0, pkt->family);
	return 0;
}

/* Opens the flow in tg_next_flow for the ACK that has verified, and sends the server a SYN in its
 * place. */
TG_GLOBAL int tg_flow_begin(struct xdp_md *ctx, struct tg_packet *ack)
{
	const struct tg_proxy_settings *proxy = tg_proxy_get();
	struct tg_flow *flow = tg_next_flow_get(), copy;
	struct tg_server_key key;
	struct tg_learned *known;
	struct tg_counter_row *row;
	struct tg_segment syn;
	bool again;

	if (!ack || !flow)
		return XDP_DROP;
	row = tg_counter_row_get(flow->service);
	if (!row)
		return XDP_DROP;
	if (!tg_lately_admitted(ack, true)) {
		tg_count(row, TG_COUNT_flow_share);
		return XDP_DROP;
	}
	key = tg_server_key(ack, false);
	known = bpf_map_lookup_elem(&tg_servers, &key);
	tg_flow_prepare(flow, ack, known, tg_now_ms(), tg_port_tag(proxy, tg_ingress(ctx)));
	if (!tg_flow_insert(ack, flow, &again)) {
		tg_count(row, TG_COUNT_flow_full);
		return XDP_DROP;
	}
	if (TG_UNLIKELY(again))
		tg_near_forget_both(ack);
	tg_count(row, TG_COUNT_flow_opened);
	copy = *flow;
	syn = tg_flow_syn(ack, &copy, tg_flow_syn_isn(&copy, &proxy->ask_key), false);
	return tg_segment_send(ctx, ack, &syn, proxy);
}

/* An ACK or a RST that has opened nothing; `f` is a flow of its tuple, or NULL, `counter` what
 * is counted if it goes on. */
static __always_inline int tg_unknown_other(struct xdp_md *ctx, struct tg_packet *pkt,
					    struct tg_flow *f, enum tg_counter counter,
					    struct tg_counter_row *row)
{
	switch (tg_proxy_unknown(f)) {
	case TG_UNKNOWN_DROP:
		return XDP_DROP;
	case TG_UNKNOWN_TRANSLATE:
		return TG_NEXT_SETUP_CLIENT;
	default:
		tg_count(row, counter);
		return tg_forward(ctx, pkt);
	}
}

#endif
