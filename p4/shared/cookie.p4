/* SPDX-License-Identifier: Apache-2.0
 *
 * A cookie's hash, HalfSipHash-2-4 (core/cookie_smartcookie.h); only its low 24 bits are ever shown. The architecture's
 * metadata has the words, with the values that the headers have in network byte order; `a` is the client's side. For
 * every architecture whose types.p4 is included before.
 */
#ifndef TG_P4_COOKIE
#define TG_P4_COOKIE

#include "halfsiphash.p4"

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

#endif
