/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's strategies `auth-full` and `auth-cookie` on v1model (../shared/auth.p4): SYNs
 * from sources that are not on the whitelist are answered; a source that responds is added
 * to it and reset, and connects again; from then on its packets are forwarded unchanged. A
 * layer 2 switch for everything else.
 *
 * Must never: keep anything about a single connection; change what it forwards.
 */
#include <core.p4>
#include <v1model.p4>
#include "parser.p4"
#include "settings.p4"
#include "hashes.p4"
#include "white.p4"
#include "judge.p4"
#include "answer.p4"
#include "segments.p4"
#include "forward.p4"
#include "checksums.p4"
#include "../shared/auth.p4"

control AuthIngress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    counter(P4_SERVICES * COUNTERS, CounterType.packets) counts;
    Settings() settings;
    Services() services;
    Classify() classify;
    Intact() intact;
    HashWords() words;
    WhiteSource() white_source;
    SourceHash() source_hash;
    WhiteTable() white;
    Bloom() bloom;
    WhiteBits() white_bits;
    JudgeParse() judge_parse;
    AuthAsk() ask;
    AuthJudge() judge;
    Answer() answer;
    Reset() reset;
    Forward() forward;

    action count(bit<16> reason) { counts.count((bit<32>)m.service * COUNTERS + (bit<32>)reason); }

    action set_strategy(bit<1> full, bit<1> by_table, bit<64> salt) {
        m.full = full;
        m.by_table = by_table;
        m.salt = salt;
    }
    table strategy {
        actions = { set_strategy; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    apply {
        auth_t v = { 0, 0, 1, 0, 0, 0, 0, 0, 0, COUNT_NOTHING, COUNT_NOTHING, COUNT_NOTHING };
        bit<1> put = 0; // keep this source on the whitelist
        bit<32> lo = 0;
        bit<32> hi = 0;

        settings.apply(hdr, m, std);
        strategy.apply();
        classify.apply(hdr, m, v.is_syn, v.is_ack);
        intact.apply(hdr, m, std.checksum_error);
        if (m.configured == 1 && (m.parse == PARSE_TCP || m.parse == PARSE_FRAGMENT)) {
            services.apply(hdr, m);
        } else if (m.configured == 1 && m.inside == 0) {
            judge_parse.apply(m, v.first);
            if (v.first != COUNT_NOTHING) {
                if (m.enforce == 1) {
                    v.pass = 0;
                } else {
                    v.first = COUNT_WOULD_DROP;
                }
            }
        }

        if (m.service != 0 && m.mode != TG_MODE_OFF && m.inside == 0) {
            words.apply(hdr, m, 0);
            ask.apply(hdr, m, std.packet_length, v);
        }
        if (v.ask == 1) {
            white_source.apply(hdr, m);
            if (m.by_table == 1) {
                white.apply(m);
            } else {
                source_hash.apply(m, lo, hi);
                bloom.apply(m, lo, hi, 1, 0);
                white_bits.apply(m, put);
            }
            judge.apply(hdr, m, std.packet_length, v);
        }

        if (v.accept == 1) {
            if (m.by_table == 1) {
                m.digested = 1;
                digest<white_digest_t>(DIGEST_WHITE, { (bit<8>)m.family, m.source, SECONDS(m) });
            } else {
                put = 1;
            }
        }
        if (put == 1) {
            bloom.apply(m, lo, hi, 0, 1);
        }
        if (v.first != COUNT_NOTHING) {
            count(v.first);
        }
        if (v.second != COUNT_NOTHING) {
            count(v.second);
        }
        if (v.third != COUNT_NOTHING) {
            count(v.third);
        }

        if (v.challenge == 1) {
            m.wscale_offered = 0; // MSS alone keeps the client's answer as short as possible
        }
        if (v.challenge == 1 || v.answer == 1) {
            answer.apply(hdr, m, v.cookie);
            if (v.challenge == 1) {
                hdr.tcp.seq = v.cookie;
            }
        } else if (v.reset == 1) {
            reset.apply(hdr, m);
        }

        if (m.reflected == 1) {
            std.egress_spec = std.ingress_port;
        } else if (v.pass == 0) {
            mark_to_drop(std);
        } else {
            forward.apply(hdr, m, std);
        }
    }
}

control AuthEgress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    PortAddresses() addresses;
    apply { addresses.apply(hdr, m, std); }
}

V1Switch(EdgeParser(), KeepChecksums(), AuthIngress(), AuthEgress(), AnswerChecksums(),
         EdgeDeparser()) main;
