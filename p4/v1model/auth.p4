/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's strategies `auth-full` and `auth-cookie` on v1model (core/proxy.h): SYNs
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
#include "challenge.p4"
#include "segments.p4"
#include "forward.p4"
#include "checksums.p4"

control AuthIngress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    counter(P4_SERVICES * COUNTERS, CounterType.packets) counts;
    Settings() settings;
    Services() services;
    Classify() classify;
    HashWords() words;
    CookieHash() cookie_hash;
    ChallengeIsn() challenge_isn;
    WhiteSource() white_source;
    SourceHash() source_hash;
    WhiteTable() white;
    Bloom() bloom;
    JudgeParse() judge_parse;
    JudgeSyn() judge_syn;
    JudgeLengths() judge_lengths;
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
        bit<16> reason = COUNT_NOTHING;
        bit<1> pass = 1;
        bit<1> is_ack = 0;
        bit<1> is_syn = 0;
        bit<1> ask = 0;     // look the source up in the whitelist
        bit<1> put = 0;     // keep this source on it
        bit<1> accept = 0;  // it has just been verified
        bit<1> ours = 0;    // it answers our challenge
        bit<1> challenge = 0;
        bit<1> to_hash = 0;
        bit<1> lies = 0;
        bit<32> isn = 0;
        bit<32> advertised = 0;
        bit<32> cookie = 0;
        bit<32> k0 = 0;
        bit<32> k1 = 0;
        bit<32> lo = 0;
        bit<32> hi = 0;

        settings.apply(hdr, m, std);
        strategy.apply();
        classify.apply(hdr, m, is_syn, is_ack);
        if (m.configured == 1 && (m.parse == PARSE_TCP || m.parse == PARSE_FRAGMENT)) {
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

        if (m.service != 0 && m.mode != TG_MODE_OFF && m.inside == 0) {
            words.apply(hdr, m, 0);
            if (is_syn == 1) {
                count(COUNT_SYN);
                judge_syn.apply(hdr, m, std.packet_length, reason, pass);
                if (m.mode == TG_MODE_MONITOR) {
                    if (pass == 0 && reason != COUNT_COOKIE_SENT) {
                        count(COUNT_WOULD_DROP);
                    } else if (pass == 0) {
                        count(COUNT_WOULD_ANSWER);
                    }
                    pass = 1;
                } else if (reason == COUNT_COOKIE_SENT) {
                    ask = 1;
                } else {
                    count(reason);
                }
            } else if (m.mode == TG_MODE_ALWAYS && m.parse == PARSE_TCP && is_ack == 1) {
                ask = 1;
            }
        }

        if (ask == 1) {
            white_source.apply(hdr, m);
            if (m.by_table == 1) {
                white.apply(m);
            } else {
                source_hash.apply(m, lo, hi);
                bloom.apply(m, lo, hi, 1, 0);
                if (m.known != 0) {
                    bit<4> active = m.known >> m.generation;
                    m.white = 1;
                    put = ~active[0:0];
                }
            }
            if (m.white == 1) {
                pass = 1;
                if (is_syn == 1) {
                    count(COUNT_FORWARD_WHITE);
                }
            } else if (is_syn == 1) {
                isn = hdr.tcp.seq;
                if (m.full == 1) {
                    challenge = 1;
                    count(COUNT_CHALLENGE_SENT);
                } else if (m.has_key == 0) {
                    reason = COUNT_DROP_NO_KEY;
                    if (m.stale_drop == 0) {
                        reason = COUNT_PASS_NO_KEY;
                        pass = 1;
                    }
                    count(reason);
                } else {
                    to_hash = 1;
                    count(COUNT_COOKIE_SENT);
                }
                k0 = m.present_k0;
                k1 = m.present_k1;
            } else {
                isn = hdr.tcp.seq - 1;
                advertised = hdr.tcp.ack - 1;
                k0 = m.present_k0;
                k1 = m.present_k1;
                if (advertised[31:31] != m.parity) {
                    k0 = m.previous_k0;
                    k1 = m.previous_k1;
                }
                judge_lengths.apply(hdr, m, std.packet_length, lies);
                if (lies == 0) { // tg_proxy_may_prove
                    if (m.full == 1) {
                        challenge = 1;
                    } else if (m.has_key == 1) {
                        to_hash = 1;
                    }
                }
            }
        }

        if (challenge == 1) {
            challenge_isn.apply(hdr, m, isn, cookie);
            if (cookie == advertised) {
                ours = 1;
            }
            accept = is_ack;
        } else if (to_hash == 1) {
            cookie_hash.apply(hdr, m, isn, k0, k1, cookie);
            if (cookie[TG_SMART_HASH_BITS - 1:0] == advertised[TG_SMART_HASH_BITS - 1:0]) {
                ours = 1;
            }
            accept = ours & is_ack;
        }
        if (is_ack == 1 && ask == 1 && lies == 0 && m.white == 0 && m.full == 0) {
            if (accept == 1) {
                count(COUNT_COOKIE_VALID);
            } else {
                count(COUNT_COOKIE_INVALID);
            }
        }

        if (accept == 1) {
            count(COUNT_WHITE_ADDED);
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

        if (is_syn == 1 && (challenge == 1 || to_hash == 1)) {
            if (challenge == 1) {
                m.wscale_offered = 0; // MSS alone keeps the client's answer as short as possible
            }
            answer.apply(hdr, m, cookie);
            if (challenge == 1) {
                hdr.tcp.seq = cookie;
            }
        } else if (accept == 1 && ours == 1) {
            count(COUNT_WHITE_RESET);
            reset.apply(hdr, m);
        }

        if (m.reflected == 1) {
            std.egress_spec = std.ingress_port;
        } else if (pass == 0) {
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
