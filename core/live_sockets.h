/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The table of live sockets: which 4-tuples certainly have one, so that the segments of a live
 * connection pay neither for a cookie's hash nor for a look-up. The socket filter (tuple_filter.h)
 * says "maybe" or "no"; this table says "yes" or nothing.
 *
 * An entry is written when a connection is established and cleared when its socket closes. It holds
 * the tuple's whole hash and the two numbers of the ACK that completed the handshake: that one
 * segment, sent again, may carry the cookie; no other of the connection does. Two tuples with the
 * same 64-bit hash, under keys that nobody else knows, are as rare as a guessed MAC. A slot has room
 * for one: who finds it taken takes it, and the other's segments are verified as if there were no
 * table.
 *
 * Must never: have an entry of a tuple for which a cookie has been sent since. So whoever answers a
 * SYN that the filter does not exclude clears the tuple's entry first; a close that was never
 * reported is mended thereby. (Of a tuple that the filter excludes there is none: an entry is
 * written after the filter's cells and cleared before them.)
 */
#ifndef TG_LIVE_SOCKETS_H
#define TG_LIVE_SOCKETS_H

#include "tuple_filter.h"

#define TG_LIVE_SLOTS (1U << 18)

struct tg_live {
	uint64_t hash; /* tg_live_hash; 0: none */
	uint32_t seq; /* of the ACK that completed the handshake, host order */
	uint32_t ack;
};
_Static_assert(sizeof(struct tg_live) == 16, "four in a cache line");

/* Of tg_filter_hash: never 0. */
TG_INLINE uint64_t tg_live_hash(uint64_t hash)
{
	return hash | 1;
}

TG_INLINE uint32_t tg_live_slot(uint64_t hash)
{
	return (uint32_t)(hash >> 40) & (TG_LIVE_SLOTS - 1);
}

/* True if a segment with these numbers is for a live socket, and carries no cookie. */
TG_INLINE bool tg_live_knows(const struct tg_live *l, uint64_t hash, uint32_t seq, uint32_t ack)
{
	return l->hash == tg_live_hash(hash) && (l->seq != seq || l->ack != ack);
}

#endif
