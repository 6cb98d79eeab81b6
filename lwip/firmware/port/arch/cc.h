/* SPDX-License-Identifier: Apache-2.0
 *
 * lwIP on the bare LM3S6965.
 */
#ifndef TG_FIRMWARE_ARCH_CC_H
#define TG_FIRMWARE_ARCH_CC_H

void firmware_assert(const char *what) __attribute__((noreturn));
unsigned firmware_rand(void);

#define LWIP_PLATFORM_DIAG(x)
#define LWIP_PLATFORM_ASSERT(x) firmware_assert(x)
#define LWIP_RAND() ((u32_t)firmware_rand())
#define LWIP_NO_INTTYPES_H 1
#define LWIP_NO_UNISTD_H 1
#define X8_F "02x"
#define U16_F "u"
#define S16_F "d"
#define X16_F "x"
#define U32_F "lu"
#define S32_F "ld"
#define X32_F "lx"
#define SZT_F "u"

#endif
