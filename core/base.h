/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What every core header uses: integer types, byte order, loads and stores on packet bytes, and the
 * bounded cursor.
 *
 * Must never: include anything but the three freestanding headers below, keep
 * state, or read a clock. The core is compiled for x86-64, BPF and Cortex-M3.
 */
#ifndef TG_BASE_H
#define TG_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the core is written for little-endian machines (x86-64, bpfel, Cortex-M3)"
#endif

#define TG_INLINE static inline __attribute__((always_inline, unused))

/* One turn of a loop. In BPF it is a function of its own ("global"), which the verifier checks once, for all arguments,
 * and not at every turn with all that it knows then; its pointers may therefore be NULL, and it returns an int. */
#ifdef __bpf__
#define TG_STEP __attribute__((noinline))
#else
#define TG_STEP TG_INLINE
#endif

#define TG_LIKELY(x) __builtin_expect(!!(x), 1)
#define TG_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Odd multipliers that spread bits upwards, of SplitMix64 (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", 2014). Their output can be inverted: anything that is sent is
 * hashed with SipHash. */
#define TG_MIX1 0x9e3779b97f4a7c15ULL
#define TG_MIX2 0xbf58476d1ce4e5b9ULL
#define TG_MIX3 0x94d049bb133111ebULL

/* Network order to host order and back (the same swap both ways). */
#define tg_swap16(x) __builtin_bswap16((uint16_t)(x))
#define tg_swap32(x) __builtin_bswap32((uint32_t)(x))
/* The 32-bit word whose four bytes on the wire are a, b, c, d. */
#define TG_WIRE32(a, b, c, d)                                                                      \
	((uint32_t)(uint8_t)(a) | (uint32_t)(uint8_t)(b) << 8 | (uint32_t)(uint8_t)(c) << 16 |     \
	 (uint32_t)(uint8_t)(d) << 24)

/* Unaligned access to packet bytes, in the order of the wire. The BPF back end
 * turns an alignment of one into single-byte loads, and the verifier allows
 * unaligned packet access on every machine we attach to, so there a plain
 * dereference is right; elsewhere it would be undefined behaviour. */
#ifdef __bpf__
TG_INLINE uint16_t tg_load16(const void *p)
{
	return *(const uint16_t *)p;
}
TG_INLINE uint32_t tg_load32(const void *p)
{
	return *(const uint32_t *)p;
}
TG_INLINE uint64_t tg_load64(const void *p)
{
	return *(const uint64_t *)p;
}
TG_INLINE void tg_store16(void *p, uint16_t v)
{
	*(uint16_t *)p = v;
}
TG_INLINE void tg_store32(void *p, uint32_t v)
{
	*(uint32_t *)p = v;
}
TG_INLINE void tg_store64(void *p, uint64_t v)
{
	*(uint64_t *)p = v;
}
#else
TG_INLINE uint16_t tg_load16(const void *p)
{
	uint16_t v;
	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}
TG_INLINE uint32_t tg_load32(const void *p)
{
	uint32_t v;
	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}
TG_INLINE uint64_t tg_load64(const void *p)
{
	uint64_t v;
	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}
TG_INLINE void tg_store16(void *p, uint16_t v)
{
	__builtin_memcpy(p, &v, sizeof(v));
}
TG_INLINE void tg_store32(void *p, uint32_t v)
{
	__builtin_memcpy(p, &v, sizeof(v));
}
TG_INLINE void tg_store64(void *p, uint64_t v)
{
	__builtin_memcpy(p, &v, sizeof(v));
}
#endif

/* Stores before it happen before loads after it. It constrains only the compiler, and so orders
 * stores for readers on another CPU only where the CPU keeps the order of its stores, as x86-64
 * does; BPF has store-release only since Linux 6.15. */
#define TG_BARRIER() __asm__ volatile("" ::: "memory")

/* An atomic operation in order with every access before and after it. If nothing uses its result, clang 19
 * takes the BPF instruction without one, which is in order with nothing on arm64; this may go with a clang that
 * tells the two apart. */
#define TG_IN_ORDER(operation)                                                                     \
	do {                                                                                       \
		uint64_t before_ = (operation);                                                    \
		__asm__ volatile("" : : "r"(before_));                                             \
	} while (0)

/* Workarounds for the BPF verifier, and for how clang 19 compiles checks that the verifier has to
 * follow. Where only one kernel needs one, the comment there says which. Each may go from a place
 * when the programs load without it on the kernels that `make test-kernel` boots, and stay within
 * their ceilings of instructions (internal/bench). Outside BPF they are empty.
 *
 * TG_BOUND keeps an index below a power of two. The mask is applied at the access, where the
 * verifier needs it; clang would prove it unnecessary and omit it.
 *
 * TG_HIDE makes a value opaque to clang: it then tests the same register that it uses, instead of
 * merging tests, or testing one copy and using another, whose bounds the verifier does not know.
 *
 * TG_FORGET makes the verifier forget what it knows of a value, by way of a number of which it knows
 * nothing (64 bits; read from a map, or computed from what was). Behind a loop with an early end it
 * would go through all that follows once for every end.
 */
#ifdef __bpf__
#define TG_BOUND(index, power_of_two)                                                              \
	({                                                                                         \
		uint32_t tg_bound_ = (index);                                                      \
		__asm__ volatile("%0 &= %1" : "+r"(tg_bound_) : "i"((power_of_two) - 1));          \
		tg_bound_;                                                                         \
	})
#define TG_BOUND64(index, power_of_two)                                                            \
	({                                                                                         \
		uint64_t tg_bound_ = (index);                                                      \
		__asm__ volatile("%0 &= %1" : "+r"(tg_bound_) : "i"((power_of_two) - 1));          \
		tg_bound_;                                                                         \
	})
#define TG_HIDE(value) __asm__ volatile("" : "+r"(value))
#define TG_FORGET(value, number) __asm__ volatile("%0 ^= %1; %0 ^= %1" : "+r"(value) : "r"(number))
#else
#define TG_BOUND(index, power_of_two) ((uint32_t)(index) & ((power_of_two) - 1))
#define TG_HIDE(value) ((void)(value))
#define TG_FORGET(value, number) ((void)(value), (void)(number))
#endif

#endif
