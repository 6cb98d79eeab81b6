/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers on the wire, from Ethernet to TCP, and the options of our own SYN-ACKs. For
 * both architectures. Must never hold anything but header types.
 */
#ifndef TG_P4_HEADERS
#define TG_P4_HEADERS

#include "generated.p4"

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header vlan_t {
    bit<16> tci;
    bit<16> ethertype; // of what follows
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_len;
    bit<16> ident;
    bit<1>  reserved;
    bit<1>  df;
    bit<1>  mf;
    bit<13> frag_off; // units of 8 bytes
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow;
    bit<16>  payload_len;
    bit<8>   next;
    bit<8>   ttl;
    bit<128> src;
    bit<128> dst;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
    bit<32> ack;
    bit<4>  doff; // words
    bit<4>  rsvd;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> len;
    bit<16> checksum;
}

/* An ICMP error and the part of a segment that it quotes: often only 8 bytes. */
header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<32> rest;
}

header quoted_tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
}

header quoted_ack_t {
    bit<32> ack;
}

/* The tag of the protocol `tagged`, which comes first among a segment's options, and a confirmation
 * (core/tag.h). MACs as on the wire. */
header tag_t {
    bit<8>  kind;
    bit<8>  len;
    bit<16> experiment;
    bit<32> what; // version 4, what 4, window scale 4, 0 4, edge 16
    bit<32> epoch;
    bit<64> mac;
}

header confirm_t {
    bit<32> head;       // 'T' 'G', version 4 and what 4, family 8
    bit<32> edge_and_0;
    bit<32> scratch;
    bit<32> epoch;
    bit<32> ports;      // client's, server's
    bit<128> client;
    bit<128> server;
    bit<64> mac;
}

/* The options of our own SYN-ACKs: the layout `smartcookie` keeps no others. */
header mss_option_t {
    bit<8>  kind;
    bit<8>  len;
    bit<16> mss;
}

header wscale_option_t {
    bit<8> nop;
    bit<8> kind;
    bit<8> len;
    bit<8> shift;
}

#endif
