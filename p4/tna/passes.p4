/* SPDX-License-Identifier: Apache-2.0
 *
 * Where each of a cookie's twelve rounds is computed. A pass is ingress, then egress;
 * between two passes the packet is recirculated. The words are source, destination,
 * ports, and the client's ISN with the length; then the end.
 *
 *   Tofino 1, 12 stages: 2 rounds in ingress, 3 in egress; 5 halves, 2 recirculations
 *     1  src src | dst dst ports |>  2  ports isn | isn end end |>  3  end end
 *   Tofino 2, 20 stages: 4 and 4; 3 halves, 1 recirculation
 *     1  src src dst dst | ports ports isn isn |>  2  end end end end
 *
 * The result is thus available in ingress, where an edge has its filter and can choose the
 * port. All rounds are computed for every packet; unneeded results are ignored.
 *
 * No externs of any architecture, as in rounds.p4.
 */
#ifndef TG_P4_TNA_PASSES
#define TG_P4_TNA_PASSES

#include "rounds.p4"

#ifndef TG_PASSES
#if __TARGET_TOFINO__ == 2
#define TG_PASSES 2
#else
#define TG_PASSES 3
#endif
#endif

#define TG_LAP_FIRST 0
#define TG_LAP_LAST (TG_PASSES - 1)

/* What is absorbed between and after the rounds of an ingress. */
struct ingress_words_t {
    bit<32> mid_behind;
    bit<32> mid_next;
    bit<32> end_behind;
    bit<32> end_next;
}

/* The same for an egress; computed in ingress, because egress has no stage left for it. */
header egress_words_t {
    bit<32> behind; // the current word is XORed out and the next one absorbed
    bit<32> next;
    bit<32> last;   // the last one is XORed out
    bit<8>  end;    // 0xff: finalisation begins
}

/* The words of a lap: 0 is the first. */
control PassWords(in bit<8> lap, in bit<32> src, in bit<32> dst, in bit<32> ports, in bit<32> isn,
                  inout ingress_words_t w, inout egress_words_t e) {
    // The source by the hash unit: the first pass absorbs it with the key, and a move would
    // then tie all these words to the state's containers.
#if TG_PASSES == 3
    action first() {
        w.mid_behind = 0;
        w.mid_next = 0;
        @in_hash { w.end_behind = src; }
        w.end_next = dst;
        e.behind = dst;
        e.next = ports;
        e.last = 0;
        e.end = 0;
    }
    action second() {
        w.mid_behind = ports;
        w.mid_next = isn;
        w.end_behind = 0;
        w.end_next = 0;
        e.behind = 0;
        e.next = 0;
        e.last = isn;
        e.end = 0xff;
    }
#else
    action first() {
        @in_hash { w.mid_behind = src; }
        w.mid_next = dst;
        w.end_behind = dst;
        w.end_next = ports;
        e.behind = ports;
        e.next = isn;
        e.last = isn;
        e.end = 0xff;
    }
#endif
    action last() {
        w.mid_behind = 0; w.mid_next = 0; w.end_behind = 0; w.end_next = 0;
    }
    table firsts { actions = { first; } const default_action = first(); size = 1; }
#if TG_PASSES == 3
    table seconds { actions = { second; } const default_action = second(); size = 1; }
#endif
    table lasts { actions = { last; } const default_action = last(); size = 1; }
    apply {
        if (lap == TG_LAP_FIRST) {
            firsts.apply();
        } else if (lap == TG_LAP_LAST) {
            lasts.apply();
        }
#if TG_PASSES == 3
        else {
            seconds.apply();
        }
#endif
    }
}

/* `shown` is valid in the last lap: `told` ^ the hash's low 24 bits. */
control IngressPass(inout halfsip_t s, in ingress_words_t w, in bit<32> advertised, out bit<32> shown) {
    RoundHead() head1;
    RoundHead() head2;
    RoundTailWord() mid;
    RoundTailWord() end;
    HashShown() hash_shown;
#if TG_PASSES == 3
    apply {
        head1.apply(s);
        mid.apply(s, w.mid_behind, w.mid_next);
        head2.apply(s);
        hash_shown.apply(s, advertised, shown);
        end.apply(s, w.end_behind, w.end_next);
    }
#else
    RoundHead() head3;
    RoundHead() head4;
    RoundTail() tail1;
    RoundTail() tail3;
    apply {
        head1.apply(s);
        tail1.apply(s);
        head2.apply(s);
        mid.apply(s, w.mid_behind, w.mid_next);
        head3.apply(s);
        tail3.apply(s);
        head4.apply(s);
        hash_shown.apply(s, advertised, shown);
        end.apply(s, w.end_behind, w.end_next);
    }
#endif
}

control EgressPass(inout halfsip_t s, in egress_words_t e) {
    RoundHead() head1;
    RoundHead() head2;
    RoundHead() head3;
    RoundTailWord() word;
    RoundTailEnd() end;
#if TG_PASSES == 3
    RoundTail() tail3;
    apply {
        head1.apply(s);
        end.apply(s, e.last, e.end);
        head2.apply(s);
        word.apply(s, e.behind, e.next);
        head3.apply(s);
        tail3.apply(s);
    }
#else
    RoundHead() head4;
    RoundTail() tail1;
    RoundTail() tail3;
    apply {
        head1.apply(s);
        tail1.apply(s);
        head2.apply(s);
        word.apply(s, e.behind, e.next);
        head3.apply(s);
        tail3.apply(s);
        head4.apply(s);
        end.apply(s, e.last, e.end);
    }
#endif
}

#endif
