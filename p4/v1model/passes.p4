/* SPDX-License-Identifier: Apache-2.0
 *
 * Not a gate: the schedule of a Tofino edge (tna/passes.p4) run on bmv2, so that its result can
 * be compared with the other planes'. A frame is the state, the words and the result; it
 * leaves by the port of its arrival. passes2.p4: the same with Tofino 2's schedule.
 */
#include <core.p4>
#include <v1model.p4>
#ifndef TG_PASSES
#define TG_PASSES 3
#endif
#include "../tna/passes.p4"

#define PROBE_ETHERTYPE 0x88b5 /* IEEE 802 local experimental */

header probe_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
    bit<32> src_word;
    bit<32> dst_word;
    bit<32> ports;
    bit<32> isn;   // and the length
    bit<32> advertised;
    bit<32> shown;
}

struct headers_t {
    probe_t probe;
    halfsip_t s; // the state of the key
    egress_words_t words;
}

struct metadata_t {
    ingress_words_t w;
}

parser ProbeParser(packet_in pkt, out headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.probe);
        transition select(hdr.probe.ethertype) {
            PROBE_ETHERTYPE: state_ahead;
            default: accept;
        }
    }
    state state_ahead {
        pkt.extract(hdr.s);
        hdr.words.setValid();
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t m) {
    apply { }
}

control Pass(inout headers_t hdr, inout metadata_t m, in bit<8> lap) {
    PassWords() words;
    IngressPass() ingress_pass;
    apply {
        words.apply(lap, hdr.probe.src_word, hdr.probe.dst_word, hdr.probe.ports, hdr.probe.isn, m.w, hdr.words);
        ingress_pass.apply(hdr.s, m.w, hdr.probe.advertised, hdr.probe.shown);
    }
}

/* All passes in sequence, where the switch would recirculate. */
control ProbeIngress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    Pass() pass1;
    Pass() pass2;
    EgressPass() egress1;
#if TG_PASSES == 3
    Pass() pass3;
    EgressPass() egress2;
#endif
    /* The first word, absorbed together with the key. */
    action begin() { hdr.s.v3 = hdr.s.v3 ^ hdr.probe.src_word; }
    table begins { actions = { begin; } const default_action = begin(); size = 1; }
    apply {
        if (!hdr.s.isValid()) {
            mark_to_drop(std);
        } else {
            begins.apply();
            pass1.apply(hdr, m, 0);
            egress1.apply(hdr.s, hdr.words);
            pass2.apply(hdr, m, 1);
#if TG_PASSES == 3
            egress2.apply(hdr.s, hdr.words);
            pass3.apply(hdr, m, 2);
#endif
            std.egress_spec = std.ingress_port;
        }
    }
}

control ProbeEgress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    apply { }
}

control ProbeDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.probe);
        pkt.emit(hdr.s);
    }
}

V1Switch(ProbeParser(), Nothing(), ProbeIngress(), ProbeEgress(), Nothing(), ProbeDeparser()) main;
