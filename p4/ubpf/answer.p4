/* SPDX-License-Identifier: Apache-2.0
 *
 * uBPF: the words of a client's packet, and its SYN-ACK or RST, which goes back by the port that the packet came from, with
 * full checksums: the target has no checksum units, so they are sums in the program.
 */
#ifndef TG_P4_UBPF_ANSWER
#define TG_P4_UBPF_ANSWER

#include "types.p4"
#include "../shared/mss.p4"

control Words(inout headers_t hdr, inout metadata_t m) {
    apply {
        if (hdr.ipv4.isValid()) {
            m.a3 = hdr.ipv4.src;
            m.b3 = hdr.ipv4.dst;
        } else {
            m.a0 = hdr.ipv6.src0;
            m.a1 = hdr.ipv6.src1;
            m.a2 = hdr.ipv6.src2;
            m.a3 = hdr.ipv6.src3;
            m.b0 = hdr.ipv6.dst0;
            m.b1 = hdr.ipv6.dst1;
            m.b2 = hdr.ipv6.dst2;
            m.b3 = hdr.ipv6.dst3;
        }
        m.ports = ((bit<32>)hdr.tcp.sport << 16) | (bit<32>)hdr.tcp.dport;
    }
}

/* Turns the packet into one with `tcp_len` bytes of TCP header and options, whose checksums the caller has left at 0. */
control Turn(inout headers_t hdr, inout metadata_t m, inout standard_metadata std_meta, in bit<16> tcp_len) {
    apply {
        bit<48> mac = hdr.ethernet.src;
        bit<16> port = hdr.tcp.sport;
        bit<32> head = m.l3_off + TG_IPV6_HDR_LEN;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.tcp.sport = hdr.tcp.dport;
        hdr.tcp.dport = port;
        hdr.tcp.doff = (bit<4>)(tcp_len >> 2);
        hdr.tcp.rsvd = 0;
        hdr.tcp.urgent = 0;
        hdr.w0.setInvalid();
        hdr.w1.setInvalid();
        hdr.w2.setInvalid();
        hdr.w3.setInvalid();
        hdr.w4.setInvalid();
        hdr.w5.setInvalid();
        hdr.w6.setInvalid();
        hdr.w7.setInvalid();
        hdr.w8.setInvalid();
        hdr.w9.setInvalid();
        if (hdr.ipv4.isValid()) {
            head = m.l3_off + TG_IPV4_HDR_LEN;
            hdr.ipv4.dscp = 0;
            hdr.ipv4.ecn = 0;
            hdr.ipv4.total_len = TG_IPV4_HDR_LEN + tcp_len;
            hdr.ipv4.ident = 0; // RFC 6864
            hdr.ipv4.reserved = 0;
            hdr.ipv4.df = 1;
            hdr.ipv4.mf = 0;
            hdr.ipv4.frag_off = 0;
            hdr.ipv4.ttl = TG_SYNACK_TTL;
            hdr.ipv4.src = m.b3;
            hdr.ipv4.dst = m.a3;
        } else {
            hdr.ipv6.first = 6 << 28;
            hdr.ipv6.payload_len = tcp_len;
            hdr.ipv6.ttl = TG_SYNACK_TTL;
            hdr.ipv6.src0 = m.b0;
            hdr.ipv6.src1 = m.b1;
            hdr.ipv6.src2 = m.b2;
            hdr.ipv6.src3 = m.b3;
            hdr.ipv6.dst0 = m.a0;
            hdr.ipv6.dst1 = m.a1;
            hdr.ipv6.dst2 = m.a2;
            hdr.ipv6.dst3 = m.a3;
        }
        std_meta.output_action = ubpf_action.REDIRECT;
        std_meta.output_port = std_meta.input_port;
        truncate(head + (bit<32>)tcp_len);
    }
}

#define WORD_SUM(word) ((word >> 16) + (word & 0xffff))

/* The checksums of what Turn has made; `options` is the sum of the options' 16-bit words. */
control Sums(inout headers_t hdr, inout metadata_t m, in bit<16> tcp_len, in bit<32> options) {
    apply {
        bit<32> sum;
        if (hdr.ipv4.isValid()) {
            sum = 0x4500 + (bit<32>)hdr.ipv4.total_len + 0x4000 + (TG_SYNACK_TTL << 8 | TG_IPPROTO_TCP) + WORD_SUM(m.a3) + WORD_SUM(m.b3);
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            hdr.ipv4.checksum = (bit<16>)(sum ^ 0xffff);
        }
        sum = WORD_SUM(m.a0) + WORD_SUM(m.a1) + WORD_SUM(m.a2) + WORD_SUM(m.a3) + WORD_SUM(m.b0) + WORD_SUM(m.b1) + WORD_SUM(m.b2) + WORD_SUM(m.b3);
        sum = sum + TG_IPPROTO_TCP + (bit<32>)tcp_len + WORD_SUM(m.ports) + WORD_SUM(hdr.tcp.seq) + WORD_SUM(hdr.tcp.ack);
        sum = sum + ((bit<32>)tcp_len << 10) + (bit<32>)hdr.tcp.flags + (bit<32>)hdr.tcp.window + options;
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        hdr.tcp.checksum = (bit<16>)(sum ^ 0xffff);
    }
}

/* ../v1model/answer.p4's SYN-ACK. `whole`: `cookie` is the number; else its low 24 bits are. */
control Answer(inout headers_t hdr, inout metadata_t m, inout standard_metadata std_meta, in bit<32> cookie, in bit<1> whole) {
    MssIndex() mss_index;
    Turn() turn;
    Sums() sums;
    apply {
        bit<3> index;
        bit<1> ipv4 = 0;
        bit<32> ack_info = TG_WSCALE_NONE;
        bit<16> len = TG_TCP_HDR_LEN + 4;
        bit<32> options = TG_TCPOPT_MSS << 8 | 4;

        if (hdr.ipv4.isValid()) {
            ipv4 = 1;
        }
        mss_index.apply(ipv4, m.offered_mss, index);
        hdr.mss.setValid();
        hdr.mss.kind = TG_TCPOPT_MSS;
        hdr.mss.len = 4;
        hdr.mss.mss = m.mss_v6;
        if (ipv4 == 1) {
            hdr.mss.mss = m.mss_v4;
        }
        options = options + (bit<32>)hdr.mss.mss;
        if (m.wscale_offered == 1 && m.wscale != TG_WSCALE_NONE) {
            ack_info = (bit<32>)m.offered_wscale;
            if (m.offered_wscale > TG_WSCALE_MAX) {
                ack_info = TG_WSCALE_MAX;
            }
            hdr.wscale.setValid();
            hdr.wscale.nop = TG_TCPOPT_NOP;
            hdr.wscale.kind = TG_TCPOPT_WSCALE;
            hdr.wscale.len = 3;
            hdr.wscale.shift = m.wscale;
            len = TG_TCP_HDR_LEN + 8;
            options = options + (TG_TCPOPT_NOP << 8 | TG_TCPOPT_WSCALE) + (3 << 8) + (bit<32>)m.wscale;
        }
        turn.apply(hdr, m, std_meta, len);
        hdr.tcp.ack = hdr.tcp.seq + 1; // never of data in the SYN (RFC 7413)
        hdr.tcp.seq = cookie;
        if (whole == 0) {
            hdr.tcp.seq = ((bit<32>)m.parity << TG_SMART_PARITY_SHIFT) | ((bit<32>)index << TG_SMART_MSS_SHIFT) |
                (ack_info << TG_SMART_WSCALE_SHIFT) | (cookie & ((1 << TG_SMART_HASH_BITS) - 1));
        }
        hdr.tcp.flags = TG_TCP_SYN | TG_TCP_ACK;
        hdr.tcp.window = m.window;
        sums.apply(hdr, m, len, options);
    }
}

/* tg_reset_for: RFC 9293 section 3.10.7.1. */
control Reset(inout headers_t hdr, inout metadata_t m, inout standard_metadata std_meta) {
    Turn() turn;
    Sums() sums;
    apply {
        turn.apply(hdr, m, std_meta, TG_TCP_HDR_LEN);
        hdr.tcp.seq = hdr.tcp.ack;
        hdr.tcp.ack = 0;
        hdr.tcp.flags = TG_TCP_RST;
        hdr.tcp.window = 0;
        sums.apply(hdr, m, TG_TCP_HDR_LEN, 0);
    }
}

control AuthDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.vlan0);
        pkt.emit(hdr.vlan1);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.ipv6);
        pkt.emit(hdr.tcp);
        pkt.emit(hdr.mss);
        pkt.emit(hdr.wscale);
        pkt.emit(hdr.w0);
        pkt.emit(hdr.w1);
        pkt.emit(hdr.w2);
        pkt.emit(hdr.w3);
        pkt.emit(hdr.w4);
        pkt.emit(hdr.w5);
        pkt.emit(hdr.w6);
        pkt.emit(hdr.w7);
        pkt.emit(hdr.w8);
        pkt.emit(hdr.w9);
    }
}

#endif
