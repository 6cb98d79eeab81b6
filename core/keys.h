/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The key schedule: one 32-byte master secret for a fleet, one SipHash key for each epoch. Nodes
 * need the secret and a clock; no key is ever sent.
 *
 *   epoch n   = floor(unix time in ns / epoch length in ns)
 *   key of n  = first 16 bytes of ChaCha20(key = secret, block 0,
 *               nonce = label || n as 64-bit little-endian)
 *
 * The label is four bytes that name the key's purpose, so that a MAC of one kind of message is
 * never valid for another: TGK1 cookies, TGT1 tags, TGC1 confirmations (tag.h); and, derived in
 * userspace alone, TGH1 cookies in the layout smartcookie, TGS1 messages between edges.
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

TG_INLINE struct tg_siphash_key tg_key_derive(const uint8_t secret[TG_SECRET_LEN],
					      const char label[4], uint64_t epoch)
{
	uint8_t nonce[12];
	uint32_t block[16];
	int i;

	for (i = 0; i < 4; i++)
		nonce[i] = (uint8_t)label[i];
	for (i = 0; i < 8; i++)
		nonce[4 + i] = (uint8_t)(epoch >> (8 * i));
	tg_chacha20_block(block, secret, 0, nonce);
	return (struct tg_siphash_key){
		.k0 = (uint64_t)block[1] << 32 | block[0],
		.k1 = (uint64_t)block[3] << 32 | block[2],
	};
}

TG_INLINE struct tg_siphash_key tg_epoch_key_derive(const uint8_t secret[TG_SECRET_LEN],
						    uint64_t epoch)
{
	return tg_key_derive(secret, "TGK1", epoch);
}

/* Clocks. A cookie names its epoch by one bit, so a verifier can distinguish two epochs, not three:
 * at any moment it accepts the current one and the one before. Seen from the cookie, its maker's
 * epoch e, it is good while the verifier's clock is in e or e + 1. A verifier whose clock is behind
 * the maker's would refuse every cookie made in the epoch that it has not reached. So a verifier
 * sets its clock `ahead_ns` ahead, and the cookie is good
 *
 *     from   e L - ahead   to   (e + 2) L - ahead      (L: the epoch's length)
 *
 * by the verifier's clock: still two epochs long, and one key for each parity. With
 * clocks that differ by at most S <= ahead either way, and a handshake that takes
 * at most H, every cookie is good if  ahead + S + H <= L; so, with ahead = S,
 * H = L - 2 S. (One bit and two epochs give no more: 2 S + H <= L for any rule.)
 *
 * A verifier that tries a second key, TG_EPOCHS_OLDER before the first, holds four epochs: with
 * ahead = S it is ahead + S + H <= 3 L, so clocks may differ by a whole epoch and a handshake may
 * still take one. It costs a second hash for what does not verify, doubles a forger's chance, and
 * lets a cookie be replayed for twice as long. */
#define TG_EPOCHS_OLDER 2

TG_INLINE uint64_t tg_epoch_at(uint64_t unix_ns, uint64_t epoch_len_ns)
{
	return epoch_len_ns ? unix_ns / epoch_len_ns : 0;
}

/* The same without a division, which costs a packet as much time as a dozen other instructions. `near` is
 * 0 or what tg_epoch_at gave some time ago, with the same length: it, or the epoch behind it, nearly always
 * still is right. False: only tg_epoch_at knows, and its answer is to be the next `near`. */
TG_INLINE bool tg_epoch_near(uint64_t unix_ns, uint64_t epoch_len_ns, uint64_t near, uint64_t *epoch)
{
	uint64_t since = unix_ns - near * epoch_len_ns;

	*epoch = near;
	if (since < epoch_len_ns)
		return true;
	*epoch = near + 1;
	return since - epoch_len_ns < epoch_len_ns;
}

/* The epoch that a verifier considers current; `ahead_ns` is 0 where maker and verifier have one
 * clock. */
TG_INLINE uint64_t tg_epoch_verifying(uint64_t unix_ns, uint64_t epoch_len_ns, uint64_t ahead_ns)
{
	return tg_epoch_at(unix_ns + ahead_ns, epoch_len_ns);
}

#endif
