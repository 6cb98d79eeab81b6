/* SPDX-License-Identifier: Apache-2.0
 *
 * The TCP option parser on any bytes: stays inside, ends, and what it found can be
 * written and read again.
 */
#include "../options_known.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tg_options_cursor *c;
	struct tg_tcp_options o, again;
	uint8_t room[TG_TCP_OPTIONS_MAX_LEN];
	struct tg_writer w = {room, room + sizeof(room)};
	uint64_t sum = 0;

	if (size > TG_TCP_OPTIONS_MAX_LEN + 1)
		return 0;
	c = malloc(sizeof(*c));
	c->at = 0;
	c->len = (uint32_t)size;
	memset(c->bytes, 0xa5, sizeof(c->bytes));
	memcpy(c->bytes, data, size);
	o = tg_tcp_options_parse(c);
	PROMISE(c->at <= size || size > TG_TCP_OPTIONS_MAX_LEN);
	PROMISE(o.wscale <= TG_WSCALE_NONE);
	{ /* the fast path says what the slow path says, or nothing */
		struct tg_tcp_options quick = {.wscale = TG_WSCALE_NONE};

		if (tg_tcp_options_common(c->bytes, c->len, c->bytes + size, &quick))
			PROMISE(quick.mss == o.mss && quick.wscale == o.wscale &&
				quick.sack_ok == o.sack_ok && quick.ts_ok == o.ts_ok &&
				(!o.ts_ok || (quick.tsval == o.tsval && quick.tsecr == o.tsecr)));
	}
	if (size <= TG_TCP_OPTIONS_MAX_LEN) { /* so do the layouts that are known */
		struct tg_tcp_options known;

		if (tg_tcp_options_known(c->bytes, (uint32_t)size, &known))
			PROMISE(known.mss == o.mss && known.wscale == o.wscale &&
				known.sack_ok == o.sack_ok && known.ts_ok == o.ts_ok &&
				o.auth == TG_AUTH_NONE && known.tsval == o.tsval &&
				known.tsecr == o.tsecr);
	}
#ifdef TG_FUZZ_CANARY
	PROMISE(!(o.ts_ok && o.sack_ok));
#endif
	free(c);

	PROMISE(tg_tcp_options_write(&w, &o, &sum));
	PROMISE((uint32_t)(w.at - room) == tg_tcp_options_len(&o));
	{
		struct tg_options_cursor r = {.len = (uint32_t)(w.at - room)};

		memcpy(r.bytes, room, r.len);
		again = tg_tcp_options_parse(&r);
	}
	PROMISE(again.mss == o.mss && again.wscale == o.wscale && again.sack_ok == o.sack_ok &&
		again.ts_ok == o.ts_ok);
	PROMISE(!o.ts_ok || (again.tsval == o.tsval && again.tsecr == o.tsecr));
	return 0;
}
