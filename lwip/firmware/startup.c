/* SPDX-License-Identifier: Apache-2.0
 *
 * From reset to main() on an LM3S6965 (Cortex-M3): vector table, memory, and a
 * fault handler that says so and stops the emulator.
 */
#include <stdint.h>

#include "board.h"

extern uint32_t data_start, data_end, data_load, bss_start, bss_end, stack_top;
int main(void);
void reset_handler(void);

void reset_handler(void)
{
	uint32_t *from = &data_load, *to;

	for (to = &data_start; to < &data_end; to++)
		*to = *from++;
	for (to = &bss_start; to < &bss_end; to++)
		*to = 0;
	board_exit(main());
}

static void fault_handler(void)
{
	board_puts("fault\n");
	board_exit(1);
}

#define IRQ_ETHERNET 42

/* The sixteen of the core, then the chip's own up to the last one in use. */
__attribute__((section(".vectors"), used)) static void *const vectors[16 + IRQ_ETHERNET + 1] = {
	[0] = &stack_top,
	[1] = (void *)reset_handler,
	[2] = (void *)fault_handler,
	[3] = (void *)fault_handler,
	[4] = (void *)fault_handler,
	[5] = (void *)fault_handler,
	[6] = (void *)fault_handler,
	[11] = (void *)fault_handler,
	[15] = (void *)board_systick_handler,
	[16 + IRQ_ETHERNET] = (void *)board_ethernet_handler,
};
