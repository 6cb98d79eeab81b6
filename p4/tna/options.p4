/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: a SYN's options as parser states, for MSS and window scale. The first of each kind
 * counts. A parser advances only by lengths known at compile time, so an option of another
 * kind is skipped by a state for its length; there are states for the lengths that options
 * have, and any other length ends the list, as EOL does. An option that runs past the end
 * of the list is followed into the data; at the packet's end the parser drops it.
 */
#ifndef TG_P4_TNA_OPTIONS
#define TG_P4_TNA_OPTIONS

/* Names of the states; `left` is the number of bytes left. */
#define OPTIONS_OF(words) \
    state options_##words { \
        left.set(8w4 * words); \
        transition option; \
    }

#define OPTION_LENGTH(loop, n) \
    state loop##_over_##n { \
        pkt.advance(8 * n); \
        left.decrement(n); \
        transition loop; \
    }

/* The loop for one combination of options seen so far; `on_mss` and `on_wscale` are states. */
#define OPTION_LOOP(loop, on_mss, on_wscale) \
    state loop { \
        transition select(left.is_zero()) { \
            true: accept; \
            false: loop##_kind; \
        } \
    } \
    state loop##_kind { \
        transition select(pkt.lookahead<bit<16>>()) { \
            16w0x0100 &&& 16w0xff00: loop##_over_1; \
            16w0x0000 &&& 16w0xff00: accept; \
            16w0x0204: on_mss; \
            16w0x0303: on_wscale; \
            16w2 &&& 16w0xff: loop##_over_2; \
            16w3 &&& 16w0xff: loop##_over_3; \
            16w4 &&& 16w0xff: loop##_over_4; \
            16w6 &&& 16w0xff: loop##_over_6; \
            16w8 &&& 16w0xff: loop##_over_8; \
            16w10 &&& 16w0xff: loop##_over_10; \
            16w12 &&& 16w0xff: loop##_over_12; \
            16w16 &&& 16w0xff: loop##_over_16; \
            16w18 &&& 16w0xff: loop##_over_18; \
            default: accept; \
        } \
    } \
    OPTION_LENGTH(loop, 1) \
    OPTION_LENGTH(loop, 2) \
    OPTION_LENGTH(loop, 3) \
    OPTION_LENGTH(loop, 4) \
    OPTION_LENGTH(loop, 6) \
    OPTION_LENGTH(loop, 8) \
    OPTION_LENGTH(loop, 10) \
    OPTION_LENGTH(loop, 12) \
    OPTION_LENGTH(loop, 16) \
    OPTION_LENGTH(loop, 18)

#endif
