# SPDX-License-Identifier: Apache-2.0
"""Segments of translated connections, both ways: what the proxy has to make of them.
Written from RFC 9293, 7323, 2018 and 5927, never from core/translate.h.

The client was given another ISN and timestamp clock than its server chose: the
server's numbers are seq_delta (ts_delta) above what the client knows.
"""
import struct

import packets as p
import reference as ref
from packets import ACK, ECE, FIN, NOP, PSH, RST, SERVER, CLIENT, SYN, URG, defaults, frame, raw, timestamps

FLOW = {"seq_delta": 0x9abcdef1, "ts_delta": 0xfedcba98, "timestamps": True, "window_up": 0,
        "window_down": 0}
M32 = 0xffffffff


def sack(*edges):
    return struct.pack(">BB%dI" % len(edges), 5, 2 + 4 * len(edges), *(e & M32 for e in edges)), \
        "SACK " + " ".join("%08x" % (e & M32) for e in edges)


def shifted(window, shift):
    return min(window << shift, 65535) if shift >= 0 else window >> -shift


def segment(family, to_client, flow, seq=1000, ack=2000, window=500, ts=None, edges=(), lead=(), tail=(),
            flags=ACK, **fields):
    """(frame in, frame out): each built whole, with whole checksums."""
    def build(translated):
        s, a, w, t, e = seq, ack, window, ts, list(edges)
        if translated and to_client:
            s -= flow["seq_delta"]
            w = shifted(w, flow["window_down"])
            if t and flow["timestamps"]:
                t = ((t[0] - flow["ts_delta"]) & M32, t[1])
        elif translated:
            if flags & ACK:
                a += flow["seq_delta"]
            e = [x + flow["seq_delta"] for x in e]
            w = shifted(w, flow["window_up"])
            if t and flow["timestamps"] and flags & ACK:
                t = (t[0], (t[1] + flow["ts_delta"]) & M32)
        options = list(lead)
        if t:
            options.append(timestamps(*t))
        options += list(tail)
        if e:
            options.append(sack(*e))
        while sum(len(b) for b, _ in options) % 4:
            options.append(NOP)
        ends = dict(src=SERVER[family], dst=CLIENT[family], sport=80, dport=40000) if to_client else {}
        return frame(defaults(family, seq=s & M32, ack=a & M32, window=w, flags=flags, options=options,
                              **ends, **fields))
    return build(False), build(True)


def vector(name, why, family, to_client, flow=FLOW, **fields):
    before, after = segment(family, to_client, flow, **fields)
    return {"name": "%s-v%d-%s" % (name, family, "to-client" if to_client else "to-server"), "why": why,
            "flow": flow, "to_client": to_client, "in": before, "out": after}


def icmp_vectors():
    """A router beyond the box quotes the server's segment as the client sees it."""
    for length in (8, 20):
        def build(delta):
            inner = p.flat(frame(defaults(4, src=SERVER[4], dst=CLIENT[4], sport=80, dport=40000,
                                          seq=5000, ack=2000, flags=ACK)))[14:14 + 20 + length]
            # The quoted checksum stays: a quote is cut, nobody can check it.
            inner = inner[:24] + struct.pack(">I", (5000 + delta) & M32) + inner[28:]
            body = struct.pack(">BBHHH", 3, 4, 0, 0, 1000) + inner
            body = body[:2] + struct.pack(">H", ref.checksum(body)) + body[4:]
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 60, 1, 0) + \
                p.address("192.0.2.99") + p.address(SERVER[4])
            head = head[:10] + struct.pack(">H", ref.checksum(head)) + head[12:]
            return [(p.GATE_MAC + p.CLIENT_MAC + b"\x08\x00", "Ethernet"), (head, "IPv4 192.0.2.99 > server"),
                    (body, "ICMP fragmentation needed, next MTU 1000, quoting")]
        yield {"name": "icmp-quote-%d" % length, "why": "what is quoted is given the server's numbers, RFC 5927",
               "flow": FLOW, "to_client": False, "in": build(0), "out": build(FLOW["seq_delta"])}


def vectors():
    for family in (4, 6):
        for to_client in (False, True):
            def v(name, why, **fields):
                return vector(name, why, family, to_client, **fields)
            yield v("bare", "sequence numbers alone")
            yield v("wrap", "numbers wrap round", seq=0x00000001, ack=0xffffffff)
            yield v("data", "data are not touched", payload=b"tide and time\n", flags=ACK | PSH, ts=(7, 8), lead=[NOP, NOP])
            yield v("odd-data", "an odd length", payload=b"x", flags=ACK | PSH)
            yield v("ts", "timestamps as everybody lays them out", ts=(0x01020304, 0xfffffff0), lead=[NOP, NOP])
            yield v("ts-last", "timestamps behind their padding on the other side", ts=(1, 2), tail=[NOP, NOP])
            yield v("ts-odd", "timestamps at an odd offset", ts=(1, 2), lead=[NOP])
            yield v("ts-off", "a connection without timestamps: what looks like one is not",
                    flow=dict(FLOW, timestamps=False), ts=(1, 2), lead=[NOP, NOP])
            for blocks in (1, 2, 3):
                yield v("sack-%d" % blocks, "SACK edges are numbers of the other side (RFC 2018)", ts=(1, 2), lead=[NOP, NOP],
                        tail=[NOP, NOP], edges=[3000 + 100 * i for i in range(2 * blocks)])
            yield v("sack-4", "four blocks fit without timestamps", lead=[NOP, NOP], edges=[2 ** 32 - 300 + 100 * i for i in range(8)])
            yield v("urgent", "the urgent pointer is relative", flags=ACK | URG, urgent=77)
            yield v("fin", "half-close", flags=ACK | FIN, ts=(1, 2), lead=[NOP, NOP])
            yield v("rst", "a RST without ACK: only its sequence number", flags=RST, ack=0)
            yield v("rst-ack", "a RST with ACK", flags=RST | ACK)
            yield v("rst-ts", "TSecr means nothing without ACK (RFC 7323 3.2)", flags=RST, ack=0, ts=(1, 2), lead=[NOP, NOP])
            yield v("ece", "ECN's flags are end to end", flags=ACK | ECE)
            yield v("window-up", "the server does not scale", flow=dict(FLOW, window_up=7), window=502)
            yield v("window-cut", "what does not fit is cut", flow=dict(FLOW, window_up=7, window_down=7), window=60000)
            yield v("window-down", "the server scales more than was told", flow=dict(FLOW, window_down=3))
            yield v("window-less", "the server scales less than was told", flow=dict(FLOW, window_down=-3))
            yield v("lying-option", "a length that lies ends the list", lead=[raw("08280000000000000000", "timestamp of 40 bytes")])
            yield v("unknown-option", "what nobody knows is left alone", lead=[raw("fe04cafe", "experiment")], ts=(1, 2))
    yield from icmp_vectors()


def canaries():
    """Each wrong in one bit of what leaves the box, or in that nothing has been done."""
    good = {v["name"]: v for v in vectors()}
    ip = {4: 14 + 20, 6: 14 + 40}
    for name, family, what, at in (
            ("bare-v4-to-client", 4, "the sequence number", 4), ("bare-v6-to-server", 6, "the acknowledgement", 11),
            ("data-v4-to-client", 4, "the TSval", 20 + 4), ("ts-v6-to-server", 6, "the TSecr", 20 + 8),
            ("ts-odd-v4-to-server", 4, "a TSecr at an odd offset", 20 + 10), ("sack-3-v4-to-server", 4, "the last SACK edge", 20 + 12 + 4 + 23),
            ("window-down-v4-to-client", 4, "the window", 15), ("fin-v6-to-client", 6, "the checksum", 17),
            ("urgent-v4-to-server", 4, "the urgent pointer", 19), ("odd-data-v6-to-client", 6, "the data", 20),
            ("icmp-quote-8", 4, "the sequence number that an ICMP error quotes", 8 + 20 + 4)):
        v = good[name]
        out = bytearray(p.flat(v["out"]))
        out[ip[family] + at] ^= 1
        yield dict(v, name="flipped-" + name, why="one bit of %s is wrong" % what, out=[(bytes(out), "one bit of it is wrong")])
    for name in ("bare-v4-to-server", "sack-4-v6-to-server", "icmp-quote-20"):
        yield dict(good[name], name="untouched-" + name, why="nothing has been translated", out=good[name]["in"])


def write(folder, about, vectors, head, write_bytes, inline, scalar):
    out = ["format: 1", "about: " + scalar(about), "vectors:"]
    names = set()
    for v in vectors:
        assert v["name"] not in names, v["name"]
        names.add(v["name"])
        out += ["  - name: " + v["name"], "    why: " + scalar(v["why"]), "    flow: " + inline(v["flow"]),
                "    to_client: " + scalar(v["to_client"])]
        write_bytes(out, "in", v["in"], "    ")
        write_bytes(out, "out", v["out"], "    ")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "translate.yaml").write_text(head + "\n".join(out) + "\n")
