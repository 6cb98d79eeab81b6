/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: what a packet is, beyond what the parser says, and the judgements of core/edge.h. Each sets what is counted
 * and whether the packet goes on; none changes it.
 */
#ifndef TG_P4_V1_JUDGE
#define TG_P4_V1_JUDGE

#include "types.p4"
#include "../shared/judge.p4"

/* tg_intact_tcp of a segment whose sum has been computed: the pseudo-header's sum alone is accepted, too. */
control Intact(inout headers_t hdr, inout metadata_t m, in bit<1> differs) {
    apply {
        if (differs == 1) {
            bit<32> sum = (bit<32>)m.l4_len[31:16] + (bit<32>)m.l4_len[15:0] + TG_IPPROTO_TCP +
                (bit<32>)hdr.ipv6.src[127:112] + (bit<32>)hdr.ipv6.src[111:96] + (bit<32>)hdr.ipv6.src[95:80] + (bit<32>)hdr.ipv6.src[79:64] +
                (bit<32>)hdr.ipv6.src[63:48] + (bit<32>)hdr.ipv6.src[47:32] + (bit<32>)hdr.ipv6.src[31:16] + (bit<32>)hdr.ipv6.src[15:0] +
                (bit<32>)hdr.ipv6.dst[127:112] + (bit<32>)hdr.ipv6.dst[111:96] + (bit<32>)hdr.ipv6.dst[95:80] + (bit<32>)hdr.ipv6.dst[79:64] +
                (bit<32>)hdr.ipv6.dst[63:48] + (bit<32>)hdr.ipv6.dst[47:32] + (bit<32>)hdr.ipv6.dst[31:16] + (bit<32>)hdr.ipv6.dst[15:0];
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            if (hdr.tcp.checksum != sum[15:0]) {
                m.bad_sum = 1;
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
