/* SPDX-License-Identifier: Apache-2.0
 *
 * HalfSipHash-2-4 in steps that take one stage of a Tofino each: an ALU does one
 * operation on one container, so a round is add, xor, add, xor, with the rotations
 * beside them on containers that are idle. What comes between two rounds (a word of the
 * message, the constant of finalisation) joins the last step of the first one: it would be
 * a second xor, so the stage's hash unit, which is linear, does both. The word that is XORed
 * out goes through it, too: rotations split the state's containers into single bits, and
 * the compiler takes minutes if an ALU ties the words to the state.
 *
 * No externs of any architecture: the schedule also runs on bmv2 (v1model/passes.p4), where
 * its result is compared. Must never: hold a key.
 */
#ifndef TG_P4_TNA_ROUNDS
#define TG_P4_TNA_ROUNDS

/* The state, as it also travels from one pass to the next. */
header halfsip_t {
    bit<32> v0;
    bit<32> v1;
    bit<32> v2;
    bit<32> v3;
}

/* A table without a key always runs its action; its dependencies give it a stage of its own. */
#define STEP(name) \
    table name##s { \
        actions = { name; } \
        const default_action = name(); \
        size = 1; \
    }

/* Three of a round's four steps. */
control RoundHead(inout halfsip_t s) {
    action add() {
        s.v0 = s.v0 + s.v1;
        s.v2 = s.v2 + s.v3;
        s.v1 = s.v1[26:0] ++ s.v1[31:27];
        s.v3 = s.v3[23:0] ++ s.v3[31:24];
    }
    action mix() {
        s.v1 = s.v1 ^ s.v0;
        s.v3 = s.v3 ^ s.v2;
        s.v0 = s.v0[15:0] ++ s.v0[31:16];
    }
    action cross() {
        s.v2 = s.v2 + s.v1;
        s.v0 = s.v0 + s.v3;
        s.v1 = s.v1[18:0] ++ s.v1[31:19];
        s.v3 = s.v3[24:0] ++ s.v3[31:25];
    }
    STEP(add)
    STEP(mix)
    STEP(cross)
    apply {
        adds.apply();
        mixs.apply();
        crosss.apply();
    }
}

/* The fourth. */
control RoundTail(inout halfsip_t s) {
    action tail() {
        s.v1 = s.v1 ^ s.v2;
        s.v3 = s.v3 ^ s.v0;
        s.v2 = s.v2[15:0] ++ s.v2[31:16];
    }
    STEP(tail)
    apply { tails.apply(); }
}

/* The fourth, then one word is XORed out and the next one absorbed; 0 and 0: neither. */
control RoundTailWord(inout halfsip_t s, in bit<32> behind, in bit<32> next) {
    action tail() {
        s.v1 = s.v1 ^ s.v2;
        @in_hash { s.v3 = s.v3 ^ s.v0 ^ next; }
        s.v2 = s.v2[15:0] ++ s.v2[31:16];
    }
    action leave() {
        @in_hash { s.v0 = s.v0 ^ behind; }
    }
    STEP(tail)
    STEP(leave) // in the same stage: one table has at most 32 bits of the hash units
    apply {
        tails.apply();
        leaves.apply();
    }
}

/* Beside the very last step: the hash is v1 ^ v3 after it, hence a function of all four words
 * before it. Its low 24 bits, XORed with all 32 of `told`. */
control HashShown(in halfsip_t s, in bit<32> advertised, out bit<32> shown) {
    action show() {
        @in_hash {
            shown = advertised ^ (8w0 ++ (s.v0[23:0] ^ s.v1[23:0] ^ s.v2[23:0] ^ s.v3[23:0]));
        }
    }
    STEP(show)
    apply { shows.apply(); }
}

/* The fourth, then the last word is XORed out and `end` (0xff) begins finalisation. */
control RoundTailEnd(inout halfsip_t s, in bit<32> behind, in bit<8> end) {
    action tail() {
        s.v1 = s.v1 ^ s.v2;
        s.v3 = s.v3 ^ s.v0;
        @in_hash { s.v2 = (s.v2[15:0] ++ s.v2[31:16]) ^ (24w0 ++ end); }
    }
    action leave() {
        @in_hash { s.v0 = s.v0 ^ behind; }
    }
    STEP(tail)
    STEP(leave)
    apply {
        tails.apply();
        leaves.apply();
    }
}

#endif
