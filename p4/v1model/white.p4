/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the whitelist of verified sources, by address, for IPv6 by its first 64 bits.
 * The settings choose where it is:
 *
 *   table      the switch sends a digest to the controller, which adds an entry and removes
 *              it when the source has not come again within the window
 *   registers  three bits in bloom.p4's filter, by a secret hash; a source that comes again
 *              is put into the active generation, and the oldest one is cleared
 */
#ifndef TG_P4_V1_WHITE
#define TG_P4_V1_WHITE

#include "types.p4"
#include "bloom.p4"

#define DIGEST_WHITE 1 /* bmv2 numbers digests by their order, not by this */

struct white_digest_t {
    bit<8>  family; // 0: IPv4, 1: IPv6
    bit<64> source;
    bit<32> when; // SECONDS
}

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

control WhiteTable(inout metadata_t m) {
    action known() { m.white = 1; }
    table sources {
        key = {
            m.family: exact;
            m.source: exact;
        }
        actions = { known; NoAction; }
        const default_action = NoAction();
        support_timeout = true;
        size = P4_TABLE_SOURCES;
    }
    apply { sources.apply(); }
}

#endif
