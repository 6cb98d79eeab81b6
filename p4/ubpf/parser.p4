/* SPDX-License-Identifier: Apache-2.0
 *
 * uBPF: up to two VLAN tags, IPv4 without options, IPv6 without extension headers, TCP and the options of a SYN.
 *
 * This target passes a frame unjudged and uncounted if it ends before the parser does, and its compiler does not let a parser
 * read the frame's length. What the IP header's length says is enough of it for TCP to reject: a frame that is shorter than
 * that is no IP packet to anybody.
 */
#ifndef TG_P4_UBPF_PARSER
#define TG_P4_UBPF_PARSER

#include "types.p4"

parser AuthParser(packet_in pkt, out headers_t hdr, inout metadata_t m, inout standard_metadata std_meta) {
    state start {
        m.l3_off = TG_ETH_HDR_LEN;
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            TG_ETHERTYPE_IPV4: ipv4;
            TG_ETHERTYPE_IPV6: ipv6;
            TG_ETHERTYPE_VLAN: vlan;
            TG_ETHERTYPE_QINQ: vlan;
            TG_ETHERTYPE_QINQ1: vlan;
            default: accept;
        }
    }

    state vlan {
        m.l3_off = TG_ETH_HDR_LEN + TG_VLAN_TAG_LEN;
        pkt.extract(hdr.vlan0);
        transition select(hdr.vlan0.ethertype) {
            TG_ETHERTYPE_IPV4: ipv4;
            TG_ETHERTYPE_IPV6: ipv6;
            TG_ETHERTYPE_VLAN: second_vlan;
            TG_ETHERTYPE_QINQ: second_vlan;
            TG_ETHERTYPE_QINQ1: second_vlan;
            default: accept;
        }
    }

    state second_vlan {
        m.l3_off = TG_ETH_HDR_LEN + 2 * TG_VLAN_TAG_LEN;
        pkt.extract(hdr.vlan1);
        transition select(hdr.vlan1.ethertype) {
            TG_ETHERTYPE_IPV4: ipv4;
            TG_ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state ipv4 {
        pkt.extract(hdr.ipv4);
        m.head_len = TG_IPV4_HDR_LEN;
        m.l4_len = (bit<32>)hdr.ipv4.total_len - TG_IPV4_HDR_LEN;
        m.first_fragment = hdr.ipv4.mf;
        transition select(hdr.ipv4.version) {
            4: ipv4_header;
            default: accept;
        }
    }

    state ipv4_header {
        transition select(hdr.ipv4.ihl) {
            5: ipv4_protocol;
            default: accept;
        }
    }

    state ipv4_protocol {
        transition select(hdr.ipv4.proto) {
            TG_IPPROTO_TCP: ipv4_length;
            default: accept;
        }
    }

    state ipv4_length {
        transition select((bit<1>)(hdr.ipv4.total_len < TG_IPV4_HDR_LEN)) {
            1: accept; // the kernel drops these as broken IP
            default: ipv4_tcp;
        }
    }

    state ipv4_tcp {
        transition select(hdr.ipv4.frag_off) {
            0: tcp_due;
            1: overlay;
            2: overlay;
            default: accept;
        }
    }

    state overlay {
        m.parse = PARSE_OVERLAY;
        transition accept;
    }

    state ipv6 {
        pkt.extract(hdr.ipv6);
        m.head_len = TG_IPV6_HDR_LEN;
        m.l4_len = (bit<32>)hdr.ipv6.payload_len;
        transition select(hdr.ipv6.first[31:28]) {
            6: ipv6_length;
            default: accept;
        }
    }

    state ipv6_length {
        transition select(hdr.ipv6.payload_len) {
            0: accept; // ends before TCP
            default: ipv6_next;
        }
    }

    state ipv6_next {
        transition select(hdr.ipv6.next) {
            TG_IPPROTO_TCP: tcp_due;
            default: accept;
        }
    }

    state tcp_due {
        m.parse = PARSE_CUT_TCP;
        transition select((bit<1>)(m.l4_len < TG_TCP_HDR_LEN)) {
            1: accept;
            default: tcp;
        }
    }

    state tcp {
        pkt.extract(hdr.tcp);
        m.parse = PARSE_TCP;
        transition select(hdr.tcp.flags & TG_TCP_SYN) {
            TG_TCP_SYN: syn;
            default: accept;
        }
    }

    state syn {
        transition select((bit<1>)(m.l4_len < (bit<32>)hdr.tcp.doff << 2)) {
            1: accept;
            default: options;
        }
    }

    state options {
        transition select(hdr.tcp.doff) {
            6: word0; 7: word0; 8: word0; 9: word0; 10: word0;
            11: word0; 12: word0; 13: word0; 14: word0; 15: word0;
            default: accept;
        }
    }

    /* The words are headers, so that a SYN that is forwarded keeps them. */
#define WORD(n, words, at, shift, next) \
    state word##n { \
        pkt.extract(hdr.w##n); \
        at = at | ((bit<64>)hdr.w##n.data << shift); \
        m.left = 4 * (n + 1); \
        transition select(hdr.tcp.doff) { \
            words: option; \
            default: next; \
        } \
    }
    WORD(0, 6, m.o0, 32, word1)
    WORD(1, 7, m.o0, 0, word2)
    WORD(2, 8, m.o1, 32, word3)
    WORD(3, 9, m.o1, 0, word4)
    WORD(4, 10, m.o2, 32, word5)
    WORD(5, 11, m.o2, 0, word6)
    WORD(6, 12, m.o3, 32, word7)
    WORD(7, 13, m.o3, 0, word8)
    WORD(8, 14, m.o4, 32, word9)
    WORD(9, 15, m.o4, 0, option)

    state option {
        transition select(m.left) {
            0: accept;
            default: option_kind;
        }
    }

    state option_kind {
        m.skip = 1;
        transition select(m.o0[63:56]) {
            TG_TCPOPT_EOL: accept;
            TG_TCPOPT_NOP: skip;
            default: option_length;
        }
    }

    state option_length {
        transition select(m.left) {
            1: accept;
            default: option_sized;
        }
    }

    state option_sized {
        m.skip = m.o0[55:48];
        bit<8> behind = m.left - m.skip;
        transition select(behind & 0x80) {
            0: option_known;
            default: accept; // ends behind the list
        }
    }

    state option_known {
        transition select(m.o0[63:48]) {
            TG_TCPOPT_MSS << 8 | 4: option_mss;
            TG_TCPOPT_WSCALE << 8 | 3: option_wscale;
            default: option_other;
        }
    }

    state option_other {
        transition select(m.skip) {
            0: accept; // an invalid length ends the list
            1: accept;
            default: skip;
        }
    }

    state option_mss {
        transition select(m.o0[47:32]) {
            0: skip;
            default: option_mss_given;
        }
    }

    state option_mss_given {
        m.offered_mss = m.o0[47:32];
        transition skip;
    }

    state option_wscale {
        m.offered_wscale = m.o0[47:40];
        m.wscale_offered = 1;
        transition skip;
    }

    state skip { // a byte
        m.o0 = m.o0[55:0] ++ m.o1[63:56];
        m.o1 = m.o1[55:0] ++ m.o2[63:56];
        m.o2 = m.o2[55:0] ++ m.o3[63:56];
        m.o3 = m.o3[55:0] ++ m.o4[63:56];
        m.o4 = m.o4 << 8;
        m.left = m.left - 1;
        m.skip = m.skip - 1;
        transition select(m.skip) {
            0: option;
            default: skip;
        }
    }
}

#endif
