/* SPDX-License-Identifier: Apache-2.0
 *
 * HalfSipHash-2-4, one round at a time. A round is the default action of a table without
 * a key, which stops the compiler's copy propagation. Written inline, each round would be
 * substituted into the expressions of the next, and the output of p4c-bm2-ss (1.2.5)
 * would grow about sixteenfold with every round.
 */
#ifndef TG_P4_HALFSIPHASH
#define TG_P4_HALFSIPHASH

/* uBPF's compiler knows no constant default actions. */
#ifndef DEFAULT_ACTION
#define DEFAULT_ACTION const default_action
#endif

struct halfsiphash_t {
    bit<32> v0;
    bit<32> v1;
    bit<32> v2;
    bit<32> v3;
}

/* One round, with additions and rotations in pairs as in the figure of the SipHash paper. */
control HalfSipRound(inout halfsiphash_t s) {
    action round() {
        s.v0 = s.v0 + s.v1;
        s.v2 = s.v2 + s.v3;
        s.v1 = s.v1[26:0] ++ s.v1[31:27];
        s.v3 = s.v3[23:0] ++ s.v3[31:24];
        s.v1 = s.v1 ^ s.v0;
        s.v3 = s.v3 ^ s.v2;
        s.v0 = s.v0[15:0] ++ s.v0[31:16];
        s.v2 = s.v2 + s.v1;
        s.v0 = s.v0 + s.v3;
        s.v1 = s.v1[18:0] ++ s.v1[31:19];
        s.v3 = s.v3[24:0] ++ s.v3[31:25];
        s.v1 = s.v1 ^ s.v2;
        s.v3 = s.v3 ^ s.v0;
        s.v2 = s.v2[15:0] ++ s.v2[31:16];
    }
    table rounds {
        actions = { round; }
        DEFAULT_ACTION = round();
        size = 1;
    }
    apply { rounds.apply(); }
}

/* Absorbs one little-endian word of the message. */
control HalfSipWord(inout halfsiphash_t s, in bit<32> m) {
    HalfSipRound() first;
    HalfSipRound() second;
    action before() { s.v3 = s.v3 ^ m; }
    action after() { s.v0 = s.v0 ^ m; }
    table absorb {
        actions = { before; }
        DEFAULT_ACTION = before();
        size = 1;
    }
    table absorbed {
        actions = { after; }
        DEFAULT_ACTION = after();
        size = 1;
    }
    apply {
        absorb.apply();
        first.apply(s);
        second.apply(s);
        absorbed.apply();
    }
}

/* The last four rounds. The hash is then v1 ^ v3. */
control HalfSipEnd(inout halfsiphash_t s) {
    HalfSipRound() first;
    HalfSipRound() second;
    HalfSipRound() third;
    HalfSipRound() fourth;
    action before() { s.v2 = s.v2 ^ 0xff; }
    table finalize {
        actions = { before; }
        DEFAULT_ACTION = before();
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
