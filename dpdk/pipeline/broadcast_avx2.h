/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants in every lane of an AVX2 register, loaded from memory.
 *
 * A workaround for GCC 12: it makes most of them in a general register (mov, vmovq, vpbroadcastq). A broadcasting load
 * is one instruction. It may go when GCC chooses the load itself: `make -C dpdk instructions` then counts no more for
 * `cookie` with _mm256_set1_epi64x in its place.
 */
#ifndef TG_DPDK_BROADCAST_AVX2_H
#define TG_DPDK_BROADCAST_AVX2_H

#include <immintrin.h>

/* `from`: a static const of 8 bytes. */
#define TG_BROADCAST_8(from)                                                                       \
	({                                                                                         \
		__m256i tg_each;                                                                   \
		__asm__("vpbroadcastq %1, %0" : "=x"(tg_each) : "m"(from));                        \
		tg_each;                                                                           \
	})

/* `from`: a static const of 16 bytes, for both halves. */
#define TG_BROADCAST_16(from)                                                                      \
	({                                                                                         \
		__m256i tg_both;                                                                   \
		__asm__("vbroadcasti128 %1, %0" : "=x"(tg_both) : "m"(from));                      \
		tg_both;                                                                           \
	})

#endif
