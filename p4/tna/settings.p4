/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: everything that the controller sets, except MAC addresses. A switch
 * without settings forwards everything.
 */
#ifndef TG_P4_TNA_SETTINGS
#define TG_P4_TNA_SETTINGS

#include "types.p4"

control Gate(inout metadata_t m) {
    action set_gate(bit<1> enforce, bit<1> stale_drop, bit<1> learning, bit<1> unknown, bit<1> generation,
                    bit<8> hops, bit<9> recirculation) {
        m.enforce = enforce;
        m.stale_drop = stale_drop;
        m.learning = learning;
        m.unknown = unknown;
        m.generation = generation;
        m.hops = hops;
        m.recirculation = recirculation;
    }
    table gate {
        actions = { set_gate; NoAction; }
        default_action = NoAction();
        size = 1;
    }
    apply { gate.apply(); }
}

/* The key of an epoch, by the switch's own clock in ticks of 2^20 ns, as prefixes; so
 * keys change with the epoch, whatever the controller is doing. For an ACK the cookie's
 * parity says which epoch is meant. The cookie is the acknowledgment number less 1, so the
 * number's highest bit is wrong if all others are 0; that case has entries of its own.
 * The action's data are the hash's state under the key, before the first word:
 * k0, k1, k0 ^ 0x6c796765, k1 ^ 0x74656462. */
control Keys(inout headers_t hdr, inout metadata_t m, in bit<28> ticks) {
    action set_key(bit<32> v0, bit<32> v1, bit<32> v2, bit<32> v3, bit<8> parity) {
        m.has_key = 1;
        hdr.note.parity = parity;
        hdr.s.v0 = v0;
        hdr.s.v1 = v1;
        hdr.s.v2 = v2;
        hdr.s.v3 = v3 ^ m.client;
    }
    table epochs {
        key = {
            ticks: ternary;
            hdr.tcp.flags[4:4]: ternary @name("ack");
            hdr.tcp.ack: ternary;
        }
        actions = { set_key; NoAction; }
        const default_action = NoAction();
        size = 1024;
    }
    apply { epochs.apply(); }
}

control Services(inout metadata_t m) {
    action set_service(bit<16> mss, bit<16> window, bit<8> wscale, bit<1> scales) {
        m.service = 1;
        m.mss = mss;
        m.window = window;
        m.wscale = wscale;
        m.scales = scales;
    }
    table services {
        key = {
            m.server_port: exact;
            m.server: lpm;
        }
        actions = { set_service; NoAction; }
        const default_action = NoAction();
        size = 512;
    }
    apply { services.apply(); }
}

#endif
