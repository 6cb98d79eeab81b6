/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the headers of a packet, what parser and tables have found out about it, and
 * the sizes of this target.
 */
#ifndef TG_P4_V1_TYPES
#define TG_P4_V1_TYPES

#include "../shared/headers.p4"
#include "../shared/halfsiphash.p4"
#include "../shared/siphash.p4"
#include "../shared/parse.p4"

#define P4_SERVICES 64 /* numbers 0..63; 0 counts packets that belong to none */
#define P4_TABLE_SOURCES 65536 /* entries of the whitelist, where it is a table */
#define P4_TABLE_FLOWS 65536   /* entries of the table of connections */
#define P4_TABLE_MACS 8192     /* configured and learned addresses */

/* What ../shared/bloom.p4 is made of. */
#define WORDS(size) register<bit<32>>(size)
#define READ_WORD(words, word, at) words.read(word, at)

/* IPv4 options and IPv6 extension headers are kept and forwarded unchanged. */
header ipv4_options_t {
    varbit<320> data;
}

header ipv6_ext_t {
    bit<8> next;
    bit<8> len; // units of 8 bytes, less 1
    varbit<16368> data;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t[TG_VLAN_TAGS_MAX] vlan;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t ipv6;
    ipv6_ext_t[TG_IPV6_EXT_MAX] ext;
    udp_t udp;
    confirm_t confirm;
    icmp_t icmp;
    ipv4_t quoted_ipv4;
    ipv4_options_t quoted_options;
    ipv6_t quoted_ipv6;
    quoted_tcp_t quoted_tcp;
    quoted_ack_t quoted_ack;
    tcp_t tcp;
    tag_t tag;
    mss_option_t mss;
    wscale_option_t wscale;
}

/* State of a connection in cookie.p4. */
typedef bit<2> flow_state_t;
const flow_state_t FLOW_NONE = 0;
const flow_state_t FLOW_SETUP = 1; // the client is verified, the server has not answered
const flow_state_t FLOW_READY = 2;

struct flow_t {
    flow_state_t state;
    bit<32> value;  // set-up: the ISN that we gave; ready: the server's ISN less ours
    bit<8>  down;   // ready: the server's window shift less the announced one, signed
    bit<8>  up;     // ready: the client's shift, if the server does not scale
    bit<16> window; // the client's, as in its ACK
}

struct metadata_t {
    // The parser's findings.
    parse_t parse;
    bit<1>  first_fragment;
    bit<1>  tcp_due;    // a TCP header must follow; the compiler drops what a later state overwrites,
                        // so `parse` cannot express both
    bit<1>  chain_ended; // IPv6: the header chain does not end in TCP
    bit<1>  no_length;   // IPv6: the header says none
    bit<1>  bad_sum;     // such a segment, whose checksum is wrong; no others are summed
    bit<3>  ext_count;
    bit<32> l3_off;     // bytes from the frame's start to the IP header
    bit<32> head_len;   // bytes of IP header with options or extension headers
    bit<32> l4_len;     // TCP segment by the IP header, header included
    bit<320> options;   // a SYN's options, the next one leftmost
    bit<16> options_left; // bytes
    bit<16> offered_mss;
    bit<8>  offered_wscale;
    bit<1>  wscale_offered;

    // The settings, from a table without a key.
    bit<1>  configured;
    bit<1>  enforce;       // some service is in mode always
    bit<1>  stale_drop;
    bit<1>  learning;
    bit<2>  unknown;       // UNKNOWN_*
    bit<8>  hops;
    bit<8>  generation;
    bit<1>  learn_macs;    // addresses are learned (learn.p4)
    bit<32> bloom_k0;
    bit<32> bloom_k1;

    // The current keys.
    bit<1>  has_key;
    bit<1>  parity;        // of the current epoch
    bit<40> ticks;
    bit<32> present_k0;
    bit<32> present_k1;
    bit<32> previous_k0;
    bit<32> previous_k1;

    // The service.
    bit<1>  inside;        // came from a port with servers behind it
    bit<32> server_v4;
    bit<128> server_v6;
    bit<16> server_port;
    bit<8>  service;       // 0: none
    bit<8>  mode;
    bit<16> mss_v4;
    bit<16> mss_v6;
    bit<16> window;
    bit<8>  wscale;

    // Words for the hashes; a[0..3] and b[0..3] are addresses, a[3] and b[3] IPv4's.
    bit<32> a0; bit<32> a1; bit<32> a2; bit<32> a3;
    bit<32> b0; bit<32> b1; bit<32> b2; bit<32> b3;
    bit<32> ports;
    bit<32> tail;
    halfsiphash_t s;       // of the current hash
    halfsiphash_t kept;    // and before its last word, to try another one

    bit<4>  known;         // generations of the filter that have the flow
    bit<1>  answered;      // the segment is our own and gets full checksums
    bit<1>  reflected;     // it goes back to where the packet came from
    bit<16> answer_len;    // TCP header and options of a segment of our own
    bit<32> frame_len;     // and the whole frame: the rest is cut off

    // The protocol `tagged` (tagged.p4).
    bit<16> edge;          // this edge's number; 0: the protocol is `plain`
    bit<32> mtu;           // of the path to the servers
    bit<32> epoch;         // the current one, low 32 bits
    bit<1>  has_tag_key;
    bit<64> tag_k0;
    bit<64> tag_k1;
    bit<32> tag_epoch;     // whose key is needed
    bit<32> tag_word;
    bit<1>  confirms;      // the packet is a confirmation for this edge
    bit<1>  confirm_near;  // and of an acceptable epoch
    bit<3>  mac_words;
    bit<64> w0; bit<64> w1; bit<64> w2; bit<64> w3; bit<64> w4; bit<64> w5; bit<64> w6;
    siphash_t sip;

    // The whitelist (auth.p4).
    bit<1>  full;          // strategy auth-full; else auth-cookie
    bit<1>  by_table;      // the whitelist is a table; else Bloom registers
    bit<64> salt;          // of challenges without a cookie
    bit<1>  family;        // 1: IPv6
    bit<64> source;        // the source's prefix, as in the whitelist
    bit<1>  white;

    // Digests.
    bit<1>  digested;      // this packet has sent one
    bit<1>  source_known;  // the frame's source address is known at its port

    // The translated connection (cookie.p4); its state is set-up or ready.
    flow_t  flow;
    bit<1>  pair;          // one packet becomes two: ACK to the server, window to the client
    bit<1>  to_known;      // and `to_port` is the client's
    bit<9>  to_port;
}

/* The switch's clock in steps of 1.05 s. Every digest contains it: simple_switch sends an identical
 * sample only once until the controller has read it, so a lost one would never be sent again. */
#define SECONDS(m) (2w0 ++ m.ticks[39:10])

/* What happens to packets that match neither filter nor cookie. */
#define UNKNOWN_NONE 0
#define UNKNOWN_METER 1
#define UNKNOWN_ALL 2

#endif
