/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What the edge's slow path (edge_xdp.bpf.c) and its fast path (edge_fast.h) share: verify, take
 * from the allowance, refresh, set TTLs. Decides nothing that core/edge.h decides.
 */
#ifndef TG_BPF_EDGE_STEPS_H
#define TG_BPF_EDGE_STEPS_H

#include "ack_options.h"
#include "edge_tagged.h"
#include "intact.h"
#include "denied.h"
#ifdef TG_EDGE_SMART /* edge_smart.bpf.c */
#include "edge_smart.h"
#define TG_EDGE_LAYOUT_IS_SMART true
#else
#include "syn_forms.h"
#define TG_EDGE_FAST_SYN /* has the fast path of SYNs */
#define tg_edge_answer(ctx, syn, svc, offered, epoch, key)                                         \
	tg_syn_answer(ctx, syn, svc, offered, epoch)
#define TG_EDGE_LAYOUT_IS_SMART false
#define tg_edge_is_ours(settings, to, pkt, ack_info, epoch)                                        \
	tg_cookie_verify_at(to, pkt, (ack_info)->cookie, (ack_info)->ts_ok, epoch)
#endif

/* A flow that goes on is put into the active generation by the server's packets.
 * Where these take another path, one in so many of the client's does it. So few,
 * because a flood's false positives do it, too: at 256, a million a second carry
 * less than one position in a hundred from one generation to the next. */
#define TG_EDGE_SELF_REFRESH 256

/* What the functions below leave to the program itself, beside TG_NEXT_TAG. */
#define TG_NEXT_FORWARD 0x200
#define TG_NEXT_OLDER 0x300 /* call again, for cookies of two more epochs: core/keys.h */
#define TG_NEXT_CHALLENGE                                                                          \
	0x400 /* a SYN for the server's stack to challenge, within the allowance */
#define TG_NEXT_DROP 0x500 /* plus enum tg_counter */
#define TG_EDGE_ANSWER 8        /* the allowance is used up: answer */

/* Whether a packet to this destination that the filter does not know carries a cookie, of the epochs `back` before the
 * two that its parity bit distinguishes? */
static __always_inline enum tg_edge_finding tg_edge_verify(const struct tg_packet *pkt,
							   struct tg_destination *to,
							   const struct tg_ack *ack,
							   const struct tg_host_settings *settings,
							   __u64 back)
{
	__u64 now = tg_epoch_verifying_now(settings), epoch;

	epoch = tg_cookie_epoch(ack->cookie.isn, now) - back;
	if (tg_edge_is_ours(settings, to, pkt, ack, epoch))
		return TG_EDGE_VERIFIED;
	return tg_keys_fail_open(settings, now) ? TG_EDGE_NO_KEY : TG_EDGE_UNKNOWN;
}

/* The same by a call, for the slow path: as tg_cookie_is. */
TG_GLOBAL int tg_edge_verify_by_call(const struct tg_packet *pkt, const struct tg_ack *ack, __u64 back)
{
	const struct tg_host_settings *settings = tg_settings_get();

	return pkt && ack && settings
		       ? (int)tg_edge_verify(pkt, tg_destination_of(pkt), ack, settings, back)
		       : (int)TG_EDGE_UNKNOWN;
}

/* May what matches nothing still go on to the server? */
static __always_inline enum tg_edge_finding tg_edge_unknown(const struct tg_host_settings *settings,
							    const struct tg_edge_settings *edge)
{
	struct tg_allowance *a;
	__u32 zero = 0;
	__u64 now_ns;

	if (!edge->learning_until_ns && edge->unknown_cost_ns == TG_ALLOWANCE_NONE)
		return TG_EDGE_UNKNOWN; /* whatever the time is */
	now_ns = tg_clock_ns(settings);
	if (TG_UNLIKELY(now_ns < edge->learning_until_ns))
		return TG_EDGE_LEARNING;
	a = bpf_map_lookup_elem(&tg_allowances, &zero);
	return a && tg_allowance_take(a, edge->unknown_cost_ns, now_ns) ? TG_EDGE_ALLOWED
									: TG_EDGE_UNKNOWN;
}

/* True for a SYN of a flow that the filter knows. Inline for fast paths. */
static __always_inline bool tg_edge_syn_looks_known(const struct tg_packet *syn)
{
	const struct tg_edge_settings *edge = tg_edge_get();

	return edge && tg_bloom_look_for(tg_bloom_hash(syn, TG_BLOOM_FROM_CLIENT, &edge->bloom_key),
					 edge->bloom_bits & 31);
}

TG_GLOBAL int tg_edge_syn_is_known(const struct tg_packet *syn)
{
	return syn && tg_edge_syn_looks_known(syn);
}

/* May such a SYN go on to the server? `ttl` is what it has: what would not get there is
 * answered. */
static __always_inline bool tg_edge_syn_goes_on(__u8 ttl)
{
	const struct tg_edge_settings *edge = tg_edge_get();
	struct tg_allowance *a;
	__u32 zero = 0;

	if (tg_edge_expires(ttl, edge->hops))
		return false;
	a = bpf_map_lookup_elem(&tg_challenges, &zero);
	return a && tg_allowance_take(a, TG_EDGE_CHALLENGE_NS, TG_CLOCK_NS());
}

/* Every packet goes on with the same TTL; see core/edge.h. */
static __always_inline void tg_edge_set_ttl(struct xdp_md *ctx, const struct tg_packet *pkt, __u8 ttl)
{
	__u8 *ip = (void *)(long)ctx->data + (pkt->l3_off & 31);
	__u16 before;

	if (ip + TG_IPV4_HDR_LEN > (__u8 *)(long)ctx->data_end)
		return;
	if (pkt->family == 6) {
		ip[TG_IPV6_HOPS] = ttl;
		return;
	}
	before = tg_load16(ip + TG_IPV4_TTL); /* TTL and protocol */
	ip[TG_IPV4_TTL] = ttl;
	tg_store16(ip + TG_IPV4_SUM, tg_csum_update16(tg_load16(ip + TG_IPV4_SUM), before,
						      tg_load16(ip + TG_IPV4_TTL)));
}

/* Puts a flow into the active generation because of its client's packet, now and
 * then: only what the active one does not have. */
static __always_inline void tg_edge_self_refresh(const struct tg_edge_settings *edge,
						 const struct tg_bloom_at *at, __u32 generations,
						 struct tg_counter_row *row)
{
	if (TG_LIKELY(generations & 1U << (edge->generation & 3)) ||
	    bpf_get_prandom_u32() % TG_EDGE_SELF_REFRESH)
		return;
	tg_bloom_put(at, edge->generation);
	tg_count(row, TG_COUNT_edge_refreshed);
}

#endif
