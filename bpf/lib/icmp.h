/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * ICMP errors about translated connections: the header that they quote is translated back, or path
 * MTU discovery ends at this machine (RFC 5508 says the same to NATs). A quoted TCP checksum stays
 * as it is; nobody checks it.
 *
 * Must never: know where a flow comes from; the caller passes one.
 */
#ifndef TG_BPF_ICMP_H
#define TG_BPF_ICMP_H

#include "translate.h"

#define TG_IPPROTO_ICMP 1
#define TG_IPPROTO_ICMPV6 58
#define TG_ICMP_HDR_LEN 8
#define TG_QUOTED_TCP_LEN 12 /* up to the acknowledgement number */

/* An ICMP error that quotes a TCP segment. */
struct tg_icmp_error {
	struct tg_packet quoted; /* family, addresses and ports, as they stand there */
	__u32 off;               /* of the ICMP header */
	__u32 tcp_off;           /* of the quoted TCP header */
};

/* RFC 792, RFC 4443: the types that quote a packet. */
static __always_inline bool tg_icmp_is_error(__u8 family, __u8 type)
{
	return family == 4 ? type == 3 || type == 4 || type == 11 || type == 12
			   : type >= 1 && type <= 4;
}

/* Where the ICMP header of the packet stands; 0 if it is no error. */
static __always_inline __u32 tg_icmp_find(TG_CTX *ctx, __u32 l3_off, __u8 *family)
{
	__u8 ip[TG_IPV6_HDR_LEN], type;
	__u32 off;

	if (tg_ctx_load(ctx, l3_off, ip, sizeof(ip)))
		return 0;
	if (ip[0] >> 4 == 4 && ip[TG_IPV4_PROTO] == TG_IPPROTO_ICMP && !(ip[TG_IPV4_FRAG] & 0x3f) &&
	    !ip[TG_IPV4_FRAG + 1]) {
		*family = 4;
		off = l3_off + (ip[0] & 15) * 4;
	} else if (ip[0] >> 4 == 6 && ip[TG_IPV6_NEXT] == TG_IPPROTO_ICMPV6) {
		*family = 6;
		off = l3_off + TG_IPV6_HDR_LEN;
	} else {
		return 0;
	}
	if (tg_ctx_load(ctx, off, &type, 1) || !tg_icmp_is_error(*family, type))
		return 0;
	return off;
}

/* The quoted packet, as far as it names a connection; where its TCP header
 * stands. 0 if it is none. */
static __always_inline __u32 tg_icmp_quoted(TG_CTX *ctx, __u32 off, struct tg_packet *q)
{
	__u8 ip[TG_IPV6_HDR_LEN];
	__u32 tcp;

	if (tg_ctx_load(ctx, off, ip, q->family == 4 ? TG_IPV4_HDR_LEN : sizeof(ip)))
		return 0;
	if (q->family == 4) {
		if (ip[0] >> 4 != 4 || ip[TG_IPV4_PROTO] != TG_IPPROTO_TCP ||
		    ip[TG_IPV4_FRAG] & 0x1f || ip[TG_IPV4_FRAG + 1])
			return 0;
		__builtin_memcpy(&q->src.w[0], ip + TG_IPV4_SRC, 4);
		__builtin_memcpy(&q->dst.w[0], ip + TG_IPV4_DST, 4);
		tcp = off + (ip[0] & 15) * 4;
	} else {
		if (ip[0] >> 4 != 6 || ip[TG_IPV6_NEXT] != TG_IPPROTO_TCP)
			return 0;
		__builtin_memcpy(&q->src, ip + TG_IPV6_SRC, 16);
		__builtin_memcpy(&q->dst, ip + TG_IPV6_DST, 16);
		tcp = off + TG_IPV6_HDR_LEN;
	}
	return tg_ctx_load(ctx, tcp, &q->ports, 4) ? 0 : tcp;
}

/* True if the packet, whose IP header begins at `l3_off`, is an ICMP error that
 * quotes TCP. `e` is all zero before. */
static __always_inline bool tg_icmp_read(TG_CTX *ctx, __u32 l3_off, struct tg_icmp_error *e)
{
	e->off = tg_icmp_find(ctx, l3_off, &e->quoted.family);
	if (!e->off)
		return false;
	e->tcp_off = tg_icmp_quoted(ctx, e->off + TG_ICMP_HDR_LEN, &e->quoted);
	return e->tcp_off != 0;
}

/* Translates what the error quotes by a flow that is ready; `dir` is where the quoted
 * segment was going. False if the quotation is too short for it. */
static __always_inline bool tg_icmp_translate(TG_CTX *ctx, const struct tg_icmp_error *e,
					      const struct tg_flow *f, enum tg_direction dir)
{
	__u8 tcp[TG_QUOTED_TCP_LEN];
	uint64_t sum = 0;
#ifndef TG_SKB
	__u16 checksum;
#endif

	/* RFC 792 promises eight bytes of TCP; towards the client they are untouched. */
	if (tg_ctx_load(ctx, e->tcp_off, tcp, dir == TG_TO_CLIENT ? 8 : TG_QUOTED_TCP_LEN))
		return false;
	tg_translate_quoted(tcp, f, dir, &sum);
#ifdef TG_SKB
	return !tg_ctx_store(ctx, e->tcp_off + TG_TCP_SEQ, tcp + TG_TCP_SEQ,
			     dir == TG_TO_CLIENT ? 4 : 8) &&
	       !bpf_l4_csum_replace(ctx, e->off + 2, 0, tg_csum_fold(sum), 0);
#else
	if (tg_ctx_load(ctx, e->off + 2, &checksum, 2))
		return false;
	checksum = tg_translate_checksum(checksum, sum);
	return !tg_ctx_store(ctx, e->tcp_off + TG_TCP_SEQ, tcp + TG_TCP_SEQ,
			     dir == TG_TO_CLIENT ? 4 : 8) &&
	       !tg_ctx_store(ctx, e->off + 2, &checksum, 2);
#endif
}

#endif
