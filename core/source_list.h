/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Allow and deny lists: which entry an address belongs to. Of the prefixes that contain it the
 * longest decides. The daemon (internal/sourcelist) makes the table, of which nothing is ever
 * changed; a new list is a new table. docs/lists.md has the rules, and why it is not a trie.
 *
 * A table is an array of blocks, each one cache line:
 *
 *   header   the first: where things are
 *   bits     a filter: the bit of an address (its first 24 bits, of IPv6 the first 32, hashed) is
 *            clear if no entry is near it, which is what most of a flood meets
 *   node     15 keys, ascending, and in the last word the block of its first child. The child of x
 *            is as many further as there are keys below x
 *   leaf     the same, but the last word is the block of 16 references: one for each range, of
 *            which the keys are the last addresses
 *   one      a single prefix, compared with the whole address
 *   single   of a hash of IPv4 addresses that are entries themselves, up to seven, and behind them
 *            their references: an address that stands there needs no tree. One that finds its block
 *            full stands in the tree, as all other prefixes do
 *
 * A plane may keep the filter once more in front of the table, where it is nearer (tg_list_front_*): at most 2^22 bits of it,
 * each the disjunction of those that it stands for. What that excludes needs no table.
 *
 * A reference is what an address is, or where to go on:
 *
 *    31  30 | 29                                     0
 *   +-------+-----------------------------------------+
 *   | ALLOW | number of the entry                     |   or DENY; NONE: 0
 *   +-------+--------+--------------------------------+
 *   | MORE  | levels | block of the root              |   levels 0: it is a `one`
 *   +-------+--------+--------------------------------+
 *    31  30 | 29  27 | 26                             0
 *
 * A tree goes by 32 bits of the address; where longer prefixes are in a range of one, its reference
 * leads to a tree for the next 32.
 *
 * The includer defines TG_LIST_BLOCK(table, at): the block, or NULL if there is none. A table from
 * anywhere else gives a wrong answer, but never an endless loop or a block that is not there.
 */
#ifndef TG_SOURCE_LIST_H
#define TG_SOURCE_LIST_H

#include "host.h"

#define TG_LIST_WORDS 16U
#define TG_LIST_MAGIC 0x74674c32U /* "tgL2" */

struct tg_list_block {
	uint32_t word[TG_LIST_WORDS];
};
_Static_assert(sizeof(struct tg_list_block) == 64, "a cache line");

/* Words of the header. */
enum {
	TG_LIST_AT_MAGIC,
	TG_LIST_AT_SHIFT, /* 32 - bits of the number of the filter's bits */
	TG_LIST_AT_BITS, /* its first block */
	TG_LIST_AT_ROOT4,
	TG_LIST_AT_ROOT6,
	TG_LIST_AT_WIDE4, /* 1: the filter says nothing, because of short prefixes */
	TG_LIST_AT_WIDE6,
	TG_LIST_AT_SINGLES, /* the first block of single addresses */
	TG_LIST_AT_SINGLE_BLOCKS, /* their number; 0: there are none */
	TG_LIST_AT_SINGLE_ONLY, /* 1: every IPv4 entry is one: those in the tree had no room */
};

#define TG_LIST_SINGLES 7U /* addresses in a block; as many words of references behind them */

/* Words of a `one`. */
enum {
	TG_LIST_ONE_ADDR, /* four */
	TG_LIST_ONE_MASK = 4, /* four */
	TG_LIST_ONE_INSIDE = 8,
	TG_LIST_ONE_OUTSIDE,
};

enum tg_listed {
	TG_LISTED_NONE,
	TG_LISTED_ALLOW,
	TG_LISTED_DENY,
	TG_LISTED_MORE, /* never an answer */
};

#define TG_LIST_KIND(ref) ((ref) >> 30)
#define TG_LIST_ENTRY(ref) ((ref) & 0x3fffffffU)
#define TG_LIST_LEVELS(ref) ((ref) >> 27 & 7U)
#define TG_LIST_PLACE(ref) ((ref) & 0x7ffffffU)

#define TG_LIST_LEVELS_MAX 7U

TG_INLINE uint32_t tg_list_hash(uint8_t family, uint32_t first)
{
	return family == 4 ? (first >> 8) * 0x9e3779b1U : first * 0x85ebca6bU;
}

/* The filter in front: where its words of 64 bits begin, and how it is read. A plane replaces it by one store, so that a packet
 * has all of it or none. 0: it excludes nothing, since no table has so many words.
 *
 *    63                      32      9    8     5     0
 *   +--------------------------+----+----+----+--------+
 *   | first word               |  0 | wide 6, 4 | shift |
 *   +--------------------------+----+----+----+--------+
 */
#define TG_LIST_FRONT_BITS 22U
#define TG_LIST_FRONT_WIDE(family) (1ULL << ((family) == 4 ? 8 : 9))

/* The bit of an address, its first word in host order, counted from the first of all words. Not for a family that is WIDE. */
TG_INLINE uint64_t tg_list_front_bit(uint64_t front, uint8_t family, uint32_t first)
{
	return (front >> 32 << 6) + (tg_list_hash(family, first) >> (front & 31));
}

/* In which block a single address stands. */
TG_INLINE uint32_t tg_list_single_place(uint32_t addr, uint32_t blocks)
{
	uint32_t h = addr * 0x9e3779b1U;

	h = (h ^ h >> 15) * 0x85ebca6bU;
	return (uint32_t)((uint64_t)h * blocks >> 32);
}

/* True if no address had to leave the block. */
TG_INLINE bool tg_list_single_has_room(const struct tg_list_block *b)
{
	return !b->word[2 * TG_LIST_SINGLES - 1];
}

/* The reference of a single address in its block; 0: it is not there. */
TG_INLINE uint32_t tg_list_single(const struct tg_list_block *b, uint32_t addr)
{
	uint32_t i;

#ifdef __bpf__
#pragma clang loop unroll(full)
#endif
	for (i = 0; i < TG_LIST_SINGLES; i++)
		if (b->word[i] == addr)
			return b->word[TG_LIST_SINGLES + i];
	return 0;
}

/* 1 if the key is below x. Without a branch: a flood's addresses would be mispredicted. */
TG_INLINE uint32_t tg_list_is_below(uint32_t key, uint32_t x)
{
	uint64_t difference = (uint64_t)key - x;

	TG_HIDE(difference);
	return (uint32_t)(difference >> 63);
}

/* How many of a node's keys are below x: of each four the last first, then the three before. */
TG_INLINE uint32_t tg_list_below(const struct tg_list_block *b, uint32_t x)
{
	uint32_t four = tg_list_is_below(b->word[3], x) + tg_list_is_below(b->word[7], x) +
			tg_list_is_below(b->word[11], x);
	const uint32_t *in = &b->word[TG_BOUND(four, 4) * 4];

	return four * 4 + tg_list_is_below(in[0], x) + tg_list_is_below(in[1], x) +
	       tg_list_is_below(in[2], x);
}

/* The reference that a `one` gives. */
TG_INLINE uint32_t tg_list_one(const struct tg_list_block *b, const uint32_t x[4])
{
	uint32_t differs = ((x[0] & b->word[4]) ^ b->word[0]) | ((x[1] & b->word[5]) ^ b->word[1]) |
			   ((x[2] & b->word[6]) ^ b->word[2]) | ((x[3] & b->word[7]) ^ b->word[3]);

	return b->word[differs ? TG_LIST_ONE_OUTSIDE : TG_LIST_ONE_INSIDE];
}

/* A SYN to a service whose mode is not off, before anything else is asked. TG_REPLY: continue. What
 * is allowed is treated like a source in no list, for it may be forged: to allow lifts a wider
 * denial, and nothing else. */
TG_INLINE struct tg_decision tg_list_judge(enum tg_listed listed)
{
	return listed == TG_LISTED_DENY ? TG_DECIDE(TG_DROP, TG_COUNT_drop_denied)
					: TG_DECIDE(TG_REPLY, TG_COUNT_cookie_sent);
}

#ifdef TG_LIST_BLOCK
/* False if no entry contains the address, as far as the filter knows. */
TG_INLINE bool tg_list_may_have(tg_list_table table, const struct tg_list_block *header,
				uint8_t family, uint32_t first)
{
	uint32_t bit = tg_list_hash(family, first) >> (header->word[TG_LIST_AT_SHIFT] & 31);
	const struct tg_list_block *b;

	if (header->word[family == 4 ? TG_LIST_AT_WIDE4 : TG_LIST_AT_WIDE6])
		return true;
	b = TG_LIST_BLOCK(table, header->word[TG_LIST_AT_BITS] + (bit >> 9));
	return b && b->word[bit >> 5 & (TG_LIST_WORDS - 1)] >> (bit & 31) & 1;
}

/* Through the tree of one word, `key` of the address, to a reference; 0 if the table is broken. */
TG_INLINE uint32_t tg_list_tree(tg_list_table table, uint32_t root, uint32_t key)
{
	uint32_t at = TG_LIST_PLACE(root), levels = TG_LIST_LEVELS(root), level, n = 0;
	const struct tg_list_block *b;

	TG_HIDE(levels); /* Linux 6.1's verifier needs the constant bound, which is superfluous otherwise */
	for (level = 1; level < TG_LIST_LEVELS_MAX + 1; level++) {
		b = TG_LIST_BLOCK(table, at);
		if (!b)
			return 0;
		n = tg_list_below(b, key);
		at = b->word[15];
		if (level >= levels)
			break;
		at += n;
	}
	b = TG_LIST_BLOCK(table, at);
	return b ? b->word[TG_BOUND(n, TG_LIST_WORDS)] : 0;
}

/* What the list says of an address: a reference that is not MORE; 0 if the table is broken. `near`: an entry may be near the
 * address, as far as a filter in front of the table knows; else the table's own is asked. */
TG_INLINE uint32_t tg_list_find(tg_list_table table, uint8_t family, const union tg_addr *addr,
				bool near)
{
	const struct tg_list_block *b = TG_LIST_BLOCK(table, 0);
	uint32_t x[4] = {tg_swap32(addr->w[0]), 0, 0, 0}, ref, word, singles, blocks, only;

	if (!b || b->word[TG_LIST_AT_MAGIC] != TG_LIST_MAGIC)
		return 0;
	ref = b->word[family == 4 ? TG_LIST_AT_ROOT4 : TG_LIST_AT_ROOT6];
	singles = b->word[TG_LIST_AT_SINGLES];
	blocks = b->word[TG_LIST_AT_SINGLE_BLOCKS];
	only = b->word[TG_LIST_AT_SINGLE_ONLY];
	if (!near && !tg_list_may_have(table, b, family, x[0]))
		return 0;
	if (family == 4 && blocks) {
		b = TG_LIST_BLOCK(table, singles + tg_list_single_place(x[0], blocks));
		if (!b)
			return 0;
		word = tg_list_single(b, x[0]);
		if (word && TG_LIST_KIND(word) != TG_LISTED_MORE)
			return word;
		if (only && tg_list_single_has_room(b))
			return 0;
	}
	if (family != 4) {
		x[1] = tg_swap32(addr->w[1]);
		x[2] = tg_swap32(addr->w[2]);
		x[3] = tg_swap32(addr->w[3]);
	}
#pragma clang loop unroll(full)
	for (word = 0; word < 4; word++) {
		if (TG_LIST_KIND(ref) != TG_LISTED_MORE)
			return ref;
		if (!TG_LIST_LEVELS(ref)) {
			b = TG_LIST_BLOCK(table, TG_LIST_PLACE(ref));
			if (!b)
				return 0;
			ref = tg_list_one(b, x);
			break;
		}
		ref = tg_list_tree(table, ref, x[word]);
	}
	return TG_LIST_KIND(ref) != TG_LISTED_MORE ? ref : 0;
}
#endif

#endif
