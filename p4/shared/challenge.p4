/* SPDX-License-Identifier: Apache-2.0
 *
 * The ISN of a challenge without a cookie: a mix of three 64-bit multiplications,
 * which software has and hardware switches lack; there a cookie is cheaper. Anybody
 * who sees three challenges can find the salt, but knowing it verifies no source
 * (docs/p4.md). This is not the hash of core/proxy.h, which is keyed. One keyless table for
 * each step, as in halfsiphash.p4. Bytes are little-endian, as the other planes load them.
 */
#ifndef TG_P4_CHALLENGE
#define TG_P4_CHALLENGE

#define SWAP32(x) (x[7:0] ++ x[15:8] ++ x[23:16] ++ x[31:24])

control ChallengeIsn(inout headers_t hdr, inout metadata_t m, in bit<32> client_isn, out bit<32> isn) {
    bit<64> h;
    bit<64> other;
    bit<32> ports;

    action first() {
        h = h * 64w0x9e3779b97f4a7c15;
        ports = m.ports[23:16] ++ m.ports[31:24] ++ 16w0;
        ports = m.ports[7:0] ++ m.ports[15:8] ++ ports[31:16];
    }
    table step1 {
        actions = { first; }
        DEFAULT_ACTION = first();
        size = 1;
    }
    action second() {
        h = ((h ^ other) ^ m.salt) + (client_isn ++ ports);
        h = h ^ (h >> 32);
    }
    table step2 {
        actions = { second; }
        DEFAULT_ACTION = second();
        size = 1;
    }
    action third() { h = h * 64w0xbf58476d1ce4e5b9; }
    table step3 {
        actions = { third; }
        DEFAULT_ACTION = third();
        size = 1;
    }
    action fourth() {
        h = h ^ (h >> 29);
        h = h * 64w0x94d049bb133111eb;
    }
    table step4 {
        actions = { fourth; }
        DEFAULT_ACTION = fourth();
        size = 1;
    }
    apply {
        h = (bit<64>)SWAP32(m.a3);
        other = 0;
        if (hdr.ipv6.isValid()) {
            h = SWAP32(m.a1) ++ SWAP32(m.a0);
            other = SWAP32(m.a3) ++ SWAP32(m.a2);
        }
        step1.apply();
        step2.apply();
        step3.apply();
        step4.apply();
        isn = h[63:32];
    }
}

#endif
