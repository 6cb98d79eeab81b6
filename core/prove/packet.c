/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser on every frame: no byte outside it is read. The frame ends where its array ends, so
 * that one byte too many is outside the array. LONGEST exceeds the last byte that the parser can
 * read (docs/proof.md): a longer frame is read as one of this length.
 */
#include "eva.h"
#include "../packet.h"

#define LONGEST 348
_Static_assert(LONGEST >= TG_ETH_HDR_LEN + TG_VLAN_TAGS_MAX * TG_VLAN_TAG_LEN + TG_IPV6_HDR_LEN +
				  TG_IPV6_EXT_BYTES_MAX + TG_TCP_HDR_LEN,
	       "longer than what the parser reads");

static uint8_t frame[LONGEST];

int main(void)
{
	uint32_t len = Frama_C_unsigned_int_interval(0, LONGEST);
	const uint8_t *data = frame + (LONGEST - len), *end = frame + LONGEST;
	struct tg_packet p = {0};
	enum tg_parse_result result;

	ANY_BYTES(frame, sizeof(frame));
#ifdef TG_PROVE_CANARY
	end++; /* one byte more than there is */
#endif
	result = tg_packet_parse(&p, data, end);
	if (result == TG_PARSE_TCP || result == TG_PARSE_FRAGMENT) {
		//@ assert p.l4_off <= TG_L4_OFF_MAX;
		tg_packet_measure(&p, len);
		(void)tg_packet_source_is_bogus(&p);
		(void)tg_packet_to_loopback(&p);
		(void)tg_packet_is_group(&p);
	}
	REACHED();
	return 0;
}
