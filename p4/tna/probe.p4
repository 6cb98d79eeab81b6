/* SPDX-License-Identifier: Apache-2.0
 *
 * Not a gate: the schedule (passes.p4) alone, to show that its rounds fit into ingress and
 * egress of both Tofinos. A frame is the state and the words.
 */
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif
#include "passes.p4"

header between_t {
    bit<32> mid_behind;
    bit<32> mid_next;
    bit<32> end_behind;
    bit<32> end_next;
    bit<32> advertised;
    bit<32> shown;
}

struct headers_t {
    halfsip_t s;
    egress_words_t words;
    between_t w;
}

struct metadata_t {
    ingress_words_t w;
}

parser ProbeParser(packet_in pkt, out headers_t hdr, out metadata_t m, out ingress_intrinsic_metadata_t ig) {
    state start {
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        pkt.extract(hdr.s);
        pkt.extract(hdr.words);
        pkt.extract(hdr.w);
        m.w.mid_behind = hdr.w.mid_behind;
        m.w.mid_next = hdr.w.mid_next;
        m.w.end_behind = hdr.w.end_behind;
        m.w.end_next = hdr.w.end_next;
        transition accept;
    }
}

control ProbeIngress(inout headers_t hdr, inout metadata_t m, in ingress_intrinsic_metadata_t ig,
                     in ingress_intrinsic_metadata_from_parser_t prsr,
                     inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                     inout ingress_intrinsic_metadata_for_tm_t tm) {
    IngressPass() ingress_pass;
    apply {
        tm.ucast_egress_port = ig.ingress_port;
        ingress_pass.apply(hdr.s, m.w, hdr.w.advertised, hdr.w.shown);
    }
}

control ProbeDeparser(packet_out pkt, inout headers_t hdr, in metadata_t m,
                      in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { pkt.emit(hdr); }
}

parser ProbeEgressParser(packet_in pkt, out headers_t hdr, out metadata_t m, out egress_intrinsic_metadata_t eg) {
    state start {
        pkt.extract(eg);
        pkt.extract(hdr.s);
        pkt.extract(hdr.words);
        transition accept;
    }
}

control ProbeEgress(inout headers_t hdr, inout metadata_t m, in egress_intrinsic_metadata_t eg,
                    in egress_intrinsic_metadata_from_parser_t prsr,
                    inout egress_intrinsic_metadata_for_deparser_t dprsr,
                    inout egress_intrinsic_metadata_for_output_port_t oport) {
    EgressPass() egress_pass;
    apply { egress_pass.apply(hdr.s, hdr.words); }
}

control ProbeEgressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t m,
                            in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { pkt.emit(hdr); }
}

Pipeline(ProbeParser(), ProbeIngress(), ProbeDeparser(), ProbeEgressParser(), ProbeEgress(),
         ProbeEgressDeparser()) pipe;
Switch(pipe) main;
