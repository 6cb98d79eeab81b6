# SPDX-License-Identifier: Apache-2.0
"""ACKs that carry a cookie, genuine and otherwise. `adopt` says that the gate hands
the connection to the kernel, and `agreed` what it tells it.
"""
from packets import *  # noqa: F401,F403
import packets as p
from theme_frames import FOUND, DSTOPTS, HBH, fragment, pad, routing, syn

SOCKET_CLIENT = {4: "192.0.2.200", 6: "2001:db8:1::200"}  # lives beside the server in tests
PLAIN = offer(1460, 8, True)
PLAIN_OPTIONS = [mss(1460), NOP, wscale(8), NOP, NOP, SACK]
ADOPTED = {1: {"cookie_valid": 1, "adopted": 1}}
INVALID = {1: {"cookie_invalid": 1}}


def forms(**fields):
    """(suffix, SYN, what it offers) of both forms and families."""
    for family in (4, 6):
        yield "plain-v%d" % family, p.defaults(family, options=PLAIN_OPTIONS, **fields), PLAIN
        yield "ts-v%d" % family, syn(family, **fields), FOUND


def adopt_vector(name, why, f, found, made=p.EPOCH, service=None, more=None, **fields):
    ack, agreed = p.ack_for(f, found, made, service, **fields)
    return dict(more or {}, name=name, why=why, counters=dict(ADOPTED),
                packets=[{"verdict": "adopt", "in": p.frame(ack), "agreed": agreed}])


def refuse_vector(name, why, acks, counters=None, **more):
    """`acks` are segments that go on to the kernel as they came."""
    counters = {1: {"cookie_invalid": len(acks)}} if counters is None else counters
    return dict(more, name=name, why=why, counters=counters,
                packets=[{"verdict": "pass", "in": p.frame(a)} for a in acks])


def forged(f, found, change, made=p.EPOCH, **fields):
    return p.ack_for(f, found, made, change=change, **fields)[0]


def genuine():
    number = 0
    for suffix, f, found in forms():
        for made, name in ((p.EPOCH, "this"), (p.EPOCH - 1, "previous")):
            number += 1
            g = dict(f, sport=50000 + number)
            yield adopt_vector("valid-%s-epoch-%s" % (name, suffix), "the keys of two epochs are good", g,
                               found, made)
            odd = {"epoch": p.EPOCH + 1, "keys": [p.EPOCH - 2, p.EPOCH - 1, p.EPOCH, p.EPOCH + 1]}
            g = dict(f, sport=50100 + number)
            yield adopt_vector("valid-%s-epoch-odd-%s" % (name, suffix), "the same with the other parity",
                               g, found, made + 1, more=odd)
        for i, (name, why, fields) in enumerate((
                ("data", "the first data comes with the ACK", {"payload": b"GET / HTTP/1.0\r\n\r\n", "flags": ACK | PSH}),
                ("fin", "data and FIN at once", {"payload": b"bye", "flags": ACK | PSH | FIN}),
                ("urg", "URG means nothing to the gate", {"flags": ACK | URG, "payload": b"!", "urgent": 1}),
                ("ecn-marked", "CE on the ACK", {"tos": 3}),
                ("trailer", "padding after the packet", {"trailer": bytes(6)}))):
            g = dict(f, sport=51000 + number * 10 + i)
            yield adopt_vector("valid-%s-%s" % (name, suffix), why, g, found, **fields)
    for suffix, f, found in forms():
        if f["family"] == 6:
            number += 1
            for i, data in enumerate((b"", b"GET / HTTP/1.0\r\n\r\n")):
                yield adopt_vector("valid-length-0-%d-%s" % (i, suffix), "Linux goes by the frame's length if hop-by-hop options stand there",
                                   dict(f, sport=51400 + number * 10 + i), found, total=0, ext=[pad(HBH, "hop-by-hop options")], payload=data)
    f = dict(syn(4), sport=52000, seq=0xffffffff)
    yield adopt_vector("valid-isn-wraps", "the client's ISN is the last number", f, FOUND)


def options_survive():
    """What each side said in the SYN is what the kernel is told after the ACK."""
    number = 0
    for family in (4, 6):
        for index, said in enumerate(ref.MSS_TABLE[family]):
            number += 1
            sack, shift = bool(index & 1), (None, 0, 1, 7, 8, 10, 13, 14)[index]
            ts = 5000 + index if index & 2 else None
            f = p.defaults(family, sport=53000 + number, flags=SYN | (ECE | CWR if index & 4 else 0))
            yield adopt_vector("agreed-%d-v%d" % (index, family), "every option in some combination", f,
                               offer(said + (3 if index < 7 else 0), shift, sack, ts))  # the wire bears no more
    for n in range(16):
        number += 1
        f = p.defaults(6 if n & 1 else 4, sport=53000 + number, flags=SYN | (ECE | CWR if n & 8 else 0))
        yield adopt_vector("agreed-set-%x" % n, "SACK 1, timestamps 2, window scale 4, ECN 8", f,
                           offer(1440, 9 if n & 4 else None, bool(n & 1), 777 if n & 2 else None))


def layouts():
    """Timestamps wherever they stand."""
    for n, family in enumerate((4, 6)):
        for i, (name, place) in enumerate((
                ("first", lambda ts: [ts, NOP, NOP]), ("middle", lambda ts: [NOP, ts, NOP]),
                ("eol", lambda ts: [ts, EOL, EOL]),
                ("after-sack", lambda ts: [NOP, NOP, raw("050a" + "11" * 8, "SACK block"), NOP, NOP, ts]),
                ("after-unknown", lambda ts: [raw("fd06aabbccdd", "unknown"), NOP, NOP, NOP, NOP, ts]))):
            f = dict(syn(family), sport=54000 + 10 * n + i)
            _, tsval = p.cookie_for(f, p.agreed_options(f, p.SERVICE, FOUND), p.EPOCH)
            yield adopt_vector("timestamps-%s-v%d" % (name, family), "found wherever they stand", f, FOUND,
                               options=place(timestamps(1020, tsval)))
            yield refuse_vector("timestamps-%s-forged-v%d" % (name, family), "and no layout lets wrong ones through",
                                [p.ack_for(f, FOUND, p.EPOCH, options=place(timestamps(1020, tsval ^ 1 << b)))[0] for b in (0, 20)])
        many = [raw("fd02", "says nothing")] * 20
        f = p.defaults(family, options=PLAIN_OPTIONS, sport=54200 + n)
        yield adopt_vector("many-options-v%d" % family, "as many as there is room for", f, PLAIN, options=many)
        f["sport"] += 10
        yield refuse_vector("many-options-forged-v%d" % family, "likewise",
                            [p.ack_for(f, PLAIN, p.EPOCH, options=many, change=lambda isn, tsval: (isn ^ 1, tsval))[0]])
        f = dict(syn(family), sport=54100 + n)
        yield refuse_vector("timestamps-beyond-the-header-v%d" % family,
                            "the data offset is past the end: not read, not counted",
                            [p.ack_for(f, FOUND, p.EPOCH, options=[], doff=8)[0]], {})


def wrappings():
    for n, (name, family, fields) in enumerate((
            ("v4-options", 4, {"ip_options": b"\1" * 4}), ("v6-hop-by-hop", 6, {"ext": [pad(HBH, "hop-by-hop")]}),
            ("v6-destination-options", 6, {"ext": [pad(DSTOPTS, "destination options")]}),
            ("v6-atomic-fragment", 6, {"ext": [fragment(0, 0)]}))):
        f = dict(syn(family), sport=55000 + n)
        yield adopt_vector("wrapped-" + name, "the ACK too may be wrapped", f, FOUND, **fields)


def refused():
    for n, (suffix, f, found) in enumerate(forms()):
        f = dict(f, sport=56000 + n)
        yield refuse_vector("flipped-ack-" + suffix, "each bit of the acknowledged number in turn",
                            [forged(f, found, lambda i, t, b=b: (i ^ 1 << b, t or 0)) for b in range(32)])
        yield refuse_vector("plus-minus-one-" + suffix, "a cookie plus or minus one",
                            [forged(f, found, lambda i, t, d=d: (i + d, t or 0)) for d in (-2, -1, 1, 2)])
        yield refuse_vector("flipped-seq-" + suffix, "each bit of the client's number in turn", [
            p.ack_for(f, found, p.EPOCH, seq=(f["seq"] + 1) ^ 1 << b)[0] for b in range(32)])
        yield refuse_vector("other-tuple-" + suffix, "another port, another address", [
            p.ack_for(f, found, p.EPOCH, sport=f["sport"] ^ 1)[0],
            p.ack_for(f, found, p.EPOCH, src=p.SERVER[f["family"]])[0],
            p.ack_for(f, found, p.EPOCH, src=SOCKET_CLIENT[f["family"]])[0]])
        yield refuse_vector("zero-" + suffix, "nothing at all acknowledged", [
            p.ack_for(f, found, p.EPOCH, ack=0)[0], p.ack_for(f, found, p.EPOCH, ack=1)[0]])
        yield refuse_vector("seq-off-by-one-" + suffix, "the SYN's own number, and one too far", [
            p.ack_for(f, found, p.EPOCH, seq=f["seq"])[0], p.ack_for(f, found, p.EPOCH, seq=f["seq"] + 2)[0]])
    for n, family in enumerate((4, 6)):
        v = "-v%d" % family
        f = dict(syn(family), sport=56100 + n)
        yield refuse_vector("flipped-tsecr" + v, "each bit of TSecr in turn",
                            [forged(f, FOUND, lambda i, t, b=b: (i, t ^ 1 << b)) for b in range(32)])
        yield refuse_vector("tsecr-0" + v, "TSecr 0", [forged(f, FOUND, lambda i, t: (i, 0))])
        yield refuse_vector("ts-form-without-timestamps" + v, "made with timestamps, returned without",
                            [p.ack_for(f, FOUND, p.EPOCH, options=[])[0]])
        g = p.defaults(family, options=PLAIN_OPTIONS, sport=56200 + n)
        yield refuse_vector("plain-form-with-timestamps" + v, "made without timestamps, returned with",
                            [p.ack_for(g, PLAIN, p.EPOCH, options=[NOP, NOP, timestamps(1, 2)])[0]])


def ages():
    for n, (suffix, f, found) in enumerate(forms()):
        f = dict(f, sport=57000 + n)
        for age, counters in ((2, {"cookie_stale": 1}), (3, {"cookie_stale": 1}), (4, {"cookie_invalid": 1}),
                              (100, {"cookie_invalid": 1})):
            yield refuse_vector("age-%d-%s" % (age, suffix), "made so many epochs ago",
                                [p.ack_for(f, found, p.EPOCH - age)[0]], {1: counters})
        future = [p.EPOCH - 3 + k for k in range(6)]
        for ahead in (1, 2):
            yield refuse_vector("future-%d-%s" % (ahead, suffix), "made in an epoch that has not begun",
                                [p.ack_for(f, found, p.EPOCH + ahead)[0]], keys=future)
        yield refuse_vector("same-low-bits-" + suffix, "2^32 epochs apart",
                            [p.ack_for(f, found, p.EPOCH + 2**32)[0]])
        yield refuse_vector("key-not-loaded-" + suffix, "genuine, but its key is not here",
                            [p.ack_for(f, found, p.EPOCH)[0]], keys=[p.EPOCH - 1])


def untouched():
    for n, (suffix, f, found) in enumerate(forms()):
        f = dict(f, sport=58000 + n)
        for name, flags in (("rst-ack", RST | ACK), ("rst", RST), ("syn-ack", SYN | ACK), ("fin", FIN), ("null", 0)):
            yield refuse_vector("not-an-ack-%s-%s" % (name, suffix), "a genuine cookie under other flags",
                                [p.ack_for(f, found, p.EPOCH, flags=flags)[0]], {})
        good = p.ack_for(f, found, p.EPOCH)[0]
        for mode in ("off", "monitor"):
            yield refuse_vector("mode-%s-%s" % (mode, suffix), "no cookies are sent, none are looked for", [good], {},
                                services=[dict(p.SERVICE, mode=mode)])
        yield refuse_vector("unprotected-" + suffix, "not our port", [dict(good, dport=8081)], {})
        yield refuse_vector("doff-4-" + suffix, "a TCP header shorter than 20 bytes", [dict(good, doff=4)], {})
        yield refuse_vector("doff-11-" + suffix, "a TCP header longer than the segment; the timestamps are in their place",
                            [dict(good, doff=11)], {})
        yield refuse_vector("length-beyond-" + suffix, "an IP length beyond the frame",
                            [dict(good, total=1000)], {})
        tagged = dict(good, tags=[(0x8100, 1), (0x8100, 2), (0x8100, 3)])
        yield dict(name="three-tags-" + suffix, why="TCP behind more than two tags is dropped, whatever it is",
                   counters={0: {"drop_tags": 1}}, packets=[{"verdict": "drop", "in": p.frame(tagged)}])
        yield refuse_vector("first-fragment-" + suffix, "a fragment is not adopted", [
            dict(good, frag=0x2000) if f["family"] == 4 else dict(good, ext=[fragment(0, 1)])], {})
        if f["family"] == 6:
            yield refuse_vector("segments-left-" + suffix, "not for this machine", [dict(good, ext=[routing(1)])], {})


def existing():
    for n, (suffix, f, found) in enumerate(forms()):
        service = dict(p.SERVICE, port=81)
        g = dict(f, sport=59000 + n, dport=81)
        yield refuse_vector("no-listener-" + suffix, "nobody listens: the kernel answers RST",
                            [p.ack_for(g, found, p.EPOCH)[0]], {1: {"ack_no_listener": 1}}, services=[service], socket="none")
        g = dict(f, src=SOCKET_CLIENT[f["family"]], sport=45678)
        for state in ("established", "time-wait"):
            yield refuse_vector("%s-%s" % (state, suffix), "a genuine cookie for a 4-tuple that has a socket",
                                [p.ack_for(g, found, p.EPOCH)[0]], {1: {"ack_existing": 1}}, socket=state)
        g = dict(f, sport=59100 + n)
        v = adopt_vector("replayed-" + suffix, "the same ACK again belongs to the connection", g, found)
        v["packets"].append({"verdict": "pass", "in": v["packets"][0]["in"]})
        v["counters"] = {1: {"cookie_valid": 1, "adopted": 1, "ack_existing": 1}}
        yield v
        g = dict(f, sport=59200 + n)
        yield refuse_vector("live-but-invalid-" + suffix, "where the filter says maybe, bad cookies are not counted",
                            [forged(g, found, lambda i, t: (i ^ 1, t or 0))], {}, filter="maybe")
        g = dict(f, sport=59300 + n)
        yield dict(adopt_vector("filter-maybe-" + suffix, "the filter never stands in the way of a cookie", g, found),
                   filter="maybe")


def themes():
    yield "acks-valid", "Cookies that came back", list(genuine()) + list(layouts()) + list(wrappings())
    yield "acks-agreed", "What the kernel is told", list(options_survive())
    yield "acks-refused", "Forged, changed and misplaced cookies", list(refused())
    yield "acks-age", "Old, future and keyless cookies", list(ages())
    yield "acks-untouched", "What is not an ACK for the gate", list(untouched())
    yield "acks-sockets", "Cookies and sockets that are there, or not", list(existing())
