/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The key schedule: one 32-byte master secret for a fleet, one SipHash key for
 * each epoch. Nodes need the secret and a clock; no key ever travels.
 *
 *   epoch n   = floor(unix time in ns / epoch length in ns)
 *   key of n  = first 16 bytes of ChaCha20(key = secret, block 0,
 *               nonce = "TGK1" || n as 64-bit little-endian)
 */
#ifndef TG_KEYS_H
#define TG_KEYS_H

#include "chacha20.h"
#include "siphash.h"

#define TG_SECRET_LEN 32

/* One slot of a plane's key ring: the key is good only for exactly `epoch`. */
struct tg_epoch_key {
	uint64_t epoch;
	struct tg_siphash_key key;
};

TG_INLINE struct tg_siphash_key tg_epoch_key_derive(const uint8_t secret[TG_SECRET_LEN],
						    uint64_t epoch)
{
	uint8_t nonce[12] = {'T', 'G', 'K', '1'};
	uint32_t block[16];
	int i;

	for (i = 0; i < 8; i++)
		nonce[4 + i] = (uint8_t)(epoch >> (8 * i));
	tg_chacha20_block(block, secret, 0, nonce);
	return (struct tg_siphash_key){
		.k0 = (uint64_t)block[1] << 32 | block[0],
		.k1 = (uint64_t)block[3] << 32 | block[2],
	};
}

#endif
