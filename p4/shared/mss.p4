/* SPDX-License-Identifier: Apache-2.0
 *
 * The index by which a cookie holds an MSS (core/mss.def).
 */
#ifndef TG_P4_MSS
#define TG_P4_MSS

/* tg_mss_index */
control MssIndex(in bit<1> ipv4, in bit<16> mss, out bit<3> index) {
    apply {
        index = 0;
        if (ipv4 == 1) {
            if (mss >= TG_MSS_V4_7) { index = 7; }
            else if (mss >= TG_MSS_V4_6) { index = 6; }
            else if (mss >= TG_MSS_V4_5) { index = 5; }
            else if (mss >= TG_MSS_V4_4) { index = 4; }
            else if (mss >= TG_MSS_V4_3) { index = 3; }
            else if (mss >= TG_MSS_V4_2) { index = 2; }
            else if (mss >= TG_MSS_V4_1) { index = 1; }
        } else {
            if (mss >= TG_MSS_V6_7) { index = 7; }
            else if (mss >= TG_MSS_V6_6) { index = 6; }
            else if (mss >= TG_MSS_V6_5) { index = 5; }
            else if (mss >= TG_MSS_V6_4) { index = 4; }
            else if (mss >= TG_MSS_V6_3) { index = 3; }
            else if (mss >= TG_MSS_V6_2) { index = 2; }
            else if (mss >= TG_MSS_V6_1) { index = 1; }
        }
    }
}

#endif
