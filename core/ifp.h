/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * What a packet path must know of the Internet Filtering Protocol (docs/ifp.md):
 * the header, and the nonce that answers a request that has none. The rest stands
 * in internal/ifp; a test compares the numbers.
 */
#ifndef TG_IFP_H
#define TG_IFP_H

#include "packet.h"
#include "siphash.h"

#define TG_IFP_VERSION 1
#define TG_IFP_HDR_LEN 24
#define TG_IFP_MAX_LEN 1400
#define TG_IFP_INSTALL 0x01
#define TG_IFP_CONDITIONAL 0x04
#define TG_IFP_NONCE 0x81

#define TG_IFP_HEAD_WORDS 4 /* of the hash's input, before the filters */

/* The head of the hash's input: sender's address (IPv4 mapped), port, version, type,
 * flags, 0, count, request number. `hdr` is the message. */
TG_INLINE void tg_ifp_nonce_head(uint64_t head[TG_IFP_HEAD_WORDS], uint8_t family,
				 const union tg_addr *src, uint16_t port_be, const uint8_t *hdr)
{
	if (family == 4) {
		head[0] = 0;
		head[1] = 0xffff0000ULL | (uint64_t)src->w[0] << 32;
	} else {
		head[0] = src->d[0];
		head[1] = src->d[1];
	}
	head[2] = (uint64_t)port_be | (uint64_t)hdr[0] << 16 | (uint64_t)hdr[1] << 24 |
		  (uint64_t)hdr[4] << 32 | (uint64_t)tg_load16(hdr + 6) << 48;
	head[3] = tg_load64(hdr + 8);
}

/* The nonce of a hash under the key of an epoch of this parity. */
TG_INLINE uint64_t tg_ifp_nonce_finish(uint64_t hash, uint32_t parity)
{
	uint64_t nonce = (hash & ~1ULL) | (parity & 1);

	return nonce ? nonce : 2;
}

#endif
