/* SPDX-License-Identifier: Apache-2.0
 *
 * What the C that p4c-ubpf writes expects of its target: loads and conversions of numbers in network byte order.
 */
#ifndef TG_UBPF_COMMON_H
#define TG_UBPF_COMMON_H

#define htons(x) __builtin_bswap16(x)
#define htonl(x) __builtin_bswap32(x)
#define htonll(x) __builtin_bswap64(x)

#define TG_AT(type, data, at) (*(const type *)((const uint8_t *)(data) + (at)))
#define load_byte(data, at) TG_AT(uint8_t, data, at)
#define load_half(data, at) __builtin_bswap16(TG_AT(uint16_t, data, at))
#define load_word(data, at) __builtin_bswap32(TG_AT(uint32_t, data, at))
#define load_dword(data, at) __builtin_bswap64(TG_AT(uint64_t, data, at))

#endif
