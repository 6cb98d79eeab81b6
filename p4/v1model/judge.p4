/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the judgements of core/host.h and core/edge.h. Each sets what is counted
 * and whether the packet goes on; none changes it.
 */
#ifndef TG_P4_V1_JUDGE
#define TG_P4_V1_JUDGE

#include "types.p4"

#define COUNT_NOTHING COUNTERS

/* tg_packet_source_is_bogus, tg_packet_is_group */
control Addresses(inout headers_t hdr, out bit<1> bogus, out bit<1> group) {
    apply {
        bogus = hdr.ethernet.src[40:40];
        group = hdr.ethernet.dst[40:40];
        if (hdr.ipv4.isValid()) {
            bit<8> first = hdr.ipv4.src[31:24];
            if (hdr.ipv4.src == hdr.ipv4.dst || first == 0 || first == 127 ||
                first[7:4] == 0xe || hdr.ipv4.src == 0xffffffff) {
                bogus = 1;
            }
            if (hdr.ipv4.dst[31:28] == 0xe || hdr.ipv4.dst == 0xffffffff) {
                group = 1;
            }
        } else {
            if (hdr.ipv6.src == hdr.ipv6.dst || hdr.ipv6.src[127:120] == 0xff ||
                hdr.ipv6.src[127:32] == 0xffff || hdr.ipv6.src[127:1] == 0) {
                bogus = 1;
            }
            if (hdr.ipv6.dst[127:120] == 0xff) {
                group = 1;
            }
        }
    }
}

/* What the parser could not determine in one step, and the kind of segment. */
control Classify(inout headers_t hdr, inout metadata_t m, out bit<1> is_syn, out bit<1> is_ack) {
    apply {
        is_syn = 0;
        is_ack = 0;
        if ((m.tcp_due == 1 && !hdr.tcp.isValid()) ||
            (m.parse == PARSE_TCP && m.l4_len < TG_TCP_HDR_LEN)) {
            m.parse = PARSE_CUT_TCP;
        }
        if (m.first_fragment == 1 && hdr.ipv6.isValid() && m.parse == PARSE_OTHER && m.chain_ended == 0) {
            m.parse = PARSE_CUT_CHAIN; // ends before its last extension header does (RFC 7112)
        }
        if (m.parse == PARSE_TCP && m.first_fragment == 1) {
            m.parse = PARSE_FRAGMENT;
        }
        if (m.parse == PARSE_TCP || m.parse == PARSE_FRAGMENT) {
            if ((hdr.tcp.flags & (TG_TCP_SYN | TG_TCP_ACK)) == TG_TCP_SYN) {
                is_syn = 1;
            }
            if ((hdr.tcp.flags & (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST)) == TG_TCP_ACK) {
                is_ack = 1;
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
        addresses.apply(hdr, bogus, group);
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
        } else {
            reason = COUNT_COOKIE_SENT;
        }
    }
}

/* tg_edge_judge for flows that are not in the filter and have no valid cookie. */
control JudgeUnknown(inout headers_t hdr, inout metadata_t m, in bit<1> no_key, in bit<1> allowed,
                     out bit<16> reason, out bit<1> pass) {
    apply {
        pass = 1;
        if ((hdr.tcp.flags & (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST | TG_TCP_FIN)) == 0) {
            reason = COUNT_DROP_STRAY;
            pass = 0;
        } else if ((hdr.tcp.flags & TG_TCP_SYN) != 0) { // with ACK: SYNs do not come here
            reason = COUNT_DROP_SYNACK;
            pass = 0;
        } else if (no_key == 1) {
            reason = COUNT_PASS_NO_KEY;
        } else if (m.learning == 1) {
            reason = COUNT_EDGE_LEARNING;
        } else if (allowed == 1) {
            reason = COUNT_EDGE_UNKNOWN;
        } else {
            pass = 0;
            if ((hdr.tcp.flags & TG_TCP_RST) != 0) {
                reason = COUNT_DROP_RST;
            } else if ((hdr.tcp.flags & TG_TCP_FIN) != 0) {
                reason = COUNT_DROP_FIN;
            } else {
                reason = COUNT_DROP_ACK;
            }
        }
    }
}

#endif
