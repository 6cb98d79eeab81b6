/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The ChaCha20 block function (RFC 8439 section 2.3), used as the pseudo-random
 * function of the key schedule. Not for packet paths.
 */
#ifndef TG_CHACHA20_H
#define TG_CHACHA20_H

#include "base.h"

#define TG_CHACHA_ROTL(x, n) ((x) << (n) | (x) >> (32 - (n)))

TG_INLINE void tg_chacha20_quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
	*a += *b;
	*d = TG_CHACHA_ROTL(*d ^ *a, 16);
	*c += *d;
	*b = TG_CHACHA_ROTL(*b ^ *c, 12);
	*a += *b;
	*d = TG_CHACHA_ROTL(*d ^ *a, 8);
	*c += *d;
	*b = TG_CHACHA_ROTL(*b ^ *c, 7);
}

/* One 64-byte block of key stream into out[16] (little-endian words).
 * key: 32 bytes; nonce: 12 bytes; counter: the block number. */
TG_INLINE void tg_chacha20_block(uint32_t out[16], const uint8_t key[32], uint32_t counter,
				 const uint8_t nonce[12])
{
	uint32_t in[16] = {0x61707865U, 0x3320646eU, 0x79622d32U, 0x6b206574U};
	int i;

	for (i = 0; i < 8; i++)
		in[4 + i] = tg_load32(key + 4 * i);
	in[12] = counter;
	for (i = 0; i < 3; i++)
		in[13 + i] = tg_load32(nonce + 4 * i);
	for (i = 0; i < 16; i++)
		out[i] = in[i];
	for (i = 0; i < 10; i++) {
		tg_chacha20_quarter(&out[0], &out[4], &out[8], &out[12]);
		tg_chacha20_quarter(&out[1], &out[5], &out[9], &out[13]);
		tg_chacha20_quarter(&out[2], &out[6], &out[10], &out[14]);
		tg_chacha20_quarter(&out[3], &out[7], &out[11], &out[15]);
		tg_chacha20_quarter(&out[0], &out[5], &out[10], &out[15]);
		tg_chacha20_quarter(&out[1], &out[6], &out[11], &out[12]);
		tg_chacha20_quarter(&out[2], &out[7], &out[8], &out[13]);
		tg_chacha20_quarter(&out[3], &out[4], &out[9], &out[14]);
	}
	for (i = 0; i < 16; i++)
		out[i] += in[i];
}

#endif
