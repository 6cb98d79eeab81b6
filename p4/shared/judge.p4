/* SPDX-License-Identifier: Apache-2.0
 *
 * The judgements of core/host.h on a packet that belongs to no connection. Each sets what is counted and whether the packet
 * goes on; none changes it.
 */
#ifndef TG_P4_JUDGE
#define TG_P4_JUDGE

#define COUNT_NOTHING COUNTERS

/* tg_packet_source_is_bogus, tg_packet_is_group; of the packet's words, those of a client's packet */
control Addresses(inout headers_t hdr, inout metadata_t m, out bit<1> bogus, out bit<1> group) {
    apply {
        bit<8> first;
        bogus = 0;
        group = 0;
        if ((hdr.ethernet.src & (1 << 40)) != 0) {
            bogus = 1;
        }
        if ((hdr.ethernet.dst & (1 << 40)) != 0) {
            group = 1;
        }
        if (hdr.ipv4.isValid()) {
            first = m.a3[31:24];
            if (m.a3 == m.b3 || first == 0 || first == 127 || first[7:4] == 0xe || m.a3 == 0xffffffff) {
                bogus = 1;
            }
            if (m.b3[31:28] == 0xe || m.b3 == 0xffffffff) {
                group = 1;
            }
        } else {
            first = m.a0[31:24];
            if ((m.a0 == m.b0 && m.a1 == m.b1 && m.a2 == m.b2 && m.a3 == m.b3) || first == 0xff) {
                bogus = 1;
            }
            if (m.a0 == 0 && m.a1 == 0 && (m.a2 == 0xffff || (m.a2 == 0 && m.a3[31:1] == 0))) {
                bogus = 1;
            }
            if (m.b0[31:24] == 0xff) {
                group = 1;
            }
        }
    }
}

/* Packets that are dropped for what they are, whatever their destination. */
control JudgeParse(inout metadata_t m, out bit<16> reason) {
    apply {
        reason = COUNT_NOTHING;
        if (m.parse == PARSE_OVERLAY || m.parse == PARSE_CUT_CHAIN) {
            reason = COUNT_DROP_FRAGMENT;
        } else if (m.parse == PARSE_EXT_CHAIN) {
            reason = COUNT_DROP_EXT_CHAIN;
        } else if (m.parse == PARSE_TAGS) {
            reason = COUNT_DROP_TAGS;
        } else if (m.parse == PARSE_CUT_TCP) {
            reason = COUNT_DROP_MALFORMED;
        }
    }
}

/* True if the lengths of a segment contradict each other. */
control JudgeLengths(inout headers_t hdr, inout metadata_t m, in bit<32> frame_len, out bit<1> lies) {
    apply {
        bit<32> tcp_len = (bit<32>)hdr.tcp.doff << 2;
        lies = 0;
        if (tcp_len < TG_TCP_HDR_LEN || tcp_len > m.l4_len ||
            m.l3_off + m.head_len + m.l4_len > frame_len) {
            lies = 1;
        }
    }
}

/* tg_proxy_judge_syn; `reason` COUNT_COOKIE_SENT: answer it. `pass`: forward it. */
control JudgeSyn(inout headers_t hdr, inout metadata_t m, in bit<32> frame_len, out bit<16> reason,
                 out bit<1> pass) {
    Addresses() addresses;
    JudgeLengths() lengths;
    apply {
        bit<1> bogus;
        bit<1> group;
        bit<1> lies;
        pass = 0;
        lengths.apply(hdr, m, frame_len, lies);
        addresses.apply(hdr, m, bogus, group);
        if ((hdr.tcp.flags & (TG_TCP_FIN | TG_TCP_RST)) != 0) {
            reason = COUNT_DROP_FLAGS;
        } else if (m.parse == PARSE_FRAGMENT) {
            reason = COUNT_DROP_FRAGMENT;
        } else if (lies == 1) {
            reason = COUNT_DROP_MALFORMED;
        } else if (group == 1) {
            reason = COUNT_PASS_FRAME;
            pass = 1;
        } else if (bogus == 1) {
            reason = COUNT_DROP_SOURCE;
        } else if (m.bad_sum == 1) {
            reason = COUNT_DROP_CHECKSUM;
        } else {
            reason = COUNT_COOKIE_SENT;
        }
    }
}

#endif
