/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: headers and metadata of the edge. Our own headers never leave the switch: they carry
 * the note from ingress to egress, and with the hash's state to the next pass.
 */
#ifndef TG_P4_TNA_TYPES
#define TG_P4_TNA_TYPES

#include "../shared/headers.p4"
#include "passes.p4"

#define FLOOD_GROUP 1 /* the multicast group of all ports */
#define FILTER_BITS TG_BLOOM_BITS

/* What kind of packet is being hashed. */
#define KIND_NONE 0
#define KIND_SYN 1
#define KIND_ACK 2

/* A packet's class: what Judge finds, and what Verdict decides by, with filter and cookie. */
#define CLASS_FORWARD 0
#define CLASS_DROP 1
#define CLASS_ANSWER 2   // a SYN: make a cookie
#define CLASS_ASK_ACK 3  // look the flow up; if it is unknown, check for a cookie
#define CLASS_ASK 4      // look the flow up; it cannot have a cookie
#define CLASS_KEEP 5     // from a server: keeps its flow in the filter
#define CLASS_TURN 6     // being hashed: recirculate
#define CLASS_MADE 7     // the cookie is complete
#define CLASS_PROVE 8    // compare the cookie

/* What the controller sets for a port (phase 0). */
struct port_t {
    bit<1>  inside;       // servers are behind it
    bit<1>  recirculates; // packets from there have a note
    @padding bit<62> pad;
}

/* First in every packet between ingress and egress, and in a recirculated one. */
header note_t {
    bit<8>  lap;    // passes before this one; in egress: of the next one, 0: it leaves
    bit<8>  kind;   // KIND_*
    bit<8>  parity; // of the epoch whose key is used
    @padding bit<7> pad;
    bit<9>  port;   // of arrival
    bit<32> isn;    // the hash's last word: 24 bits of the client's ISN, and the length
}

header option_mss_t {
    bit<8>  kind;
    bit<8>  len;
    bit<16> mss;
}

header option_wscale_t {
    bit<8> kind;
    bit<8> len;
    bit<8> shift;
}

struct headers_t {
    note_t note;
    halfsip_t s;
    egress_words_t words;
    ethernet_t ethernet;
    vlan_t[TG_VLAN_TAGS_MAX] vlan;
    ipv4_t ipv4;
    tcp_t tcp;
    mss_option_t mss;       // ours
    wscale_option_t wscale;
    option_mss_t offered_mss;
    option_wscale_t offered_wscale;
}

/* Initially 0; tables without a match leave it so. Several tables of one stage write what
 * the filter knows, so each bit has a container to itself. */
@pa_auto_init_metadata
@pa_solitary("ingress", "m.known00")
@pa_solitary("ingress", "m.known01")
@pa_solitary("ingress", "m.known02")
@pa_solitary("ingress", "m.known10")
@pa_solitary("ingress", "m.known11")
@pa_solitary("ingress", "m.known12")
struct metadata_t {
    port_t  port;
    bit<1>  bad_sum;       // IPv4's
    bit<1>  tcp_behind_options;
    bit<1>  overlay;       // a fragment that would overwrite TCP's flags (RFC 3128)

    // The flow, the same for both directions.
    bit<32> client;
    bit<32> server;
    bit<16> client_port;
    bit<16> server_port;
    bit<32> ports;         // both ports of a client's packet: a word of the hash

    // The settings.
    bit<1>  enforce;
    bit<1>  stale_drop;
    bit<1>  learning;
    bit<1>  unknown;       // 1: unknown packets are forwarded
    bit<1>  generation;    // the filter's active one
    bit<8>  hops;
    bit<9>  recirculation;

    bit<1>  has_key;
    bit<1>  service;
    bit<1>  scales;        // the service has a window scale
    bit<8>  wscale;
    bit<16> mss;
    bit<16> window;
    bit<1>  bogus;         // an impossible source
    bit<1>  lies;          // lengths that contradict each other
    bit<1>  far;           // too few hops left
    bit<4>  class;

    ingress_words_t w;
    bit<3>  mss_index;     // what the cookie keeps of a SYN's options
    bit<4>  ack_info;
    bit<32> advertised;          // ACK: the cookie that it returns; SYN: the bits above the hash
    bit<32> shown;

    // What the filter knows: generation, partition.
    bit<1>  known00; bit<1> known01; bit<1> known02;
    bit<1>  known10; bit<1> known11; bit<1> known12;

    bit<1>  rewritten;     // recompute IPv4's checksum
    bit<1>  answered;      // and TCP's
    bit<16> tcp_len;       // of an answer
}

struct egress_metadata_t { }

#endif
