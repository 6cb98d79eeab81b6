/* SPDX-License-Identifier: Apache-2.0
 *
 * The board: clock, console, the emulator's command line. Knows no lwIP.
 */
#ifndef TG_BOARD_H
#define TG_BOARD_H

#include <stdint.h>

#define REG(address) (*(volatile uint32_t *)(address))

void board_init(void);
/* Milliseconds since board_init. */
uint32_t board_now_ms(void);
/* Microseconds for which board_sleep has slept; wraps. */
uint32_t board_idle_us(void);
/* Sleeps until an interrupt, unless the Ethernet has a frame or the next
 * millisecond has begun. */
void board_sleep(void);

void board_puts(const char *s);
void board_put_u32(uint32_t v);
/* The semihosting arguments given to QEMU, one string. */
const char *board_args(void);
/* Ends the emulation. */
void board_exit(int status) __attribute__((noreturn));

/* Counts instructions: the SysTick runs freely and no interrupt is taken
 * between begin and end. The result is a count only under -icount; see main.c. */
void board_count_setup(void);
uint32_t board_count_now(void); /* ticks of 20 ns, counting down, 24 bits */

void board_systick_handler(void);
void board_ethernet_handler(void);

#endif
