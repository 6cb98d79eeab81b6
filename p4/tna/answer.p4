/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: turns a SYN into the SYN-ACK of core/synack.h with the layout `smartcookie`: MSS,
 * and window scale if the client offered it, otherwise NOPs in its place, because a checksum
 * covers every header in its list, valid or not. The deparser computes checksums. What
 * remains of the SYN after the headers lies beyond IP's total length.
 */
#ifndef TG_P4_TNA_ANSWER
#define TG_P4_TNA_ANSWER

#include "types.p4"

/* The hash's last word, and the value that stands for the cookie in the last step: for an ACK the
 * cookie that it returns, for a SYN the bits above the hash. */
control Numbers(inout headers_t hdr, inout metadata_t m) {
    bit<32> isn;
    action of_syn() { isn = hdr.tcp.seq; }
    action of_ack() {
        isn = hdr.tcp.seq - 1;
        m.advertised = hdr.tcp.ack - 1;
    }
    /* By the hash unit, which reads all containers: an ALU would tie these numbers to the
     * hash's words, and a group of containers has no room for both. */
    action put_isn() {
        @in_hash { hdr.note.isn = (bit<8>)TG_SMART_V4_LEN ++ isn[23:0]; }
    }
    table of_syns { actions = { of_syn; } const default_action = of_syn(); size = 1; }
    table of_acks { actions = { of_ack; } const default_action = of_ack(); size = 1; }
    table put_isns { actions = { put_isn; } const default_action = put_isn(); size = 1; }
    apply {
        if (hdr.tcp.flags[4:4] == 1) {
            of_acks.apply();
        } else {
            of_syns.apply();
        }
        if (hdr.note.lap == TG_LAP_FIRST) {
            put_isns.apply();
        }
    }
}

/* tg_mss_index, tg_cookie_option_bits: the bits of a SYN's cookie above the hash. */
control OptionBits(inout headers_t hdr, inout metadata_t m) {
    action set_index(bit<3> index) { m.mss_index = index; }
    table mss_indexes {
        key = { hdr.offered_mss.mss: range; }
        actions = { set_index; }
        const default_action = set_index(0);
        const entries = {
            TG_MSS_V4_7..0xffff: set_index(7);
            TG_MSS_V4_6..TG_MSS_V4_7 - 1: set_index(6);
            TG_MSS_V4_5..TG_MSS_V4_6 - 1: set_index(5);
            TG_MSS_V4_4..TG_MSS_V4_5 - 1: set_index(4);
            TG_MSS_V4_3..TG_MSS_V4_4 - 1: set_index(3);
            TG_MSS_V4_2..TG_MSS_V4_3 - 1: set_index(2);
            TG_MSS_V4_1..TG_MSS_V4_2 - 1: set_index(1);
        }
        size = 8;
    }

    action say(bit<4> shift) { m.ack_info = shift; }
    action say_offered() { m.ack_info = hdr.offered_wscale.shift[3:0]; }
    table shifts {
        key = {
            hdr.offered_wscale.isValid(): exact;
            m.scales: exact;
            hdr.offered_wscale.shift: ternary;
        }
        actions = { say; say_offered; }
        const default_action = say(TG_WSCALE_NONE);
        const entries = {
            (true, 1, 0 &&& 0xf8): say_offered();
            (true, 1, 8 &&& 0xfc): say_offered();
            (true, 1, 12 &&& 0xfe): say_offered();
            (true, 1, _): say(TG_WSCALE_MAX);
        }
        size = 4;
    }

    action put() {
        @in_hash { m.advertised = hdr.note.parity[0:0] ++ m.mss_index ++ m.ack_info ++ (bit<TG_SMART_HASH_BITS>)0; }
    }
    table puts { actions = { put; } const default_action = put(); size = 1; }
    apply {
        if (hdr.note.kind == KIND_SYN) {
            if (hdr.offered_mss.isValid()) {
                mss_indexes.apply();
            }
            shifts.apply();
            puts.apply();
        }
    }
}

/* Everything but the sequence number, which is not known yet. */
control Answer(inout headers_t hdr, inout metadata_t m) {
    action turn() {
        bit<48> mac = hdr.ethernet.src;
        bit<32> address = hdr.ipv4.src;
        bit<16> port = hdr.tcp.sport;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = address;
        hdr.tcp.sport = hdr.tcp.dport;
        hdr.tcp.dport = port;
        hdr.ipv4.dscp = 0;
        hdr.ipv4.ecn = 0;
        hdr.ipv4.ident = 0; // RFC 6864
        hdr.ipv4.reserved = 0;
        hdr.ipv4.df = 1;
        hdr.ipv4.ttl = TG_SYNACK_TTL;
        hdr.tcp.ack = hdr.tcp.seq + 1; // never of data in the SYN (RFC 7413)
        hdr.tcp.rsvd = 0;
        hdr.tcp.flags = TG_TCP_SYN | TG_TCP_ACK;
        hdr.tcp.window = m.window;
        hdr.tcp.urgent = 0;
        hdr.mss.setValid();
        hdr.mss.kind = TG_TCPOPT_MSS;
        hdr.mss.len = 4;
        hdr.mss.mss = m.mss;
        hdr.wscale.setValid();
        hdr.wscale.nop = TG_TCPOPT_NOP;
        hdr.ipv4.total_len = TG_IPV4_HDR_LEN + TG_TCP_HDR_LEN + 8;
        hdr.tcp.doff = 7;
        m.tcp_len = TG_TCP_HDR_LEN + 8;
        m.rewritten = 1;
        m.answered = 1;
    }
    action with_scale() {
        hdr.wscale.kind = TG_TCPOPT_WSCALE;
        hdr.wscale.len = 3;
        hdr.wscale.shift = m.wscale;
    }
    action without_scale() {
        hdr.wscale.kind = TG_TCPOPT_NOP;
        hdr.wscale.len = TG_TCPOPT_NOP;
        hdr.wscale.shift = TG_TCPOPT_NOP;
    }
    table turns { actions = { turn; } const default_action = turn(); size = 1; }
    table with_scales { actions = { with_scale; } const default_action = with_scale(); size = 1; }
    table without_scales { actions = { without_scale; } const default_action = without_scale(); size = 1; }
    apply {
        if (m.class == CLASS_MADE) {
            turns.apply();
            if (hdr.offered_wscale.isValid() && m.scales == 1) {
                with_scales.apply();
            } else {
                without_scales.apply();
            }
        }
    }
}

#endif
