/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: core/translate.h for connections of the layout `smartcookie`, which have
 * neither timestamps nor SACK: sequence numbers, windows, and the checksum, which is
 * updated (RFC 1624): an incorrect one stays incorrect.
 */
#ifndef TG_P4_V1_TRANSLATE
#define TG_P4_V1_TRANSLATE

#include "types.p4"

/* tg_window_shift; `shift` is signed. */
control WindowShift(in bit<8> shift, inout bit<16> window) {
    apply {
        bit<32> w = (bit<32>)window;
        if (shift[7:7] == 1) {
            w = w >> (8w0 - shift);
        } else {
            w = w << shift;
            if (w > 0xffff) {
                w = 0xffff;
            }
        }
        window = w[15:0];
    }
}

control Translate(inout headers_t hdr, inout metadata_t m) {
    WindowShift() window_shift;
    apply {
        bit<32> number;   // before
        bit<32> moved;
        bit<16> window = hdr.tcp.window;
        bit<8> shift = m.flow.up;
        bit<32> sum;
        if (m.inside == 1) {
            shift = m.flow.down;
            number = hdr.tcp.seq;
            moved = number - m.flow.value;
            hdr.tcp.seq = moved;
        } else {
            number = hdr.tcp.ack;
            moved = number;
            if ((hdr.tcp.flags & TG_TCP_ACK) != 0) {
                moved = number + m.flow.value;
            }
            hdr.tcp.ack = moved;
        }
        if (shift != 0 && (hdr.tcp.flags & TG_TCP_SYN) == 0) {
            window_shift.apply(shift, hdr.tcp.window);
        }
        sum = (bit<32>)(~hdr.tcp.checksum) + (bit<32>)(~number[31:16]) + (bit<32>)(~number[15:0]);
        sum = sum + (bit<32>)moved[31:16] + (bit<32>)moved[15:0];
        sum = sum + (bit<32>)(~window) + (bit<32>)hdr.tcp.window;
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        hdr.tcp.checksum = ~sum[15:0];
    }
}

/* The differences that the server's SYN-ACK determines; `y` is our own ISN. */
control Settle(inout headers_t hdr, inout metadata_t m, in bit<32> y) {
    apply {
        bit<8> server = m.offered_wscale;
        m.flow.state = FLOW_READY;
        m.flow.value = hdr.tcp.seq - y;
        m.flow.down = 0;
        m.flow.up = 0;
        if (server > TG_WSCALE_MAX) {
            server = TG_WSCALE_MAX;
        }
        if (y[27:24] != TG_WSCALE_NONE) { // ours was announced to the client
            if (m.wscale_offered == 1) {
                m.flow.down = server - m.wscale;
            } else {
                m.flow.down = 8w0 - m.wscale;
                m.flow.up = (bit<8>)y[27:24];
            }
        }
    }
}

#endif
