/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: segments without data that a gate makes from the current packet, as
 * core/segment.h writes them: IP without options, full checksums (by the deparser).
 * The caller sets sequence numbers, flags and window.
 */
#ifndef TG_P4_V1_SEGMENTS
#define TG_P4_V1_SEGMENTS

#include "types.p4"
#include "answer.p4"

/* Turns the packet into a segment with `tcp_len` bytes of TCP header and options. */
control Bare(inout headers_t hdr, inout metadata_t m, in bit<16> tcp_len) {
    AnswerIp() ip;
    apply {
        bit<32> head = m.l3_off + TG_IPV6_HDR_LEN;
        ip.apply(hdr, tcp_len);
        m.answered = 1;
        m.answer_len = tcp_len;
        hdr.tcp.doff = tcp_len[5:2];
        hdr.tcp.rsvd = 0;
        hdr.tcp.urgent = 0;
        if (hdr.ipv4.isValid()) {
            head = m.l3_off + TG_IPV4_HDR_LEN;
        }
        m.frame_len = head + (bit<32>)tcp_len;
    }
}

/* tg_reset_for: RFC 9293 section 3.10.7.1. */
control Reset(inout headers_t hdr, inout metadata_t m) {
    TurnRound() turn;
    Bare() bare;
    apply {
        turn.apply(hdr);
        bare.apply(hdr, m, TG_TCP_HDR_LEN);
        m.reflected = 1;
        hdr.tcp.seq = hdr.tcp.ack;
        hdr.tcp.ack = 0;
        hdr.tcp.flags = TG_TCP_RST;
        hdr.tcp.window = 0;
    }
}

#endif
