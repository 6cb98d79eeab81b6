/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever keys, addresses and ports are: each filter's index is inside its table, and no shift is
 * too wide.
 */
#include "eva.h"
#include "../bloom.h"
#include "../tuple_filter.h"
#include "../white_bitmap.h"

static void bloom(const struct tg_packet *p, enum tg_bloom_side side)
{
	struct tg_bloom_key key;
	uint32_t bits, i;

	ANY_BYTES(&key, sizeof(key));
	for (bits = TG_BLOOM_BITS_MIN; bits <= TG_BLOOM_BITS_MAX; bits++) {
		uint64_t hash = tg_bloom_hash(p, side, &key);

		struct tg_bloom_at whole = {{0}, {0}, 0, 0};

		tg_bloom_locate_front(hash, bits, &whole.front, &whole.front_shift);
		//@ assert whole.front < TG_BLOOM_WORDS(bits);
		(void)tg_bloom_front_bit(&whole, ANY_U32());
		for (i = 0; i < TG_BLOOM_PARTITIONS; i++) {
			struct tg_bloom_at at = {{0}, {0}, 0, 0};

			tg_bloom_locate_one(hash, bits, i, &at.word[i], &at.shift[i]);
			//@ assert at.word[i] < TG_BLOOM_WORDS(bits);
			(void)tg_bloom_bit(&at, i, ANY_U32());
			(void)tg_bloom_known(ANY_U64(), ANY_U64(), ANY_U64(), &at);
		}
	}
	(void)tg_bloom_plane(ANY_U32());
}

static void tuples(const struct tg_packet *p)
{
	uint64_t keys[TG_FILTER_KEYS];
	struct tg_filter_index at;

	ANY_BYTES(keys, sizeof(keys));
	at = tg_filter_index(keys, p->family, &p->src, &p->dst, p->ports);
	//@ assert at.first < TG_FILTER_CELLS;
	//@ assert at.second < TG_FILTER_CELLS;
	//@ assert at.first / 512 < TG_FILTER_FRONT_WORDS;
	//@ assert TG_FILTER_FRONT_WORDS + at.first / 64 < TG_FILTER_ALL_WORDS;
	(void)tg_filter_word(at);
	(void)tg_filter_bit(at);
	(void)tg_filter_front_word(at);
	(void)tg_filter_front_bit(at);
	(void)tg_filter_neighbours(at);
	(void)tg_filter_cell_hit(ANY_U32(), tg_filter_tick(ANY_U64()), ANY_U16());
}

static void white(void)
{
	uint32_t len;

	for (len = 1; len <= 32; len++) {
		struct tg_white_cell c = tg_white_cell(ANY_U32(), len);

		//@ assert c.shift <= 62;
		(void)tg_white_used(c);
		(void)tg_white_mark(c);
		(void)tg_white_aged(ANY_U64());
	}
}

int main(void)
{
	struct tg_packet p = {0};

	ANY_BYTES(&p.src, sizeof(p.src));
	ANY_BYTES(&p.dst, sizeof(p.dst));
	p.ports = ANY_U32();
	p.family = ANY_U8();
	bloom(&p, TG_BLOOM_FROM_CLIENT);
	bloom(&p, TG_BLOOM_FROM_SERVER);
	tuples(&p);
	white();
	REACHED();
	return 0;
}
