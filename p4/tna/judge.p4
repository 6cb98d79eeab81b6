/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: the judgements of core/host.h and core/edge.h as truth tables: first a packet's class,
 * then its verdict. Reasons are counted by entry (direct counters). Nothing changes in
 * the packet but its TTL.
 */
#ifndef TG_P4_TNA_JUDGE
#define TG_P4_TNA_JUDGE

#include "types.p4"

/* tg_packet_source_is_bogus, except for a source that equals its destination. */
control Sources(inout headers_t hdr, inout metadata_t m) {
    action bogus() { m.bogus = 1; }
    table sources {
        key = { hdr.ipv4.src: ternary; }
        actions = { bogus; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x00000000 &&& 0xff000000: bogus();
            0x7f000000 &&& 0xff000000: bogus();
            0xe0000000 &&& 0xf0000000: bogus();
            0xffffffff: bogus();
        }
        size = 4;
    }
    apply { sources.apply(); }
}

/* A TCP header that is longer than its segment, or shorter than the minimum. */
control Lengths(inout headers_t hdr, inout metadata_t m) {
    action lie() { m.lies = 1; }
    table lengths {
        key = {
            hdr.tcp.doff: ternary;
            hdr.ipv4.total_len: range;
        }
        actions = { lie; NoAction; }
        const default_action = NoAction();
        const entries = {
            (0 &&& 0xc, _): lie();
            (4, _): lie();
            (5, 0..39): lie();
            (6, 0..43): lie();
            (7, 0..47): lie();
            (8, 0..51): lie();
            (9, 0..55): lie();
            (10, 0..59): lie();
            (11, 0..63): lie();
            (12, 0..67): lie();
            (13, 0..71): lie();
            (14, 0..75): lie();
            (15, 0..79): lie();
        }
        size = 16;
    }
    apply { lengths.apply(); }
}

/* The controller writes entries 0 to hops - 1. */
control Hops(inout headers_t hdr, inout metadata_t m) {
    action too_few() { m.far = 1; }
    table hops {
        key = { hdr.ipv4.ttl: range; }
        actions = { too_few; NoAction; }
        const default_action = NoAction();
        size = 1;
    }
    apply { hops.apply(); }
}

/* Classifies a packet. SYNs to services: tg_proxy_judge_syn. */
control Judge(inout headers_t hdr, inout metadata_t m) {
    DirectCounter<bit<64>>(CounterType_t.PACKETS) counts;

    action forward() { counts.count(); }
    action drop() { counts.count(); m.class = CLASS_DROP; }
    action answer() { counts.count(); m.class = CLASS_ANSWER; }
    action ask() { counts.count(); m.class = CLASS_ASK; }
    action ask_ack() { counts.count(); m.class = CLASS_ASK_ACK; }
    action keep() { counts.count(); m.class = CLASS_KEEP; }
    action turn() { counts.count(); m.class = CLASS_TURN; }
    action made() { counts.count(); m.class = CLASS_MADE; }
    action prove() { counts.count(); m.class = CLASS_PROVE; }
    table classes {
        key = {
            hdr.note.lap: ternary;
            hdr.note.kind: ternary;
            m.port.inside: ternary;
            hdr.tcp.isValid(): ternary;
            m.service: ternary;
            m.enforce: ternary;
            m.overlay: ternary;
            m.tcp_behind_options: ternary;
            m.bad_sum: ternary;
            hdr.ipv4.mf: ternary;
            m.bogus: ternary;
            m.lies: ternary;
            m.far: ternary;
            m.has_key: ternary;
            m.stale_drop: ternary;
            hdr.tcp.flags: ternary;
            hdr.ethernet.dst[40:40]: ternary @name("group");
        }
        actions = { forward; drop; answer; ask; ask_ack; keep; turn; made; prove; }
        const default_action = forward();
        counters = counts;
        // lap, kind, inside, tcp, service, enforce, overlay, options, bad sum, more fragments, bogus,
        // lies, far, key, stale drop, flags, group
        const entries = {
#define SYN_ONLY TG_TCP_SYN &&& (TG_TCP_SYN | TG_TCP_ACK)
#define ACK_ONLY TG_TCP_ACK &&& (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST)
#define FIRST TG_LAP_FIRST, _, 0
            (TG_LAP_LAST, KIND_SYN, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _): made();
            (TG_LAP_LAST, KIND_ACK, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _): prove();
#if TG_PASSES == 3
            (1, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _): turn();
#endif
            // from a server
            (_, _, 1, true, 1, _, _, _, _, _, _, _, _, _, _, ACK_ONLY, _): keep();
            (_, _, 1, _, _, _, _, _, _, _, _, _, _, _, _, _, _): forward();
            // dropped for what they are
            (FIRST, _, _, 1, 1, _, _, _, _, _, _, _, _, _, _): drop(); // fragment
            (FIRST, _, _, 1, _, 1, _, _, _, _, _, _, _, _, _): drop(); // options
            (FIRST, true, 1, _, _, _, 1, _, _, _, _, _, _, _, _): drop(); // broken IP
            // SYNs to a service
            (FIRST, true, 1, _, _, _, _, _, _, _, _, _, _, TG_TCP_SYN | TG_TCP_FIN &&& TG_TCP_SYN | TG_TCP_ACK | TG_TCP_FIN, _): drop();
            (FIRST, true, 1, _, _, _, _, _, _, _, _, _, _, TG_TCP_SYN | TG_TCP_RST &&& TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST, _): drop();
            (FIRST, true, 1, _, _, _, _, 1, _, _, _, _, _, SYN_ONLY, _): drop(); // fragment
            (FIRST, true, 1, _, _, _, _, _, _, 1, _, _, _, SYN_ONLY, _): drop(); // malformed
            (FIRST, true, 1, _, _, _, _, _, _, _, _, _, _, SYN_ONLY, 1): forward(); // to a group
            (FIRST, true, 1, _, _, _, _, _, 1, _, _, _, _, SYN_ONLY, _): drop(); // source
            (FIRST, true, 1, _, _, _, _, _, _, _, _, 0, 1, SYN_ONLY, _): drop(); // no key
            (FIRST, true, 1, _, _, _, _, _, _, _, _, 0, _, SYN_ONLY, _): forward(); // no key
            (FIRST, true, 1, _, _, _, _, _, _, _, _, _, _, SYN_ONLY, _): answer();
            // everything else
            (FIRST, true, 1, _, _, _, _, _, _, _, 1, _, _, _, _): drop(); // hops
            (FIRST, true, 1, _, _, _, _, _, _, 0, _, 1, _, ACK_ONLY, _): ask_ack();
            (FIRST, true, 1, _, _, _, _, _, _, _, _, _, _, _, _): ask();
        }
        size = 64;
    }
    apply { classes.apply(); }
}

/* The same TTL for everything that is forwarded. */
control Normalise(inout headers_t hdr, inout metadata_t m) {
    action normalise() {
        hdr.ipv4.ttl = m.hops;
        m.rewritten = 1;
    }
    table normalises {
        actions = { normalise; }
        const default_action = normalise();
        size = 1;
    }
    apply {
        if ((m.class == CLASS_ASK || m.class == CLASS_ASK_ACK) && m.hops != 0) {
            normalises.apply();
        }
    }
}

/* The verdict, from the class and from what filter and cookie say. */
control Verdict(inout headers_t hdr, inout metadata_t m,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    DirectCounter<bit<64>>(CounterType_t.PACKETS) counts;

    action leave() {
        counts.count();
        hdr.note.lap = TG_LAP_FIRST;
    }
    action drop() {
        counts.count();
        dprsr.drop_ctl = 1;
    }
    /* Recirculates the packet; `kind` matters in the first lap. */
    action start(bit<8> kind) {
        counts.count();
        hdr.note.kind = kind;
        hdr.note.lap = 1;
        hdr.s.setValid();
        hdr.words.setValid();
        tm.ucast_egress_port = m.recirculation;
        tm.mcast_grp_a = 0;
    }
    action turn() {
        counts.count();
        hdr.note.lap = 2;
        hdr.words.setValid();
        tm.ucast_egress_port = m.recirculation;
        tm.mcast_grp_a = 0;
    }
    action back() {
        counts.count();
        hdr.note.lap = TG_LAP_FIRST;
        hdr.s.setInvalid();
        tm.ucast_egress_port = hdr.note.port;
        tm.mcast_grp_a = 0;
    }
    action proven() {
        counts.count();
        hdr.note.lap = TG_LAP_FIRST;
        hdr.note.kind = KIND_NONE;
        hdr.s.setInvalid();
        tm.level2_exclusion_id = hdr.note.port;
    }
    table verdicts {
        key = {
            m.class: ternary;
            m.known00: ternary;
            m.known01: ternary;
            m.known02: ternary;
            m.known10: ternary;
            m.known11: ternary;
            m.known12: ternary;
            m.shown[23:0]: ternary @name("difference");
            m.learning: ternary;
            m.unknown: ternary;
            m.has_key: ternary;
            m.stale_drop: ternary;
            hdr.tcp.flags: ternary;
        }
        actions = { leave; drop; start; turn; back; proven; }
        const default_action = leave();
        counters = counts;
        // class, generation 0, generation 1, difference, learning, unknown, key, stale drop, flags
        const entries = {
#define ANY _, _, _, _, _, _
            (CLASS_DROP, ANY, _, _, _, _, _, _): drop();
            (CLASS_ANSWER, ANY, _, _, _, _, _, _): start(KIND_SYN);
            (CLASS_TURN, ANY, _, _, _, _, _, _): turn();
            (CLASS_MADE, ANY, _, _, _, _, _, _): back();
            (CLASS_PROVE, ANY, 0, _, _, _, _, _): proven();
            (CLASS_PROVE, ANY, _, 1, _, _, _, _): proven(); // learning
            (CLASS_PROVE, ANY, _, _, 1, _, _, _): proven(); // unknown
            (CLASS_PROVE, ANY, _, _, _, _, _, _): drop();
            (CLASS_ASK_ACK, 1, 1, 1, _, _, _, _, _, _, _, _, _): leave(); // known
            (CLASS_ASK_ACK, _, _, _, 1, 1, 1, _, _, _, _, _, _): leave();
            (CLASS_ASK_ACK, ANY, _, _, _, _, _, _): start(KIND_ACK);
            (CLASS_ASK, 1, 1, 1, _, _, _, _, _, _, _, _, _): leave(); // known
            (CLASS_ASK, _, _, _, 1, 1, 1, _, _, _, _, _, _): leave();
            (CLASS_ASK, ANY, _, _, _, _, _, 0 &&& (TG_TCP_SYN | TG_TCP_ACK | TG_TCP_RST | TG_TCP_FIN)): drop(); // stray
            (CLASS_ASK, ANY, _, _, _, _, _, TG_TCP_SYN &&& TG_TCP_SYN): drop(); // SYN-ACK
            (CLASS_ASK, ANY, _, _, _, 0, 0, ACK_ONLY): leave(); // no key
            (CLASS_ASK, ANY, _, 1, _, _, _, _): leave(); // learning
            (CLASS_ASK, ANY, _, _, 1, _, _, _): leave(); // unknown
            (CLASS_ASK, ANY, _, _, _, _, _, TG_TCP_RST &&& TG_TCP_RST): drop();
            (CLASS_ASK, ANY, _, _, _, _, _, TG_TCP_FIN &&& TG_TCP_FIN): drop();
            (CLASS_ASK, ANY, _, _, _, _, _, _): drop(); // ACK
        }
        size = 32;
    }
    apply { verdicts.apply(); }
}

#endif
