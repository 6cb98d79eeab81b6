/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The front of the SYN cache (syn_cache.h): what a flood's SYN asks first. Where all places of a bucket are
 * taken by clients that may still answer, nearly every SYN gets a cookie; that is told from 16 bytes a
 * bucket, which a core's own cache holds, and by a hash of a few multiplications, instead of from
 * the bucket's heads and SipHash.
 *
 *    prints       a byte of the tuple in each of the eight places: whoever may be one of them asks
 *                 the bucket itself
 *    noted        until when the oldest of them may answer (a tick, 32 bits), and the epoch that the
 *                 bucket has noted for its cookies (16 bits); 0: nothing is known
 *
 *    63                            32 31            16 15             0
 *   +--------------------------------+----------------+----------------+
 *   |             until              |       0        |     epoch      |
 *   +--------------------------------+----------------+----------------+
 *
 * It decides nothing that the bucket would decide differently, with one exception: if CPUs meet in one bucket at
 * the same moment, a client that has a place may get a cookie. Its bucket takes cookies then, and the
 * client has a connection by either.
 *
 * Must never: tell by what is sent how a tuple is hashed here, but for whether its bucket is full. The salt is
 * therefore the exclusive or of two secrets, neither of which it gives away.
 */
#ifndef TG_SYN_CACHE_FRONT_H
#define TG_SYN_CACHE_FRONT_H

#include "proxy_keys.h"
#include "syn_cache.h"

struct tg_halfopen_front {
	uint64_t prints;
	uint64_t noted;
};
_Static_assert(TG_HALFOPEN_WAYS == 8, "a print each in 64 bits");

/* Where a client's packet belongs: the lowest bits tell the bucket, the highest eight are its print. */
TG_INLINE uint32_t tg_halfopen_home(const struct tg_packet *pkt, uint64_t presence_salt,
				    const struct tg_siphash_key *cache_key)
{
	return tg_presence_flow(pkt, presence_salt ^ cache_key->k0);
}

TG_INLINE uint8_t tg_halfopen_print(uint32_t home)
{
	return (uint8_t)(home >> 24);
}

#define TG_HALFOPEN_EVERY_BYTE 0x0101010101010101ULL

/* True if the tuple may be one of those in the bucket. */
TG_INLINE bool tg_halfopen_front_has(uint64_t prints, uint32_t home)
{
	uint64_t x = prints ^ tg_halfopen_print(home) * TG_HALFOPEN_EVERY_BYTE;

	return ((x - TG_HALFOPEN_EVERY_BYTE) & ~x & TG_HALFOPEN_EVERY_BYTE << 7) != 0;
}

/* True if a SYN of `home` gets a cookie of `epoch`, and its bucket has noted that it gives such. */
TG_INLINE bool tg_halfopen_front_is_full(const struct tg_halfopen_front *f, uint32_t home,
					 uint32_t tick, uint64_t epoch)
{
	uint64_t noted = *(const volatile uint64_t *)&f->noted;

	return (uint32_t)noted == TG_HALFOPEN_EPOCH(epoch) &&
	       (int32_t)((uint32_t)(noted >> 32) - tick) > 0 &&
	       !tg_halfopen_front_has(*(const volatile uint64_t *)&f->prints, home);
}

/* Notes that all places are taken: `oldest` is the head of the client that came first. */
TG_INLINE void tg_halfopen_front_note(struct tg_halfopen_front *f, uint64_t oldest, uint64_t epoch)
{
	uint32_t until = (uint32_t)oldest + TG_HALFOPEN_LIFE;

	*(volatile uint64_t *)&f->noted = (uint64_t)until << 32 | TG_HALFOPEN_EPOCH(epoch);
}

/* Notes that a place has become free. */
TG_INLINE void tg_halfopen_front_frees(struct tg_halfopen_front *f)
{
	*(volatile uint64_t *)&f->noted = 0;
}

/* Notes who is about to take a place. To be called before its head is published. */
TG_INLINE void tg_halfopen_front_takes(struct tg_halfopen_front *f, uint32_t slot, uint32_t home)
{
	((volatile uint8_t *)&f->prints)[slot & (TG_HALFOPEN_WAYS - 1)] = tg_halfopen_print(home);
	tg_halfopen_front_frees(f);
}

#endif
