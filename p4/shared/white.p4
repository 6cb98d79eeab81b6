/* SPDX-License-Identifier: Apache-2.0
 *
 * A source's key in the whitelist, and where the whitelist in registers keeps it (bloom.p4).
 */
#ifndef TG_P4_WHITE
#define TG_P4_WHITE

#include "halfsiphash.p4"
#include "bloom.p4"

/* HalfSipHash-2-4 of the source, as FlowHash is of a flow: 64 bits. */
control SourceHash(inout metadata_t m, out bit<32> lo, out bit<32> hi) {
    HalfSipWord() first;
    HalfSipWord() second;
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
        if (m.family == 1) {
            first.apply(m.s, m.source[63:32]);
            m.tail = 8 << 24;
        } else {
            m.tail = 4 << 24;
        }
        second.apply(m.s, m.source[31:0]);
        tail.apply(m.s, m.tail);
        end.apply(m.s);
        lo = m.s.v1 ^ m.s.v3;
        hi = m.s.v0 ^ m.s.v2;
    }
}

/* After HashWords: this source's key in the whitelist. */
control WhiteSource(inout headers_t hdr, inout metadata_t m) {
    apply {
        m.family = 0;
        m.source = (bit<64>)m.a3;
        if (hdr.ipv6.isValid()) {
            m.family = 1;
            m.source = m.a0 ++ m.a1;
        }
    }
}

/* True for a source that the filter knows; `put` if the active generation does not. */
control WhiteBits(inout metadata_t m, out bit<1> put) {
    apply {
        put = 0;
        if (m.known != 0) {
            bit<4> active = m.known >> m.generation[1:0];
            m.white = 1;
            if ((active & 1) == 0) {
                put = 1;
            }
        }
    }
}

#endif
