/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: what the program `cookie` knows of connections.
 *
 *   FlowTable  the difference of sequence numbers, in a table that only the controller
 *              writes: notified by a digest, it adds the entry, and removes it when it has
 *              not been used for a while
 *   Setup      bridges the time until the entry exists: a slot in registers for each value
 *              of 16 bits of the flow's hash. A new flow replaces the one before; 32 more
 *              bits of the hash say whose slot it is. A slot is valid for SETUP_AGES, so
 *              that an abandoned one is not believed for ever.
 *
 *   word of a slot    63      32 31  28 27 26 25  21 20  17 16   1 0
 *                    +----------+------+-----+------+------+------+-+
 *                    |   when   |   0  |state| down |  up  |window|0|
 *                    +----------+------+-----+------+------+------+-+
 */
#ifndef TG_P4_V1_FLOWS
#define TG_P4_V1_FLOWS

#include "types.p4"

#define SETUP_PLACES 65536
#define SETUP_AGES 16 /* of 1.05 s each */

#define DIGEST_FLOW 1

/* kind: FLOW_READY, or FLOW_NONE when the server has ended the connection. */
struct flow_digest_t {
    bit<8>  family; // 0: IPv4, 1: IPv6
    bit<8>  kind;
    bit<32> a0; bit<32> a1; bit<32> a2; bit<32> a3; // the client
    bit<32> b0; bit<32> b1; bit<32> b2; bit<32> b3; // the server
    bit<32> ports;
    bit<32> delta;
    bit<8>  down;
    bit<8>  up;
    bit<16> window;
    bit<32> when; // SECONDS
}

/* After HashWords. */
control FlowTable(inout headers_t hdr, inout metadata_t m) {
    action translate(bit<32> delta, bit<8> down, bit<8> up, bit<16> window) {
        m.flow.state = FLOW_READY;
        m.flow.value = delta;
        m.flow.down = down;
        m.flow.up = up;
        m.flow.window = window;
    }
    table flows {
        key = {
            m.family: exact;
            m.a0: exact;
            m.a1: exact;
            m.a2: exact;
            m.a3: exact;
            m.b0: exact;
            m.b1: exact;
            m.b2: exact;
            m.b3: exact;
            m.ports: exact;
        }
        actions = { translate; NoAction; }
        const default_action = NoAction();
        support_timeout = true;
        size = P4_TABLE_FLOWS;
    }
    apply {
        m.family = 0;
        if (hdr.ipv6.isValid()) {
            m.family = 1;
        }
        flows.apply();
    }
}

/* `put`: writes m.flow into its slot; otherwise looks it up, and sets `again` if the
 * controller has had a second to add an entry and must be notified once more. */
control Setup(inout metadata_t m, in bit<32> lo, in bit<32> hi, in bit<1> put, out bit<1> retransmit) {
    register<bit<32>>(SETUP_PLACES) owners;
    register<bit<32>>(SETUP_PLACES) values;
    register<bit<64>>(SETUP_PLACES) states;
    bit<32> owner;
    bit<64> state;
    bit<32> now;
    bit<32> at;

    apply {
        retransmit = 0;
        at = lo & (SETUP_PLACES - 1);
        now = SECONDS(m);
        if (put == 1) {
            state = now ++ 4w0 ++ m.flow.state ++ m.flow.down[4:0] ++ m.flow.up[3:0] ++ m.flow.window ++ 1w0;
            owners.write(at, hi);
            values.write(at, m.flow.value);
            states.write(at, state);
        } else {
            owners.read(owner, at);
            states.read(state, at);
            if (owner == hi && now - state[63:32] < SETUP_AGES) {
                values.read(m.flow.value, at);
                m.flow.state = state[27:26];
                m.flow.down = (bit<8>)state[25:21];
                if (state[25:25] == 1) {
                    m.flow.down = 3w7 ++ state[25:21];
                }
                m.flow.up = (bit<8>)state[20:17];
                m.flow.window = state[16:1];
                if (now != state[63:32]) {
                    retransmit = 1;
                }
            }
        }
    }
}

#endif
