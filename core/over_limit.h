/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Which sources are above their limit (core/source_limit.h): a slot of a table of fixed size, one table
 * for each CPU or core, of which the daemon and `status` read the sum. A slot belongs to one source, and
 * passes to another when that one has been refused as many more times than its owner, at most
 * TG_OVER_CREDIT_MAX (Misra and Gries' frequent items, a slot each): so those that insist most are
 * found, whatever else comes.
 *
 * Must never: be called for a source that a cookie has not proven.
 */
#ifndef TG_OVER_LIMIT_H
#define TG_OVER_LIMIT_H

#include "packet.h"

#define TG_OVER_SLOTS 1024
#define TG_OVER_CREDIT_MAX 64

struct tg_over {
	uint64_t turn_before; /* counts owners of the slot; differs from turn_after while the owner changes */
	uint64_t prefix; /* as tg_limit_prefix */
	uint64_t dst[2]; /* as union tg_addr: where to, when the slot was taken */
	uint64_t first_ns, last_ns; /* of this owner */
	uint64_t over; /* its connections above a limit */
	uint64_t over_held; /* of these, while it held as many as it may */
	uint8_t family;
	uint8_t len;
	uint8_t credit;
	uint8_t pad[5];
	uint64_t turn_after;
};

/* The slot of a source, by its hash (tg_limit_hash). */
TG_INLINE uint32_t tg_over_slot(uint64_t hash)
{
	return (uint32_t)(hash >> 32) & (TG_OVER_SLOTS - 1);
}

/* Notes a connection of a source above its limit in the source's slot. `held`: it holds as many as it
 * may. */
TG_INLINE void tg_over_count(struct tg_over *o, const struct tg_packet *ack, uint64_t prefix,
			     uint32_t len, uint32_t held, uint64_t now_ns)
{
	if (o->prefix != prefix || o->family != ack->family || o->len != len) {
		if (o->credit) {
			o->credit--;
			return;
		}
		o->turn_before++;
		TG_BARRIER();
		o->prefix = prefix;
		o->dst[0] = ack->dst.d[0];
		o->dst[1] = ack->dst.d[1];
		o->family = ack->family;
		o->len = (uint8_t)len;
		o->first_ns = now_ns;
		o->over = o->over_held = 0;
		TG_BARRIER();
		o->turn_after = o->turn_before;
	}
	o->over++;
	o->over_held += held;
	o->last_ns = now_ns;
	if (o->credit < TG_OVER_CREDIT_MAX)
		o->credit++;
}

#endif
