/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the frame parser of core/packet.h and the option parser of
 * core/tcp_options.h as states. Says what a packet is; decides nothing.
 */
#ifndef TG_P4_V1_PARSER
#define TG_P4_V1_PARSER

#include "types.p4"

#define IPPROTO_ICMP 1
#define IPPROTO_ICMPV6 58
#define IPPROTO_UDP 17
#define UDP_HDR_LEN 8

parser EdgeParser(packet_in pkt, out headers_t hdr, inout metadata_t m,
                  inout standard_metadata_t std) {
    bit<8>  next;       // the header after this extension header
    bit<8>  left;       // segments left, of a routing header
    bit<13> frag_off;
    bit<32> ext_len;    // bytes
    bit<1>  negative;
    bit<1>  more;       // more fragments follow
    bit<32> room;       // bytes of extension headers that may still follow
    bit<1>  too_long;
    bit<8>  kind;       // of this option
    bit<8>  len;
    bit<8>  half;
    bit<16> mss;
    bit<16> after;      // bytes of options after this one

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
        pkt.extract(hdr.vlan[0]);
        transition select(hdr.vlan[0].ethertype) {
            TG_ETHERTYPE_IPV4: ipv4;
            TG_ETHERTYPE_IPV6: ipv6;
            TG_ETHERTYPE_VLAN: second_vlan;
            TG_ETHERTYPE_QINQ: second_vlan;
            TG_ETHERTYPE_QINQ1: second_vlan;
            default: accept;
        }
    }

    state second_vlan {
        m.l3_off = TG_ETH_HDR_LEN + TG_VLAN_TAGS_MAX * TG_VLAN_TAG_LEN;
        pkt.extract(hdr.vlan[1]);
        transition select(hdr.vlan[1].ethertype) {
            TG_ETHERTYPE_IPV4: ipv4;
            TG_ETHERTYPE_IPV6: ipv6;
            TG_ETHERTYPE_VLAN: tags_3;
            TG_ETHERTYPE_QINQ: tags_3;
            TG_ETHERTYPE_QINQ1: tags_3;
            default: accept;
        }
    }

    /* tg_packet_overtagged: further tags are looked at and skipped, up to TG_VLAN_TAGS_WALKED. `look` ends
     * with what may be the longest IP header; a frame without room for it ends the parser. */
#define TAGS_STATE(n, next) \
    state tags_##n { \
        bit<(32 * (n - TG_VLAN_TAGS_MAX) + 8 * TG_IPV6_HDR_LEN)> look = pkt.lookahead<bit<(32 * (n - TG_VLAN_TAGS_MAX) + 8 * TG_IPV6_HDR_LEN)>>(); \
        transition select(look[335:320], look[247:240], look[271:264]) { \
            (TG_ETHERTYPE_IPV4, TG_IPPROTO_TCP, _): overtagged; \
            (TG_ETHERTYPE_IPV6, _, TG_IPPROTO_TCP): overtagged; \
            (TG_ETHERTYPE_IPV6, _, TG_IPPROTO_HOPOPTS): overtagged; \
            (TG_ETHERTYPE_IPV6, _, TG_IPPROTO_ROUTING): overtagged; \
            (TG_ETHERTYPE_IPV6, _, TG_IPPROTO_FRAGMENT): overtagged; \
            (TG_ETHERTYPE_IPV6, _, TG_IPPROTO_DSTOPTS): overtagged; \
            (TG_ETHERTYPE_VLAN, _, _): next; \
            (TG_ETHERTYPE_QINQ, _, _): next; \
            (TG_ETHERTYPE_QINQ1, _, _): next; \
            default: accept; \
        } \
    }
    TAGS_STATE(3, tags_4)
    TAGS_STATE(4, tags_5)
    TAGS_STATE(5, tags_6)
    TAGS_STATE(6, tags_7)
    TAGS_STATE(7, tags_8)
    TAGS_STATE(8, overtagged)
#if TG_VLAN_TAGS_WALKED != 8
#error "one TAGS_STATE for each tag"
#endif

    state overtagged {
        m.parse = PARSE_TAGS;
        transition accept;
    }

    /* ---- IPv4 ---- */

    state ipv4 {
        pkt.extract(hdr.ipv4);
        m.head_len = (bit<32>)hdr.ipv4.ihl << 2;
        m.l4_len = (bit<32>)hdr.ipv4.total_len - ((bit<32>)hdr.ipv4.ihl << 2);
        negative = m.l4_len[31:31];
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.proto, negative) {
            (4, 0 &&& 0xc, _, _): accept; // the kernel drops these as broken IP
            (4, 4, _, _): accept;
            (4, _, TG_IPPROTO_TCP, 0): ipv4_tcp;
            (4, 5, IPPROTO_UDP, 0): udp;
            (4, 5, IPPROTO_ICMP, 0): ipv4_icmp;
            default: accept;
        }
    }

    state ipv4_tcp {
        transition select(hdr.ipv4.frag_off) {
            0: ipv4_first;
            1: overlay; // would overwrite TCP's flags (RFC 3128)
            2: overlay;
            default: accept;
        }
    }

    state overlay {
        m.parse = PARSE_OVERLAY;
        transition accept;
    }

    state ipv4_first {
        m.tcp_due = 1;
        m.first_fragment = hdr.ipv4.mf;
        transition select(hdr.ipv4.ihl) {
            5: tcp;
            default: ipv4_opts;
        }
    }

    state ipv4_opts {
        pkt.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl << 5) - 160);
        transition tcp;
    }

    /* ---- IPv6 ---- */

    state ipv6 {
        pkt.extract(hdr.ipv6);
        m.head_len = TG_IPV6_HDR_LEN;
        m.l4_len = (bit<32>)hdr.ipv6.payload_len;
        transition select(hdr.ipv6.version, hdr.ipv6.payload_len, hdr.ipv6.next) {
            (6, 0, TG_IPPROTO_HOPOPTS): no_length;
            (_, 0, _): accept; // ends before TCP
            (6, _, TG_IPPROTO_TCP): ipv6_first;
            (6, _, IPPROTO_UDP): udp;
            (6, _, IPPROTO_ICMPV6): ipv6_icmp;
            (6, _, TG_IPPROTO_HOPOPTS): options_ahead;
            (6, _, TG_IPPROTO_ROUTING): routing_ahead;
            (6, _, TG_IPPROTO_FRAGMENT): fragment_ahead;
            (6, _, TG_IPPROTO_DSTOPTS): options_ahead;
            default: accept;
        }
    }

    state no_length { // as long as the frame, if hop-by-hop options follow (core/packet.h)
        m.no_length = 1;
        m.l4_len = std.packet_length - m.l3_off - TG_IPV6_HDR_LEN;
        transition options_ahead;
    }

    state options_ahead {
        bit<64> look = pkt.lookahead<bit<64>>();
        ext_len = ((bit<32>)look[55:48] << 3) + 8;
        next = look[63:56];
        transition ext_fits;
    }

    state routing_ahead {
        bit<64> look = pkt.lookahead<bit<64>>();
        ext_len = ((bit<32>)look[55:48] << 3) + 8;
        next = look[63:56];
        left = look[39:32];
        transition select(left) {
            0: ext_fits;
            default: chain_ends; // segments left: the destination is not this one
        }
    }

    state fragment_ahead {
        bit<64> look = pkt.lookahead<bit<64>>();
        ext_len = 8;
        next = look[63:56];
        more = look[32:32];
        frag_off = look[47:35];
        transition select(frag_off, next, m.l4_len, m.no_length) {
            (_, _, 0 &&& 0xfffffff8, _): accept; // cut inside the header
            (_, _, _, 1): ext_chain; // no stack accepts a fragment of a packet without a length
            (0, _, _, _): fragment_fits;
            (1, TG_IPPROTO_TCP, _, _): overlay;
            (2, TG_IPPROTO_TCP, _, _): overlay;
            default: chain_ends;
        }
    }

    state fragment_fits {
        m.first_fragment = m.first_fragment | more;
        transition ext_fits;
    }

    state chain_ends { // in a protocol that is not ours
        m.chain_ended = 1;
        transition accept;
    }

    state ext_fits {
        m.l4_len = m.l4_len - ext_len;
        m.head_len = m.head_len + ext_len;
        m.ext_count = m.ext_count + 1;
        negative = m.l4_len[31:31];
        room = TG_IPV6_HDR_LEN + TG_IPV6_EXT_BYTES_MAX - m.head_len;
        too_long = room[31:31];
        transition select(negative, too_long, next) {
            (1, _, _): accept;
            (_, 1, TG_IPPROTO_TCP): ext_chain;
            (_, 1, TG_IPPROTO_HOPOPTS): ext_chain;
            (_, 1, TG_IPPROTO_ROUTING): ext_chain;
            (_, 1, TG_IPPROTO_FRAGMENT): ext_chain;
            (_, 1, TG_IPPROTO_DSTOPTS): ext_chain;
            (_, 1, _): chain_ends;
            (_, _, TG_IPPROTO_TCP): ext_then_tcp;
            default: ext;
        }
    }

    state ext_chain {
        m.parse = PARSE_EXT_CHAIN;
        transition accept;
    }

    state ext_then_tcp {
        m.tcp_due = 1;
        transition ext;
    }

    state ext {
        pkt.extract(hdr.ext.next, (ext_len << 3) - 16);
        transition select(m.ext_count, next) {
            (_, TG_IPPROTO_TCP): ipv6_first;
            (TG_IPV6_EXT_MAX, TG_IPPROTO_HOPOPTS): ext_chain;
            (TG_IPV6_EXT_MAX, TG_IPPROTO_ROUTING): ext_chain;
            (TG_IPV6_EXT_MAX, TG_IPPROTO_FRAGMENT): ext_chain;
            (TG_IPV6_EXT_MAX, TG_IPPROTO_DSTOPTS): ext_chain;
            (_, TG_IPPROTO_HOPOPTS): ext_chain; // only allowed as the first one (RFC 8200 section 4.1)
            (_, TG_IPPROTO_ROUTING): routing_ahead;
            (_, TG_IPPROTO_FRAGMENT): fragment_ahead;
            (_, TG_IPPROTO_DSTOPTS): options_ahead;
            default: chain_ends;
        }
    }

    state ipv6_first {
        m.tcp_due = 1;
        transition tcp;
    }

    /* ---- UDP: only what may be a confirmation ---- */

    state udp {
        pkt.extract(hdr.udp);
        transition select(hdr.udp.dport, hdr.udp.len) {
            (TG_CONFIRM_PORT, UDP_HDR_LEN + TG_CONFIRM_LEN): confirm;
            default: accept;
        }
    }

    state confirm {
        pkt.extract(hdr.confirm);
        transition accept;
    }

    /* ---- ICMP: only errors that quote TCP (RFC 792, RFC 4443) ---- */

    state ipv4_icmp {
        transition select(hdr.ipv4.frag_off, hdr.ipv4.mf) {
            (0, 0): ipv4_icmp_whole;
            default: accept;
        }
    }

    state ipv4_icmp_whole {
        pkt.extract(hdr.icmp);
        transition select(hdr.icmp.type) {
            3: quoted_ipv4;
            4: quoted_ipv4;
            11: quoted_ipv4;
            12: quoted_ipv4;
            default: accept;
        }
    }

    state quoted_ipv4 {
        pkt.extract(hdr.quoted_ipv4);
        transition select(hdr.quoted_ipv4.version, hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.proto, hdr.quoted_ipv4.frag_off) {
            (4, 5, TG_IPPROTO_TCP, 0): quoted_tcp;
            (4, 0 &&& 0xc, _, _): accept;
            (4, 4, _, _): accept;
            (4, _, TG_IPPROTO_TCP, 0): quoted_options;
            default: accept;
        }
    }

    state quoted_options {
        pkt.extract(hdr.quoted_options, ((bit<32>)hdr.quoted_ipv4.ihl << 5) - 160);
        transition quoted_tcp;
    }

    state ipv6_icmp {
        pkt.extract(hdr.icmp);
        transition select(hdr.icmp.type) {
            1: quoted_ipv6;
            2: quoted_ipv6;
            3: quoted_ipv6;
            4: quoted_ipv6;
            default: accept;
        }
    }

    state quoted_ipv6 {
        pkt.extract(hdr.quoted_ipv6);
        transition select(hdr.quoted_ipv6.version, hdr.quoted_ipv6.next) {
            (6, TG_IPPROTO_TCP): quoted_tcp;
            default: accept;
        }
    }

    state quoted_tcp {
        pkt.extract(hdr.quoted_tcp);
        transition quoted_ack; // the parser stops where the quotation ends
    }

    state quoted_ack {
        pkt.extract(hdr.quoted_ack);
        transition accept;
    }

    /* ---- TCP ---- */

    state tcp {
        pkt.extract(hdr.tcp);
        m.parse = PARSE_TCP;
        transition select(hdr.tcp.flags) {
            TG_TCP_SYN &&& TG_TCP_SYN: syn;
            default: accept;
        }
    }

#define OPTIONS_STATE(words, behind) \
    state options_##words { \
        m.options = pkt.lookahead<bit<(32 * words)>>() ++ (bit<behind>)0; \
        m.options_left = 4 * words; \
        transition option; \
    }
    OPTIONS_STATE(1, 288)
    OPTIONS_STATE(2, 256)
    OPTIONS_STATE(3, 224)
    OPTIONS_STATE(4, 192)
    OPTIONS_STATE(5, 160)
    OPTIONS_STATE(6, 128)
    OPTIONS_STATE(7, 96)
    OPTIONS_STATE(8, 64)
    OPTIONS_STATE(9, 32)
    state options_10 {
        m.options = pkt.lookahead<bit<320>>();
        m.options_left = 40;
        transition option;
    }

    state syn {
        transition select(hdr.tcp.doff) {
            6: options_1;
            7: options_2;
            8: options_3;
            9: options_4;
            10: options_5;
            11: options_6;
            12: options_7;
            13: options_8;
            14: options_9;
            15: options_10;
            default: accept;
        }
    }

    state option {
        kind = m.options[319:312];
        len = m.options[311:304];
        after = m.options_left - (bit<16>)len;
        negative = after[15:15];
        transition select(m.options_left, kind, len, negative) {
            (0, _, _, _): accept;
            (_, TG_TCPOPT_EOL, _, _): accept;
            (_, TG_TCPOPT_NOP, _, _): option_nop;
            (1, _, _, _): accept;
            (_, _, 0 &&& 0xfe, _): accept; // an invalid length ends the list
            (_, _, _, 1): accept;
            (_, TG_TCPOPT_MSS, 4, _): option_mss;
            (_, TG_TCPOPT_WSCALE, 3, _): option_wscale;
            default: option_next;
        }
    }

    state option_nop {
        m.options = m.options << 8;
        m.options_left = m.options_left - 1;
        transition option;
    }

    state option_mss {
        mss = m.options[303:288];
        transition select(mss) {
            0: option_next;
            default: option_mss_given;
        }
    }

    state option_mss_given {
        m.offered_mss = mss;
        transition option_next;
    }

    state option_wscale {
        m.offered_wscale = m.options[303:296];
        m.wscale_offered = 1;
        transition option_next;
    }

    state option_next {
        half = len << 2; // in bits; at most 160, where one shift may be 255
        m.options = m.options << half;
        m.options = m.options << half;
        m.options_left = after;
        transition option;
    }
}

#endif
