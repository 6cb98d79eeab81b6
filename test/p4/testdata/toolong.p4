/* SPDX-License-Identifier: Apache-2.0
 *
 * Does not fit: a chain of thirteen additions, each of which needs the one before it, for
 * the twelve stages of a Tofino 1. The compiler says nothing of it. A test that takes
 * this program for good would take any.
 */
#include <core.p4>
#include <tna.p4>

header sum_t {
    bit<32> a;
    bit<32> b;
}

struct headers_t { sum_t sum; }
struct metadata_t { }

parser Ahead(packet_in pkt, out headers_t hdr, out metadata_t m, out ingress_intrinsic_metadata_t ig) {
    state start {
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        pkt.extract(hdr.sum);
        transition accept;
    }
}

#define STEP(n) \
    action add##n() { hdr.sum.a = hdr.sum.a + hdr.sum.b; } \
    table adds##n { \
        actions = { add##n; } \
        const default_action = add##n(); \
        size = 1; \
    }

control Chain(inout headers_t hdr, inout metadata_t m, in ingress_intrinsic_metadata_t ig,
              in ingress_intrinsic_metadata_from_parser_t prsr,
              inout ingress_intrinsic_metadata_for_deparser_t dprsr,
              inout ingress_intrinsic_metadata_for_tm_t tm) {
    STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
    STEP(8) STEP(9) STEP(10) STEP(11) STEP(12) STEP(13)
    apply {
        tm.ucast_egress_port = ig.ingress_port;
        adds1.apply(); adds2.apply(); adds3.apply(); adds4.apply(); adds5.apply(); adds6.apply(); adds7.apply();
        adds8.apply(); adds9.apply(); adds10.apply(); adds11.apply(); adds12.apply(); adds13.apply();
    }
}

control Out(packet_out pkt, inout headers_t hdr, in metadata_t m, in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { pkt.emit(hdr); }
}

parser NoneAhead(packet_in pkt, out headers_t hdr, out metadata_t m, out egress_intrinsic_metadata_t eg) {
    state start {
        pkt.extract(eg);
        transition accept;
    }
}

control NoChain(inout headers_t hdr, inout metadata_t m, in egress_intrinsic_metadata_t eg,
                in egress_intrinsic_metadata_from_parser_t prsr,
                inout egress_intrinsic_metadata_for_deparser_t dprsr,
                inout egress_intrinsic_metadata_for_output_port_t oport) {
    apply { }
}

control NothingOut(packet_out pkt, inout headers_t hdr, in metadata_t m, in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { pkt.emit(hdr); }
}

Pipeline(Ahead(), Chain(), Out(), NoneAhead(), NoChain(), NothingOut()) pipe;
Switch(pipe) main;
