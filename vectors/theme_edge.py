# SPDX-License-Identifier: Apache-2.0
"""What an edge with the layout smartcookie makes of packets: every SYN and every
condemned frame of the other themes again, and ACKs, floods and hops of its own.

An edge asks neither listeners nor sockets, and knows only flows that it has
verified: packets of one vector meet the same filter, empty at the first.
"""
import re

from packets import *  # noqa: F401,F403
import packets as p
import theme_clients
import theme_frames
import theme_malformed
import theme_services

OPTIONS = [mss(1460), SACK, timestamps(1000), NOP, wscale(8)]
FOUND = offer(1460, 8, True, 1000)
SOURCES = (theme_clients.clients, theme_clients.table_edges, theme_frames.tags, theme_frames.stacks_answered, theme_frames.ipv4,
           theme_frames.ipv6, theme_frames.flag_combinations, theme_frames.ecn,
           theme_frames.addresses, theme_malformed.offsets, theme_malformed.lengths,
           theme_malformed.cuts, theme_malformed.fragments, theme_malformed.option_lists,
           theme_services.lookup, theme_services.modes, theme_services.keys)


def segment_flags(packet):
    """The flags that the frame's TCP header is said to have; None if it has none."""
    for _, comment in packet["in"]:
        m = re.match(r"TCP \d+ > \d+ (\S+|no flags) seq", comment)
        if m:
            return set(m[1].split("+"))
    return None


def is_ours(vector):
    """SYNs, and frames that are no TCP: judged alike by host and edge."""
    for service in vector.get("services", ()):
        if service["listener"] != "ok" or service["id"] > 63:
            return False
    for packet in vector["packets"]:
        flags = segment_flags(packet)
        if flags is not None and ("SYN" not in flags or "ACK" in flags):
            return False
    return "filter" not in vector and "socket" not in vector


def syns():
    for source in SOURCES:
        yield from (v for v in source() if is_ours(v))


def syn(family, **fields):
    return p.defaults(family, options=OPTIONS, **fields)


def ack(f, epoch=None, **fields):
    return p.ack_for(f, FOUND, p.EPOCH if epoch is None else epoch, **fields)[0]


def passed(f, hops=0):
    packet = {"verdict": "pass", "in": p.frame(f)}
    if hops:
        packet["out"] = p.frame(dict(f, ttl=hops))
    return packet


def dropped(f):
    return {"verdict": "drop", "in": p.frame(f)}


def vector(name, why, packets, counters, **more):
    return dict(more, name=name, why=why, packets=packets, counters={1: counters})


def verified():
    for n, family in enumerate((4, 6)):
        v = "-v%d" % family
        f = syn(family, sport=50000 + n)
        yield vector("valid" + v, "a cookie of this epoch opens the way, for what follows too",
                     [passed(ack(f)), passed(ack(f, ack=1, payload=b"data")), passed(ack(f, flags=RST))],
                     {"cookie_valid": 1, "edge_known": 2})
        yield vector("valid-data" + v, "the first data may come with the ACK, or before it",
                     [passed(ack(f, flags=ACK | PSH, payload=b"GET / HTTP/1.0\r\n\r\n"))], {"cookie_valid": 1})
        wrong = ack(f, tcp_sum=lambda right, pseudo: right ^ 1)
        yield vector("bad-checksum" + v, "its server will drop it, so nothing is remembered",
                     [dropped(wrong), dropped(ack(f, ack=1))], {"drop_checksum": 1, "drop_ack": 1})
        yield vector("partial-checksum" + v, "left to the device",
                     [passed(ack(f, tcp_sum=lambda right, pseudo: pseudo))], {"cookie_valid": 1})
        if family == 6:
            bare = dict(total=0, ext=[theme_frames.pad(theme_frames.HBH, "hop-by-hop options")])
            yield vector("no-length" + v, "Linux goes by the frame's length if hop-by-hop options stand there, and so do we",
                         [passed(ack(f, **bare))], {"cookie_valid": 1})
            yield vector("no-length-unknown" + v, "judged as any other", [dropped(ack(f, ack=1, **bare))], {"drop_ack": 1})
            yield vector("no-length-trailer" + v, "what stands behind it is part of it: its server will drop it",
                         [dropped(ack(f, trailer=b"\xee" * 6, **bare))], {"drop_checksum": 1})
        part = dict(frag=0x2000) if family == 4 else dict(ext=[theme_frames.fragment(0, 1)])
        yield vector("first-fragment" + v, "its sum is that of the whole segment, so nobody can tell whether it is genuine: unknown",
                     [dropped(ack(f, tcp_sum=1, **part)), dropped(ack(f, ack=1, **part)), passed(ack(f)), passed(ack(f, tcp_sum=1, **part))],
                     {"drop_ack": 2, "cookie_valid": 1, "edge_known": 1})
        yield vector("valid-fin" + v, "and the FIN, too", [passed(ack(f, flags=ACK | FIN))], {"cookie_valid": 1})
        yield vector("previous-epoch" + v, "the keys of two epochs are good",
                     [passed(ack(f, p.EPOCH - 1))], {"cookie_valid": 1})
        yield vector("odd-epoch" + v, "the same with the other parity", [passed(ack(f, p.EPOCH + 1))],
                     {"cookie_valid": 1}, epoch=p.EPOCH + 1, keys=[p.EPOCH + 1])
        for age in (2, 3, 100):
            yield vector("age-%d%s" % (age, v), "made so many epochs ago", [dropped(ack(f, p.EPOCH - age))],
                         {"drop_ack": 1})
        yield vector("future" + v, "made in an epoch that has not begun", [dropped(ack(f, p.EPOCH + 1))],
                     {"drop_ack": 1})
        both = f["seq"] + 1, ack(f)["ack"] - 1
        yield vector("flipped-ack" + v, "each bit of the acknowledged number but MSS and window scale",
                     [dropped(ack(f, ack=((both[1] ^ 1 << b) + 1) & 0xffffffff)) for b in range(32)
                      if not 24 <= b < 31], {"drop_ack": 25})
        yield vector("flipped-seq" + v, "each of the hashed bits of the client's number",
                     [dropped(ack(f, seq=((f["seq"] ^ 1 << b) + 1) & 0xffffffff)) for b in range(24)],
                     {"drop_ack": 24})
        yield vector("plus-minus-one" + v, "a cookie plus or minus one",
                     [dropped(ack(f, ack=ack(f)["ack"] + d)) for d in (-2, -1, 1, 2)], {"drop_ack": 4})
        yield vector("other-tuple" + v, "another port, another address",
                     [dropped(ack(f, sport=f["sport"] ^ 1)), dropped(ack(f, src=p.SERVER[family][:-1] + "9"))],
                     {"drop_ack": 2})
        yield vector("known-other-port" + v, "a verified flow lets no other through",
                     [passed(ack(f)), dropped(ack(f, sport=f["sport"] ^ 1, ack=5))],
                     {"cookie_valid": 1, "drop_ack": 1})
        yield vector("no-key-pass" + v, "no key: fail open", [passed(ack(f))], {"pass_no_key": 1}, keys=[])
        yield vector("no-key-drop" + v, "no key: fail closed", [dropped(ack(f))], {"drop_ack": 1}, keys=[],
                     stale_keys="drop")
        yield vector("seq-wraps" + v, "the client's number is the largest",
                     [passed(ack(syn(family, seq=0xffffffff)))], {"cookie_valid": 1})


def floods():
    for family in (4, 6):
        v = "-v%d" % family
        f = dict(syn(family), options=[], seq=77, ack=99)
        for name, flags, counter in (
                ("ack", ACK, "drop_ack"), ("ack-push", ACK | PSH, "drop_ack"), ("rst", RST, "drop_rst"),
                ("rst-ack", RST | ACK, "drop_rst"), ("fin", FIN, "drop_fin"), ("fin-ack", FIN | ACK, "drop_fin"),
                ("syn-ack", SYN | ACK, "drop_synack"), ("syn-ack-rst", SYN | ACK | RST, "drop_synack"),
                ("null", 0, "drop_stray"), ("urg", URG | PSH, "drop_stray"), ("ece", ECE | CWR, "drop_stray")):
            yield vector("flood-%s%s" % (name, v), "of no flow that is known", [dropped(dict(f, flags=flags))],
                         {counter: 1})
        yield vector("flood-of-nobody" + v, "a port that nobody protects", [passed(dict(f, flags=ACK, dport=81))], {})
        monitor = [dict(p.SERVICE, mode="monitor")]
        yield vector("monitored-ack" + v, "counted, not dropped", [passed(dict(f, flags=ACK))], {"would_drop": 1},
                     services=monitor)


def hops():
    for family in (4, 6):
        v = "-v%d" % family
        f = syn(family, sport=51000)
        for ttl in (16, 17, 64, 255):
            yield vector("hops-%d%s" % (ttl, v), "everything that goes on has the same TTL",
                         [passed(ack(f, ttl=ttl), 16)], {"cookie_valid": 1}, hops=16)
        for ttl in (0, 1, 15):
            yield vector("hops-%d%s" % (ttl, v), "too few to be worth a look, known or not",
                         [dropped(ack(f, ttl=ttl))], {"drop_hops": 1}, hops=16)
        yield vector("hops-known" + v, "of a known flow, too", [passed(ack(f), 16), dropped(ack(f, ttl=15))],
                     {"cookie_valid": 1, "drop_hops": 1}, hops=16)
    f = syn(4, sport=51001)
    for tos in range(0, 256, 5):
        frame = ack(f, ttl=200, ident=tos * 257, tos=tos & 0xfc)
        yield vector("hops-checksum-%d" % tos, "the checksum is fixed for every sum",
                     [passed(frame, 16)], {"cookie_valid": 1}, hops=16)
    yield vector("hops-unprotected", "of others nothing is changed", [passed(ack(f, dport=81, ttl=9))], {}, hops=16)


def themes():
    p.LAYOUT = "smartcookie"
    yield "syns", "SYNs and condemned frames", list(syns())
    yield "verified", "Cookies that come back to an edge", list(verified())
    yield "floods", "Floods that die at an edge", list(floods())
    yield "hops", "TTLs", list(hops())
    p.LAYOUT = "tidegate"
