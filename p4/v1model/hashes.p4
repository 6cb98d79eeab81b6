/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the words of a packet that are hashed, and the hash that finds a flow in the filter: HalfSipHash-2-4 of
 * client address | server address | client port << 16 | server port, under the filter's own key. 64 bits are needed and
 * none is disclosed, so it returns v1 ^ v3 and v0 ^ v2 of the last round. (The cookie's is in ../shared/cookie.p4.)
 */
#ifndef TG_P4_V1_HASHES
#define TG_P4_V1_HASHES

#include "types.p4"
#include "../shared/cookie.p4"

/* Extracts addresses and ports; `from_server` swaps the sides. */
control HashWords(inout headers_t hdr, inout metadata_t m, in bit<1> from_server) {
    apply {
        bit<128> client;
        bit<128> server;
        if (hdr.ipv4.isValid()) {
            client = (bit<128>)hdr.ipv4.src;
            server = (bit<128>)hdr.ipv4.dst;
        } else {
            client = hdr.ipv6.src;
            server = hdr.ipv6.dst;
        }
        m.ports = hdr.tcp.sport ++ hdr.tcp.dport;
        if (from_server == 1) {
            bit<128> other = client;
            client = server;
            server = other;
            m.ports = hdr.tcp.dport ++ hdr.tcp.sport;
        }
        m.a0 = client[127:96];
        m.a1 = client[95:64];
        m.a2 = client[63:32];
        m.a3 = client[31:0];
        m.b0 = server[127:96];
        m.b1 = server[95:64];
        m.b2 = server[63:32];
        m.b3 = server[31:0];
    }
}

control FlowHash(inout headers_t hdr, inout metadata_t m, out bit<32> lo, out bit<32> hi) {
    HashTuple() flow_words;
    HalfSipWord() tail;
    HalfSipEnd() end;
    action begin() {
        m.s.v0 = m.bloom_k0;
        m.s.v1 = m.bloom_k1;
        m.s.v2 = m.bloom_k0 ^ 0x6c796765;
        m.s.v3 = m.bloom_k1 ^ 0x74656462;
    }
    apply {
        begin();
        flow_words.apply(hdr, m);
        if (hdr.ipv4.isValid()) {
            m.tail = 12 << 24;
        } else {
            m.tail = 36 << 24;
        }
        tail.apply(m.s, m.tail);
        end.apply(m.s);
        lo = m.s.v1 ^ m.s.v3;
        hi = m.s.v0 ^ m.s.v2;
    }
}

#endif
