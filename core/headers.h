/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The offsets of header fields, in bytes from the header's beginning, as the RFCs draw them:
 * Ethernet, IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293).
 */
#ifndef TG_HEADERS_H
#define TG_HEADERS_H

#define TG_ETH_TYPE 12

#define TG_IPV4_LEN 2
#define TG_IPV4_FRAG 6 /* flags and fragment offset */
#define TG_IPV4_TTL 8
#define TG_IPV4_PROTO 9
#define TG_IPV4_SUM 10
#define TG_IPV4_SRC 12
#define TG_IPV4_DST 16

#define TG_IPV6_LEN 4 /* of what follows the header */
#define TG_IPV6_NEXT 6
#define TG_IPV6_HOPS 7
#define TG_IPV6_SRC 8
#define TG_IPV6_DST 24

#define TG_TCP_SEQ 4
#define TG_TCP_ACKED 8 /* the acknowledgment number */
#define TG_TCP_DOFF 12 /* length in words, in the upper half */
#define TG_TCP_FLAGS 13 /* enum tg_tcp_flag */
#define TG_TCP_WINDOW 14
#define TG_TCP_SUM 16

#endif
