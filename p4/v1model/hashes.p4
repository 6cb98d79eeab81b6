/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the two hashes of a packet, both HalfSipHash-2-4. Words have the values that
 * the headers have in network byte order; `a` is the client's side.
 *
 *   cookie   core/cookie_smartcookie.h; only its low 24 bits are ever shown
 *   flow     client address | server address | client port << 16 | server port, under
 *            the filter's own key. 64 bits are needed and none is disclosed, so it
 *            returns v1 ^ v3 and v0 ^ v2 of the last round.
 */
#ifndef TG_P4_V1_HASHES
#define TG_P4_V1_HASHES

#include "types.p4"

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

/* Addresses and ports. */
control HashTuple(inout headers_t hdr, inout metadata_t m) {
    HalfSipWord() a0;
    HalfSipWord() a1;
    HalfSipWord() a2;
    HalfSipWord() a3;
    HalfSipWord() b0;
    HalfSipWord() b1;
    HalfSipWord() b2;
    HalfSipWord() b3;
    HalfSipWord() ports;
    apply {
        if (hdr.ipv6.isValid()) {
            a0.apply(m.s, m.a0);
            a1.apply(m.s, m.a1);
            a2.apply(m.s, m.a2);
        }
        a3.apply(m.s, m.a3);
        if (hdr.ipv6.isValid()) {
            b0.apply(m.s, m.b0);
            b1.apply(m.s, m.b1);
            b2.apply(m.s, m.b2);
        }
        b3.apply(m.s, m.b3);
        ports.apply(m.s, m.ports);
    }
}

/* A cookie's hash over the words before the client's ISN; the state stays in m.s, so that
 * a second ISN can be tried. */
control CookieWords(inout headers_t hdr, inout metadata_t m, in bit<32> k0, in bit<32> k1) {
    HashTuple() flow_words;
    action begin() {
        m.s.v0 = k0;
        m.s.v1 = k1;
        m.s.v2 = k0 ^ 0x6c796765;
        m.s.v3 = k1 ^ 0x74656462;
    }
    apply {
        begin();
        flow_words.apply(hdr, m);
    }
}

/* The rest of it: from m.s and the client's ISN to the whole 32-bit hash. */
control CookieTail(inout headers_t hdr, inout metadata_t m, in bit<32> client_isn, out bit<32> cookie) {
    HalfSipWord() tail;
    HalfSipEnd() end;
    apply {
        if (hdr.ipv4.isValid()) {
            m.tail = (bit<8>)TG_SMART_V4_LEN ++ client_isn[23:0];
        } else {
            m.tail = (bit<8>)TG_SMART_V6_LEN ++ client_isn[23:0];
        }
        tail.apply(m.s, m.tail);
        end.apply(m.s);
        cookie = m.s.v1 ^ m.s.v3;
    }
}

/* From the key and the client's ISN to the whole 32-bit hash. */
control CookieHash(inout headers_t hdr, inout metadata_t m, in bit<32> client_isn,
                   in bit<32> k0, in bit<32> k1, out bit<32> cookie) {
    CookieWords() words;
    CookieTail() tail;
    apply {
        words.apply(hdr, m, k0, k1);
        tail.apply(hdr, m, client_isn, cookie);
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
