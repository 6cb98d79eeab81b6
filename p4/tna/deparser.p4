/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: full checksums of our own SYN-ACKs, IPv4's checksum where the TTL was changed (it was
 * correct before, or the packet would not be here), and the order of emitted headers.
 */
#ifndef TG_P4_TNA_DEPARSER
#define TG_P4_TNA_DEPARSER

#include "types.p4"

control EdgeIngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t m,
                            in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Checksum() ipv4_sum;
    Checksum() tcp_sum;
    apply {
        if (m.rewritten == 1) {
            hdr.ipv4.checksum = ipv4_sum.update({
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len,
                hdr.ipv4.ident, hdr.ipv4.reserved, hdr.ipv4.df, hdr.ipv4.mf, hdr.ipv4.frag_off,
                hdr.ipv4.ttl, hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst });
        }
        if (m.answered == 1) {
            hdr.tcp.checksum = tcp_sum.update({
                hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.proto, m.tcp_len,
                hdr.tcp.sport, hdr.tcp.dport, hdr.tcp.seq, hdr.tcp.ack, hdr.tcp.doff, hdr.tcp.rsvd,
                hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent,
                hdr.mss.kind, hdr.mss.len, hdr.mss.mss,
                hdr.wscale.nop, hdr.wscale.kind, hdr.wscale.len, hdr.wscale.shift });
        }
        pkt.emit(hdr.note);
        pkt.emit(hdr.s);
        pkt.emit(hdr.words);
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.vlan);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.tcp);
        pkt.emit(hdr.mss);
        pkt.emit(hdr.wscale);
    }
}

/* The words have been absorbed; the state travels on in the note. */
control EdgeEgressDeparser(packet_out pkt, inout headers_t hdr, in egress_metadata_t m,
                           in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply {
        pkt.emit(hdr.note);
        pkt.emit(hdr.s);
        pkt.emit(hdr.ethernet);
    }
}

#endif
