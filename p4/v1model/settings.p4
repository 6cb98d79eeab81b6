/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: everything that the controller sets. Entries are replaced as a whole, so a
 * packet sees either the old or the new one. A switch without settings forwards
 * everything.
 */
#ifndef TG_P4_V1_SETTINGS
#define TG_P4_V1_SETTINGS

#include "types.p4"

control Settings(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    action set_gate(bit<1> enforce, bit<1> stale_drop, bit<1> learning, bit<2> unknown, bit<8> hops,
                    bit<8> generation, bit<32> bloom_k0, bit<32> bloom_k1, bit<1> learn_macs) {
        m.configured = 1;
        m.enforce = enforce;
        m.stale_drop = stale_drop;
        m.learning = learning;
        m.unknown = unknown;
        m.hops = hops;
        m.generation = generation;
        m.bloom_k0 = bloom_k0;
        m.bloom_k1 = bloom_k1;
        m.learn_macs = learn_macs;
    }
    table gate {
        actions = { set_gate; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    action set_inside() { m.inside = 1; }
    /* Ports with servers behind them; packets from there are trusted. */
    table inside_ports {
        key = { std.ingress_port: exact; }
        actions = { set_inside; NoAction; }
        const default_action = NoAction();
        size = 512;
    }

    /* The keys of an epoch, by the switch's own clock in ticks of 1,024 microseconds:
     * an epoch is a handful of prefixes. So keys change when the epoch does, whatever
     * the controller is doing, and it may be away until the last epoch that it loaded. */
    action set_keys(bit<32> epoch, bit<1> parity, bit<32> k0, bit<32> k1, bit<32> before_k0, bit<32> before_k1) {
        m.has_key = 1;
        m.epoch = epoch;
        m.parity = parity;
        m.present_k0 = k0;
        m.present_k1 = k1;
        m.previous_k0 = before_k0;
        m.previous_k1 = before_k1;
    }
    table epochs {
        key = { m.ticks: lpm; }
        actions = { set_keys; NoAction; }
        const default_action = NoAction();
        size = 8192;
    }

    apply {
        gate.apply();
        inside_ports.apply();
        m.ticks = 2w0 ++ std.ingress_global_timestamp[47:10];
        epochs.apply();
    }
}

control Services(inout headers_t hdr, inout metadata_t m) {
    action set_service(bit<8> service, bit<8> mode, bit<16> mss_v4, bit<16> mss_v6,
                       bit<16> window, bit<8> wscale) {
        m.service = service;
        m.mode = mode;
        m.mss_v4 = mss_v4;
        m.mss_v6 = mss_v6;
        m.window = window;
        m.wscale = wscale;
    }
    table services_v4 {
        key = {
            m.server_port: exact;
            m.server_v4: lpm;
        }
        actions = { set_service; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }
    table services_v6 {
        key = {
            m.server_port: exact;
            m.server_v6: lpm;
        }
        actions = { set_service; NoAction; }
        const default_action = NoAction();
        size = 4096;
    }
    apply {
        m.server_port = m.inside == 1 ? hdr.tcp.sport : hdr.tcp.dport;
        m.server_v4 = m.inside == 1 ? hdr.ipv4.src : hdr.ipv4.dst;
        m.server_v6 = m.inside == 1 ? hdr.ipv6.src : hdr.ipv6.dst;
        if (m.confirms == 1) { // the flow that it confirms
            m.server_port = hdr.confirm.ports[15:0];
            m.server_v4 = hdr.confirm.server[127:96];
            m.server_v6 = hdr.confirm.server;
        }
        if (hdr.quoted_tcp.isValid()) { // the flow that an ICMP error quotes, in the opposite direction
            m.server_port = m.inside == 1 ? hdr.quoted_tcp.dport : hdr.quoted_tcp.sport;
            m.server_v4 = m.inside == 1 ? hdr.quoted_ipv4.dst : hdr.quoted_ipv4.src;
            m.server_v6 = m.inside == 1 ? hdr.quoted_ipv6.dst : hdr.quoted_ipv6.src;
        }
        if (hdr.ipv4.isValid()) {
            services_v4.apply();
        } else {
            services_v6.apply();
        }
    }
}

#endif
