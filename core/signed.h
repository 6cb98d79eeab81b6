/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What becomes of a SYN that carries TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925), once it would be
 * answered with a cookie. Only the server has the key, so a gate cannot distinguish a genuine one
 * from a flood's: letting them pass would let any flood pass that adds eighteen bytes. So they are
 * answered like any other, unless the service says otherwise, and pass only within an allowance.
 *
 * Must never: let a SYN pass only because of what it claims.
 */
#ifndef TG_SIGNED_H
#define TG_SIGNED_H

#include "allowance.h"
#include "host.h"

/* True if the allowance of the service has to be checked, which uses some of it up. */
TG_INLINE bool tg_signed_asks(uint32_t auth, uint32_t signed_cost_us)
{
	return (auth == TG_AUTH_MD5 || auth == TG_AUTH_AO) && signed_cost_us != TG_SIGNED_ANSWER &&
	       signed_cost_us != TG_SIGNED_DROP;
}

/* `auth` is enum tg_tcp_auth; `allowed` the result of the allowance, if it was asked. TG_REPLY:
 * answer it, which is counted beside the counter here. */
TG_INLINE struct tg_decision tg_signed_judge(uint32_t auth, uint32_t signed_cost_us, bool allowed)
{
	if (auth == TG_AUTH_MALFORMED)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_auth_option);
	if (auth != TG_AUTH_MD5 && auth != TG_AUTH_AO)
		return TG_DECIDE(TG_REPLY, TG_COUNT_NOTHING);
	if (signed_cost_us == TG_SIGNED_DROP)
		return TG_DECIDE(TG_DROP, TG_COUNT_drop_signed);
	if (signed_cost_us == TG_SIGNED_ANSWER)
		return TG_DECIDE(TG_REPLY, TG_COUNT_signed_answered);
	return allowed ? TG_DECIDE(TG_PASS, TG_COUNT_pass_signed)
		       : TG_DECIDE(TG_REPLY, TG_COUNT_signed_excess);
}

/* The same with the allowance, where its clock costs nothing. */
TG_INLINE struct tg_decision tg_signed_judge_at(uint32_t auth, uint32_t signed_cost_us,
						struct tg_allowance *a, uint64_t now_ns)
{
	bool allowed = tg_signed_asks(auth, signed_cost_us) &&
		       tg_allowance_take(a, (uint64_t)signed_cost_us * 1000, now_ns);

	return tg_signed_judge(auth, signed_cost_us, allowed);
}

#endif
