/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The socket filter: may this 4-tuple have a socket on this machine? It exists
 * because a SYN for a live or TIME-WAIT socket must reach the kernel (RFC 9293,
 * RFC 5961, RFC 6191), while a flood's SYNs must not pay for a socket look-up.
 *
 * A counting Bloom filter with two cells in one cache line. A cell counts the
 * live sockets that hash to it and remembers when the last one was closed, so
 * it needs no clearing. It errs only towards "maybe", which costs a look-up.
 *
 *    31                16 15                 0
 *   +--------------------+--------------------+
 *   |  live sockets      | last close, ticks  |
 *   +--------------------+--------------------+
 *
 * Before the cells stands a bitmap with one bit for each cell, 128 KiB. (The 4 MiB
 * of cells alone cost a cache miss, 100 ns and more, for each SYN.) Before that
 * stands a front, 16 KiB, each of whose bits is set if one of eight neighbours in
 * the bitmap is: a random flood reads one bit of it and nothing else, and a core's
 * cache holds it although the flood's frames pass through. Bits are set when a
 * socket opens and cleared by whoever finds its cell dead (filter_bits.h).
 *
 * The index is keyed, with the pair-multiply-shift family of Dietzfelbinger et
 * al. (strongly universal; UMAC's NH is its relative): a sender who does not
 * know the keys cannot choose tuples that hit.
 */
#ifndef TG_TUPLE_FILTER_H
#define TG_TUPLE_FILTER_H

#include "packet.h"

#define TG_FILTER_CELLS (1U << 20)
#define TG_FILTER_LINE_CELLS 16U /* 64-byte lines of 4-byte cells */
#define TG_FILTER_KEYS 10
#define TG_FILTER_TICK_SHIFT 34 /* a tick is 2^34 ns = 17.2 s; 16 bits wrap after 13 days */
#define TG_FILTER_LIVE_ONE 0x10000U
#define TG_FILTER_LIVE_MAX 0xffffU

#define TG_FILTER_WORDS (TG_FILTER_CELLS / 64) /* of the bitmap, which stands after its front */
#define TG_FILTER_FRONT 3 /* a bit of the front stands for 2^3 of the bitmap */
#define TG_FILTER_FRONT_WORDS (TG_FILTER_WORDS >> TG_FILTER_FRONT)
#define TG_FILTER_ALL_WORDS (TG_FILTER_WORDS + TG_FILTER_FRONT_WORDS)

struct tg_filter_index {
	uint32_t first, second; /* cells */
};

/* Where the bit for a tuple's first cell stands. */
TG_INLINE uint32_t tg_filter_word(struct tg_filter_index at)
{
	return TG_FILTER_FRONT_WORDS + (at.first >> 6);
}
TG_INLINE uint64_t tg_filter_bit(struct tg_filter_index at)
{
	return 1ULL << (at.first & 63);
}

/* And in the front; and the bits, of the same word of the bitmap, that its bit stands for. */
TG_INLINE uint32_t tg_filter_front_word(struct tg_filter_index at)
{
	return at.first >> (6 + TG_FILTER_FRONT);
}
TG_INLINE uint64_t tg_filter_front_bit(struct tg_filter_index at)
{
	return 1ULL << (at.first >> TG_FILTER_FRONT & 63);
}
TG_INLINE uint64_t tg_filter_neighbours(struct tg_filter_index at)
{
	return 0xffULL << (at.first & 56);
}

/* src is the peer, dst this machine; ports as in struct tg_packet. */
TG_INLINE uint64_t tg_filter_hash(const uint64_t keys[TG_FILTER_KEYS], uint8_t family,
				  const union tg_addr *src, const union tg_addr *dst, uint32_t ports)
{
	uint64_t h = keys[0] + keys[1] * src->w[0] + keys[2] * dst->w[0] + keys[3] * ports;

	if (family == 6)
		h += keys[4] * src->w[1] + keys[5] * src->w[2] + keys[6] * src->w[3] +
		     keys[7] * dst->w[1] + keys[8] * dst->w[2] + keys[9] * dst->w[3];
	return h;
}

/* The cells of a tuple's hash. */
TG_INLINE struct tg_filter_index tg_filter_cells(uint64_t h)
{
	uint32_t line = (uint32_t)(h >> 40) & (TG_FILTER_CELLS / TG_FILTER_LINE_CELLS - 1);
	uint32_t cell = (uint32_t)(h >> 32);

	return (struct tg_filter_index){
		.first = line * TG_FILTER_LINE_CELLS + (cell & 15),
		.second = line * TG_FILTER_LINE_CELLS + (cell >> 4 & 15),
	};
}

TG_INLINE struct tg_filter_index tg_filter_index(const uint64_t keys[TG_FILTER_KEYS],
						 uint8_t family, const union tg_addr *src,
						 const union tg_addr *dst, uint32_t ports)
{
	return tg_filter_cells(tg_filter_hash(keys, family, src, dst, ports));
}

TG_INLINE uint16_t tg_filter_tick(uint64_t monotonic_ns)
{
	uint16_t tick = (uint16_t)(monotonic_ns >> TG_FILTER_TICK_SHIFT);

	return tick ? tick : 1; /* 0 stands for "never" */
}

/* True if the cell says that a socket is, or within `keep_ticks` was, there. Its close may be a
 * tick ahead of `now_tick`, because a program remembers its clock for a while; or two, where 0 is left out. */
TG_INLINE bool tg_filter_cell_hit(uint32_t cell, uint16_t now_tick, uint16_t keep_ticks)
{
	return cell >= TG_FILTER_LIVE_ONE ||
	       (cell != 0 && (uint16_t)(now_tick - (uint16_t)cell + 2) <= keep_ticks + 2);
}

#endif
