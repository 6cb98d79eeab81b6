/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Makes and compares cookies by a call instead of inline, for slow paths: the verifier goes through
 * a hash once, and not once for every state in which a program comes to it. That is most of what it
 * has to look at when a role starts. Fast paths hash inline: a call costs about 20 instructions.
 */
#ifndef TG_BPF_COOKIE_CALL_H
#define TG_BPF_COOKIE_CALL_H

#include "cookie_state.h"

/* A cookie in one number. */
#define TG_COOKIE_PACKED(cookie) ((__u64)(cookie).tsval << 32 | (cookie).isn)
#define TG_COOKIE_UNPACKED(packed)                                                                 \
	((struct tg_cookie){.isn = (__u32)(packed), .tsval = (__u32)((packed) >> 32)})

TG_GLOBAL __u64 tg_cookie_made(const struct tg_packet *syn, __u32 option_bits, __u32 ts_ok,
			       __u64 epoch)
{
	const struct tg_begun *begun;
	struct tg_destination *d;
	struct tg_cookie cookie;

	if (!syn)
		return 0;
	d = tg_destination_of(syn);
	if (TG_UNLIKELY(!d)) /* tables have changed meanwhile: the caller sends what comes from here */
		d = tg_destination_of(syn);
	begun = d ? tg_cookie_begun(d, epoch) : 0;
	if (!begun)
		return 0;
	cookie = tg_cookie_make_begun(begun, syn, option_bits, ts_ok, epoch);
	return TG_COOKIE_PACKED(cookie);
}

/* The same as tg_cookie_make, in an epoch whose key the caller has found. */
static __always_inline struct tg_cookie tg_cookie_make_by_call(const struct tg_packet *syn,
							       __u32 option_bits, bool ts_ok,
							       __u64 epoch)
{
	__u64 made = tg_cookie_made(syn, option_bits, ts_ok, epoch);

	return TG_COOKIE_UNPACKED(made);
}

/* The same as tg_cookie_verify; `packed`: the cookie. 0 if no key of that epoch is loaded. */
TG_GLOBAL int tg_cookie_is(const struct tg_packet *ack, __u64 packed, __u32 ts_ok, __u64 epoch)
{
	return ack && tg_cookie_verify_at(tg_destination_of(ack), ack, TG_COOKIE_UNPACKED(packed),
					  ts_ok, epoch);
}

/* The same as tg_synack_agree, whose many outcomes the verifier would follow one by one. `answer` is all
 * zero before: Linux 6.1 lets no function write to stack that has not been written. */
TG_GLOBAL int tg_synack_agreed(const struct tg_packet *syn, const struct tg_tcp_options *offered,
			       const struct tg_service *svc, struct tg_synack *answer)
{
	if (syn && offered && svc && answer)
		*answer = tg_synack_agree(syn, offered, svc);
	return 0;
}

#endif
