/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
 *
 * The offsets of header fields, in bytes from the header's beginning, as the RFCs draw them:
 * Ethernet, IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293), UDP (RFC 768), ICMP (RFC 792, 4443).
 */
#ifndef TG_HEADERS_H
#define TG_HEADERS_H

#define TG_ETH_SRC 6
#define TG_ETH_TYPE 12
#define TG_ETH_TYPE_TAGGED 16 /* behind an 802.1Q tag */
#define TG_MAC_LO 4 /* the last two bytes of a MAC address, which is read as 32 and 16 bits */

#define TG_IPV4_TOS 1 /* DSCP and ECN */
#define TG_IPV4_LEN 2
#define TG_IPV4_ID 4
#define TG_IPV4_FRAG 6 /* flags and fragment offset */
#define TG_IPV4_TTL 8
#define TG_IPV4_PROTO 9
#define TG_IPV4_SUM 10
#define TG_IPV4_SRC 12
#define TG_IPV4_DST 16

#define TG_IPV6_TCLASS 1 /* the lower half of DSCP and ECN, in the upper half */
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

#define TG_UDP_DPORT 2
#define TG_UDP_LEN 4 /* with its header */
#define TG_UDP_SUM 6

#define TG_ICMP_SUM 2
#define TG_ICMP_REST 4

#endif
