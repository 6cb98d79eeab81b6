/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: core/bloom.h in registers of single bits: three partitions of 2^20 positions in
 * two generations: one is written, both are read. The controller clears the older one and
 * then makes it the active one.
 *
 * A switch cannot compute HalfSipHash for every packet, so a position is a CRC of
 * addresses and ports. A CRC is linear: its key is its polynomial, which the controller
 * draws at random and loads before the gate (the hash's `configure` table, dynhash.json).
 * The constants here are placeholders. Only somebody who knows the polynomials can compute
 * flows that collide with a known flow's positions.
 */
#ifndef TG_P4_TNA_FILTER
#define TG_P4_TNA_FILTER

#include "types.p4"

typedef bit<FILTER_BITS> position_t;

#define POSITION hash.get({ client, server, client_port, server_port })

/* One partition of one generation, written if that is the active one. One table serves both
 * directions: separate tables would take two of a stage's six hash units each. */
control FilterPart(in bit<32> client, in bit<32> server, in bit<16> client_port, in bit<16> server_port,
                   in bit<4> class, in bit<1> generation, in bit<32> shown, inout bit<1> known)
                  (bit<1> mine, bit<32> placeholder) {
    CRCPolynomial<bit<32>>(placeholder, true, false, false, 0, 0) polynomial;
    Hash<position_t>(HashAlgorithm_t.CUSTOM, polynomial) hash;
    Register<bit<1>, position_t>(1 << FILTER_BITS, 0) positions;
    RegisterAction<bit<1>, position_t, bit<1>>(positions) read = {
        void apply(inout bit<1> value, out bit<1> rv) { rv = value; }
    };
    RegisterAction<bit<1>, position_t, bit<1>>(positions) write = {
        void apply(inout bit<1> value, out bit<1> rv) {
            value = 1;
            rv = 1;
        }
    };
    action look() { known = read.execute(POSITION); }
    action put() { write.execute(POSITION); }
    table parts {
        key = {
            class: ternary @name("class");
            generation: ternary @name("generation");
            shown[23:0]: ternary @name("difference");
        }
        actions = { look; put; NoAction; }
        const default_action = NoAction();
        const entries = {
            (CLASS_KEEP, mine, _): put();
            (CLASS_PROVE, mine, 0): put();
            (CLASS_ASK, _, _): look();
            (CLASS_ASK_ACK, _, _): look();
        }
        size = 4;
    }
    apply { parts.apply(); }
}

/* The generations of a partition have the same polynomial. */
control Filter(inout metadata_t m) {
    FilterPart(0, 0x04c11db7) part00;
    FilterPart(0, 0x1edc6f41) part01;
    FilterPart(0, 0x741b8cd7) part02;
    FilterPart(1, 0x04c11db7) part10;
    FilterPart(1, 0x1edc6f41) part11;
    FilterPart(1, 0x741b8cd7) part12;
#define FLOW m.client, m.server, m.client_port, m.server_port, m.class, m.generation, m.shown
    apply {
        part00.apply(FLOW, m.known00);
        part10.apply(FLOW, m.known10);
        part01.apply(FLOW, m.known01);
        part11.apply(FLOW, m.known11);
        part02.apply(FLOW, m.known02);
        part12.apply(FLOW, m.known12);
    }
}

#endif
