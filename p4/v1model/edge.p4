/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge on v1model (simple_switch): answers SYNs to protected services with cookies
 * in the layout `smartcookie`, verifies ACKs, and passes packets of flows in its filter
 * of verified flows; a layer 2 switch for everything else. Protocol `plain`: the client's
 * packet is forwarded with nothing changed but its TTL. Protocol `tagged`: it also carries
 * a tag until the server has confirmed the flow (tagged.p4).
 *
 * Must never: keep anything about a single flow but its bits in the filter; judge packets
 * from inside; forward a SYN to a protected service.
 */
#include <core.p4>
#include <v1model.p4>
#include "parser.p4"
#include "settings.p4"
#include "hashes.p4"
#include "../shared/bloom.p4"
#include "judge.p4"
#include "tagged.p4"
#include "answer.p4"
#include "forward.p4"
#include "checksums.p4"

/* Where the server's packets take another route, one in this many of the client's packets
 * keeps its flow in the filter, as in the XDP edge. */
#define SELF_REFRESH_MASK 0xff

/* 'T' 'G', version 1, TG_TAG_CONFIRM, family */
#define CONFIRM_V4 0x54472304
#define CONFIRM_V6 0x54472306

control EdgeIngress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    counter(P4_SERVICES * COUNTERS, CounterType.packets) counts;
    meter(1, MeterType.packets) allowance;
    Settings() settings;
    Services() services;
    Classify() classify;
    Intact() intact;
    HashWords() words;
    CookieHash() cookie_hash;
    FlowHash() flow_hash;
    Bloom() bloom;
    JudgeParse() judge_parse;
    JudgeSyn() judge_syn;
    JudgeLengths() judge_lengths;
    JudgeUnknown() judge_unknown;
    Answer() answer;
    SetTtl() set_ttl;
    TaggedSettings() tagged;
    TagKeys() keys;
    Pending() pending;
    TagWords() tag_words;
    ConfirmWords() confirm_words;
    TagMac() tag_mac;
    TagPut() tag_put;
    Forward() forward;

    action count(bit<16> reason) { counts.count((bit<32>)m.service * COUNTERS + (bit<32>)reason); }

    apply {
        bit<16> reason = COUNT_NOTHING;
        bit<1> pass = 1;
        bit<1> is_syn = 0;
        bit<1> is_ack = 0;  // tg_host_is_ack
        bit<1> to_hash = 0;
        bit<1> put = 0;
        bit<1> refreshed = 0;
        bit<1> no_key = 0;
        bit<1> unknown = 0;
        bit<1> lies = 0;
        bit<32> cookie = 0;
        bit<32> lo = 0;
        bit<32> hi = 0;
        bit<32> k0 = m.present_k0;
        bit<32> k1 = m.present_k1;
        bit<32> isn = 0;
        bit<8> dice = 0;
        bit<8> ttl = 0;
        bit<2> color = 0;
        bit<4> tag = 0;     // TG_TAG_*
        bit<1> note = 0;    // its cookie has just been verified
        bit<1> waits = 0;   // and is not confirmed yet
        bit<1> fits = 0;
        bit<64> mac = 0;

        settings.apply(hdr, m, std);
        tagged.apply(m);
        classify.apply(hdr, m, is_syn, is_ack);
        intact.apply(hdr, m, std.checksum_error);
        if (m.edge != 0 && m.inside == 1 && hdr.confirm.isValid() && hdr.confirm.edge_and_0 == m.edge ++ 16w0 &&
            ((hdr.confirm.head == CONFIRM_V4 && hdr.ipv4.isValid()) ||
             (hdr.confirm.head == CONFIRM_V6 && hdr.ipv6.isValid()))) {
            m.confirms = 1;
        }
        if (m.configured == 1 && (m.parse == PARSE_TCP || m.parse == PARSE_FRAGMENT || m.confirms == 1)) {
            services.apply(hdr, m);
        } else if (m.configured == 1 && m.inside == 0) {
            judge_parse.apply(m, reason);
            if (reason != COUNT_NOTHING) {
                if (m.enforce == 1) {
                    pass = 0;
                } else {
                    reason = COUNT_WOULD_DROP;
                }
                count(reason);
            }
        }

        if (m.confirms == 1) {
            confirm_words.apply(hdr, m);
        } else if (m.service != 0 && m.mode != TG_MODE_OFF) {
            words.apply(hdr, m, m.inside);
            if (m.inside == 1) {
                // A segment with ACK belongs to a connection and keeps the flow in the
                // filter. (A SYN-ACK or a RST may answer a flood.)
                if (is_ack == 1) {
                    put = 1;
                }
            } else if (is_syn == 1) {
                count(COUNT_SYN);
                judge_syn.apply(hdr, m, std.packet_length, reason, pass);
                if (m.mode == TG_MODE_MONITOR) {
                    if (pass == 0 && reason != COUNT_COOKIE_SENT) {
                        count(COUNT_WOULD_DROP);
                    } else if (pass == 0) {
                        count(COUNT_WOULD_ANSWER);
                    }
                    pass = 1;
                } else {
                    if (reason == COUNT_COOKIE_SENT) {
                        if (m.has_key == 0) {
                            reason = COUNT_DROP_NO_KEY;
                            if (m.stale_drop == 0) {
                                reason = COUNT_PASS_NO_KEY;
                                pass = 1;
                            }
                        } else {
                            to_hash = 1; // here: make a cookie
                            isn = hdr.tcp.seq;
                            k0 = m.present_k0;
                            k1 = m.present_k1;
                        }
                    }
                    count(reason);
                }
            } else {
                ttl = hdr.ipv6.ttl;
                if (hdr.ipv4.isValid()) {
                    ttl = hdr.ipv4.ttl;
                }
                if (m.mode == TG_MODE_ALWAYS && ttl < m.hops) {
                    count(COUNT_DROP_HOPS);
                    pass = 0;
                } else {
                    put = 1; // here: look the flow up
                }
            }
        }

        // Everything but a SYN is looked up in the filter, from either side.
        if (put == 1 || m.confirms == 1) {
            flow_hash.apply(hdr, m, lo, hi);
        }
        if (put == 1) {
            bloom.apply(m, lo, hi, 1, 0);
            random(dice, 8w0, 8w255);
            put = 0;
            bit<4> active = m.known >> m.generation;
            if (m.inside == 1) {
                put = ~active[0:0];
                refreshed = put;
            } else if (m.known != 0) {
                count(COUNT_EDGE_KNOWN);
                if (is_ack == 1 && active[0:0] == 0 && (dice & SELF_REFRESH_MASK) == 0) {
                    put = 1;
                    refreshed = 1;
                }
            } else if (m.mode == TG_MODE_MONITOR) {
                count(COUNT_WOULD_DROP);
            } else {
                unknown = 1;
                judge_lengths.apply(hdr, m, std.packet_length, lies);
                if (is_ack == 1 && lies == 0) {
                    if (m.has_key == 0) {
                        no_key = ~m.stale_drop;
                    } else if (m.parse != PARSE_FRAGMENT) { // unknown: its checksum covers the whole segment
                        to_hash = 1;
                        isn = hdr.tcp.seq - 1;
                        k0 = m.present_k0;
                        k1 = m.present_k1;
                        cookie = hdr.tcp.ack - 1;
                        if (cookie[31:31] != m.parity) {
                            k0 = m.previous_k0;
                            k1 = m.previous_k1;
                        }
                    }
                }
            }
        }

        if (to_hash == 1) {
            cookie_hash.apply(hdr, m, isn, k0, k1, cookie);
        }
        if (to_hash == 1 && unknown == 0) {
            answer.apply(hdr, m, cookie);
        }
        if (to_hash == 1 && unknown == 1) {
            bit<32> advertised = hdr.tcp.ack - 1;
            if (cookie[TG_SMART_HASH_BITS - 1:0] == advertised[TG_SMART_HASH_BITS - 1:0]) {
                unknown = 0;
                if (m.bad_sum == 1) { // its server will drop it
                    count(COUNT_DROP_CHECKSUM);
                    pass = 0;
                } else if (m.edge == 0) {
                    count(COUNT_COOKIE_VALID);
                    put = 1;
                } else {
                    count(COUNT_COOKIE_VALID);
                    note = 1;
                    tag = TG_TAG_SETUP;
                }
            }
        }
        if (m.edge != 0 && (note == 1 || unknown == 1)) {
            pending.apply(m, lo, hi, note, waits);
        }
        if (unknown == 1) {
            allowance.execute_meter(32w0, color);
            bit<1> allowed = 0;
            if (m.unknown == UNKNOWN_ALL || (m.unknown == UNKNOWN_METER && color == 0)) {
                allowed = 1;
            }
            allowed = allowed | waits;
            judge_unknown.apply(hdr, m, no_key, allowed, reason, pass);
            count(reason);
            if (m.edge != 0 && pass == 1 && reason != COUNT_PASS_NO_KEY && m.parse != PARSE_FRAGMENT) {
                tag = TG_TAG_PROBE;
            }
        }
        if (tag != 0) {
            tag_words.apply(hdr, m, tag);
        }
        if (tag != 0 || m.confirms == 1) {
            keys.apply(m);
            tag_mac.apply(m, mac);
        }
        if (m.confirms == 1) {
            pass = 0; // it was meant for this edge alone
            if (m.has_tag_key == 1 && m.confirm_near == 1 && mac == hdr.confirm.mac) {
                put = 1;
                count(COUNT_CONFIRM_TAKEN);
            } else {
                count(COUNT_CONFIRM_FORGED);
            }
        }
        if (put == 1) {
            bloom.apply(m, lo, hi, 0, 1);
            if (refreshed == 1) {
                count(COUNT_EDGE_REFRESHED);
            }
        }

        if (m.reflected == 1) {
            std.egress_spec = std.ingress_port;
        } else if (pass == 0) {
            mark_to_drop(std);
        } else {
            if (m.hops != 0 && m.service != 0 && m.mode == TG_MODE_ALWAYS && m.inside == 0 &&
                is_syn == 0) {
                set_ttl.apply(hdr, m.hops);
            }
            forward.apply(hdr, m, std);
            if (tag != 0) {
                tag_put.apply(hdr, m, mac, fits);
                if (fits == 0) {
                    std.mcast_grp = 0;
                    mark_to_drop(std);
                    count(COUNT_TAG_NO_ROOM);
                } else if (tag == TG_TAG_SETUP) {
                    count(COUNT_TAG_SETUP);
                } else {
                    count(COUNT_TAG_PROBE);
                }
            }
        }
    }
}

control EdgeEgress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    PortAddresses() addresses;
    apply { addresses.apply(hdr, m, std); }
}

V1Switch(EdgeParser(), KeepChecksums(), EdgeIngress(), EdgeEgress(), AnswerChecksums(),
         EdgeDeparser()) main;
