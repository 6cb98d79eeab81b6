/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What a gate knows about each listening socket: may connections be adopted for it? An address and
 * port without an entry, for itself or the wildcard of its family, has no listener.
 *
 * There are two writers. Userspace, which queries the kernel's listeners, writes whole entries. The
 * packet path records what an adoption showed, in the entry of that very socket: that it is MPTCP,
 * which one look proves, or that the kernel refused for an unknown reason, which counts only if
 * several clients in a row met it. Then the kernel answers the listener's SYNs for a pause; after
 * it, adoption is tried again, and each further refusal makes the pause longer, up to a minute. The
 * first success resets all of this. Where a program translates beside, an adoption that made no
 * socket (lib/proof.h) is recorded likewise, once the same client has been served translated; and
 * after a pause only one client tries.
 *
 * Must never: let a client's packets decide. Both findings are properties of the socket, and a
 * frame that cannot be adopted (tg_frame_is_adoptable) never gets here.
 */
#ifndef TG_LISTENER_H
#define TG_LISTENER_H

#include "service.h"

/* Zeroes as address: every address of the family that has no entry of its own. */
struct tg_listener_key {
	union tg_addr addr;
	uint16_t port_be;
	uint8_t family;
	uint8_t pad[5];
};
_Static_assert(sizeof(struct tg_listener_key) == 24, "map ABI");

enum tg_refusal {
	TG_REFUSAL_NONE = 0,
	TG_REFUSAL_MPTCP = 1,       /* the socket is MPTCP, which the kernel does not adopt for */
	TG_REFUSAL_UNEXPLAINED = 2, /* the kernel returned EINVAL for a valid request */
	TG_REFUSAL_UNPROVEN = 3, /* it made no socket, and translating did */
};

struct tg_listener_entry {
	uint64_t cookie;         /* of the socket, as SO_COOKIE; 0: there are several */
	uint64_t paused_until_ns; /* CLOCK_MONOTONIC */
	uint32_t last_isn;       /* of the cookie whose adoption was refused last */
	uint16_t refusals;       /* in a row */
	uint8_t state;           /* enum tg_listener, as userspace has found it */
	uint8_t why;             /* enum tg_refusal */
};
_Static_assert(sizeof(struct tg_listener_entry) == 24, "map ABI");

#define TG_REFUSALS_PROVE 3 /* so many, each of another client's cookie, with no success between */
#define TG_REFUSALS_MPTCP                                                                          \
	6 /* what is proven counts as this many; an MPTCP socket never becomes a plain one */
#define TG_REFUSAL_PAUSE_NS 1000000000ULL
#define TG_REFUSAL_DOUBLINGS 6 /* the longest pause is 64 s */

/* The state of a listener at a moment of CLOCK_MONOTONIC; `e` NULL: there is none. */
TG_INLINE enum tg_listener tg_listener_at(const struct tg_listener_entry *e, uint64_t now_ns)
{
	if (!e)
		return TG_LISTENER_NONE;
	if (e->state != TG_LISTENER_OK)
		return e->state;
	return now_ns < e->paused_until_ns ? TG_LISTENER_REFUSED : TG_LISTENER_OK;
}

/* True if a finding about the socket with this cookie (0: it has none yet) belongs in `e`. */
TG_INLINE bool tg_listener_is(const struct tg_listener_entry *e, uint64_t cookie)
{
	return e->cookie == 0 || e->cookie == cookie;
}

/* Records that an adoption of the cookie `isn` was refused. True if a pause begins. */
TG_INLINE bool tg_listener_refused(struct tg_listener_entry *e, enum tg_refusal why, uint32_t isn,
				   uint64_t now_ns)
{
	uint32_t doublings;

	if ((e->refusals && e->last_isn == isn) || now_ns < e->paused_until_ns)
		return false; /* that client again, or one whose SYN was answered before */
	e->last_isn = isn;
	e->why = why;
	if (why == TG_REFUSAL_MPTCP && e->refusals < TG_REFUSALS_MPTCP)
		e->refusals = TG_REFUSALS_MPTCP;
	if (e->refusals < TG_REFUSALS_PROVE + TG_REFUSAL_DOUBLINGS)
		e->refusals++;
	if (e->refusals < TG_REFUSALS_PROVE)
		return false;
	doublings = (uint32_t)e->refusals - TG_REFUSALS_PROVE;
	e->paused_until_ns = now_ns + (TG_REFUSAL_PAUSE_NS << (doublings & 7));
	return true;
}

TG_INLINE void tg_listener_adopted(struct tg_listener_entry *e)
{
	if (e->refusals) {
		e->refusals = 0;
		e->why = TG_REFUSAL_NONE;
		e->paused_until_ns = 0;
	}
}

/* Records that an adoption made no socket, though the same client was served when translated: one
 * such proves it. True if a pause begins. */
TG_INLINE bool tg_listener_unproven(struct tg_listener_entry *e, uint32_t client, uint64_t now_ns)
{
	if (now_ns < e->paused_until_ns)
		return false;
	if (e->refusals < TG_REFUSALS_PROVE - 1) {
		e->refusals = TG_REFUSALS_PROVE - 1;
		e->last_isn = ~client;
	}
	return tg_listener_refused(e, TG_REFUSAL_UNPROVEN, client, now_ns);
}

/* True if a connection may be adopted for a listener that is TG_LISTENER_OK. While its last
 * adoptions have failed, one client after each pause tries: the next, longer pause begins with
 * it and ends when its socket is there. */
TG_INLINE bool tg_listener_tries(struct tg_listener_entry *e, uint64_t now_ns)
{
	uint64_t until = e->paused_until_ns;
	uint32_t doublings;

	if (e->refusals < TG_REFUSALS_PROVE)
		return true;
	if (now_ns < until)
		return false;
	doublings = (uint32_t)e->refusals - TG_REFUSALS_PROVE + 1;
	if (doublings > TG_REFUSAL_DOUBLINGS)
		doublings = TG_REFUSAL_DOUBLINGS;
	if (__sync_val_compare_and_swap(&e->paused_until_ns, until,
					now_ns + (TG_REFUSAL_PAUSE_NS << doublings)) != until)
		return false;
	e->refusals = (uint16_t)(TG_REFUSALS_PROVE + doublings);
	return true;
}

#endif
