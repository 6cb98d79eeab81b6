/* SPDX-License-Identifier: Apache-2.0
 *
 * The options reader on every list and cursor, its fast paths on every list in memory, and the
 * writer for every set of options and every room: no byte outside is read or written.
 */
#include "eva.h"
#include "../options_known.h"
#include "../tcp_options.h"

static void read_any(void)
{
	struct tg_options_cursor c;
	struct tg_tcp_options o;

	ANY_BYTES(c.bytes, sizeof(c.bytes));
	c.at = 0;
	c.len = ANY_U32(); /* refused above TG_TCP_OPTIONS_MAX_LEN */
	o = tg_tcp_options_parse(&c);
	//@ assert o.wscale <= TG_WSCALE_NONE;
}

static void read_in_memory(void)
{
	static uint8_t list[TG_TCP_OPTIONS_MAX_LEN];
	uint32_t len;

	ANY_BYTES(list, sizeof(list));
	for (len = 0; len <= sizeof(list); len += 4) { /* as the data offset counts */
		const uint8_t *at = list + (sizeof(list) - len), *end = list + sizeof(list);
		struct tg_tcp_options o = {.wscale = TG_WSCALE_NONE};

		(void)tg_tcp_options_known(at, len, &o);
		(void)tg_tcp_options_common(at, len, end, &o);
	}
}

static void write_any(void)
{
	static uint8_t room[TG_TCP_OPTIONS_MAX_LEN];
	uint32_t size;

	for (size = 0; size <= sizeof(room); size++) {
		struct tg_tcp_options o = {
			.tsval = ANY_U32(),
			.tsecr = ANY_U32(),
			.mss = ANY_U16(),
			.wscale = (uint8_t)Frama_C_interval(0, TG_WSCALE_NONE),
			.sack_ok = ANY_BOOL(),
			.ts_ok = ANY_BOOL(),
		};
		struct tg_writer w = {room + (sizeof(room) - size), room + sizeof(room)};
		uint64_t sum = 0;

		(void)tg_tcp_options_write(&w, &o, &sum);
	}
}

int main(void)
{
	read_any();
	read_in_memory();
	write_any();
	REACHED();
	return 0;
}
