/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: turns a SYN into the SYN-ACK of core/synack.h with the layout
 * `smartcookie`: MSS, and window scale if the client offered it. The deparser computes
 * checksums.
 */
#ifndef TG_P4_V1_ANSWER
#define TG_P4_V1_ANSWER

#include "types.p4"
#include "../shared/mss.p4"

/* Swaps source and destination of Ethernet, IP and TCP; Answer sets everything else. */
control TurnRound(inout headers_t hdr) {
    apply {
        bit<48> mac = hdr.ethernet.src;
        bit<16> port = hdr.tcp.sport;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.tcp.sport = hdr.tcp.dport;
        hdr.tcp.dport = port;
        if (hdr.ipv4.isValid()) {
            bit<32> address = hdr.ipv4.src;
            hdr.ipv4.src = hdr.ipv4.dst;
            hdr.ipv4.dst = address;
        } else {
            bit<128> address6 = hdr.ipv6.src;
            hdr.ipv6.src = hdr.ipv6.dst;
            hdr.ipv6.dst = address6;
        }
    }
}

/* IP without options or extension headers, followed by `tcp_len` bytes. */
control AnswerIp(inout headers_t hdr, in bit<16> tcp_len) {
    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4_options.setInvalid();
            hdr.ipv4.ihl = 5;
            hdr.ipv4.dscp = 0;
            hdr.ipv4.ecn = 0;
            hdr.ipv4.total_len = TG_IPV4_HDR_LEN + tcp_len;
            hdr.ipv4.ident = 0; // RFC 6864
            hdr.ipv4.reserved = 0;
            hdr.ipv4.df = 1;
            hdr.ipv4.mf = 0;
            hdr.ipv4.frag_off = 0;
            hdr.ipv4.ttl = TG_SYNACK_TTL;
        } else {
            hdr.ext[0].setInvalid();
            hdr.ext[1].setInvalid();
            hdr.ext[2].setInvalid();
            hdr.ext[3].setInvalid();
            hdr.ext[4].setInvalid();
            hdr.ext[5].setInvalid();
            hdr.ipv6.dscp = 0;
            hdr.ipv6.ecn = 0;
            hdr.ipv6.flow = 0;
            hdr.ipv6.payload_len = tcp_len;
            hdr.ipv6.next = TG_IPPROTO_TCP;
            hdr.ipv6.ttl = TG_SYNACK_TTL;
        }
    }
}

control Answer(inout headers_t hdr, inout metadata_t m, in bit<32> cookie) {
    MssIndex() mss_index;
    TurnRound() turn;
    AnswerIp() ip;
    apply {
        bit<3> index;
        bit<1> ipv4 = 0;
        bit<4> ack_info = TG_WSCALE_NONE;
        bit<32> head = m.l3_off;

        if (hdr.ipv4.isValid()) { ipv4 = 1; }
        mss_index.apply(ipv4, m.offered_mss, index);
        hdr.mss.setValid();
        hdr.mss.kind = TG_TCPOPT_MSS;
        hdr.mss.len = 4;
        hdr.mss.mss = m.mss_v6;
        if (ipv4 == 1) { hdr.mss.mss = m.mss_v4; }
        m.answer_len = TG_TCP_HDR_LEN + 4;
        if (m.wscale_offered == 1 && m.wscale != TG_WSCALE_NONE) {
            ack_info = m.offered_wscale[3:0];
            if (m.offered_wscale > TG_WSCALE_MAX) { ack_info = TG_WSCALE_MAX; }
            hdr.wscale.setValid();
            hdr.wscale.nop = TG_TCPOPT_NOP;
            hdr.wscale.kind = TG_TCPOPT_WSCALE;
            hdr.wscale.len = 3;
            hdr.wscale.shift = m.wscale;
            m.answer_len = TG_TCP_HDR_LEN + 8;
        }
        turn.apply(hdr);
        ip.apply(hdr, m.answer_len);
        hdr.tcp.ack = hdr.tcp.seq + 1; // never of data in the SYN (RFC 7413)
        hdr.tcp.seq = m.parity ++ index ++ ack_info ++ cookie[TG_SMART_HASH_BITS - 1:0];
        hdr.tcp.doff = m.answer_len[5:2];
        hdr.tcp.rsvd = 0;
        hdr.tcp.flags = TG_TCP_SYN | TG_TCP_ACK;
        hdr.tcp.window = m.window;
        hdr.tcp.urgent = 0;
        m.answered = 1;
        m.reflected = 1;
        head = m.l3_off + TG_IPV6_HDR_LEN;
        if (ipv4 == 1) { head = m.l3_off + TG_IPV4_HDR_LEN; }
        m.frame_len = head + (bit<32>)m.answer_len;
    }
}

#endif
