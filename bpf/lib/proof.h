/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * An adoption counts when its socket is there. From the moment that the kernel is handed a cookie
 * until sock_ops hears of the socket, the adoption is undecided: a RST that the stack sends in the meantime is
 * kept from the client, and a copy of the ACK, which comes again right behind it, finds either
 * the socket or, if something on this machine has dropped the ACK or taken the socket off it,
 * the listener alone. Then the copy is translated, and the client notices nothing.
 *
 * A slot knows a cookie by its whole ISN. Two cookies of one slot displace each other: the older
 * one then counts as decided, its RST would pass, and its client's next segment is adopted again.
 * For that they must be undecided at the same time, a few microseconds, and agree in 14 bits
 * that are a MAC's.
 *
 * Must never: withhold a RST of a connection that had a socket.
 */
#ifndef TG_BPF_PROOF_H
#define TG_BPF_PROOF_H

#include "maps.h"

enum tg_adoption {
	TG_ADOPTION_NONE, /* nothing known */
	TG_ADOPTION_UNDECIDED,
	TG_ADOPTION_MADE, /* there was a socket */
	TG_ADOPTION_FAILED, /* there was none */
	TG_ADOPTION_MASK = 3,
};

/* The cookies that were handed to the kernel last, by their low bits, and what became of
 * each. Not a memory of connections. Of all CPUs together: a server behind
 * several edges may get the first two packets of a connection on two. Behind the slots: how
 * many of them are undecided. */
#define TG_RECENT_SLOTS 16384

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_RECENT_SLOTS + 1);
	__type(key, __u32);
	__type(value, __u64); /* ISN << 32 | enum tg_adoption */
} tg_recent SEC(".maps");

static __always_inline __u64 *tg_adoption_slot(__u32 at)
{
	return bpf_map_lookup_elem(&tg_recent, &at);
}

static __always_inline __u64 tg_adoption_word(__u32 isn, enum tg_adoption state)
{
	return (__u64)isn << 32 | state;
}

static __always_inline enum tg_adoption tg_adoption_of(__u32 isn)
{
	__u64 *slot = tg_adoption_slot(isn & (TG_RECENT_SLOTS - 1));

	return slot && (__u32)(*slot >> 32) == isn ? (enum tg_adoption)(*slot & TG_ADOPTION_MASK)
						   : TG_ADOPTION_NONE;
}

/* True while some adoption is undecided. */
static __always_inline bool tg_adoption_any(void)
{
	__u64 *undecided = tg_adoption_slot(TG_RECENT_SLOTS);

	return undecided && *undecided;
}

/* The kernel is being handed this cookie. Functions of their own, for the verifier. */
TG_GLOBAL int tg_adoption_begin(__u32 isn)
{
	__u64 *slot = tg_adoption_slot(isn & (TG_RECENT_SLOTS - 1));
	__u64 *undecided = tg_adoption_slot(TG_RECENT_SLOTS), was;

	if (!slot || !undecided)
		return 0;
	was = __sync_lock_test_and_set(slot, tg_adoption_word(isn, TG_ADOPTION_UNDECIDED));
	if ((was & TG_ADOPTION_MASK) != TG_ADOPTION_UNDECIDED)
		__sync_fetch_and_add(undecided, 1);
	return 0;
}

/* What has become of it. 1 if this is news. */
TG_GLOBAL int tg_adoption_decide(__u32 isn, __u32 state)
{
	__u64 *slot = tg_adoption_slot(isn & (TG_RECENT_SLOTS - 1));
	__u64 *undecided = tg_adoption_slot(TG_RECENT_SLOTS);
	__u64 was = tg_adoption_word(isn, TG_ADOPTION_UNDECIDED);

	if (!slot || !undecided ||
	    __sync_val_compare_and_swap(slot, was, (was & ~(__u64)TG_ADOPTION_MASK) | state) != was)
		return 0;
	__sync_fetch_and_add(undecided, (__u64)-1);
	return 1;
}

#endif
