/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's strategies `auth-full` and `auth-cookie` on uBPF (../shared/auth.p4), with the whitelist in registers. It
 * answers by the port that a frame came from (output_port), and passes everything else to whoever runs it.
 *
 * A controller writes the default action of `settings` again in each epoch, an entry for each service, and zeros into all
 * registers: reading what was never written ends this target's program. A table's first action is its default one.
 *
 * p4c-ubpf leaves a read of a register open until the program's end: it closes the `if` around it too late, and whatever
 * follows belongs to that `if`. So registers are read for every frame, outside of every `if`, and the whitelist is written last.
 */
#include <core.p4>
#include <ubpf_model.p4>
#include "parser.p4"
#include "../shared/auth.p4"
#include "answer.p4"

#define COUNT(reason) \
        n = counts.read(at + (bit<32>)reason); \
        if (reason != COUNT_NOTHING) { \
            counts.write(at + (bit<32>)reason, n + 1); \
        }

control AuthPipeline(inout headers_t hdr, inout metadata_t m, inout standard_metadata std_meta) {
    Register<bit<32>, bit<32>>(256 * COUNTERS + 1) counts; // also COUNT_NOTHING's, which are not written
    AuthAsk() ask;
    AuthJudge() judge;
    WhiteSource() white_source;
    SourceHash() source_hash;
    Bloom() bloom;
    WhiteBits() white_bits;
    JudgeParse() judge_parse;
    Words() words;
    Answer() answer;
    Reset() reset;

    action set(bit<8> full, bit<8> stale_drop, bit<8> has_key, bit<8> parity, bit<8> generation, bit<32> inside_port,
               bit<32> k0, bit<32> k1, bit<32> before_k0, bit<32> before_k1, bit<32> bloom_k0, bit<32> bloom_k1, bit<64> salt) {
        m.configured = 1;
        m.full = full[0:0];
        m.stale_drop = stale_drop[0:0];
        m.has_key = has_key[0:0];
        m.parity = parity[0:0];
        m.generation = generation;
        m.inside_port = inside_port;
        m.present_k0 = k0;
        m.present_k1 = k1;
        m.previous_k0 = before_k0;
        m.previous_k1 = before_k1;
        m.bloom_k0 = bloom_k0;
        m.bloom_k1 = bloom_k1;
        m.salt = salt;
    }
    table settings {
        actions = { NoAction; set; }
        default_action = NoAction();
        size = 1;
    }

    action serve(bit<8> service, bit<8> mode, bit<16> mss_v4, bit<16> mss_v6, bit<16> window, bit<8> wscale) {
        m.service = service;
        m.mode = mode;
        m.mss_v4 = mss_v4;
        m.mss_v6 = mss_v6;
        m.window = window;
        m.wscale = wscale;
    }
    table services {
        key = { hdr.tcp.dport: exact; }
        actions = { NoAction; serve; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        auth_t v;
        bit<1> put = 0;
        bit<32> lo = 0;
        bit<32> hi = 0;
        bit<32> at;
        bit<32> n;
        v.is_syn = 0;
        v.is_ack = 0;
        v.pass = 1;
        v.ask = 0;
        v.accept = 0;
        v.challenge = 0;
        v.answer = 0;
        v.reset = 0;
        v.cookie = 0;
        v.first = COUNT_NOTHING;
        v.second = COUNT_NOTHING;
        v.third = COUNT_NOTHING;

        settings.apply();
        if (m.parse == PARSE_TCP) {
            if ((hdr.tcp.flags & (TG_TCP_SYN | TG_TCP_ACK)) == TG_TCP_SYN) {
                v.is_syn = 1;
            }
            if ((hdr.tcp.flags & (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST)) == TG_TCP_ACK) {
                v.is_ack = 1;
            }
            if (m.first_fragment == 1) {
                m.parse = PARSE_FRAGMENT;
            }
        }
        if (m.configured == 1 && std_meta.input_port != m.inside_port) {
            if (m.parse == PARSE_TCP || m.parse == PARSE_FRAGMENT) {
                services.apply();
                if (m.service != 0 && m.mode != TG_MODE_OFF) {
                    words.apply(hdr, m);
                    ask.apply(hdr, m, std_meta.packet_length, v);
                }
            } else {
                judge_parse.apply(m, v.first);
                if (v.first != COUNT_NOTHING) {
                    v.pass = 0;
                }
            }
        }
        if (v.ask == 1) {
            white_source.apply(hdr, m);
            source_hash.apply(m, lo, hi);
        }
        bloom.apply(m, lo, hi, 1, 0);
        if (v.ask == 1) {
            white_bits.apply(m, put);
            judge.apply(hdr, m, std_meta.packet_length, v);
        }
        if (v.accept == 1) {
            put = 1;
        }

        at = (bit<32>)m.service * COUNTERS;
        COUNT(v.first)
        COUNT(v.second)
        COUNT(v.third)

        if (v.challenge == 1) {
            m.wscale_offered = 0;
        }
        if (v.challenge == 1 || v.answer == 1) {
            answer.apply(hdr, m, std_meta, v.cookie, v.challenge);
        } else if (v.reset == 1) {
            reset.apply(hdr, m, std_meta);
        } else if (v.pass == 0) {
            mark_to_drop();
        }

        if (put == 1) {
            bloom.apply(m, lo, hi, 0, 1);
        }
    }
}

ubpf(AuthParser(), AuthPipeline(), AuthDeparser()) main;
