/* SPDX-License-Identifier: Apache-2.0
 *
 * uBPF: headers and metadata. Its compiler computes with 64 bits at most and writes fields of fewer than 8 bits that
 * cross a byte wrongly: IPv6's header is of words here. It has no header stacks and no varbit either.
 */
#ifndef TG_P4_UBPF_TYPES
#define TG_P4_UBPF_TYPES

#define DEFAULT_ACTION default_action
#include "../shared/headers.p4"
#include "../shared/parse.p4"
#include "../shared/halfsiphash.p4"

/* What ../shared/bloom.p4 is made of. */
#define WORDS(size) Register<bit<32>, bit<32>>(size)
#define READ_WORD(words, word, at) word = words.read(at)

header ipv6_words_t {
    bit<32> first; // version, traffic class, flow label
    bit<16> payload_len;
    bit<8>  next;
    bit<8>  ttl;
    bit<32> src0; bit<32> src1; bit<32> src2; bit<32> src3;
    bit<32> dst0; bit<32> dst1; bit<32> dst2; bit<32> dst3;
}

/* Four bytes of TCP options. */
header word_t {
    bit<32> data;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t vlan0;
    vlan_t vlan1;
    ipv4_t ipv4;
    ipv6_words_t ipv6;
    tcp_t tcp;
    mss_option_t mss;
    wscale_option_t wscale;
    word_t w0; word_t w1; word_t w2; word_t w3; word_t w4;
    word_t w5; word_t w6; word_t w7; word_t w8; word_t w9;
}

struct metadata_t {
    // The parser's findings.
    bit<3>  parse;
    bit<1>  first_fragment;
    bit<32> l3_off;
    bit<32> head_len;
    bit<32> l4_len;
    bit<64> o0; bit<64> o1; bit<64> o2; bit<64> o3; bit<64> o4; // options, the next byte first
    bit<8>  left;      // bytes of them
    bit<8>  skip;      // bytes of the current one
    bit<16> offered_mss;
    bit<8>  offered_wscale;
    bit<1>  wscale_offered;
    bit<1>  bad_sum;   // never: sums are not verified here

    // The settings, and the keys of the current epoch and the previous one.
    bit<1>  configured;
    bit<1>  full;
    bit<64> salt;
    bit<1>  stale_drop;
    bit<32> inside_port;
    bit<1>  has_key;
    bit<1>  parity;
    bit<32> present_k0;
    bit<32> present_k1;
    bit<32> previous_k0;
    bit<32> previous_k1;
    bit<8>  generation;
    bit<32> bloom_k0;
    bit<32> bloom_k1;

    // The service.
    bit<8>  service;
    bit<8>  mode;
    bit<16> mss_v4;
    bit<16> mss_v6;
    bit<16> window;
    bit<8>  wscale;

    // Words for the hashes, as in ../v1model/types.p4.
    bit<32> a0; bit<32> a1; bit<32> a2; bit<32> a3;
    bit<32> b0; bit<32> b1; bit<32> b2; bit<32> b3;
    bit<32> ports;
    bit<32> tail;
    halfsiphash_t s;
    bit<1>  family;
    bit<64> source;
    bit<4>  known;
    bit<1>  white;
}

#endif
