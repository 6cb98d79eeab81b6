/* SPDX-License-Identifier: Apache-2.0
 *
 * v1model: layer 2. A frame goes to the port of its destination address, or to all other
 * ports if that is unknown; on egress a port may rewrite its addresses. The configuration
 * says where addresses are, or they are learned (learn.p4).
 */
#ifndef TG_P4_V1_FORWARD
#define TG_P4_V1_FORWARD

#include "types.p4"
#include "learn.p4"

#define FLOOD_GROUP 1 /* the multicast group of all ports */

control Forward(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    Learn() learn;
    action to_port(bit<9> port) { std.egress_spec = port; }
    action to_all() { std.mcast_grp = FLOOD_GROUP; }
    table macs {
        key = { hdr.ethernet.dst: exact; }
        actions = { to_port; to_all; }
        const default_action = to_all();
        size = P4_TABLE_MACS;
    }
    apply {
        learn.apply(hdr, m, std);
        macs.apply();
        if (std.egress_spec == std.ingress_port && std.mcast_grp == 0) {
            mark_to_drop(std);
        }
    }
}

control PortAddresses(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t std) {
    action rewrite(bit<48> src, bit<48> dst) {
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
    }
    table port_macs {
        key = { std.egress_port: exact; }
        actions = { rewrite; NoAction; }
        const default_action = NoAction();
        size = 512;
    }
    apply {
        // Here, because bmv2 does not preserve the length of a cloned packet.
        if (m.answered == 1) {
            truncate(m.frame_len);
        }
        if (std.instance_type == 5 && std.egress_port == std.ingress_port && m.pair == 0) {
            mark_to_drop(std); // the copy of a flooded frame for the port that it came from
        } else if (m.reflected == 0) {
            port_macs.apply();
        }
    }
}

/* The same TTL for everything that is forwarded (core/edge.h). IPv4's checksum is updated,
 * not recomputed (RFC 1624): an incorrect one stays incorrect. */
control SetTtl(inout headers_t hdr, in bit<8> ttl) {
    apply {
        if (hdr.ipv4.isValid()) {
            bit<16> before = hdr.ipv4.ttl ++ hdr.ipv4.proto;
            bit<16> now = ttl ++ hdr.ipv4.proto;
            bit<32> sum = (bit<32>)(~hdr.ipv4.checksum) + (bit<32>)(~before) + (bit<32>)now;
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            hdr.ipv4.ttl = ttl;
            hdr.ipv4.checksum = ~sum[15:0];
        } else {
            hdr.ipv6.ttl = ttl;
        }
    }
}

#endif
