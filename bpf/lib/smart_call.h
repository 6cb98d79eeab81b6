/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * cookie_call.h for the layout smartcookie.
 */
#ifndef TG_BPF_SMART_CALL_H
#define TG_BPF_SMART_CALL_H

#include "gate.h"
#include "../../core/cookie_smartcookie.h"

/* The same as tg_smart_make. */
TG_GLOBAL __u32 tg_smart_made(const struct tg_packet *syn, __u32 option_bits, __u64 epoch,
			      const struct tg_siphash_key *key)
{
	struct tg_halfsiphash_key half;

	if (!syn || !key)
		return 0;
	half.k0 = (__u32)key->k0;
	half.k1 = (__u32)(key->k0 >> 32);
	return tg_smart_make(syn, option_bits, epoch, &half);
}

#endif
