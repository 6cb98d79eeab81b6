/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge on Tofino (TNA, and T2NA for Tofino 2), IPv4, protocol `plain`: answers SYNs
 * to protected services with cookies in the layout `smartcookie`, verifies ACKs, and passes
 * packets of flows in its filter of verified flows; a layer 2 switch for everything else. The
 * cookie is computed in passes (passes.p4).
 *
 * Must never: keep anything about a single flow but its bits in the filter; judge packets
 * from inside; forward a SYN to a protected service.
 */
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif
#include "parser.p4"
#include "settings.p4"
#include "judge.p4"
#include "answer.p4"
#include "filter.p4"
#include "forward.p4"
#include "deparser.p4"

control EdgeIngress(inout headers_t hdr, inout metadata_t m, in ingress_intrinsic_metadata_t ig,
                    in ingress_intrinsic_metadata_from_parser_t prsr,
                    inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                    inout ingress_intrinsic_metadata_for_tm_t tm) {
    Gate() gate;
    Keys() keys;
    Services() services;
    Sources() sources;
    Lengths() lengths;
    Hops() hops;
    Numbers() numbers;
    OptionBits() option_bits;
    Forward() forward;
    Judge() judge;
    Normalise() normalise;
    PassWords() pass_words;
    IngressPass() ingress_pass;
    Answer() answer;
    Filter() filter;
    Verdict() verdict;

    apply {
        gate.apply(m);
        forward.apply(hdr, ig, tm);
        if (hdr.tcp.isValid()) {
            services.apply(m);
            sources.apply(hdr, m);
            lengths.apply(hdr, m);
            hops.apply(hdr, m);
            numbers.apply(hdr, m);
        }
        if (hdr.note.lap == TG_LAP_FIRST) {
            keys.apply(hdr, m, prsr.global_tstamp[47:20]);
            hdr.note.port = ig.ingress_port;
        }
        judge.apply(hdr, m);
        normalise.apply(hdr, m);
        option_bits.apply(hdr, m);
        pass_words.apply(hdr.note.lap, m.client, m.server, m.ports, hdr.note.isn, m.w, hdr.words);
        ingress_pass.apply(hdr.s, m.w, m.advertised, m.shown);
        answer.apply(hdr, m);
        filter.apply(m);
        if (m.class == CLASS_MADE) {
            hdr.tcp.seq = m.shown;
        }
        verdict.apply(hdr, m, dprsr, tm);
    }
}

control EdgeEgress(inout headers_t hdr, inout egress_metadata_t m, in egress_intrinsic_metadata_t eg,
                   in egress_intrinsic_metadata_from_parser_t prsr,
                   inout egress_intrinsic_metadata_for_deparser_t dprsr,
                   inout egress_intrinsic_metadata_for_output_port_t oport) {
    EgressPass() egress_pass;
    PortAddresses() addresses;
    apply {
        egress_pass.apply(hdr.s, hdr.words);
        addresses.apply(hdr, eg.egress_port);
    }
}

Pipeline(EdgeIngressParser(), EdgeIngress(), EdgeIngressDeparser(),
         EdgeEgressParser(), EdgeEgress(), EdgeEgressDeparser()) pipe;
Switch(pipe) main;
