/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * Whether a packet is one that the kernel would let reach TCP: its checksums are right, it is not
 * source-routed, its IPv4 options are well-formed. Checked for SYNs that would be answered, and for
 * ACKs for which state would be stored. Planes supply the sums.
 *
 * Must never: be checked for what goes to the kernel or a server, which check themselves.
 */
#ifndef TG_INTACT_H
#define TG_INTACT_H

#include "checksum.h"
#include "packet.h"

enum tg_intact {
	TG_INTACT,
	TG_INTACT_BAD_SUM,
	TG_INTACT_ROUTED, /* source routing, loose or strict; the kernel's default refuses it, too */
	TG_INTACT_BAD_OPTIONS, /* IPv4 options that lie about their length */
};

#define TG_IPV4_HDR_MAX 60
#define TG_IPOPT_LSRR 0x83
#define TG_IPOPT_SSRR 0x89

/* The sum of TCP's pseudo-header. */
TG_INLINE uint64_t tg_intact_pseudo(const struct tg_packet *pkt)
{
	uint64_t sum = TG_WIRE32(0, TG_IPPROTO_TCP, pkt->l4_len >> 8, pkt->l4_len);
	uint32_t i;

	for (i = 0; i < 4; i++)
		sum += (uint64_t)pkt->src.w[i] + pkt->dst.w[i];
	return sum;
}

/* True for a whole segment whose words add up to `segment`, its checksum `field` among them. A
 * field that holds only the sum of the pseudo-header is valid, too: a sender on this machine (a
 * container, a virtual machine) leaves it like that for its device to complete, and there is no
 * device in between. Only the kernel knows whether that is the case, and it does not inform an XDP
 * program; a sender on a wire gains nothing by it that a right sum would not give. */
TG_INLINE bool tg_intact_tcp(uint64_t pseudo, uint64_t segment, uint16_t field)
{
	return TG_LIKELY(tg_csum_fold_words(pseudo + segment) == 0xffff) ||
	       field == tg_csum_fold_words(pseudo);
}

/* The sum of `words` words of 32 bits; a constant at each call becomes straight code. */
TG_INLINE uint64_t tg_intact_words(const uint8_t *at, uint32_t words)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < words; i++)
		sum += tg_load32(at + 4 * i);
	return sum;
}

/* A copy of an IPv4 header, of any length; what is behind it may be anything. */
struct tg_intact_header {
	uint8_t bytes[64];
};

/* The bytes that the option at `at` takes, of a header of `len` bytes; 0: the list has ended; negative: -enum tg_intact. */
TG_STEP int tg_intact_ip_option(const struct tg_intact_header *hdr, uint32_t at, uint32_t len)
{
	uint32_t kind, n = 1;

	if (!hdr)
		return 0;
	kind = hdr->bytes[TG_BOUND(at, 64)];
	if (kind == 0)
		return 0;
	if (kind != 1) {
		n = at + 1 < len ? hdr->bytes[TG_BOUND(at + 1, 64)] : 0;
		if (n < 2 || n > len - at)
			return -(int)TG_INTACT_BAD_OPTIONS;
	}
	return kind == TG_IPOPT_LSRR || kind == TG_IPOPT_SSRR ? -(int)TG_INTACT_ROUTED : (int)n;
}

/* The options of an IPv4 header of `len` bytes. */
TG_INLINE enum tg_intact tg_intact_ip_options(const struct tg_intact_header *hdr, uint32_t len)
{
	uint32_t at = TG_IPV4_HDR_LEN, i;

#ifdef __bpf__
#pragma clang loop unroll(disable)
#endif
	for (i = TG_IPV4_HDR_LEN; i < TG_IPV4_HDR_MAX && at < len; i++) {
		int n = tg_intact_ip_option(hdr, at, len);

		if (n <= 0)
			return (enum tg_intact) - n;
		at += (uint32_t)n;
	}
	return TG_INTACT;
}

#ifndef __bpf__ /* where bytes cannot be copied like this */
/* An IPv4 header of `len` bytes that are in one piece. `summed`: its checksum is known to be right. */
TG_INLINE enum tg_intact tg_intact_ipv4(const uint8_t *hdr, uint32_t len, bool summed)
{
	struct tg_intact_header room = {{0}};
	uint32_t i;

	if (!summed && tg_csum_fold(tg_csum_add(0, hdr, len)) != 0xffff)
		return TG_INTACT_BAD_SUM;
	if (len <= TG_IPV4_HDR_LEN)
		return TG_INTACT;
	for (i = 0; i < len && i < TG_IPV4_HDR_MAX; i++)
		room.bytes[i] = hdr[i];
	return tg_intact_ip_options(&room, len);
}
#endif

#endif
