/* SPDX-License-Identifier: Apache-2.0
 *
 * The writers of segments and SYN-ACKs for every segment and every room: no byte outside the room
 * is written.
 */
#include "eva.h"
#include "../synack.h"
#include "../segment.h"

#define ROOM 108 /* more than the longest: IPv6, TCP, 40 bytes of options */

static uint8_t room[ROOM];

static struct tg_tcp_options any_options(void)
{
	return (struct tg_tcp_options){
		.tsval = ANY_U32(),
		.tsecr = ANY_U32(),
		.mss = ANY_U16(),
		.wscale = ANY_U8(),
		.sack_ok = ANY_BOOL(),
		.ts_ok = ANY_BOOL(),
	};
}

static void write_into(uint32_t size, uint8_t family)
{
	struct tg_writer w = {room + (ROOM - size), room + ROOM};
	struct tg_cookie cookie = {ANY_U32(), ANY_U32()};
	struct tg_segment s;
	struct tg_packet syn;
	struct tg_synack answer;

	ANY_BYTES(&s, sizeof(s));
	s.reflect = ANY_BOOL();
	s.options = any_options();
	s.family = family;
	(void)tg_segment_write(w, &s);
	ANY_BYTES(&syn, sizeof(syn));
	syn.family = family;
	ANY_BYTES(&answer, sizeof(answer));
	answer.ecn = ANY_BOOL();
	answer.options = any_options();
	(void)tg_synack_write(w, &syn, &answer, cookie);
}

int main(void)
{
	uint32_t size;

	for (size = 0; size <= ROOM; size++) {
		write_into(size, 4);
		write_into(size, 6); /* whatever is not 4 */
	}
	REACHED();
	return 0;
}
