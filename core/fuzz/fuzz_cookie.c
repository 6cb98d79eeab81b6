/* SPDX-License-Identifier: Apache-2.0
 *
 * Cookie verification on any input: only what tg_cookie_make makes is accepted, and
 * nothing else that the input proposes. A chance hit of 2^-22 would be found by a
 * long run; therefore an accepted guess is compared with the genuine cookie.
 */
#include "fuzz.h"

struct input {
	uint8_t family, ts;
	uint16_t option_bits;
	uint32_t src[4], dst[4], ports, seq, isn, tsval;
	uint64_t now_epoch, key[2];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tg_cookie guess, made;
	struct tg_siphash_key key;
	struct tg_packet p = {0};
	struct tg_agreed agreed;
	struct input in;
	uint64_t epoch;
	uint32_t bits;
	bool ts;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	ts = in.ts & 1;
	p.family = in.family & 1 ? 6 : 4;
	memcpy(&p.src, in.src, p.family == 4 ? 4 : 16);
	memcpy(&p.dst, in.dst, p.family == 4 ? 4 : 16);
	p.ports = in.ports;
	p.seq = in.seq;
	key = (struct tg_siphash_key){in.key[0], in.key[1]};
	guess = (struct tg_cookie){in.isn, in.tsval};

	/* The fields of the input. */
	epoch = tg_cookie_epoch(guess.isn, in.now_epoch);
	PROMISE(epoch == in.now_epoch || epoch == in.now_epoch - 1);
	bits = tg_cookie_claimed_bits(guess, ts);
	PROMISE(bits < 1U << (ts ? TG_COOKIE_TS_OPTION_BITS : TG_COOKIE_PLAIN_OPTION_BITS));
	agreed = tg_cookie_agreed(p.family, bits, ts);
	PROMISE(ts || agreed.mss >= (p.family == 4 ? 536 : 1220));
	PROMISE(agreed.wscale <= 15);
	if (tg_cookie_verify(&p, guess, ts, epoch, &key)) {
		p.seq -= 1;
		made = tg_cookie_make(&p, bits, ts, epoch, &key);
		p.seq += 1;
		PROMISE(made.isn == guess.isn && (!ts || made.tsval == guess.tsval));
	}

	/* What the gate makes is accepted, and returns its options. */
	bits = ts ? in.option_bits | (in.seq & 63) << 16 : in.option_bits & 511;
	made = tg_cookie_make(&p, bits, ts, in.now_epoch, &key);
	p.seq += 1;
	PROMISE(tg_cookie_epoch(made.isn, in.now_epoch) == in.now_epoch);
	PROMISE(tg_cookie_claimed_bits(made, ts) == bits);
	PROMISE(tg_cookie_verify(&p, made, ts, in.now_epoch, &key));
	/* It is never accepted under the other parity. */
	PROMISE(!tg_cookie_verify(&p, made, ts, in.now_epoch + 1, &key));
	return 0;
}
