# SPDX-License-Identifier: Apache-2.0
"""The same SYN in every wrapping: VLAN tags, IPv4 options, IPv6 extension headers,
trailing bytes, and every combination of TCP flags; sources and destinations that
must not be answered.
"""
import struct

from packets import *  # noqa: F401,F403
import packets as p
from theme_clients import syn_vector

MALFORMED = {1: {"syn": 1, "drop_malformed": 1}}
OPTIONS = [mss(1460), SACK, timestamps(1000), NOP, wscale(7)]
FOUND = offer(1460, 7, True, 1000)
HBH, ROUTING, FRAGMENT, ESP, AH, NONE, DSTOPTS, MOBILITY, HIP, SHIM6 = \
    0, 43, 44, 50, 51, 59, 60, 135, 139, 140
PADN6 = b"\0" + bytes.fromhex("010400000000")  # length 8, PadN


def syn(family, **fields):
    return p.defaults(family, options=OPTIONS, **fields)


def good(name, why, f, **more):
    return syn_vector(name, why, f, FOUND, **more)


def bad(name, why, f, verdict, counters, **more):
    return syn_vector(name, why, f, None, verdict=verdict, counters=counters, **more)


# What the kernel takes off by itself, so that it can adopt from such a frame; and what not.
TAGS = (("8100", [(0x8100, 5)]), ("88a8", [(0x88a8, 5)]), ("priority", [(0x8100, 7 << 13)]),
        ("dei", [(0x8100, 0xffff)]))
STACKS = (("9100", [(0x9100, 5)]), ("88a8-8100", [(0x88a8, 100), (0x8100, 200)]),
          ("8100-8100", [(0x8100, 100), (0x8100, 200)]), ("8100-0-8100", [(0x8100, 0), (0x8100, 200)]),
          ("9100-8100", [(0x9100, 100), (0x8100, 200)]))


def stacks_answered():
    """By who adopts nothing himself."""
    for family in (4, 6):
        for name, tag_list in STACKS:
            yield good("vlan-%s-v%d" % (name, family), "tags stay as they are in the answer",
                       syn(family, tags=tag_list))


def stacks():
    for family in (4, 6):
        for name, tag_list in STACKS:
            yield bad("stack-%s-v%d" % (name, family),
                      "the kernel finds no IP packet here that it could adopt from: no answer",
                      syn(family, tags=tag_list), "pass", {1: {"syn": 1, "pass_stack": 1}})
        yield bad("stack-vlan-0-twice-v%d" % family,
                  "Linux takes both tags off, but cannot adopt: neither answered nor let by",
                  syn(family, tags=[(0x8100, 0), (0x8100, 7 << 13)]), "drop", {1: {"syn": 1, "drop_stack": 1}})


def tags():
    for family in (4, 6):
        for name, tag_list in TAGS:
            yield good("vlan-%s-v%d" % (name, family), "tags stay as they are in the answer",
                       syn(family, tags=tag_list))
        yield bad("vlan-three-v%d" % family, "Linux takes off any number of tags with VID 0: three would pass every gate",
                  syn(family, tags=[(0x8100, 0)] * 3), "drop", {0: {"drop_tags": 1}})
        yield bad("vlan-eight-v%d" % family, "looked behind, too",
                  syn(family, tags=[(0x88a8, 1)] + [(0x8100, 2)] * 7), "drop", {0: {"drop_tags": 1}})
        yield bad("vlan-nine-v%d" % family, "nobody looks any further",
                  syn(family, tags=[(0x8100, 0)] * 9), "drop", {0: {"drop_tags": 1}})
    yield bad("vlan-three-udp", "no TCP behind three tags: nothing of ours",
              syn(6, ext=[pad(17, "UDP")], tags=[(0x8100, 0)] * 3), "pass", {})
    yield bad("vlan-three-arp", "nor is this",
              syn(4, ethertype=0x0806, tags=[(0x8100, 0)] * 3), "pass", {})
    yield bad("ethertype-arp", "not IP", syn(4, ethertype=0x0806), "pass", {})
    yield bad("ethertype-pppoe", "PPPoE is not unpacked", syn(4, ethertype=0x8864), "pass", {})
    yield bad("ethertype-v4-holds-v6", "version 6 under the ethertype of IPv4",
              syn(6, ethertype=0x0800), "pass", {})
    yield bad("ethertype-v6-holds-v4", "version 4 under the ethertype of IPv6",
              syn(4, ethertype=0x86dd), "pass", {})


def ipv4():
    yield good("v4-df", "Don't Fragment set", syn(4, frag=0x4000))
    yield good("v4-no-df", "not set: a legitimate SYN too", syn(4, frag=0))
    yield good("v4-evil-bit", "the reserved bit means nothing (RFC 3514)", syn(4, frag=0x8000))
    yield good("v4-ttl-1", "the answer has a TTL of its own", syn(4, ttl=1))
    yield good("v4-tos", "DSCP is not copied", syn(4, tos=0xb8))
    yield bad("v4-bad-ip-checksum", "the kernel is silent", syn(4, ip_sum=0x1234), "drop",
              {1: {"syn": 1, "drop_checksum": 1}})
    for name, data in (("nop-eol", "01010100"), ("record-route", "07070400000000" + "01"),
                       ("timestamp", "440c05000000000000000000"), ("router-alert", "94040000"),
                       ("address-extension", "93060000000001" + "01"), ("longest", "01" * 40)):
        yield good("v4-option-" + name, "the answer has no IP options", syn(4, ip_options=bytes.fromhex(data)))
    routed = {1: {"syn": 1, "drop_source_route": 1}}
    for name, data in (("loose", "83070400000000" + "01"), ("strict", "89070400000000" + "01"),
                       ("behind-others", "01" + "07070400000000" + "8303" + "04" + "00")):
        yield bad("v4-source-route-" + name, "the kernel drops it unless accept_source_route is set",
                  syn(4, ip_options=bytes.fromhex(data)), "drop", routed)
    yield good("v4-source-route-behind-end", "what follows the end of the list is padding",
               syn(4, ip_options=bytes.fromhex("0083030400000000")))
    for name, data in (("length-0", "83000000"), ("length-1", "07010000"), ("beyond", "07050401"), ("cut", "01010107")):
        yield bad("v4-option-" + name, "an option that lies about its length",
                  syn(4, ip_options=bytes.fromhex(data)), "drop", MALFORMED)
    for trailer in (1, 6, 40):
        for family in (4, 6):
            yield good("trailer-%d-v%d" % (trailer, family),
                       "bytes after the IP packet (padding) are not part of it and not sent back",
                       syn(family, trailer=b"\xee" * trailer))
    f = p.defaults(4, trailer=bytes(6))
    yield syn_vector("padded-to-60-bytes", "Ethernet's shortest frame, padded", f, offer())
    for size in (1, 1400):
        for family in (4, 6):
            yield good("data-%d-v%d" % (size, family), "data in the SYN is not acknowledged",
                       syn(family, payload=b"x" * size))


def checksums():
    """TCP's, in every wrapping; a SYN of the usual layout goes another way than one that is not."""
    wrong = {1: {"syn": 1, "drop_checksum": 1}}
    plain = [mss(1460), NOP, wscale(7), NOP, NOP, SACK]
    for family in (4, 6):
        for name, more in (("linux", {}), ("windows", {"options": plain}), ("bare", {"options": []}),
                           ("vlan", {"tags": [(0x8100, 5)]}), ("data", {"payload": b"x" * 700}),
                           ("odd-data", {"payload": b"xyz"}), ("ecn", {"flags": SYN | ECE | CWR}),
                           ("long-data", {"payload": b"y" * 1300})):
            base = dict({"options": OPTIONS}, **more)
            found = {"windows": offer(1460, 7, True), "bare": offer()}.get(name, FOUND)
            v = "-%s-v%d" % (name, family)
            yield bad("tcp-sum-zero" + v, "no checksum at all", p.defaults(family, tcp_sum=0, **base), "drop", wrong)
            yield bad("tcp-sum-off-by-one" + v, "one bit of the field", p.defaults(
                family, tcp_sum=lambda right, pseudo: right ^ 1, **base), "drop", wrong)
            yield bad("tcp-sum-complement" + v, "the right sum, not complemented", p.defaults(
                family, tcp_sum=lambda right, pseudo: right ^ 0xffff, **base), "drop", wrong)
            yield syn_vector("tcp-sum-partial" + v, "left to the device, as from a container on this machine",
                             p.defaults(family, tcp_sum=lambda right, pseudo: pseudo, **base), found)
        yield bad("tcp-sum-trailer-v%d" % family, "what is behind the packet does not count",
                  syn(family, tcp_sum=lambda right, pseudo: right ^ 0x8000, trailer=b"\xee" * 7), "drop", wrong)
    yield bad("tcp-sum-extensions", "with extension headers", syn(6, ext=[pad(DSTOPTS, "options")], tcp_sum=1), "drop", wrong)
    yield good("tcp-sum-partial-extensions", "likewise", syn(6, ext=[pad(DSTOPTS, "options")],
                                                            tcp_sum=lambda right, pseudo: pseudo))
    yield bad("ip-sum-and-options", "over all of the header", syn(4, ip_options=b"\1" * 8, ip_sum=0), "drop", wrong)
    for octet in range(20):
        f = syn(4)
        parts = p.frame(f)
        whole = bytearray(p.flat(parts))
        if octet in (0, 2, 3, 6, 7, 9):
            continue  # that changes what the packet is
        whole[14 + octet] ^= 0x10
        if octet >= 12:
            continue  # TCP's checksum covers the addresses
        yield {"name": "ip-sum-octet-%d" % octet, "why": "one bit of the header",
               "packets": [{"verdict": "drop", "in": [(bytes(whole), "an octet changed")]}], "counters": wrong}


def pad(kind, name):
    return kind, PADN6, name


def routing(left):
    return ROUTING, bytes([0, 4, left]) + bytes(4), "segment routing header, %d left" % left


def fragment(offset, more, ident=1):
    return FRAGMENT, struct.pack(">BHI", 0, offset | more, ident), "fragment header, offset %d" % offset


def ipv6():
    yield good("v6-flow-label", "the answer has none", syn(6, flow=0xabcde))
    yield good("v6-traffic-class", "DSCP is not copied", syn(6, tos=0xb8))
    yield good("v6-hop-by-hop", "walked", syn(6, ext=[pad(HBH, "hop-by-hop options")]))
    yield good("v6-destination-options", "walked", syn(6, ext=[pad(DSTOPTS, "destination options")]))
    long_pad = bytes([3]) + bytes.fromhex("011c") + bytes(28)
    yield good("v6-long-options", "32 bytes of options", syn(6, ext=[(DSTOPTS, long_pad, "long options")]))
    yield good("v6-routing-0-left", "arrived: walked", syn(6, ext=[routing(0)]))
    for left in (1, 255):
        yield bad("v6-routing-%d-left" % left, "the destination is not this one yet",
                  syn(6, ext=[routing(left)]), "pass", {})
    yield good("v6-atomic-fragment", "a whole packet (RFC 6946)", syn(6, ext=[fragment(0, 0)]))
    ah = bytes([4, 0, 0]) + struct.pack(">II", 256, 1) + bytes(12)
    yield bad("v6-ah", "AH: its owner wants the answer under AH too; the kernel's",
              syn(6, ext=[(AH, ah, "AH")]), "pass", {})
    yield bad("v6-hbh-ah", "AH behind another header", syn(6, ext=[pad(HBH, "hop-by-hop"), (AH, ah, "AH")]),
              "pass", {})
    for kind, name in ((ESP, "esp"), (NONE, "no-next-header"), (MOBILITY, "mobility"), (HIP, "hip"),
                       (SHIM6, "shim6"), (253, "experiment")):
        yield bad("v6-" + name, "not TCP to the gate", syn(6, ext=[pad(kind, name)]), "pass", {})
    mixed = [pad(HBH, "hop-by-hop"), pad(DSTOPTS, "destination options"), routing(0),
             fragment(0, 0), pad(DSTOPTS, "destination options"), pad(DSTOPTS, "destination options"),
             pad(DSTOPTS, "destination options")]
    for n in range(2, 7):
        yield good("v6-chain-%d" % n, "as many as are walked", syn(6, ext=mixed[:n]))
    yield bad("v6-chain-7", "nobody sends these (RFC 8504 5.3)", syn(6, ext=mixed), "drop",
              {0: {"drop_ext_chain": 1}})
    yield bad("v6-chain-7-unprotected-port", "dropped whatever the port: it was not looked at",
              syn(6, ext=mixed, dport=81), "drop", {0: {"drop_ext_chain": 1}})
    for chain, name in (([pad(HBH, "hop-by-hop"), pad(HBH, "hop-by-hop")], "twice"),
                               ([pad(DSTOPTS, "destination options"), pad(HBH, "hop-by-hop")], "second")):
        yield bad("v6-hbh-" + name, "hop-by-hop options stand first or nowhere (RFC 8200 4.1)",
                  syn(6, ext=chain), "drop", {0: {"drop_ext_chain": 1}})
    hbh = [pad(HBH, "hop-by-hop options")]
    for name, more in (("", {}), ("-vlan", {"tags": [(0x8100, 5)]}), ("-data", {"payload": b"x" * 700}),
                       ("-chain", {"ext": hbh + [pad(DSTOPTS, "destination options")]})):
        yield good("v6-length-0-hbh" + name, "Linux goes by the frame's length if hop-by-hop options stand there",
                   syn(6, total=0, **dict({"ext": hbh}, **more)))
    yield bad("v6-length-0-hbh-trailer", "what stands behind the packet is part of it then, and the sum is wrong",
              syn(6, ext=hbh, total=0, trailer=b"\xee" * 6), "drop", {1: {"syn": 1, "drop_checksum": 1}})
    yield bad("v6-length-0-hbh-ack", "segments joined to more than 64 KiB (BIG TCP) look like this",
              syn(6, ext=hbh, total=0, flags=p.ACK), "pass", {1: {"cookie_invalid": 1}})
    for name, more in (("atomic", 0), ("first", 1)):
        yield bad("v6-length-0-hbh-fragment-" + name, "Linux takes no fragment header in a packet without a length",
                  syn(6, ext=hbh + [fragment(0, more)], total=0), "drop", {0: {"drop_ext_chain": 1}})
    yield bad("v6-length-0-destination-options", "ends before TCP: the kernel drops it",
              syn(6, ext=[pad(DSTOPTS, "destination options")], total=0), "pass", {})
    for size in (96, 256):
        yield good("v6-options-%d" % size, "as many bytes as are walked", syn(6, ext=[long_options(size)]))
    yield good("v6-options-256-in-two", "the bytes of all headers count together",
               syn(6, ext=[long_options(128, HBH), long_options(128)], tags=[(0x88a8, 1)]))
    too_long = {0: {"drop_ext_chain": 1}}
    for size in (264, 1008, 1400):
        yield bad("v6-options-%d" % size, "more bytes than are walked",
                  syn(6, ext=[long_options(size)]), "drop", too_long)
        yield bad("v6-options-%d-ack" % size, "whatever the segment is",
                  syn(6, ext=[long_options(size)], flags=ACK, ack=1), "drop", too_long)
    yield bad("v6-options-264-in-two", "the bytes of all headers count together",
              syn(6, ext=[long_options(128), long_options(136)]), "drop", too_long)
    yield bad("v6-options-264-unprotected-port", "dropped whatever the port: it was not looked at",
              syn(6, ext=[long_options(264)], dport=81), "drop", too_long)
    yield bad("v6-options-264-and-more", "nobody looks what is behind the next header",
              syn(6, ext=[long_options(264), long_options(8), pad(ESP, "esp")]), "drop", too_long)
    yield bad("v6-options-264-esp", "what is certainly not TCP is nothing of ours",
              syn(6, ext=[long_options(264), pad(ESP, "esp")]), "pass", {})
    yield bad("v6-hop-by-hop-ends-beyond", "length beyond the packet",
              syn(6, ext=[(HBH, b"\xff" + PADN6[1:], "lying length")]), "pass", {})


def long_options(size, kind=DSTOPTS):
    """An options header of `size` bytes, all padding."""
    body, left = bytes([size // 8 - 1]), size - 2
    while left > 0:
        n = min(left, 257)
        n -= left - n == 1  # never a single byte for the next
        body += bytes([1, n - 2]) + bytes(n - 2)
        left -= n
    return kind, body, "%d bytes of options" % size


def flag_combinations():
    for flags in range(256):
        # The option field of probes like these is empty; the ACK number is nobody's cookie.
        f = p.defaults(4 if flags & 1 else 6, flags=flags, ack=0x11111111)
        name = "flags-%02x" % flags
        if flags & (SYN | ACK) == SYN:
            if flags & (FIN | RST):
                yield bad(name, p.flag_text(flags), f, "drop", {1: {"syn": 1, "drop_flags": 1}})
            else:
                yield syn_vector(name, p.flag_text(flags), f, offer())
        elif flags & (SYN | ACK | RST) == ACK:
            yield bad(name, p.flag_text(flags) + ": no cookie of ours; left to the kernel", f, "pass",
                      {1: {"cookie_invalid": 1}})
        else:
            yield bad(name, p.flag_text(flags) + ": not looked at", f, "pass", {})


def ecn():
    for family in (4, 6):
        for tos in range(4):
            for flags, name in ((ECE | CWR, "setup"), (ECE, "ece"), (CWR, "cwr"), (0, "none")):
                yield good("ecn-%s-ip%d-v%d" % (name, tos, family),
                           "ECN only for ECE and CWR together on a packet that is not ECN-capable",
                           syn(family, flags=SYN | flags, tos=tos))


def addresses():
    one = {1: {"syn": 1, "drop_source": 1}}
    for name, src in (("zero", "0.0.0.0"), ("net-0", "0.1.2.3"), ("loopback", "127.0.0.1"),
                      ("loopback-net", "127.255.0.9"), ("multicast", "224.0.0.1"),
                      ("multicast-high", "239.255.255.250"), ("broadcast", "255.255.255.255"),
                      ("land", p.SERVER[4])):
        yield bad("source-v4-" + name, "not a client", syn(4, src=src), "drop", one)
    for name, src in (("unspecified", "::"), ("loopback", "::1"), ("multicast", "ff02::1"),
                      ("v4-mapped", "::ffff:192.0.2.1"), ("land", p.SERVER[6])):
        yield bad("source-v6-" + name, "not a client", syn(6, src=src), "drop", one)
    for src in ("1.0.0.1", "126.255.255.255", "128.0.0.1", "223.255.255.255", "10.0.0.1", "240.0.0.1"):
        yield good("source-v4-" + src.replace(".", "-"), "beside the ranges that are refused",
                   syn(4, src=src))
    for name, src in (("link-local", "fe80::1"), ("unique-local", "fd00::1"),
                      ("nat64", "64:ff9b::192.0.2.1"), ("low", "::2")):
        yield good("source-v6-" + name, "a client", syn(6, src=src))
    frame_pass = {1: {"syn": 1, "pass_frame": 1}}
    for name, mac in (("broadcast", b"\xff" * 6), ("multicast", bytes.fromhex("01005e000001"))):
        for family in (4, 6):
            yield bad("mac-%s-v%d" % (name, family), "never answered; the kernel ignores it",
                      syn(family, eth_dst=mac), "pass", frame_pass)
    for name, mac in (("broadcast", b"\xff" * 6), ("multicast", bytes.fromhex("01005e000001"))):
        for family in (4, 6):
            yield bad("source-mac-%s-v%d" % (name, family), "no device sends so; an answer would reach everybody",
                      syn(family, eth_src=mac), "drop", one)
            yield bad("source-mac-%s-long-way-v%d" % (name, family), "likewise",
                      syn(family, eth_src=mac, payload=b"data"), "drop", one)
    for family, name, dst in ((4, "broadcast", "255.255.255.255"), (4, "multicast", "224.0.0.5"),
                              (6, "multicast", "ff02::1")):
        yield bad("destination-%s-v%d" % (name, family), "never answered", syn(family, dst=dst), "pass",
                  frame_pass)


def themes():
    yield "vlan", "VLAN tags and other ethertypes", list(tags())
    yield "stacks", "VLAN tags that a host cannot adopt from; of no other role", list(stacks())
    yield "ipv4", "IPv4 headers, padding, data", list(ipv4())
    yield "ipv6", "IPv6 extension headers", list(ipv6())
    yield "checksums", "Checksums of SYNs", list(checksums())
    yield "flags", "Every combination of TCP flags", list(flag_combinations())
    yield "ecn", "What counts as an ECN-setup SYN", list(ecn())
    yield "addresses", "Sources that cannot be clients; destinations that must not answer", list(addresses())
