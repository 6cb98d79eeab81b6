/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the segments that set up a translated connection, as core/proxy.h makes
 * them: the SYN to the server in the client's name, the ACK that completes the server's
 * handshake, the window update for the client, the server's refusal.
 */
#ifndef TG_P4_V1_SETUP
#define TG_P4_V1_SETUP

#include "types.p4"
#include "segments.p4"
#include "translate.p4"

/* tg_mss_value */
control MssValue(in bit<1> ipv4, in bit<3> index, out bit<16> mss) {
    apply {
        mss = TG_MSS_V6_0;
        if (ipv4 == 1) {
            mss = TG_MSS_V4_0;
            if (index == 7) { mss = TG_MSS_V4_7; }
            else if (index == 6) { mss = TG_MSS_V4_6; }
            else if (index == 5) { mss = TG_MSS_V4_5; }
            else if (index == 4) { mss = TG_MSS_V4_4; }
            else if (index == 3) { mss = TG_MSS_V4_3; }
            else if (index == 2) { mss = TG_MSS_V4_2; }
            else if (index == 1) { mss = TG_MSS_V4_1; }
        } else {
            if (index == 7) { mss = TG_MSS_V6_7; }
            else if (index == 6) { mss = TG_MSS_V6_6; }
            else if (index == 5) { mss = TG_MSS_V6_5; }
            else if (index == 4) { mss = TG_MSS_V6_4; }
            else if (index == 3) { mss = TG_MSS_V6_3; }
            else if (index == 2) { mss = TG_MSS_V6_2; }
            else if (index == 1) { mss = TG_MSS_V6_1; }
        }
    }
}

/* tg_flow_syn, made from the client's ACK with the verified cookie `y`; it keeps the ACK's
 * window. */
control FlowSyn(inout headers_t hdr, inout metadata_t m, in bit<32> client_isn, in bit<32> y) {
    MssValue() mss_value;
    Bare() bare;
    apply {
        bit<1> ipv4 = 0;
        bit<16> mss = 0;
        bit<16> len = TG_TCP_HDR_LEN + 4;
        if (hdr.ipv4.isValid()) {
            ipv4 = 1;
        }
        mss_value.apply(ipv4, y[30:28], mss);
        hdr.mss.setValid();
        hdr.mss.kind = TG_TCPOPT_MSS;
        hdr.mss.len = 4;
        hdr.mss.mss = mss;
        if (y[27:24] != TG_WSCALE_NONE) {
            hdr.wscale.setValid();
            hdr.wscale.nop = TG_TCPOPT_NOP;
            hdr.wscale.kind = TG_TCPOPT_WSCALE;
            hdr.wscale.len = 3;
            hdr.wscale.shift = (bit<8>)y[27:24];
            len = TG_TCP_HDR_LEN + 8;
        }
        bare.apply(hdr, m, len);
        hdr.tcp.seq = client_isn;
        hdr.tcp.ack = 0;
        hdr.tcp.flags = TG_TCP_SYN;
    }
}

/* tg_flow_refusal: the server's RST with the numbers that the client accepts. */
control FlowRefusal(inout headers_t hdr, inout metadata_t m, in bit<32> y) {
    Bare() bare;
    apply {
        bare.apply(hdr, m, TG_TCP_HDR_LEN);
        hdr.tcp.seq = y + 1;
        hdr.tcp.flags = TG_TCP_RST | TG_TCP_ACK;
        hdr.tcp.window = 0;
    }
}

/* Egress: of the server's SYN-ACK, one copy goes back as tg_flow_ack. */
control FlowAck(inout headers_t hdr, inout metadata_t m) {
    TurnRound() turn;
    Bare() bare;
    WindowShift() window_shift;
    apply {
        bit<32> seq = hdr.tcp.ack;
        turn.apply(hdr);
        bare.apply(hdr, m, TG_TCP_HDR_LEN);
        m.reflected = 1;
        hdr.tcp.ack = hdr.tcp.seq + 1;
        hdr.tcp.seq = seq;
        hdr.tcp.flags = TG_TCP_ACK;
        hdr.tcp.window = m.flow.window;
        window_shift.apply(m.flow.up, hdr.tcp.window);
    }
}

/* Egress: the other one goes on to the client as tg_flow_window. A SYN-ACK's window is not
 * scaled; `told` is the scale that was announced to the client. */
control FlowWindow(inout headers_t hdr, inout metadata_t m, in bit<8> advertised) {
    Bare() bare;
    apply {
        bare.apply(hdr, m, TG_TCP_HDR_LEN);
        hdr.tcp.seq = hdr.tcp.seq + 1 - m.flow.value;
        hdr.tcp.flags = TG_TCP_ACK;
        hdr.tcp.window = hdr.tcp.window >> advertised;
    }
}

#endif
