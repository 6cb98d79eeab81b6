/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of what other machines send to a gate: tags and confirmations of every length, and the
 * options of every IPv4 header. No byte outside is read.
 */
#include "eva.h"
#include "../intact.h"
#include "../tag.h"

#define LONGEST 64 /* more than a tag (20), a confirmation (60), an IPv4 header (60) */
_Static_assert(LONGEST > TG_TAG_LEN && LONGEST > TG_CONFIRM_LEN && LONGEST > TG_IPV4_HDR_MAX,
	       "longer than what is read");

static uint8_t payload[LONGEST];

int main(void)
{
	const uint8_t *end = payload + LONGEST;
	uint32_t words[TG_TAG_WORDS], len;
	uint8_t out[TG_CONFIRM_LEN], ip[TG_IPV6_HDR_LEN], tcp[TG_TCP_HDR_LEN];
	struct tg_confirm confirm;
	struct tg_tag tag;
	uint64_t mac;

	ANY_BYTES(payload, sizeof(payload));
	for (len = 0; len <= LONGEST; len++) {
		const uint8_t *at = payload + (LONGEST - len);

		(void)tg_tag_read(at, ANY_U32(), end, &tag, &mac); /* the header may say any length */
		(void)tg_confirm_read(at, ANY_U32(), end, &confirm, &mac);
		if (len <= TG_IPV4_HDR_MAX)
			(void)tg_intact_ipv4(at, len, ANY_BOOL());
	}
	ANY_BYTES(&tag, sizeof(tag));
	ANY_BYTES(&confirm, sizeof(confirm));
	ANY_BYTES(ip, sizeof(ip));
	ANY_BYTES(tcp, sizeof(tcp));
	tg_tag_words(words, &tag, ANY_U64());
	tg_confirm_write(out, &confirm, ANY_U64());
	(void)tg_tag_fix(ip, tcp, ANY_U8(), words, ANY_BOOL(), ANY_U32());
	REACHED();
	return 0;
}
