/* SPDX-License-Identifier: Apache-2.0
 *
 * siphash_lanes.h in AVX-512: eight messages, rotations in one instruction.
 */
#ifndef TG_DPDK_SIPHASH_AVX512_H
#define TG_DPDK_SIPHASH_AVX512_H

#include <immintrin.h>

#include "siphash_lanes.h"

typedef uint64_t tg_u64x8 __attribute__((vector_size(64)));

#define TG_ROTL64X8(x, n) ((tg_u64x8)_mm512_rol_epi64((__m512i)(x), n))

TG_SIPHASH_LANES(tg_u64x8, __m512i, TG_ROTL64X8)

#endif
