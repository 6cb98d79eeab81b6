/* SPDX-License-Identifier: Apache-2.0
 *
 * TNA: layer 2, as v1model/forward.p4.
 */
#ifndef TG_P4_TNA_FORWARD
#define TG_P4_TNA_FORWARD

#include "types.p4"

control Forward(inout headers_t hdr, in ingress_intrinsic_metadata_t ig,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    action to_port(PortId_t port) { tm.ucast_egress_port = port; }
    /* The controller sets each port's own number as its level 2 exclusion: no frame goes back to its port. */
    action to_all() {
        tm.mcast_grp_a = FLOOD_GROUP;
        tm.level2_exclusion_id = ig.ingress_port;
    }
    table macs {
        key = { hdr.ethernet.dst: exact; }
        actions = { to_port; to_all; }
        const default_action = to_all();
        size = 4096;
    }
    apply { macs.apply(); }
}

/* On egress a port may rewrite a frame's addresses, except for our own answers and for
 * recirculated packets. The note is removed here. */
control PortAddresses(inout headers_t hdr, in PortId_t port) {
    action rewrite(bit<48> src, bit<48> dst) {
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
    }
    table port_macs {
        key = { port: exact; }
        actions = { rewrite; NoAction; }
        const default_action = NoAction();
        size = 512;
    }
    apply {
        if (hdr.note.lap == TG_LAP_FIRST) {
            if (hdr.note.kind == KIND_NONE) {
                port_macs.apply();
            }
            hdr.note.setInvalid();
        }
    }
}

#endif
