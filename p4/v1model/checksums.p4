/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: full checksums of our own SYN-ACKs, and the order of emitted headers. A packet's checksums are not
 * verified, and it keeps them when it is forwarded; but for segments whose IPv6 header says no length, where the sum alone
 * tells a segment from what may stand behind it.
 */
#ifndef TG_P4_V1_CHECKSUMS
#define TG_P4_V1_CHECKSUMS

#include "types.p4"

control KeepChecksums(inout headers_t hdr, inout metadata_t m) {
    apply {
        verify_checksum_with_payload(m.no_length == 1 && m.parse == PARSE_TCP,
            { hdr.ipv6.src, hdr.ipv6.dst, m.l4_len, 24w0, (bit<8>)TG_IPPROTO_TCP,
              hdr.tcp.sport, hdr.tcp.dport, hdr.tcp.seq, hdr.tcp.ack, hdr.tcp.doff, hdr.tcp.rsvd,
              hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent },
            hdr.tcp.checksum, HashAlgorithm.csum16);
    }
}

/* Invalid headers do not count in a sum, so one list serves both lengths. */
control AnswerChecksums(inout headers_t hdr, inout metadata_t m) {
    apply {
        update_checksum(m.answered == 1 && hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_len,
              hdr.ipv4.ident, hdr.ipv4.reserved, hdr.ipv4.df, hdr.ipv4.mf, hdr.ipv4.frag_off,
              hdr.ipv4.ttl, hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum(m.answered == 1 && hdr.ipv4.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.proto, m.answer_len,
              hdr.tcp.sport, hdr.tcp.dport, hdr.tcp.seq, hdr.tcp.ack, hdr.tcp.doff, hdr.tcp.rsvd,
              hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent,
              hdr.mss.kind, hdr.mss.len, hdr.mss.mss,
              hdr.wscale.nop, hdr.wscale.kind, hdr.wscale.len, hdr.wscale.shift },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum(m.answered == 1 && hdr.ipv6.isValid(),
            { hdr.ipv6.src, hdr.ipv6.dst, 8w0, hdr.ipv6.next, m.answer_len,
              hdr.tcp.sport, hdr.tcp.dport, hdr.tcp.seq, hdr.tcp.ack, hdr.tcp.doff, hdr.tcp.rsvd,
              hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent,
              hdr.mss.kind, hdr.mss.len, hdr.mss.mss,
              hdr.wscale.nop, hdr.wscale.kind, hdr.wscale.len, hdr.wscale.shift },
            hdr.tcp.checksum, HashAlgorithm.csum16);
    }
}

control EdgeDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.vlan);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.ipv4_options);
        pkt.emit(hdr.ipv6);
        pkt.emit(hdr.ext);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.confirm);
        pkt.emit(hdr.icmp);
        pkt.emit(hdr.quoted_ipv4);
        pkt.emit(hdr.quoted_options);
        pkt.emit(hdr.quoted_ipv6);
        pkt.emit(hdr.quoted_tcp);
        pkt.emit(hdr.quoted_ack);
        pkt.emit(hdr.tcp);
        pkt.emit(hdr.tag);
        pkt.emit(hdr.mss);
        pkt.emit(hdr.wscale);
    }
}

#endif
