/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: from the port to the TCP header, and a SYN's options if it will be answered. Says
 * what a packet is; decides nothing. Must never: read a note from a port that is not the
 * switch's own.
 */
#ifndef TG_P4_TNA_PARSER
#define TG_P4_TNA_PARSER

#include "types.p4"
#include "options.p4"

parser EdgeIngressParser(packet_in pkt, out headers_t hdr, out metadata_t m, out ingress_intrinsic_metadata_t ig) {
    Checksum() ipv4_sum;
    ParserCounter() left;

    state start {
        pkt.extract(ig);
        m.port = port_metadata_unpack<port_t>(pkt);
        transition select(m.port.recirculates) {
            1: retransmit;
            default: first;
        }
    }

    state first {
        hdr.note.setValid();
        hdr.note.lap = TG_LAP_FIRST;
        hdr.note.kind = KIND_NONE;
        transition ethernet;
    }

    state retransmit {
        pkt.extract(hdr.note);
        pkt.extract(hdr.s);
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            TG_ETHERTYPE_IPV4: recirculated_ipv4;
            default: recirculated_vlan;
        }
    }

    state ethernet {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            TG_ETHERTYPE_IPV4: ipv4;
            TG_ETHERTYPE_VLAN: vlan;
            TG_ETHERTYPE_QINQ: vlan;
            TG_ETHERTYPE_QINQ1: vlan;
            default: accept;
        }
    }

    state vlan {
        pkt.extract(hdr.vlan[0]);
        transition select(hdr.vlan[0].ethertype) {
            TG_ETHERTYPE_IPV4: ipv4;
            TG_ETHERTYPE_VLAN: second_vlan;
            TG_ETHERTYPE_QINQ: second_vlan;
            TG_ETHERTYPE_QINQ1: second_vlan;
            default: accept;
        }
    }

    state second_vlan {
        pkt.extract(hdr.vlan[1]);
        transition select(hdr.vlan[1].ethertype) {
            TG_ETHERTYPE_IPV4: ipv4;
            default: accept; // three tags: not judged
        }
    }

    /* The flow's addresses and ports are copied where they are read: a parser cannot go back. */
    state ipv4 {
        transition select(m.port.inside) {
            1: ipv4_from_server;
            default: ipv4_from_client;
        }
    }

    state ipv4_from_server {
        pkt.extract(hdr.ipv4);
        m.server = hdr.ipv4.src;
        m.client = hdr.ipv4.dst;
        transition select(hdr.ipv4.ihl, hdr.ipv4.frag_off, hdr.ipv4.proto) {
            (5, 0, TG_IPPROTO_TCP): tcp_from_server;
            default: accept;
        }
    }

    state tcp_from_server {
        pkt.extract(hdr.tcp);
        m.server_port = hdr.tcp.sport;
        m.client_port = hdr.tcp.dport;
        transition accept;
    }

    state ipv4_from_client {
        pkt.extract(hdr.ipv4);
        ipv4_sum.add(hdr.ipv4);
        m.bad_sum = (bit<1>)ipv4_sum.verify();
        m.client = hdr.ipv4.src;
        m.server = hdr.ipv4.dst;
        transition select(hdr.ipv4.ihl, hdr.ipv4.frag_off, hdr.ipv4.proto) {
            (5, 0, TG_IPPROTO_TCP): tcp_from_client;
            (5, 1, TG_IPPROTO_TCP): overlay;
            (5, 2, TG_IPPROTO_TCP): overlay;
            (6 &&& 0xe, _, TG_IPPROTO_TCP): behind_options;
            (8 &&& 0x8, _, TG_IPPROTO_TCP): behind_options;
            default: accept;
        }
    }

    state tcp_from_client {
        m.ports = pkt.lookahead<bit<32>>();
        pkt.extract(hdr.tcp);
        m.client_port = hdr.tcp.sport;
        m.server_port = hdr.tcp.dport;
        transition accept;
    }

    state overlay {
        m.overlay = 1;
        transition accept;
    }

    state behind_options {
        m.tcp_behind_options = 1;
        transition accept;
    }

    /* ---- Recirculated packets have been judged: a client's TCP over IPv4 ---- */

    state recirculated_vlan {
        pkt.extract(hdr.vlan[0]);
        transition select(hdr.vlan[0].ethertype) {
            TG_ETHERTYPE_IPV4: recirculated_ipv4;
            default: recirculated_second_vlan;
        }
    }

    state recirculated_second_vlan {
        pkt.extract(hdr.vlan[1]);
        transition recirculated_ipv4;
    }

    state recirculated_ipv4 {
        pkt.extract(hdr.ipv4);
        m.client = hdr.ipv4.src;
        m.server = hdr.ipv4.dst;
        transition recirculated_tcp;
    }

    state recirculated_tcp {
        m.ports = pkt.lookahead<bit<32>>();
        pkt.extract(hdr.tcp);
        m.client_port = hdr.tcp.sport;
        m.server_port = hdr.tcp.dport;
        transition select(hdr.note.lap, hdr.note.kind) {
            (TG_LAP_LAST, KIND_SYN): options;
            default: accept;
        }
    }

    state options {
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
    OPTIONS_OF(1)
    OPTIONS_OF(2)
    OPTIONS_OF(3)
    OPTIONS_OF(4)
    OPTIONS_OF(5)
    OPTIONS_OF(6)
    OPTIONS_OF(7)
    OPTIONS_OF(8)
    OPTIONS_OF(9)
    OPTIONS_OF(10)

    OPTION_LOOP(option, first_mss, first_wscale)
    OPTION_LOOP(scale_wanted, scale_wanted_over_4, second_wscale)
    OPTION_LOOP(mss_wanted, second_mss, mss_wanted_over_3)
    state first_mss {
        pkt.extract(hdr.offered_mss);
        left.decrement(4);
        transition scale_wanted;
    }
    state second_mss {
        pkt.extract(hdr.offered_mss);
        transition accept;
    }
    state first_wscale {
        pkt.extract(hdr.offered_wscale);
        left.decrement(3);
        transition mss_wanted;
    }
    state second_wscale {
        pkt.extract(hdr.offered_wscale);
        transition accept;
    }
}

/* Egress reads only the note. */
parser EdgeEgressParser(packet_in pkt, out headers_t hdr, out egress_metadata_t m, out egress_intrinsic_metadata_t eg) {
    state start {
        pkt.extract(eg);
        pkt.extract(hdr.note);
        transition select(hdr.note.lap) {
            TG_LAP_FIRST: ethernet;
            default: state_ahead;
        }
    }

    state state_ahead {
        pkt.extract(hdr.s);
        pkt.extract(hdr.words);
        transition ethernet;
    }

    state ethernet {
        pkt.extract(hdr.ethernet);
        transition accept;
    }
}

#endif
