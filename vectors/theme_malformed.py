# SPDX-License-Identifier: Apache-2.0
"""Headers that lie, frames that end too early, fragments, odd option lists."""
from packets import *  # noqa: F401,F403
import packets as p
from theme_clients import syn_vector
from theme_frames import FOUND, OPTIONS, bad, fragment, good, long_options, pad, syn, DSTOPTS, ESP

MALFORMED = {1: {"syn": 1, "drop_malformed": 1}}
CUT = {0: {"drop_malformed": 1}}


def offsets():
    for doff in range(0, 5):
        for family in (4, 6):
            yield bad("doff-%d-v%d" % (doff, family), "a TCP header shorter than 20 bytes",
                      syn(family, doff=doff), "drop", MALFORMED)
    for doff in range(11, 16):
        yield bad("doff-%d" % doff, "a TCP header longer than the segment", syn(4, doff=doff), "drop",
                  MALFORMED)
    yield bad("doff-6-nothing-behind", "four bytes of options that are not there",
              p.defaults(6, doff=6), "drop", MALFORMED)
    f = p.defaults(4, doff=10, payload=b"\2\4\5\xb4" + bytes(16))
    yield syn_vector("doff-over-data", "the data offset decides what is an option", f, offer(1460))


def lengths():
    f = syn(4)
    real = len(p.flat(p.frame(f))) - 14
    for total, verdict, counters, why in (
            (0, "pass", {}, "no length at all: broken IP, the kernel drops it"),
            (19, "pass", {}, "shorter than its own header"),
            (20, "drop", CUT, "no TCP in it"),
            (39, "drop", CUT, "half a TCP header"),
            (40, "drop", MALFORMED, "no room for the options that the offset promises"),
            (real - 1, "drop", MALFORMED, "one byte less than the options need"),
            (real + 1, "drop", MALFORMED, "one byte more than the frame holds"),
            (1500, "drop", MALFORMED, "more than the frame holds"),
            (65535, "drop", MALFORMED, "the most")):
        yield bad("total-length-%d-v4" % total, why, syn(4, total=total), verdict, counters)
    real -= 20
    for total, verdict, counters, why in (
            (0, "pass", {}, "ends before TCP: the kernel drops it"),
            (1, "drop", CUT, "no TCP header"),
            (19, "drop", CUT, "half a TCP header"),
            (20, "drop", MALFORMED, "no room for the options"),
            (real - 1, "drop", MALFORMED, "one byte less than the options need"),
            (real + 1, "drop", MALFORMED, "one byte more than the frame holds"),
            (65535, "drop", MALFORMED, "the most")):
        yield bad("payload-length-%d-v6" % total, why, syn(6, total=total), verdict, counters)
    for name, total in (("8", 8), ("12", 12), ("15", 15)):
        yield bad("extension-beyond-payload-%s-v6" % name,
                  "the extension header ends behind the payload, and a TCP header lies there",
                  syn(6, total=total, ext=[(DSTOPTS, b"\1" + b"\1\14" + bytes(12), "16 bytes of options")]),
                  "pass", {})
    for ihl in range(0, 5):
        yield bad("ihl-%d" % ihl, "an IPv4 header shorter than 20 bytes", syn(4, ihl=ihl), "pass", {})
    f = p.defaults(4, ihl=15)
    yield bad("ihl-15-beyond", "an IPv4 header longer than the packet", f, "pass", {})
    yield bad("ihl-10-swallows-tcp", "the header's length swallows the TCP header",
              p.defaults(4, ihl=10), "drop", CUT)
    for family, version in ((4, 5), (4, 6), (6, 4), (6, 7)):
        yield bad("version-%d-v%d" % (version, family), "the version and the ethertype disagree",
                  syn(family, version=version), "pass", {})


def cuts():
    """One vector for each wrapping; a packet for every length."""
    for name, f, ip_end in (("v4", syn(4), 34), ("v6", syn(6), 54),
                            ("v6-options", syn(6, ext=[pad(DSTOPTS, "destination options")]), 62),
                            ("v4-qinq", syn(4, tags=[(0x88a8, 1), (0x8100, 2)]), 42),
                            ("v4-ip-options", syn(4, ip_options=b"\1" * 8), 42)):
        whole = p.frame(f)
        length = len(p.flat(whole))
        out, cut_count, option_cut_count = [], 0, 0
        for n in range(1, length):
            if n < (34 if name == "v4-ip-options" else ip_end):
                verdict = "pass"
            else:
                verdict = "drop"
                if n < ip_end + 20:
                    cut_count += 1
                else:
                    option_cut_count += 1
            out.append({"verdict": verdict, "in": p.cut(whole, n)})
        yield {"name": "cut-" + name, "why": "the same SYN, ending after every byte", "packets": out,
               "counters": {0: {"drop_malformed": cut_count},
                            1: {"syn": option_cut_count, "drop_malformed": option_cut_count}}}
    # An established connection's segments are not SYNs, but a header cut short is nobody's.
    f = p.defaults(4, flags=ACK, total=30)
    yield bad("cut-ack", "a packet that ends inside its TCP header", f, "drop", CUT)
    f = p.defaults(6, flags=ACK, total=0, payload=b"x" * 100)
    yield bad("big-tcp-ack", "joined segments of an established connection: untouched", f, "pass", {})


def fragments():
    first = {1: {"syn": 1, "drop_fragment": 1}}
    overlay = {0: {"drop_fragment": 1}}
    for family, make in ((4, lambda off, more: syn(4, frag=off // 8 | (0x2000 if more else 0))),
                         (6, lambda off, more: syn(6, ext=[fragment(off, more)]))):
        v = "-v%d" % family
        yield bad("first-fragment-syn" + v, "nobody fragments a SYN", make(0, 1), "drop", first)
        for offset in (8, 16):
            for more in (0, 1):
                yield bad("overlay-%d-%d%s" % (offset, more, v),
                          "would overwrite the TCP header (RFC 3128)", make(offset, more), "drop", overlay)
        for offset in (24, 1480, 65528):
            yield bad("later-fragment-%d%s" % (offset, v), "no TCP header in it", make(offset, 0), "pass", {})
        f = make(0, 1)
        f.update(flags=ACK, payload=b"x" * 64)
        yield bad("first-fragment-ack" + v, "data may be fragmented", f, "pass", {})
        f = make(0, 1)
        f.update(dport=81)
        yield bad("first-fragment-unprotected" + v, "not our port", f, "pass", {})
        for size in (0, 1, 13, 14, 19):
            f = make(0, 1)
            f.update(l4=p.flat(p.tcp_parts(syn(family)))[:size])
            # An IPv6 packet of a fragment header alone has a length; TCP has none in it.
            yield bad("tiny-fragment-%d%s" % (size, v), "cuts the TCP header (RFC 1858)", f, "drop", CUT)
    for size in (0, 1, 7):
        # A first fragment that ends inside its second extension header.
        f = syn(6, ext=[fragment(0, 1), pad(DSTOPTS, "options")], total=8 + size)
        yield bad("first-fragment-cuts-chain-%d" % size, "does not hold the whole header chain (RFC 7112)",
                  f, "drop", overlay)
    f = syn(6, ext=[fragment(0, 1), long_options(96)], total=8 + 48)
    yield bad("first-fragment-cuts-options", "ends inside its options (RFC 7112)", f, "drop", overlay)
    yield bad("first-fragment-esp", "not TCP", syn(6, ext=[fragment(0, 1), pad(ESP, "esp")]), "pass", {})
    yield bad("first-fragment-long-chain", "a fragment is walked no further than a packet",
              syn(6, ext=[fragment(0, 1), long_options(264)]), "drop", {0: {"drop_ext_chain": 1}})


def option_lists():
    def case(name, why, data, found):
        assert len(data) % 4 == 0, name
        return [syn_vector("options-%s-v%d" % (name, family), why,
                           p.defaults(family, options=[(data, "as named")]), found) for family in (4, 6)]

    h = bytes.fromhex
    yield from case("length-0", "ends the list; what stood before counts", h("030307" "020005b4" "00"), offer(0, 7))
    yield from case("length-1", "ends the list", h("030307" "020105b4" "00"), offer(0, 7))
    yield from case("length-beyond", "one byte beyond the end", h("020405b4" "fd05" "0303"), offer(1460))
    yield from case("length-at-end", "a kind without a length", h("020405b4" "010101fd"), offer(1460))
    yield from case("mss-cut", "MSS in the last three bytes", h("01" "020405"), offer())
    yield from case("wrong-length-mss", "skipped by its length", h("020305" "0303070000"), offer(0, 7))
    yield from case("wrong-length-ts", "timestamps of length 9 do not count", h("0809" + "11" * 7 + "010101"), offer())
    yield from case("wrong-length-sack", "SACK-permitted of length 3", h("040300" "0204021801"), offer(536))
    yield from case("mss-twice", "the last counts", h("020405b4" "02040514"), offer(1300))
    yield from case("mss-zero", "is no MSS", h("02040000"), offer())
    yield from case("mss-zero-after", "does not undo one", h("020405b4" "02040000"), offer(1460))
    yield from case("ts-twice", "the last counts", h("0101080a" "00000001" "00000000" "0101080a" "00000002" "00000000"),
                    offer(ts=2))
    yield from case("after-eol", "nothing counts after the end", h("00000000" "020405b4"), offer())
    yield from case("after-eol-length", "not even what looks like an option of kind 0",
                    h("0004ffff" "020405b4"), offer())
    yield from case("all-nop", "forty bytes of nothing", b"\1" * 40, offer())
    yield from case("last-byte", "an option that ends with the header", b"\1" * 37 + h("03030e"), offer(0, 14))
    yield from case("unknown", "kinds nobody knows are skipped", h("fd08aabbccddeeff" "020405b4"), offer(1460))
    yield from case("tsecr", "a TSecr in a SYN means nothing", h("0101080a" "01020304" "aabbccdd"), offer(ts=0x01020304))


def themes():
    yield "offsets", "TCP data offsets", list(offsets())
    yield "lengths", "IP lengths and versions", list(lengths())
    yield "cuts", "Frames that end too early, at every byte", list(cuts())
    yield "fragments", "Fragments", list(fragments())
    yield "options", "Option lists that nobody should send", list(option_lists())
