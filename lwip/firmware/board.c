/* SPDX-License-Identifier: Apache-2.0
 *
 * See board.h. Registers are those of the LM3S6965 data sheet.
 */
#include "board.h"

#include "ethernet.h"

#define SYSCTL_RCC REG(0x400fe060)
#define SYSCTL_RCGC1 REG(0x400fe104)
#define SYSCTL_RCGC2 REG(0x400fe108)
#define RCC_SYSDIV_4 (3u << 23) /* 200 MHz / 4 */
#define RCC_SYSDIV_MASK (15u << 23)
#define RCC_USESYSDIV (1u << 22)
#define CPU_HZ 50000000u

#define UART0_DR REG(0x4000c000)
#define UART0_FR REG(0x4000c018)
#define UART0_CTL REG(0x4000c030)
#define UART_FR_TXFF (1u << 5)

#define SYST_CSR REG(0xe000e010)
#define SYST_RVR REG(0xe000e014)
#define SYST_CVR REG(0xe000e018)
#define SYST_ENABLE 1u
#define SYST_TICKINT 2u
#define SYST_CPU_CLOCK 4u

#define NVIC_ISER1 REG(0xe000e104)
#define NVIC_ICER1 REG(0xe000e184)
#define IRQ_ETHERNET_BIT (1u << (42 - 32))

#define TICKS_PER_MS (CPU_HZ / 1000)
#define TICKS_PER_US (CPU_HZ / 1000000)

static volatile uint32_t now_ms;
static uint32_t idle_us, idle_ticks; /* ticks: what is not yet a whole microsecond */

void board_systick_handler(void)
{
	now_ms++;
}

/* The frame stays in the FIFO; the main loop fetches it. The interrupt is masked until
 * then, or the handler would be entered endlessly. */
void board_ethernet_handler(void)
{
	NVIC_ICER1 = IRQ_ETHERNET_BIT;
}

void board_init(void)
{
	SYSCTL_RCC = (SYSCTL_RCC & ~RCC_SYSDIV_MASK) | RCC_SYSDIV_4 | RCC_USESYSDIV;
	SYSCTL_RCGC1 |= 1u;                      /* UART0 */
	SYSCTL_RCGC2 |= 1u | 1u << 28 | 1u << 30; /* port A, Ethernet MAC and PHY */
	UART0_CTL = 0x301;                       /* enable, transmit, receive */
	SYST_RVR = TICKS_PER_MS - 1;
	SYST_CVR = 0;
	SYST_CSR = SYST_ENABLE | SYST_TICKINT | SYST_CPU_CLOCK;
	NVIC_ISER1 = IRQ_ETHERNET_BIT;
}

uint32_t board_now_ms(void)
{
	return now_ms;
}

uint32_t board_idle_us(void)
{
	return idle_us;
}

void board_sleep(void)
{
	static uint32_t slept_ms;

	/* WFI returns for a pending interrupt even while it is masked, so a
	 * frame that arrives after the check is not missed. */
	__asm volatile("cpsid i" ::: "memory");
	if (!ethernet_pending() && now_ms == slept_ms) {
		uint32_t before = SYST_CVR, after;

		NVIC_ISER1 = IRQ_ETHERNET_BIT;
		__asm volatile("wfi" ::: "memory");
		/* The SysTick counts down and wakes us once a millisecond, so it has
		 * wrapped at most once. */
		after = SYST_CVR;
		idle_ticks += (before >= after ? before : before + TICKS_PER_MS) - after;
		idle_us += idle_ticks / TICKS_PER_US;
		idle_ticks %= TICKS_PER_US;
	}
	slept_ms = now_ms;
	__asm volatile("cpsie i" ::: "memory");
}

void board_puts(const char *s)
{
	for (; *s; s++) {
		while (UART0_FR & UART_FR_TXFF)
			;
		UART0_DR = (uint32_t)*s;
	}
}

void board_put_u32(uint32_t v)
{
	char digits[11];
	int i = 10;

	digits[i] = 0;
	do {
		digits[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	board_puts(digits + i);
}

/* Semihosting (ARM DUI 0375): operation in r0, argument in r1. */
static uint32_t semihost(uint32_t operation, const void *argument)
{
	register uint32_t r0 __asm("r0") = operation;
	register const void *r1 __asm("r1") = argument;

	__asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
	return r0;
}

#define SYS_GET_CMDLINE 0x15
#define SYS_EXIT_EXTENDED 0x20
#define ADP_STOPPED_APPLICATION_EXIT 0x20026

const char *board_args(void)
{
	static char line[256];
	struct {
		char *line;
		uint32_t len;
	} block = {line, sizeof(line)};

	return semihost(SYS_GET_CMDLINE, &block) == 0 ? line : "";
}

void board_exit(int status)
{
	const uint32_t block[2] = {ADP_STOPPED_APPLICATION_EXIT, (uint32_t)status};

	for (;;)
		semihost(SYS_EXIT_EXTENDED, block);
}

void board_count_setup(void)
{
	NVIC_ICER1 = IRQ_ETHERNET_BIT;
	SYST_RVR = 0xffffff;
	SYST_CVR = 0;
	SYST_CSR = SYST_ENABLE | SYST_CPU_CLOCK;
}

uint32_t board_count_now(void)
{
	return SYST_CVR;
}
