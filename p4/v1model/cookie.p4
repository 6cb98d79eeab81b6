/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's strategy `cookie` on v1model (core/proxy.h, core/translate.h): SYNs are
 * answered with cookies and a window of zero; for a client that returns one, a connection
 * to the server is opened in its name, and what follows is translated by the difference
 * between the two sequence numbers. Cookies have the layout `smartcookie`. A layer 2 switch
 * for everything else.
 *
 * The server's SYN-ACK needs no memory of the client's numbers: the cookie is recomputed
 * from it. Nothing is kept of a SYN, nor any data: a switch has no room for it, hence the
 * window of zero.
 *
 * Must never: wait for the controller; forward a SYN to a protected service unless its
 * connection exists.
 */
#include <core.p4>
#include <v1model.p4>
#include "parser.p4"
#include "settings.p4"
#include "hashes.p4"
#include "judge.p4"
#include "answer.p4"
#include "segments.p4"
#include "flows.p4"
#include "translate.p4"
#include "setup.p4"
#include "icmp.p4"
#include "forward.p4"
#include "checksums.p4"

control CookieIngress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    counter(P4_SERVICES * COUNTERS, CounterType.packets) counts;
    Settings() settings;
    Services() services;
    Classify() classify;
    Intact() intact;
    HashWords() words;
    CookieWords() cookie_words;
    CookieTail() cookie_tail;
    CookieTail() probe_tail;
    QuotedWords() quoted_words;
    TranslateQuoted() translate_quoted;
    FlowHash() flow_hash;
    FlowTable() table_of_flows;
    Setup() setup;
    JudgeParse() judge_parse;
    JudgeSyn() judge_syn;
    JudgeLengths() judge_lengths;
    Answer() answer;
    Reset() reset;
    Translate() translate;
    Settle() settle;
    FlowSyn() flow_syn;
    FlowRefusal() flow_refusal;
    Forward() forward;

    action count(bit<16> reason) { counts.count((bit<32>)m.service * COUNTERS + (bit<32>)reason); }

    apply {
        bit<16> reason = COUNT_NOTHING;
        bit<1> pass = 1;
        bit<1> is_syn = 0;
        bit<1> is_ack = 0;
        bit<1> is_synack = 0;
        bit<1> is_rst = 0;
        bit<1> has_ack = 0;
        bit<1> bare = 0;     // no data
        bit<1> quotes = 0;   // an ICMP error that quotes a segment
        bit<1> judged = 0;   // not a SYN of a client
        bit<1> from_table = 0;
        bit<1> answers = 0;  // make a cookie
        bit<1> to_hash = 0;
        bit<1> to_setup = 0; // 1: look the entry in the registers up, or write it
        bit<1> ours = 0;     // the cookie is ours
        bit<1> moves = 0;    // translate it
        bit<1> tell = 0;     // notify the controller
        bit<1> retransmit = 0;
        bit<1> put_retransmit = 0;
        bit<1> lies = 0;
        bit<32> isn = 0;
        bit<32> advertised = 0;
        bit<32> cookie = 0;
        bit<32> k0 = 0;
        bit<32> k1 = 0;
        bit<32> lo = 0;
        bit<32> hi = 0;
        bit<8> kind = 0;

        settings.apply(hdr, m, std);
        classify.apply(hdr, m, is_syn, is_ack);
        intact.apply(hdr, m, std.checksum_error);
        if (hdr.quoted_tcp.isValid()) {
            quotes = 1;
        }
        if (m.configured == 1 && (m.parse == PARSE_TCP || m.parse == PARSE_FRAGMENT || quotes == 1)) {
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

        if (m.service != 0 && m.mode != TG_MODE_OFF) {
            if (quotes == 1) {
                quoted_words.apply(hdr, m);
            } else {
                words.apply(hdr, m, m.inside);
            }
            table_of_flows.apply(hdr, m);
            if (m.flow.state == FLOW_READY) {
                from_table = 1;
            }
        }

        if (quotes == 1) {
            if (from_table == 1) {
                translate_quoted.apply(hdr, m, quotes);
                if (quotes == 1) {
                    count(COUNT_ICMP_TRANSLATED);
                }
            }
        } else if (m.service != 0 && m.mode != TG_MODE_OFF) {
            if ((hdr.tcp.flags & (TG_TCP_SYN | TG_TCP_ACK)) == (TG_TCP_SYN | TG_TCP_ACK)) {
                is_synack = 1;
            }
            if ((hdr.tcp.flags & TG_TCP_RST) != 0) {
                is_rst = 1;
            }
            if ((hdr.tcp.flags & TG_TCP_ACK) != 0) {
                has_ack = 1;
            }
            if (m.l4_len == (bit<32>)hdr.tcp.doff << 2) {
                bare = 1;
            }
            if (m.inside == 0 && is_syn == 1) {
                count(COUNT_SYN);
                judge_syn.apply(hdr, m, std.packet_length, reason, pass);
                if (m.mode == TG_MODE_MONITOR) {
                    if (pass == 0 && reason != COUNT_COOKIE_SENT) {
                        count(COUNT_WOULD_DROP);
                    } else if (pass == 0 && from_table == 0) {
                        count(COUNT_WOULD_ANSWER);
                    }
                    pass = 1;
                } else {
                    if (reason == COUNT_COOKIE_SENT) {
                        if (from_table == 1) {
                            reason = COUNT_PASS_EXISTING;
                            pass = 1;
                        } else if (m.has_key == 0) {
                            reason = COUNT_DROP_NO_KEY;
                            if (m.stale_drop == 0) {
                                reason = COUNT_PASS_NO_KEY;
                                pass = 1;
                            }
                        } else {
                            answers = 1;
                        }
                    }
                    count(reason);
                }
            } else if (m.parse == PARSE_TCP) {
                judged = 1;
                if (from_table == 0 && m.mode == TG_MODE_ALWAYS && (m.inside == 1 || is_ack == 1)) {
                    to_setup = 1;
                }
            } else if (from_table == 1) {
                moves = 1; // the first fragment of a segment
            }
        }

        if (to_setup == 1) {
            flow_hash.apply(hdr, m, lo, hi);
            setup.apply(m, lo, hi, 0, retransmit);
            to_setup = 0;
        }

        // Whose cookie must be recomputed?
        if (answers == 1) {
            to_hash = 1;
            isn = hdr.tcp.seq;
            advertised[31:31] = m.parity;
        } else if (judged == 1 && m.inside == 1) {
            isn = hdr.tcp.ack - 1;
            advertised = m.flow.value;
            if (m.flow.state == FLOW_READY) {
                advertised = hdr.tcp.seq - m.flow.value;
                to_hash = is_synack;
            } else if (m.flow.state == FLOW_SETUP) {
                to_hash = has_ack;
            }
        } else if (judged == 1 && is_ack == 1 && m.parse == PARSE_TCP && m.flow.state != FLOW_READY && m.mode == TG_MODE_ALWAYS) {
            isn = hdr.tcp.seq - 1;
            advertised = hdr.tcp.ack - 1;
            judge_lengths.apply(hdr, m, std.packet_length, lies);
            to_hash = ~lies;
        }
        if (to_hash == 1 && m.has_key == 1) {
            k0 = m.present_k0;
            k1 = m.present_k1;
            if (advertised[31:31] != m.parity) {
                k0 = m.previous_k0;
                k1 = m.previous_k1;
            }
            cookie_words.apply(hdr, m, k0, k1);
            m.kept = m.s;
            cookie_tail.apply(hdr, m, isn, cookie);
            if (cookie[TG_SMART_HASH_BITS - 1:0] == advertised[TG_SMART_HASH_BITS - 1:0]) {
                ours = 1;
            } else if (m.inside == 0 && answers == 0 && bare == 1) {
                // Perhaps a probe of the closed window, whose number is one less.
                bit<32> other;
                m.s = m.kept;
                probe_tail.apply(hdr, m, hdr.tcp.seq, other);
                if (other[TG_SMART_HASH_BITS - 1:0] == advertised[TG_SMART_HASH_BITS - 1:0]) {
                    ours = 1;
                    isn = hdr.tcp.seq;
                }
            }
        }

        if (answers == 1) {
            m.window = 0;
            answer.apply(hdr, m, cookie);
        } else if (judged == 1 && m.inside == 1) {
            if (is_synack == 1 && ours == 1) {
                reason = COUNT_FLOW_REACK;
                if (m.flow.state == FLOW_SETUP) {
                    reason = COUNT_FLOW_READY;
                    to_setup = 1;
                    tell = 1;
                    settle.apply(hdr, m, advertised);
                }
                count(reason);
                m.pair = 1;
                if (advertised[27:24] == TG_WSCALE_NONE) {
                    m.wscale = 0; // what was announced to the client
                }
            } else if (m.flow.state == FLOW_READY) {
                moves = 1;
                if (from_table == 0) {
                    tell = retransmit;
                    put_retransmit = retransmit;
                }
                // Only the server's end of a connection counts; a client's could be forged.
                if ((hdr.tcp.flags & (TG_TCP_FIN | TG_TCP_RST)) != 0 && from_table == 1) {
                    tell = 1;
                }
            } else if (m.flow.state == FLOW_SETUP) {
                pass = 0;
                if (is_rst == 1) {
                    if (ours == 1) {
                        count(COUNT_FLOW_REFUSED);
                        pass = 1;
                        flow_refusal.apply(hdr, m, m.flow.value);
                        m.flow.state = FLOW_NONE;
                        to_setup = 1;
                    }
                } else if (has_ack == 1 && ours == 0 && m.has_key == 1) {
                    // The server has an older connection: reset that. The client retransmits.
                    count(COUNT_FLOW_OLDER);
                    reset.apply(hdr, m);
                }
            }
        } else if (judged == 1) {
            if (m.flow.state == FLOW_READY) {
                moves = 1;
            } else if (ours == 1 && m.bad_sum == 1) {
                count(COUNT_DROP_CHECKSUM);
                pass = 0;
            } else if (ours == 1) {
                reason = COUNT_FLOW_RETRANSMIT;
                if (m.flow.state != FLOW_SETUP || m.flow.value != advertised) {
                    count(COUNT_COOKIE_VALID);
                    reason = COUNT_FLOW_OPENED;
                }
                count(reason);
                m.flow.state = FLOW_SETUP;
                m.flow.value = advertised;
                m.flow.down = 0;
                m.flow.up = 0;
                m.flow.window = hdr.tcp.window;
                to_setup = 1;
                flow_syn.apply(hdr, m, isn, advertised);
            } else if (m.flow.state == FLOW_SETUP) {
                pass = 0;
            } else if (is_ack == 1 && lies == 0 && m.parse == PARSE_TCP && m.mode == TG_MODE_ALWAYS) {
                count(COUNT_COOKIE_INVALID);
            }
        }
        if (to_setup == 1 || put_retransmit == 1) {
            setup.apply(m, lo, hi, 1, retransmit);
        }
        if (tell == 1) {
            kind = (bit<8>)FLOW_READY;
            if (from_table == 1) {
                kind = (bit<8>)FLOW_NONE;
            }
            m.digested = 1;
            digest<flow_digest_t>(DIGEST_FLOW, { (bit<8>)m.family, kind, m.a0, m.a1, m.a2, m.a3, m.b0, m.b1, m.b2,
                                  m.b3, m.ports, m.flow.value, m.flow.down, m.flow.up, m.flow.window,
                                  SECONDS(m) });
        }
        if (moves == 1) {
            translate.apply(hdr, m);
        }

        if (m.reflected == 1) {
            std.egress_spec = std.ingress_port;
        } else if (pass == 0) {
            mark_to_drop(std);
        } else {
            forward.apply(hdr, m, std);
            if (m.pair == 1) { // to all ports; egress keeps the right copy
                if (std.mcast_grp == 0) {
                    m.to_known = 1;
                    m.to_port = std.egress_spec;
                }
                std.mcast_grp = FLOOD_GROUP;
            }
        }
    }
}

control CookieEgress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    PortAddresses() addresses;
    FlowAck() flow_ack;
    FlowWindow() flow_window;
    apply {
        if (m.pair == 1) {
            if (std.egress_port == std.ingress_port) {
                flow_ack.apply(hdr, m);
            } else {
                flow_window.apply(hdr, m, m.wscale);
            }
        }
        addresses.apply(hdr, m, std);
        if (m.pair == 1 && m.to_known == 1 && std.egress_port != std.ingress_port &&
            std.egress_port != m.to_port) {
            mark_to_drop(std);
        }
    }
}

V1Switch(EdgeParser(), KeepChecksums(), CookieIngress(), CookieEgress(), AnswerChecksums(),
         EdgeDeparser()) main;
