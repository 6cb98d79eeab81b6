/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: ICMP errors about translated connections. The quoted header gets the sequence
 * numbers that the error's receiver knows, which would not accept it otherwise
 * (tg_translate_quoted, RFC 5927 section 4.1); path MTU discovery depends on them.
 *
 * Must never: drop one, or create an entry because of one.
 */
#ifndef TG_P4_V1_ICMP
#define TG_P4_V1_ICMP

#include "types.p4"

/* HashWords of the quoted segment, which went in the opposite direction. */
control QuotedWords(inout headers_t hdr, inout metadata_t m) {
    apply {
        bit<128> client;
        bit<128> server;
        if (hdr.quoted_ipv4.isValid()) {
            client = (bit<128>)hdr.quoted_ipv4.dst;
            server = (bit<128>)hdr.quoted_ipv4.src;
        } else {
            client = hdr.quoted_ipv6.dst;
            server = hdr.quoted_ipv6.src;
        }
        m.ports = hdr.quoted_tcp.dport ++ hdr.quoted_tcp.sport;
        if (m.inside == 1) {
            bit<128> other = client;
            client = server;
            server = other;
            m.ports = hdr.quoted_tcp.sport ++ hdr.quoted_tcp.dport;
        }
        m.a0 = client[127:96];
        m.a1 = client[95:64];
        m.a2 = client[63:32];
        m.a3 = client[31:0];
        m.b0 = server[127:96];
        m.b1 = server[95:64];
        m.b2 = server[63:32];
        m.b3 = server[31:0];
    }
}

/* `done`: something was quoted that had to change. */
control TranslateQuoted(inout headers_t hdr, inout metadata_t m, out bit<1> done) {
    apply {
        bit<32> was = 0;
        bit<32> moved = 0;
        bit<32> sum;
        done = 0;
        if (m.inside == 0) { // quotes the server's segment, addressed to the server
            was = hdr.quoted_tcp.seq;
            moved = was + m.flow.value;
            hdr.quoted_tcp.seq = moved;
            done = 1;
        } else if (hdr.quoted_ack.isValid()) {
            was = hdr.quoted_ack.ack;
            moved = was - m.flow.value;
            hdr.quoted_ack.ack = moved;
            done = 1;
        }
        sum = (bit<32>)(~hdr.icmp.checksum) + (bit<32>)(~was[31:16]) + (bit<32>)(~was[15:0]);
        sum = sum + (bit<32>)moved[31:16] + (bit<32>)moved[15:0];
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        if (done == 1) {
            hdr.icmp.checksum = ~sum[15:0];
        }
    }
}

#endif
