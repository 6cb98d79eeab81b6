/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What an ACK of the slow path brings back: its options, whether its cookie is ours, in the layout
 * that is set, and what that cookie says was agreed.
 */
#ifndef TG_BPF_ACK_COOKIE_H
#define TG_BPF_ACK_COOKIE_H

#include "ack_options.h"
#include "cookie_call.h"
#include "gate.h"
#include "../../core/cookie_smartcookie.h"

enum tg_ack_result { TG_ACK_INVALID, TG_ACK_STALE, TG_ACK_VALID, TG_ACK_NO_KEY };

/* The layout smartcookie, of gates that are switches: 1 if the cookie is one that such
 * a gate made. */
TG_GLOBAL int tg_smart_check(const struct tg_packet *pkt, const struct tg_siphash_key *key,
			     __u64 epoch)
{
	struct tg_halfsiphash_key half;

	if (!pkt || !key)
		return 0;
	half.k0 = (__u32)key->k0;
	half.k1 = (__u32)(key->k0 >> 32);
	return tg_smart_verify(pkt, epoch, &half);
}

/* True if what came back was made in `epoch`, in the layout that is set. */
static __always_inline bool tg_ack_is_ours(const struct tg_host_settings *settings,
					   const struct tg_packet *pkt, const struct tg_ack *ack,
					   __u64 epoch, const struct tg_siphash_key *key)
{
	if (settings->smart)
		return tg_smart_check(pkt, key, epoch);
	return tg_cookie_is(pkt, TG_COOKIE_PACKED(ack->cookie), ack->ts_ok, epoch);
}

/* What a verified cookie says. A switch offers no timestamps, so any that the ACK carries were not
 * negotiated. */
static __always_inline struct tg_agreed tg_ack_agreed(const struct tg_host_settings *settings,
						      const struct tg_packet *pkt,
						      const struct tg_ack *ack)
{
	if (settings->smart)
		return tg_cookie_agreed(pkt->family, tg_smart_claimed_bits(ack->cookie.isn), false);
	return tg_cookie_agreed(pkt->family, tg_cookie_claimed_bits(ack->cookie, ack->ts_ok),
				ack->ts_ok);
}

static __always_inline enum tg_ack_result tg_ack_verify(const struct tg_host_settings *settings,
							const struct tg_packet *pkt,
							const struct tg_ack *ack, bool look_for_stale)
{
	__u64 now = tg_epoch_verifying_now(settings);
	__u64 epoch = tg_cookie_epoch(ack->cookie.isn, now);
	const struct tg_siphash_key *key = tg_key_find(settings, epoch);

	if (key && tg_ack_is_ours(settings, pkt, ack, epoch, key))
		return TG_ACK_VALID;
	if (!key)
		return TG_ACK_NO_KEY;
	if (!look_for_stale && !settings->four_epochs)
		return TG_ACK_INVALID;
	/* The same parity, two epochs earlier: only to report "too late", unless clocks may differ
	 * by so much. */
	key = tg_key_find(settings, epoch - TG_EPOCHS_OLDER);
	if (key && tg_ack_is_ours(settings, pkt, ack, epoch - TG_EPOCHS_OLDER, key))
		return settings->four_epochs ? TG_ACK_VALID : TG_ACK_STALE;
	return TG_ACK_INVALID;
}

/* What the ACK's options say. False if they lie about their length. */
static __always_inline bool tg_ack_read(struct __sk_buff *skb, const struct tg_packet *pkt,
					struct tg_ack *ack)
{
	/* Bounded again: the verifier forgets the bounds of a packet that was passed to a function. */
	const __u8 *options = (void *)(long)skb->data + TG_BOUND(pkt->l4_off, TG_L4_OFF_MAX + 1) +
			      TG_TCP_HDR_LEN;
	const __u8 *end = (void *)(long)skb->data_end;
	__u32 len = pkt->tcp_hdr_len - TG_TCP_HDR_LEN;
	struct tg_tcp_options o = {};

	if (!tg_host_ack_is_whole(pkt, skb->len))
		return false;
	ack->cookie.isn = pkt->ack - 1;
	ack->ts_ok = false;
	if (len == 0)
		return true;
	if (len >= 12 && options + 12 <= end &&
	    tg_tcp_timestamps_aligned(tg_load32(options), tg_load32(options + 4),
				      tg_load32(options + 8), &ack->tsval, &ack->cookie.tsval)) {
		ack->ts_ok = true;
		return true;
	}
	if (!tg_ack_options(skb, pkt->l4_off + TG_TCP_HDR_LEN, len, &o))
		return false;
	*ack = tg_host_read_ack(pkt, &o);
	return true;
}

#endif
