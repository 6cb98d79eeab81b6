/* SPDX-License-Identifier: Apache-2.0
 *
 * What a parser says a packet is.
 */
#ifndef TG_P4_PARSE
#define TG_P4_PARSE

/* core/packet.h, enum tg_parse_result */
typedef bit<3> parse_t;
const parse_t PARSE_OTHER = 0;
const parse_t PARSE_TCP = 1;
const parse_t PARSE_FRAGMENT = 2;
const parse_t PARSE_CUT_TCP = 3;
const parse_t PARSE_OVERLAY = 4;
const parse_t PARSE_EXT_CHAIN = 5;
const parse_t PARSE_CUT_CHAIN = 6;
const parse_t PARSE_TAGS = 7;

#endif
