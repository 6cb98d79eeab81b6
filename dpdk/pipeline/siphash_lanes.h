/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash of several messages at once, one in each lane of a register: the rounds of core/siphash.h, lane by lane. For
 * batches (siphash_burst_avx2.c, siphash_burst_avx512.c) and for numbers that stand in registers already (fast_wide.h).
 * siphash_avx2.h and siphash_avx512.h say which registers.
 */
#ifndef TG_DPDK_SIPHASH_LANES_H
#define TG_DPDK_SIPHASH_LANES_H

#include "../core/siphash.h"

/* Defines struct tg_siphash_lanes and what can be done with it. `words`: a vector of numbers of 64 bits; `reg`: the
 * register that has it; `rotl`: rotates each of them.
 *
 *   tg_siphash_lanes_round  one round
 *   tg_siphash_lanes_begin  k0 and k1 of each lane
 *   tg_siphash_lanes_word   absorbs a word of each in `rounds` rounds: 2, or 1 of SipHash-1-3
 *   tg_siphash_lanes_out    the hash from the four words of state
 */
#define TG_SIPHASH_LANES(words, reg, rotl)                                                         \
	struct tg_siphash_lanes {                                                                  \
		words v0, v1, v2, v3;                                                              \
	};                                                                                         \
                                                                                                   \
	TG_INLINE void tg_siphash_lanes_round(struct tg_siphash_lanes *s)                          \
	{                                                                                          \
		TG_SIPHASH_ROUND(s, rotl);                                                         \
	}                                                                                          \
                                                                                                   \
	TG_INLINE struct tg_siphash_lanes tg_siphash_lanes_begin(reg k0, reg k1)                   \
	{                                                                                          \
		return (struct tg_siphash_lanes){                                                  \
			(words)k0 ^ TG_SIPHASH_V0,                                                 \
			(words)k1 ^ TG_SIPHASH_V1,                                                 \
			(words)k0 ^ TG_SIPHASH_V2,                                                 \
			(words)k1 ^ TG_SIPHASH_V3,                                                 \
		};                                                                                 \
	}                                                                                          \
                                                                                                   \
	TG_INLINE void tg_siphash_lanes_word(struct tg_siphash_lanes *s, reg m,                    \
					     const uint32_t rounds)                                \
	{                                                                                          \
		uint32_t r;                                                                        \
                                                                                                   \
		s->v3 ^= (words)m;                                                                 \
		for (r = 0; r < rounds; r++)                                                       \
			tg_siphash_lanes_round(s);                                                 \
		s->v0 ^= (words)m;                                                                 \
	}                                                                                          \
                                                                                                   \
	TG_INLINE reg tg_siphash_lanes_out(const struct tg_siphash_lanes *s)                       \
	{                                                                                          \
		return (reg)(s->v0 ^ s->v1 ^ s->v2 ^ s->v3);                                       \
	}

#endif
