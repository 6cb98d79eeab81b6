# SPDX-License-Identifier: Apache-2.0
"""What real systems send to open a connection, and what each must get.

Sources: RFC 7323 appendix A; captures as published in the p0f v3 signature file;
nmap's "TCP/IP Fingerprinting Methods" (probes SEQ, ECN, T1 to T7); lwIP's and
FreeBSD's option writers as their documentation describes them.
"""
from packets import *  # noqa: F401,F403
import packets as p


def syn_vector(name, why, f, found, service=None, verdict="tx", counters=None, **more):
    service = service or p.SERVICE
    packet = {"verdict": verdict, "in": p.frame(f)}
    if verdict == "tx":
        packet["out"] = p.answer(f, service, found, more.get("epoch", p.EPOCH))
        counters = counters or {service["id"]: {"syn": 1, "cookie_sent": 1}}
    return dict(more, name=name, why=why, packets=[packet], counters=counters or {})


def lwip(sack, ts, ws):
    options = [mss(1460)]
    found = offer(mss=1460)
    if ws:
        options += [NOP, wscale(2)]
        found["wscale"] = 2
    if ts:
        options += [NOP, NOP, timestamps(4711)]
        found["ts"] = 4711
    if sack:
        options += [NOP, NOP, SACK]
        found["sack"] = True
    return options, found


def linux(sack, ts, ws):
    """Linux's writer for each setting of tcp_sack, tcp_timestamps, tcp_window_scaling."""
    options = [mss(1460)]
    if ts:
        options += ([SACK] if sack else [NOP, NOP]) + [timestamps(0x8a6b3f01)]
    elif sack:
        options += [NOP, NOP, SACK]
    if ws:
        options += [NOP, wscale(7)]
    return options, offer(1460, 7 if ws else None, sack, 0x8a6b3f01 if ts else None)


def systems():
    """(name, why, options, what they say, other fields)"""
    yield ("windows-11", "Windows 10 and 11: no timestamps by default",
           [mss(1460), NOP, wscale(8), NOP, NOP, SACK], offer(1460, 8, True), {})
    yield ("windows-ts", "Windows with timestamps switched on",
           [mss(1460), NOP, wscale(8), SACK, timestamps(123456)], offer(1460, 8, True, 123456), {})
    yield ("windows-retry", "Windows, later retransmissions: no window scale",
           [mss(1460), NOP, NOP, SACK], offer(1460, None, True), {"window": 65535})
    yield ("windows-ecn", "Windows Server with ECN: ECN in the plain form",
           [mss(1460), NOP, wscale(8), NOP, NOP, SACK], offer(1460, 8, True),
           {"flags": SYN | ECE | CWR})
    yield ("macos", "macOS and iOS: two EOL bytes end the list",
           [mss(1460), NOP, wscale(6), NOP, NOP, timestamps(0xfffffff0), SACK, EOL, EOL],
           offer(1460, 6, True, 0xfffffff0), {"window": 65535})
    yield ("macos-ecn", "macOS with ECN",
           [mss(1460), NOP, wscale(6), NOP, NOP, timestamps(77), SACK, EOL, EOL],
           offer(1460, 6, True, 77), {"window": 65535, "flags": SYN | ECE | CWR})
    yield ("freebsd", "FreeBSD", [mss(1460), NOP, wscale(6), SACK, timestamps(0x11223344)],
           offer(1460, 6, True, 0x11223344), {"window": 65535})
    yield ("openbsd", "OpenBSD: its own order of options",
           [mss(1460), NOP, NOP, SACK, NOP, wscale(6), NOP, NOP, timestamps(99)],
           offer(1460, 6, True, 99), {"window": 16384})
    yield ("solaris", "Solaris: timestamps before everything",
           [SACK, timestamps(5), mss(1460), NOP, wscale(5)], offer(1460, 5, True, 5), {})
    yield ("linux-mptcp", "Linux with MPTCP: the unknown option is skipped, plain TCP agreed",
           [mss(1460), SACK, timestamps(42), NOP, wscale(7), raw("1e040101", "MPTCP capable")],
           offer(1460, 7, True, 42), {})
    yield ("linux-fast-open-request", "asks for a Fast Open cookie: ignored",
           [mss(1460), SACK, timestamps(42), NOP, wscale(7), raw("2202", "Fast Open request"), NOP, NOP],
           offer(1460, 7, True, 42), {})
    yield ("linux-fast-open-data", "Fast Open with data: the data is not acknowledged (RFC 7413)",
           [mss(1460), SACK, timestamps(42), NOP, wscale(7),
            raw("220a0102030405060708", "Fast Open cookie"), NOP, NOP],
           offer(1460, 7, True, 42), {"payload": b"GET / HTTP/1.0\r\n\r\n"})
    yield ("linux-accecn", "AccECN (RFC 9768: AE, CWR and ECE): answered as classic ECN",
           [mss(1460), SACK, timestamps(42), NOP, wscale(7)], offer(1460, 7, True, 42),
           {"flags": SYN | ECE | CWR, "reserved": 1})
    yield ("no-options", "no options at all: the MSS is the smallest (RFC 9293)", [], offer(), {})
    yield ("scanner-mss", "the SYN of a port scan: MSS only, window 1024", [mss(1460)],
           offer(1460), {"window": 1024})
    yield ("lwip-small", "lwIP with its default TCP_MSS of 536", [mss(536)], offer(536),
           {"window": 2144})
    yield ("uip", "a tiny stack: MSS 100 becomes the smallest entry", [mss(100)], offer(100),
           {"window": 100})


def nmap():
    seq = ("seq1", [wscale(10), NOP, mss(1460), timestamps(0xffffffff), SACK], 1,
           offer(1460, 10, True, 0xffffffff)), \
          ("seq2", [mss(1400), wscale(0), SACK, timestamps(0xffffffff), EOL], 63,
           offer(1400, 0, True, 0xffffffff)), \
          ("seq3", [timestamps(0xffffffff), NOP, NOP, wscale(5), NOP, mss(640)], 4,
           offer(640, 5, False, 0xffffffff)), \
          ("seq4", [SACK, timestamps(0xffffffff), wscale(10), EOL], 4,
           offer(0, 10, True, 0xffffffff)), \
          ("seq5", [mss(536), SACK, timestamps(0xffffffff), wscale(10), EOL], 16,
           offer(536, 10, True, 0xffffffff)), \
          ("seq6", [mss(265), SACK, timestamps(0xffffffff)], 512, offer(265, None, True, 0xffffffff))
    for name, options, window, found in seq:
        f = p.defaults(4, options=options, window=window, sport=33000, frag=0)
        yield syn_vector("nmap-" + name, "nmap OS detection, probe " + name, f, found)
    f = p.defaults(4, options=[wscale(10), NOP, mss(1460), SACK, NOP, NOP], window=3, reserved=8,
                   urgent=0xf7f5, flags=SYN | ECE | CWR, frag=0)
    yield syn_vector("nmap-ecn", "nmap's ECN probe: reserved bit and urgent pointer set", f,
                     offer(1460, 10, True))
    tail = [wscale(10), NOP, mss(265), timestamps(0xffffffff), SACK]
    t7 = [wscale(15)] + tail[1:]
    one = {1: {"syn": 1}}
    for name, flags, window, frag, options, verdict, counters in (
            ("t2", 0, 128, 0x4000, tail, "pass", {}),
            ("t3", SYN | FIN | URG | PSH, 256, 0, tail, "drop", {1: {"syn": 1, "drop_flags": 1}}),
            ("t4", ACK, 1024, 0x4000, tail, "pass", {1: {"cookie_invalid": 1}}),
            ("t6", ACK, 32768, 0x4000, tail, "pass", {1: {"cookie_invalid": 1}}),
            ("t7", FIN | PSH | URG, 65535, 0, t7, "pass", {})):
        del one
        one = counters
        f = p.defaults(4, options=options, window=window, frag=frag, flags=flags, ack=0x0a0b0c0d)
        yield syn_vector("nmap-" + name, "nmap OS detection, probe " + name, f, None,
                         verdict=verdict, counters=one)
    f = p.defaults(4, options=tail, window=31337, frag=0x4000, dport=81)
    yield syn_vector("nmap-t5", "nmap's probe T5, to a closed port that nobody protects", f, None,
                     verdict="pass")


def table_edges():
    for family in (4, 6):
        for entry in ref.MSS_TABLE[family]:
            for said in (entry - 1, entry, entry + 1):
                f = p.defaults(family, options=[mss(said), NOP, wscale(7)])
                yield syn_vector("mss-%d-v%d" % (said, family),
                                 "rounded down to an entry of the table, or up to the first", f,
                                 offer(said, 7))
        for said in (1, 700, 1219, 1220, 1337, 1451, 65535):
            f = p.defaults(family, options=[mss(said), p.SACK, timestamps(9), NOP, wscale(7)])
            yield syn_vector("mss-exact-%d-v%d" % (said, family), "exactly, with timestamps", f,
                             offer(said, 7, True, 9))
        f = p.defaults(family, options=[p.SACK, timestamps(9), NOP, wscale(7)])
        yield syn_vector("mss-absent-ts-v%d" % family, "none: the least", f, offer(0, 7, True, 9))
        f = p.defaults(family, options=[mss(65535)])
        yield syn_vector("mss-65535-v%d" % family, "the largest MSS", f, offer(65535))
    for shift in range(0, 16):
        f = p.defaults(4, options=[mss(1460), NOP, wscale(shift)])
        yield syn_vector("wscale-%d" % shift, "0 is an offer, 15 counts as 14 (RFC 7323 2.3)", f,
                         offer(1460, shift))
        f = p.defaults(6, options=[mss(1440), NOP, NOP, timestamps(9), NOP, wscale(shift)])
        yield syn_vector("wscale-%d-ts-v6" % shift, "the same in the timestamp form", f,
                         offer(1440, shift, False, 9))


def option_matrix():
    """Every set of options with every set that the service allows, ECN included."""
    for n in range(16):
        allow = dict(p.SERVICE, sack=bool(n & 1), timestamps=bool(n & 2), ecn=bool(n & 8),
                     wscale=5 if n & 4 else ref.WSCALE_NONE, mss_v4=1400, mss_v6=1380, window=4096)
        for m in range(16):
            options, found = linux(bool(m & 1), bool(m & 2), bool(m & 4))
            family = 4 if (n ^ m) & 1 else 6
            f = p.defaults(family, options=options, sport=1024 + 16 * n + m, seq=0xfffffff0 + m,
                           flags=SYN | (ECE | CWR if m & 8 else 0))
            yield syn_vector("offer-%x-allow-%x" % (m, n),
                             "an option is sent only if offered and allowed "
                             "(bits: SACK 1, timestamps 2, window scale 4, ECN 8)",
                             f, found, allow, services=[allow])


def clients():
    for family in (4, 6):
        for n in range(8):
            for make, system in ((linux, "linux"), (lwip, "lwip")):
                options, found = make(bool(n & 1), bool(n & 2), bool(n & 4))
                f = p.defaults(family, options=options, sport=41000 + n)
                parts = [t for bit, t in ((1, "sack"), (2, "ts"), (4, "ws")) if n & bit]
                yield syn_vector("%s-%s-v%d" % (system, "-".join(parts) or "mss", family),
                                 "%s with these options switched on" % system, f, found)
        for name, why, options, found, fields in systems():
            f = p.defaults(family, options=options, **fields)
            yield syn_vector("%s-v%d" % (name, family), why, f, found)
    yield from nmap()


def themes():
    yield "clients", "SYNs of real systems and of nmap", list(clients())
    yield "agreement", "What is agreed for which offer", list(option_matrix())
    yield "values", "MSS and window scale values and how the cookie keeps them", list(table_edges())
