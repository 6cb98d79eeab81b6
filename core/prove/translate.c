/* SPDX-License-Identifier: Apache-2.0
 *
 * Translation of every header, every list of options and every flow, both ways: no byte outside is
 * read or written, no shift is too wide.
 */
#include "eva.h"
#include "../translate.h"

static void translate(const struct tg_flow *f, enum tg_direction dir)
{
	struct tg_options_cursor c;
	uint8_t tcp[TG_TCP_HDR_LEN], stamps[8], quoted[12];
	uint64_t sum = 0;

	ANY_BYTES(tcp, sizeof(tcp));
	ANY_BYTES(stamps, sizeof(stamps));
	ANY_BYTES(quoted, sizeof(quoted));
	ANY_BYTES(c.bytes, sizeof(c.bytes));
	c.at = 0;
	c.len = ANY_U32();
	tg_translate_header(tcp, f, dir, &sum);
	tg_translate_timestamps(stamps, f, ANY_BOOL(), dir, &sum);
	(void)tg_translate_is_aligned(stamps);
	tg_translate_options(&c, f, ANY_BOOL(), dir, &sum);
	tg_translate_quoted(quoted, f, dir, &sum);
	(void)tg_translate_checksum(ANY_U16(), sum);
}

int main(void)
{
	struct tg_flow f;

	ANY_BYTES(&f, sizeof(f));
	translate(&f, TG_TO_SERVER);
	translate(&f, TG_TO_CLIENT);
	REACHED();
	return 0;
}
