/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: learns at which port a source address is. A forwarded frame from an address that
 * is unknown at its port is reported to the controller, which adds two entries: `sources`
 * here, and `macs` (forward.p4). Packets cannot write a table, so no packet waits for it,
 * and a flood of forged addresses costs the switch only these digests, whose rate is
 * limited for each port.
 *
 * Must never: learn from a packet that is answered or dropped; displace another digest
 * of the same packet (simple_switch sends one a packet).
 */
#ifndef TG_P4_V1_LEARN
#define TG_P4_V1_LEARN

#include "types.p4"

#define DIGEST_MAC 2

struct mac_digest_t {
    bit<48> address;
    bit<16> port;
    bit<32> when; // as in flows.p4: a lost digest is sent again
}

control Learn(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    meter(512, MeterType.packets) pace; // by port
    action known() { m.source_known = 1; }
    table sources {
        key = {
            hdr.ethernet.src: exact;
            std.ingress_port: exact;
        }
        actions = { known; NoAction; }
        const default_action = NoAction();
        support_timeout = true;
        size = P4_TABLE_MACS;
    }
    apply {
        bit<2> color = 0;
        if (m.learn_macs == 1 && m.digested == 0) {
            sources.apply();
            if (m.source_known == 0 && hdr.ethernet.src[40:40] == 0) { // no group address
                pace.execute_meter((bit<32>)std.ingress_port, color);
                if (color == 0) {
                    digest<mac_digest_t>(DIGEST_MAC, { hdr.ethernet.src, (bit<16>)std.ingress_port,
                                                       SECONDS(m) });
                }
            }
        }
    }
}

#endif
