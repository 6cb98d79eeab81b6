/* SPDX-License-Identifier: Apache-2.0
 *
 * siphash_lanes.h in AVX2: four messages.
 */
#ifndef TG_DPDK_SIPHASH_AVX2_H
#define TG_DPDK_SIPHASH_AVX2_H

#include <immintrin.h>

#include "siphash_lanes.h"

typedef uint64_t tg_u64x4 __attribute__((vector_size(32)));

/* By 16 or 32 bits: one shuffle. */
#define TG_ROTL64X4(x, n)                                                                          \
	((n) == 32   ? (tg_u64x4)_mm256_shuffle_epi32((__m256i)(x), 0xb1)                          \
	 : (n) == 16 ? (tg_u64x4)_mm256_shuffle_epi8((__m256i)(x), TG_ROTL64X4_BY_16)              \
		     : (x) << (n) | (x) >> (64 - (n)))
#define TG_ROTL64X4_BY_16                                                                          \
	_mm256_broadcastsi128_si256(                                                               \
		_mm_set_epi8(13, 12, 11, 10, 9, 8, 15, 14, 5, 4, 3, 2, 1, 0, 7, 6))

TG_SIPHASH_LANES(tg_u64x4, __m256i, TG_ROTL64X4)

#endif
