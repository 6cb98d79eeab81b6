/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's strategies `auth-full` and `auth-cookie` (core/proxy.h), for every architecture: whom to look up in the
 * whitelist, and what becomes of those that are not on it. An architecture's program parses, has the tables, the
 * whitelist and the counters, and makes the answers; its types.p4 and the header of `hdr` come before this.
 *
 *   ask.apply(hdr, m, frame_len, v);     v.ask: look the source up, set m.white
 *   judge.apply(hdr, m, frame_len, v);   the rest of v
 *
 * Must never: keep anything about a single connection.
 */
#ifndef TG_P4_AUTH
#define TG_P4_AUTH

#include "judge.p4"
#include "cookie.p4"
#include "challenge.p4"
#include "white.p4"

struct auth_t {
    bit<1>  is_syn;
    bit<1>  is_ack;
    bit<1>  pass;      // forward it, unless it is answered or reset
    bit<1>  ask;       // its source must be looked up
    bit<1>  accept;    // its source has just been verified
    bit<1>  challenge; // a SYN that is answered with `cookie` as its number
    bit<1>  answer;    // a SYN that is answered with a cookie
    bit<1>  reset;     // an ACK that is answered with a RST
    bit<32> cookie;
    bit<16> first;     // what is counted for it, or COUNT_NOTHING
    bit<16> second;
    bit<16> third;
}

/* Packets from clients to a service that is not off. */
control AuthAsk(inout headers_t hdr, inout metadata_t m, in bit<32> frame_len, inout auth_t v) {
    JudgeSyn() judge_syn;
    apply {
        bit<16> reason;
        bit<1> pass;
        if (v.is_syn == 1) {
            v.first = COUNT_SYN;
            judge_syn.apply(hdr, m, frame_len, reason, pass);
            v.pass = pass;
            if (m.mode == TG_MODE_MONITOR) {
                if (pass == 0 && reason != COUNT_COOKIE_SENT) {
                    v.second = COUNT_WOULD_DROP;
                } else if (pass == 0) {
                    v.second = COUNT_WOULD_ANSWER;
                }
                v.pass = 1;
            } else if (reason == COUNT_COOKIE_SENT) {
                v.ask = 1;
            } else {
                v.second = reason;
            }
        } else if (m.mode == TG_MODE_ALWAYS && m.parse == PARSE_TCP && v.is_ack == 1) {
            v.ask = 1;
        }
    }
}

/* Packets whose source has been looked up. */
control AuthJudge(inout headers_t hdr, inout metadata_t m, in bit<32> frame_len, inout auth_t v) {
    CookieHash() cookie_hash;
    ChallengeIsn() challenge_isn;
    JudgeLengths() judge_lengths;
    apply {
        bit<1> ours = 0;    // it answers our challenge
        bit<1> mix = 0;
        bit<1> to_hash = 0;
        bit<1> lies = 0;
        bit<32> isn = hdr.tcp.seq;
        bit<32> advertised = 0;
        bit<32> cookie = 0;
        bit<32> k0 = m.present_k0;
        bit<32> k1 = m.present_k1;

        if (m.white == 1) {
            v.pass = 1;
            if (v.is_syn == 1) {
                v.second = COUNT_FORWARD_WHITE;
            }
        } else if (v.is_syn == 1) {
            if (m.full == 1) {
                mix = 1;
                v.second = COUNT_CHALLENGE_SENT;
            } else if (m.has_key == 0) {
                v.second = COUNT_DROP_NO_KEY;
                if (m.stale_drop == 0) {
                    v.second = COUNT_PASS_NO_KEY;
                    v.pass = 1;
                }
            } else {
                to_hash = 1;
                v.second = COUNT_COOKIE_SENT;
            }
        } else {
            isn = hdr.tcp.seq - 1;
            advertised = hdr.tcp.ack - 1;
            if ((advertised & (1 << TG_SMART_PARITY_SHIFT)) != (bit<32>)m.parity << TG_SMART_PARITY_SHIFT) {
                k0 = m.previous_k0;
                k1 = m.previous_k1;
            }
            judge_lengths.apply(hdr, m, frame_len, lies);
            if (lies == 0) { // tg_proxy_may_prove
                if (m.full == 1) {
                    mix = 1;
                } else if (m.has_key == 1) {
                    to_hash = 1;
                }
            }
        }

        if (mix == 1) {
            challenge_isn.apply(hdr, m, isn, cookie);
            if (cookie == advertised) {
                ours = 1;
            }
            v.accept = v.is_ack;
        } else if (to_hash == 1) {
            cookie_hash.apply(hdr, m, isn, k0, k1, cookie);
            if (((cookie ^ advertised) & ((1 << TG_SMART_HASH_BITS) - 1)) == 0) {
                ours = 1;
            }
            v.accept = ours & v.is_ack;
        }
        if (v.is_ack == 1 && lies == 0 && m.white == 0 && m.full == 0) {
            v.first = COUNT_COOKIE_INVALID;
            if (v.accept == 1) {
                v.first = COUNT_COOKIE_VALID;
            }
        }
        if (v.accept == 1 && m.bad_sum == 1) {
            v.second = COUNT_DROP_CHECKSUM;
            v.accept = 0;
            v.pass = 0;
        }
        if (v.accept == 1) {
            v.second = COUNT_WHITE_ADDED;
            v.reset = ours;
        }
        if (v.reset == 1) {
            v.third = COUNT_WHITE_RESET;
        }
        v.cookie = cookie;
        v.challenge = mix & v.is_syn;
        v.answer = to_hash & v.is_syn;
    }
}

#endif
