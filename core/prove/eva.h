/* SPDX-License-Identifier: Apache-2.0
 *
 * What the drivers for Frama-C's Eva share: compiler builtins as functions that Eva can read, and
 * values of which nothing is known. To be included before any core header.
 */
#ifndef TG_PROVE_EVA_H
#define TG_PROVE_EVA_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <__fc_builtin.h>

static inline uint16_t prove_swap16(uint16_t x)
{
	return (uint16_t)(x << 8 | x >> 8);
}

static inline uint32_t prove_swap32(uint32_t x)
{
	return x << 24 | (x << 8 & 0xff0000U) | (x >> 8 & 0xff00U) | x >> 24;
}

#define __builtin_bswap16 prove_swap16
#define __builtin_bswap32 prove_swap32
#define __builtin_memcpy memcpy
#define __builtin_expect(x, expected) (x)

#define ANY_BOOL() ((bool)Frama_C_interval(0, 1))
#define ANY_U8() ((uint8_t)Frama_C_interval(0, 0xff))
#define ANY_U16() ((uint16_t)Frama_C_interval(0, 0xffff))
#define ANY_U32() Frama_C_unsigned_int_interval(0, 0xffffffffU)
#define ANY_U64() ((uint64_t)ANY_U32() << 32 | ANY_U32())

/* Every byte of an object becomes any byte. */
#define ANY_BYTES(p, n) Frama_C_make_unknown((char *)(p), (n))

/* Shows the runner that the driver came to its end: what is never reached has no alarms either. */
void Frama_C_show_each_reached(void);
#define REACHED() Frama_C_show_each_reached()

#endif
