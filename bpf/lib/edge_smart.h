/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The edge's cookies in the layout smartcookie (core/cookie_smartcookie.h), for fleets
 * in which switches are edges, too: an ACK of a switch's cookie may come to this edge, and
 * the other way round. tg_keys holds the keys of that layout.
 *
 * Must never: offer what the layout cannot restore (SACK, timestamps, ECN).
 */
#ifndef TG_BPF_EDGE_SMART_H
#define TG_BPF_EDGE_SMART_H

#include "edge_tagged.h"
#include "smart_call.h"

static __always_inline struct tg_halfsiphash_key tg_smart_key(const struct tg_siphash_key *key)
{
	return (struct tg_halfsiphash_key){.k0 = (__u32)key->k0, .k1 = (__u32)(key->k0 >> 32)};
}

/* As tg_syn_answer of syn.h. */
static __always_inline bool tg_edge_answer(struct xdp_md *ctx, const struct tg_packet *syn,
					   const struct tg_service *svc,
					   const struct tg_tcp_options *offered, __u64 epoch,
					   const struct tg_siphash_key *key)
{
	struct tg_service offers = *svc;
	struct tg_cookie cookie = {};
	struct tg_synack answer;
	__u8 *data, *end;

	offers.sack = offers.timestamps = offers.ecn = 0;
	answer = tg_synack_agree(syn, offered, &offers);
	cookie.isn = tg_smart_made(syn, answer.option_bits, epoch, key);
	if (!tg_frame_resize(ctx, syn->l3_off + tg_synack_len(syn, &answer)))
		return false;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + TG_ETH_HDR_LEN > end ||
	    !tg_synack_write((struct tg_writer){data + (syn->l3_off & 31), end}, syn, &answer, cookie))
		return false;
	tg_ethernet_reflect(data);
	return true;
}

/* True if the cookie in the ACK was made in `epoch`, whose key is loaded. */
static __always_inline bool tg_edge_is_ours(const struct tg_host_settings *settings,
					    const struct tg_destination *to,
					    const struct tg_packet *pkt, const struct tg_ack *ack,
					    __u64 epoch)
{
	const struct tg_siphash_key *key = tg_key_find(settings, epoch);
	struct tg_halfsiphash_key half;

	(void)ack;
	(void)to;
	if (!key)
		return false;
	half = tg_smart_key(key);
	return tg_smart_verify(pkt, epoch, &half);
}

#endif
