/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: the whitelist of verified sources, by address, for IPv6 by its first 64 bits.
 * The settings choose where it is:
 *
 *   table      the switch sends a digest to the controller, which adds an entry and removes
 *              it when the source has not come again within the window
 *   registers  three bits in bloom.p4's filter, by a secret hash; a source that comes again
 *              is put into the active generation, and the oldest one is cleared
 */
#ifndef TG_P4_V1_WHITE
#define TG_P4_V1_WHITE

#include "types.p4"
#include "../shared/white.p4"

#define DIGEST_WHITE 1 /* bmv2 numbers digests by their order, not by this */

struct white_digest_t {
    bit<8>  family; // 0: IPv4, 1: IPv6
    bit<64> source;
    bit<32> when; // SECONDS
}

control WhiteTable(inout metadata_t m) {
    action known() { m.white = 1; }
    table sources {
        key = {
            m.family: exact;
            m.source: exact;
        }
        actions = { known; NoAction; }
        const default_action = NoAction();
        support_timeout = true;
        size = P4_TABLE_SOURCES;
    }
    apply { sources.apply(); }
}

#endif
