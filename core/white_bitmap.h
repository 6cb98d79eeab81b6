/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The whitelist of IPv4 sources as a bitmap of the whole address space: two bits a
 * prefix of a given length, 1 GiB for single addresses. It cannot be full, and no
 * hash is needed to find a source in it.
 *
 * The two bits are a second chance: a use sets both; a sweep takes one each time
 * that it comes by. Who was not used for between one and two sweeps is off the list.
 * The sweep is userspace's, a few pages at a time; the packet path waits for nothing.
 * A page summary shows the sweep which pages of TG_WHITE_PAGE_WORDS have anything.
 * Whoever sets bits marks the page afterwards; the sweep takes the mark away first,
 * reads the page, and puts the mark back if something is left: so nothing is lost.
 */
#ifndef TG_WHITE_BITMAP_H
#define TG_WHITE_BITMAP_H

#include "base.h"

#define TG_WHITE_PAGE_WORDS 512 /* 64-bit words: 4 KiB, 16,384 prefixes */

struct tg_white_cell {
	uint32_t word;  /* index of a 64-bit word */
	uint32_t shift; /* of the two bits in it */
};

/* Where the prefix, of 1 to 32 bits, of an address stands. */
TG_INLINE struct tg_white_cell tg_white_cell(uint32_t addr_wire, uint32_t prefix_len)
{
	uint32_t prefix = tg_swap32(addr_wire) >> ((32 - prefix_len) & 31);

	return (struct tg_white_cell){prefix / 32, prefix % 32 * 2};
}

TG_INLINE uint64_t tg_white_used(struct tg_white_cell c)
{
	return 3ULL << c.shift;
}

/* What a sweep leaves of a word: both bits become one, one becomes none. */
TG_INLINE uint64_t tg_white_aged(uint64_t word)
{
	return word >> 1 & 0x5555555555555555ULL;
}

/* The page's mark: a bit of a word of the summary. */
TG_INLINE uint32_t tg_white_mark_word(struct tg_white_cell c)
{
	return c.word / TG_WHITE_PAGE_WORDS / 64;
}

TG_INLINE uint64_t tg_white_mark(struct tg_white_cell c)
{
	return 1ULL << (c.word / TG_WHITE_PAGE_WORDS % 64);
}

#endif
