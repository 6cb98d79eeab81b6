/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the edge's side of the protocol `tagged` (docs/split-protocol.md, core/tag.h): a
 * flow that `plain` would put into the filter is tagged instead, and a confirmation puts
 * it there. The tag's MAC takes TSecr to be 0: the layout `smartcookie` negotiates no
 * timestamps, and a client that sends them all the same is not served.
 */
#ifndef TG_P4_V1_TAGGED
#define TG_P4_V1_TAGGED

#include "types.p4"

#define LE32(x) (x[7:0] ++ x[15:8] ++ x[23:16] ++ x[31:24])
#define PENDING_TICKS 2 /* of 1.07 s, as in the XDP edge */

/* The protocol, set by the controller: edge number 0 is `plain`. */
control TaggedSettings(inout metadata_t m) {
    action set_tagged(bit<16> edge, bit<32> mtu) {
        m.edge = edge;
        m.mtu = mtu;
    }
    table tagged {
        actions = { set_tagged; NoAction; }
        default_action = NoAction();
        size = 1;
    }
    apply { tagged.apply(); }
}

/* The key of the epoch m.tag_epoch: for confirmations if the packet is one, else for tags. */
control TagKeys(inout metadata_t m) {
    action set_tag_key(bit<64> k0, bit<64> k1) {
        m.has_tag_key = 1;
        m.tag_k0 = k0;
        m.tag_k1 = k1;
    }
    table tag_keys {
        key = { m.tag_epoch: exact; m.confirms: exact; }
        actions = { set_tag_key; NoAction; }
        const default_action = NoAction();
        size = 1024;
    }
    apply { tag_keys.apply(); }
}

/* Flows whose cookie has just been verified: the segments that follow the ACK are sent as
 * probes. The newest flow in a slot wins. */
control Pending(inout metadata_t m, in bit<32> lo, in bit<32> hi, in bit<1> note, out bit<1> pending) {
    register<bit<32>>(65536) places;
    bit<32> place;
    bit<32> now;
    apply {
        pending = 0;
        now = hi[31:16] ++ m.ticks[35:20];
        if (note == 1) {
            places.write(lo & 0xffff, now);
        } else {
            places.read(place, lo & 0xffff);
            if (place != 0 && place[31:16] == now[31:16] && now[15:0] - place[15:0] <= PENDING_TICKS) {
                pending = 1;
            }
        }
    }
}

/* The words of a tag's MAC, and the tag's second word. `what`: TG_TAG_SETUP or TG_TAG_PROBE. */
control TagWords(inout headers_t hdr, inout metadata_t m, in bit<4> what) {
    apply {
        bit<32> word1 = (bit<4>)TG_TAG_VERSION ++ what ++ m.wscale[3:0] ++ 4w0 ++ m.edge;
        m.tag_epoch = m.epoch;
        m.tag_word = word1;
        m.mac_words = 4;
        m.w0 = LE32(m.b3) ++ LE32(m.a3);
        if (hdr.ipv6.isValid()) {
            m.mac_words = 7;
            m.w4 = LE32(m.a1) ++ LE32(m.a0);
            m.w5 = LE32(m.a3) ++ LE32(m.a2);
            m.w6 = LE32(m.b1) ++ LE32(m.b0);
            m.w0 = LE32(m.b3) ++ LE32(m.b2);
        }
        m.w1 = hdr.tcp.seq ++ LE32(m.ports);
        m.w2 = 32w0 ++ hdr.tcp.ack;
        m.w3 = LE32(m.epoch) ++ LE32(word1);
    }
}

/* The words of a confirmation's MAC; its flow as HashWords gives a packet's. */
control ConfirmWords(inout headers_t hdr, inout metadata_t m) {
    apply {
        bit<32> diff = hdr.confirm.epoch - m.epoch;
        m.ports = hdr.confirm.ports;
        if (hdr.ipv6.isValid()) {
            m.a0 = hdr.confirm.client[127:96];
            m.a1 = hdr.confirm.client[95:64];
            m.a2 = hdr.confirm.client[63:32];
            m.a3 = hdr.confirm.client[31:0];
            m.b0 = hdr.confirm.server[127:96];
            m.b1 = hdr.confirm.server[95:64];
            m.b2 = hdr.confirm.server[63:32];
            m.b3 = hdr.confirm.server[31:0];
        } else {
            m.a3 = hdr.confirm.client[127:96];
            m.b3 = hdr.confirm.server[127:96];
        }
        m.tag_epoch = hdr.confirm.epoch;
        m.confirm_near = 0;
        if (diff == 0 || diff == 1 || diff == 0xffffffff) {
            m.confirm_near = 1;
        }
        m.mac_words = 6;
        // In the order of TagMac: words 4 to 6 come first.
        m.w4 = LE32(hdr.confirm.edge_and_0) ++ LE32(hdr.confirm.head);
        m.w5 = LE32(hdr.confirm.ports) ++ LE32(hdr.confirm.epoch);
        m.w0 = LE32(hdr.confirm.client[95:64]) ++ LE32(hdr.confirm.client[127:96]);
        m.w1 = LE32(hdr.confirm.client[31:0]) ++ LE32(hdr.confirm.client[63:32]);
        m.w2 = LE32(hdr.confirm.server[95:64]) ++ LE32(hdr.confirm.server[127:96]);
        m.w3 = LE32(hdr.confirm.server[31:0]) ++ LE32(hdr.confirm.server[63:32]);
    }
}

/* SipHash-2-4 of w4, w5 (from six words on), w6 (of seven) and w0 to w3, as on the wire:
 * little-endian. */
control TagMac(inout metadata_t m, out bit<64> mac) {
    SipWord() first;
    SipWord() second;
    SipWord() third;
    SipWord() word0;
    SipWord() word1;
    SipWord() word2;
    SipWord() word3;
    SipWord() tail;
    SipEnd() end;
    bit<64> h;
    action begin() {
        m.sip.v0 = m.tag_k0 ^ 64w0x736f6d6570736575;
        m.sip.v1 = m.tag_k1 ^ 64w0x646f72616e646f6d;
        m.sip.v2 = m.tag_k0 ^ 64w0x6c7967656e657261;
        m.sip.v3 = m.tag_k1 ^ 64w0x7465646279746573;
    }
    apply {
        begin();
        if (m.mac_words >= 6) {
            first.apply(m.sip, m.w4);
            second.apply(m.sip, m.w5);
        }
        if (m.mac_words == 7) {
            third.apply(m.sip, m.w6);
        }
        word0.apply(m.sip, m.w0);
        word1.apply(m.sip, m.w1);
        word2.apply(m.sip, m.w2);
        word3.apply(m.sip, m.w3);
        h = (2w0 ++ m.mac_words ++ 3w0) ++ 56w0;
        tail.apply(m.sip, h);
        end.apply(m.sip);
        h = m.sip.v0 ^ m.sip.v1 ^ m.sip.v2 ^ m.sip.v3;
        mac = LE32(h[31:0]) ++ LE32(h[63:32]);
    }
}

/* Puts the tag into the segment and corrects lengths and checksums by differences;
 * `fits` says whether there was room. */
control TagPut(inout headers_t hdr, inout metadata_t m, in bit<64> mac, out bit<1> fits) {
    apply {
        bit<16> was = hdr.tcp.doff ++ hdr.tcp.rsvd ++ hdr.tcp.flags;
        bit<16> len = m.l4_len[15:0];
        bit<32> sum;
        fits = 0;
        if (m.head_len + m.l4_len + TG_TAG_LEN <= m.mtu && hdr.tcp.doff <= 10 && m.has_tag_key == 1) {
            fits = 1;
            hdr.tag.setValid();
            hdr.tag.kind = TG_TAG_OPTION;
            hdr.tag.len = TG_TAG_LEN;
            hdr.tag.experiment = 0x5447;
            hdr.tag.what = m.tag_word;
            hdr.tag.epoch = m.epoch;
            hdr.tag.mac = mac;
            hdr.tcp.doff = hdr.tcp.doff + 5;
            sum = (bit<32>)(~hdr.tcp.checksum) + (TG_TAG_OPTION * 256 + TG_TAG_LEN) + 0x5447;
            sum = sum + (bit<32>)m.tag_word[31:16] + (bit<32>)m.tag_word[15:0];
            sum = sum + (bit<32>)m.epoch[31:16] + (bit<32>)m.epoch[15:0];
            sum = sum + (bit<32>)mac[63:48] + (bit<32>)mac[47:32] + (bit<32>)mac[31:16] + (bit<32>)mac[15:0];
            sum = sum + (bit<32>)(~was) + (bit<32>)(hdr.tcp.doff ++ hdr.tcp.rsvd ++ hdr.tcp.flags);
            sum = sum + (bit<32>)(~len) + (bit<32>)(len + TG_TAG_LEN);
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            hdr.tcp.checksum = ~sum[15:0];
            if (hdr.ipv4.isValid()) {
                len = hdr.ipv4.total_len;
                hdr.ipv4.total_len = len + TG_TAG_LEN;
                sum = (bit<32>)(~hdr.ipv4.checksum) + (bit<32>)(~len) + (bit<32>)(len + TG_TAG_LEN);
                sum = (sum & 0xffff) + (sum >> 16);
                sum = (sum & 0xffff) + (sum >> 16);
                hdr.ipv4.checksum = ~sum[15:0];
            } else if (m.no_length == 0) {
                hdr.ipv6.payload_len = hdr.ipv6.payload_len + TG_TAG_LEN;
            }
        }
    }
}

#endif
