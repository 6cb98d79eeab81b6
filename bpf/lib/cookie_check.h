/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Verifies cookies by a call instead of inline: for programs whose functions have no room left on
 * the stack (512 bytes for all nested ones), of which SipHash needs much.
 */
#ifndef TG_BPF_COOKIE_CHECK_H
#define TG_BPF_COOKIE_CHECK_H

#include "cookie_state.h"
#include "../../core/cookie_smartcookie.h"

/* TG_STACK_IS_FULL: the program's deepest call is here, and Linux 6.1 leaves it no room to look up a destination
 * (internal/plane/stack_test.go). */
static __always_inline int tg_cookie_check_at(const struct tg_packet *pkt,
					      const struct tg_ack *ack_info, __u64 back)
{
	const struct tg_host_settings *settings = tg_settings_get();
#ifdef TG_STACK_IS_FULL
	const struct tg_siphash_key *key;
#endif
	__u64 epoch;

	if (!pkt || !ack_info || (back && !settings->four_epochs))
		return 0;
	epoch = tg_cookie_epoch(ack_info->cookie.isn, tg_epoch_verifying_now(settings)) - back;
#ifdef TG_STACK_IS_FULL
	key = tg_key_find(settings, epoch);
	return key && tg_cookie_verify(pkt, ack_info->cookie, ack_info->ts_ok, epoch, key);
#else
	return tg_cookie_verify_at(tg_destination_of(pkt), pkt, ack_info->cookie, ack_info->ts_ok,
				   epoch);
#endif
}

/* 1 if the cookie in `said`, which the ACK `pkt` brings, was made recently by a gate of this fleet.
 * If the epoch's key is missing, none verifies. */
TG_GLOBAL int tg_cookie_check(const struct tg_packet *pkt, const struct tg_ack *ack_info)
{
	return tg_cookie_check_at(pkt, ack_info, 0);
}

#ifdef TG_FOUR_EPOCHS
/* Likewise, of the two epochs before those. A function of its own: two hashes in one
 * have no room on the stack. */
TG_GLOBAL int tg_cookie_check_older(const struct tg_packet *pkt, const struct tg_ack *ack_info)
{
	return tg_cookie_check_at(pkt, ack_info, TG_EPOCHS_OLDER);
}
#endif

/* The same for the layout smartcookie, which hashes nothing that is not in the headers;
 * of the epochs `back` before. */
TG_GLOBAL int tg_smart_check(const struct tg_packet *pkt, __u64 back)
{
	const struct tg_host_settings *settings = tg_settings_get();
	const struct tg_siphash_key *key;
	struct tg_halfsiphash_key half;
	__u64 epoch;

	if (!pkt || (back && !settings->four_epochs))
		return 0;
	epoch = tg_cookie_epoch(pkt->ack - 1, tg_epoch_verifying_now(settings)) - back;
	key = tg_key_find(settings, epoch);
	if (!key)
		return 0;
	half.k0 = (__u32)key->k0;
	half.k1 = (__u32)(key->k0 >> 32);
	return tg_smart_verify(pkt, epoch, &half);
}

#endif
