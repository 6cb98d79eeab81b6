/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Makes and verifies cookies with the beginning of the hash that is remembered of a destination: to find the key and compute that
 * again is half of a flood's work.
 */
#ifndef TG_BPF_COOKIE_STATE_H
#define TG_BPF_COOKIE_STATE_H

#include "gate.h"

/* Begins the hash of a destination's cookies in an epoch, and remembers that. 0 if no key of the epoch is loaded. A function of its
 * own: few packets need it. */
TG_GLOBAL int tg_cookie_begin_at(struct tg_destination *d, __u64 epoch)
{
	const struct tg_siphash_key *key = tg_key_find(tg_settings_get(), epoch);
	struct tg_siphash s;

	if (!d || !key)
		return 0;
	s = tg_siphash_begin(key);
	if (d->family == 4) {
		tg_siphash_word(&s, tg_cookie_first((__u32)d->addr[0], epoch));
	} else {
		tg_siphash_word(&s, d->addr[0]);
		tg_siphash_word(&s, d->addr[1]);
	}
	d->begun[epoch & 1].epoch = epoch;
	d->begun[epoch & 1].after = s;
	return 1;
}

/* Where the same as tg_cookie_begin stands; NULL if no key of that epoch is loaded. */
static __always_inline const struct tg_begun *tg_cookie_begun(struct tg_destination *d, __u64 epoch)
{
	const struct tg_begun *begun = &d->begun[epoch & 1];

	if (TG_UNLIKELY(begun->epoch != epoch) && !tg_cookie_begin_at(d, epoch))
		return 0;
	return begun;
}

/* The same as tg_cookie_make, from what tg_cookie_begun gave. */
static __always_inline struct tg_cookie tg_cookie_make_begun(const struct tg_begun *begun,
							     const struct tg_packet *syn,
							     __u32 option_bits, bool ts_ok,
							     __u64 epoch)
{
	struct tg_siphash s = begun->after;

	return tg_cookie_make_end(&s, syn, option_bits, ts_ok, epoch);
}

/* The same as tg_cookie_verify of an ACK to this destination; false if no key of that epoch is loaded. */
static __always_inline bool tg_cookie_verify_at(struct tg_destination *d, const struct tg_packet *ack,
						struct tg_cookie cookie, bool ts_ok, __u64 epoch)
{
	const struct tg_begun *begun;
	struct tg_siphash s;

	if (!d)
		return false;
	begun = tg_cookie_begun(d, epoch);
	if (TG_UNLIKELY(!begun))
		return false;
	s = begun->after;
	return tg_cookie_verify_end(&s, ack, cookie, ts_ok, epoch);
}

#endif
