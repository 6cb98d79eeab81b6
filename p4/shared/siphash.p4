/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4 with 64 bits of output; a keyless table for each round, as in halfsiphash.p4.
 * Needs 64-bit additions, which simple_switch has.
 */
#ifndef TG_P4_SIPHASH
#define TG_P4_SIPHASH

struct siphash_t {
    bit<64> v0;
    bit<64> v1;
    bit<64> v2;
    bit<64> v3;
}

control SipRound(inout siphash_t s) {
    action round() {
        s.v0 = s.v0 + s.v1;
        s.v2 = s.v2 + s.v3;
        s.v1 = s.v1[50:0] ++ s.v1[63:51];
        s.v3 = s.v3[47:0] ++ s.v3[63:48];
        s.v1 = s.v1 ^ s.v0;
        s.v3 = s.v3 ^ s.v2;
        s.v0 = s.v0[31:0] ++ s.v0[63:32];
        s.v2 = s.v2 + s.v1;
        s.v0 = s.v0 + s.v3;
        s.v1 = s.v1[46:0] ++ s.v1[63:47];
        s.v3 = s.v3[42:0] ++ s.v3[63:43];
        s.v1 = s.v1 ^ s.v2;
        s.v3 = s.v3 ^ s.v0;
        s.v2 = s.v2[31:0] ++ s.v2[63:32];
    }
    table rounds {
        actions = { round; }
        const default_action = round();
        size = 1;
    }
    apply { rounds.apply(); }
}

/* Absorbs 8 bytes, given as a little-endian number. */
control SipWord(inout siphash_t s, in bit<64> w) {
    SipRound() first;
    SipRound() second;
    action before() { s.v3 = s.v3 ^ w; }
    action after() { s.v0 = s.v0 ^ w; }
    table absorb {
        actions = { before; }
        const default_action = before();
        size = 1;
    }
    table absorbed {
        actions = { after; }
        const default_action = after();
        size = 1;
    }
    apply {
        absorb.apply();
        first.apply(s);
        second.apply(s);
        absorbed.apply();
    }
}

/* The last four rounds. The hash is then v0 ^ v1 ^ v2 ^ v3. */
control SipEnd(inout siphash_t s) {
    SipRound() first;
    SipRound() second;
    SipRound() third;
    SipRound() fourth;
    action before() { s.v2 = s.v2 ^ 0xff; }
    table finalize {
        actions = { before; }
        const default_action = before();
        size = 1;
    }
    apply {
        finalize.apply();
        first.apply(s);
        second.apply(s);
        third.apply(s);
        fourth.apply(s);
    }
}

#endif
