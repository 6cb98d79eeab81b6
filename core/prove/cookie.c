/* SPDX-License-Identifier: Apache-2.0
 *
 * Key schedule, cookie and its verification for every packet, key, epoch and cookie.
 */
#include "eva.h"
#include "../cookie.h"

int main(void)
{
	struct tg_packet p = {0};
	struct tg_siphash_key key;
	uint8_t secret[TG_SECRET_LEN];
	bool ts = ANY_BOOL();
	uint8_t wscale = (uint8_t)Frama_C_interval(0, TG_WSCALE_NONE);
	uint64_t epoch = tg_epoch_verifying(ANY_U64(), ANY_U64(), ANY_U64());
	struct tg_cookie cookie = {ANY_U32(), ANY_U32()};
	struct tg_agreed agreed;
	uint32_t bits;

	ANY_BYTES(secret, sizeof(secret));
	ANY_BYTES(&p.src, sizeof(p.src));
	ANY_BYTES(&p.dst, sizeof(p.dst));
	p.ports = ANY_U32();
	p.seq = ANY_U32();
	p.ack = ANY_U32();
	p.family = ANY_U8();
	key = tg_epoch_key_derive(secret, epoch);
	bits = tg_cookie_option_bits(tg_cookie_mss(p.family, ANY_U16(), ts), wscale, ANY_BOOL(),
				     ANY_BOOL());
	(void)tg_cookie_make(&p, bits, ts, epoch, &key);
	(void)tg_cookie_verify(&p, cookie, ts, tg_cookie_epoch(cookie.isn, epoch), &key);
	agreed = tg_cookie_agreed(p.family, tg_cookie_claimed_bits(cookie, ts), ts);
	//@ assert agreed.wscale <= TG_WSCALE_NONE;
	REACHED();
	return 0;
}
