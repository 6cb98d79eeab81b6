/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): numbers that repeat, for
 * tests, benchmarks and the flood generator.
 *
 * Must never: be used for anything that nobody may guess.
 */
#ifndef TG_SPLITMIX_H
#define TG_SPLITMIX_H

#include "base.h"

TG_INLINE uint64_t tg_splitmix(uint64_t *state)
{
	uint64_t z = *state += TG_MIX1;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

#endif
