# SPDX-License-Identifier: Apache-2.0
"""Which service a packet belongs to, what its mode and listener do, what happens
without a key, and sockets that are already there. And the canaries.
"""
import ipaddress

from packets import *  # noqa: F401,F403
import packets as p
from theme_clients import syn_vector
from theme_frames import FOUND, bad, good, syn
from theme_acks import SOCKET_CLIENT


def service(number, port, prefixes=(), **fields):
    return dict(p.SERVICE, id=number, port=port, prefixes=list(prefixes), **fields)


def lookup():
    """The MSS tells which service answered."""
    table = [service(1, 80, mss_v4=1001, mss_v6=1601),
             service(2, 80, ["198.51.100.0/24", "2001:db8:2::/48"], mss_v4=1002, mss_v6=1602),
             service(3, 80, ["198.51.100.7/32", "2001:db8:2::7/128"], mss_v4=1003, mss_v6=1603),
             service(4, 80, ["198.51.0.0/16", "2001:db8:2::/64", "10.0.0.0/8"], mss_v4=1004, mss_v6=1604),
             service(5, 443, ["198.51.100.7/32"], mss_v4=1005),
             service(6, 65535, mss_v4=1006, mss_v6=1606)]
    for name, dst, port, number in (
            ("host-route-v4", "198.51.100.7", 80, 3), ("host-route-v6", "2001:db8:2::7", 80, 3),
            ("prefix-24", "198.51.100.8", 80, 2), ("prefix-64", "2001:db8:2::8", 80, 4),
            ("prefix-48", "2001:db8:2:1::7", 80, 2), ("prefix-16", "198.51.101.7", 80, 4),
            ("prefix-8", "10.255.0.1", 80, 4), ("everywhere-v4", "203.0.113.1", 80, 1),
            ("everywhere-v6", "2001:db8:3::7", 80, 1), ("other-port", "198.51.100.7", 443, 5),
            ("last-port", "198.51.100.7", 65535, 6), ("first-of-prefix", "198.51.100.0", 80, 2),
            ("last-of-prefix", "198.51.100.255", 80, 2)):
        family = 6 if ":" in dst else 4
        chosen = table[number - 1]
        yield good("lookup-" + name, "the longest prefix wins", syn(family, dst=dst, dport=port),
                   service=chosen, services=table)
    for name, dst, port in (("beside-the-prefix", "198.51.100.8", 443), ("no-port", "198.51.100.7", 8080),
                            ("v6-beside-v4-prefix", "2001:db8:2::7", 443), ("port-0", "198.51.100.7", 0),
                            ("port-swapped", "198.51.100.7", 0x5000)):
        yield bad("lookup-" + name, "nobody protects it",
                  syn(6 if ":" in dst else 4, dst=dst, dport=port), "pass", {}, services=table)
    one_family = [service(9, 80, ["0.0.0.0/0"])]
    yield good("lookup-all-of-v4", "a prefix of length 0", syn(4), service=one_family[0], services=one_family)
    yield bad("lookup-not-v6", "the other family is not protected", syn(6), "pass", {}, services=one_family)
    mapped = [service(2, 80, ["198.51.100.7/32"])]
    yield bad("lookup-family-counts", "an IPv6 address that begins like the IPv4 prefix",
              syn(6, dst="c633:6407::"), "pass", {}, services=mapped)
    yield bad("no-services", "a gate that protects nothing", syn(4), "pass", {}, services=[])
    largest = [service(10000, 80)]
    yield good("largest-service-number", "the last row of the table", syn(4), service=largest[0], services=largest)
    eight = [service(n + 1, 80, [network("198.51.100.0/%d" % (24 - n))], mss_v4=1001 + n) for n in range(8)]
    for n, dst in ((0, "198.51.100.9"), (1, "198.51.101.9"), (4, "198.51.111.9"), (7, "198.51.1.9")):
        yield good("lookup-eight-lengths-%d" % (24 - n), "eight prefix lengths, the longest first",
                   syn(4, dst=dst), service=eight[n], services=eight)


def network(text):
    return str(ipaddress.ip_network(text, strict=False))


def modes():
    off, monitor = [service(1, 80, mode="off")], [service(1, 80, mode="monitor")]
    for family in (4, 6):
        v = "-v%d" % family
        yield bad("off" + v, "not looked at, not counted", syn(family), "pass", {}, services=off)
        yield bad("monitor" + v, "counted, not answered", syn(family), "pass",
                  {1: {"syn": 1, "would_answer": 1}}, services=monitor)
        for name, fields in (("fin", {"flags": SYN | FIN}), ("rst", {"flags": SYN | RST}),
                             ("malformed", {"doff": 4}), ("land", {"src": p.SERVER[family]})):
            yield bad("monitor-%s%s" % (name, v), "counted, not dropped", syn(family, **fields), "pass",
                      {1: {"syn": 1, "would_drop": 1}}, services=monitor)
        yield bad("off-fin" + v, "not even this", syn(family, flags=SYN | FIN), "pass", {}, services=off)
    yield bad("monitor-group", "would have been left to the kernel anyway",
              syn(4, eth_dst=b"\xff" * 6), "pass", {1: {"syn": 1}}, services=monitor)
    yield bad("monitor-overlay", "no service is known of a later fragment: counted under 0",
              syn(4, frag=1), "pass", {0: {"would_drop": 1}}, services=monitor)
    mixed = monitor + [service(2, 443)]
    yield bad("mixed-overlay", "one service in mode always is enough", syn(4, frag=1), "drop",
              {0: {"drop_fragment": 1}}, services=mixed)
    yield bad("mixed-monitor", "the other is still only watched", syn(4), "pass",
              {1: {"syn": 1, "would_answer": 1}}, services=mixed)
    yield good("mixed-always", "and this one answers", syn(4, dport=443), service=mixed[1], services=mixed)
    for listener in ("none", "mptcp", "refused"):
        table = [service(1, 80, listener=listener)]
        for family in (4, 6):
            yield bad("listener-%s-v%d" % (listener, family), "cannot be adopted: SYNs go to the kernel",
                      syn(family), "pass", {1: {"syn": 1, "pass_listener": 1}}, services=table)
        yield bad("listener-%s-fin" % listener, "even those: the gate keeps out",
                  syn(4, flags=SYN | FIN), "pass", {1: {"syn": 1, "pass_listener": 1}}, services=table)


def keys():
    for number in (0, 1, 2, p.EPOCH + 1, 2**32 - 1, 2**32, 2**32 + 5):
        for family in (4, 6):
            yield good("epoch-%d-v%d" % (number, family), "the key of this epoch, its parity in the cookie",
                       syn(family), epoch=number, keys=[number])
            f = p.defaults(family, options=[mss(1460), NOP, wscale(7)])
            yield syn_vector("epoch-%d-plain-v%d" % (number, family), "the same in the plain form", f,
                             offer(1460, 7), epoch=number, keys=[number])
    for name, loaded in (("none", []), ("previous", [p.EPOCH - 1]), ("next", [p.EPOCH + 1]),
                         ("same-slot", [p.EPOCH - 16]), ("far-future", [p.EPOCH + 2**32])):
        yield bad("no-key-%s-pass" % name, "fail open", syn(4), "pass", {1: {"syn": 1, "pass_no_key": 1}},
                  keys=loaded, stale_keys="pass")
        yield bad("no-key-%s-drop" % name, "fail closed", syn(6), "drop", {1: {"syn": 1, "drop_no_key": 1}},
                  keys=loaded, stale_keys="drop")
    yield bad("no-key-fin", "what is always dropped is dropped without a key too",
              syn(4, flags=SYN | FIN), "drop", {1: {"syn": 1, "drop_flags": 1}}, keys=[])


def sockets():
    for family in (4, 6):
        v = "-v%d" % family
        existing = {1: {"syn": 1, "pass_existing": 1}}
        own = dict(src=SOCKET_CLIENT[family], sport=45678)
        yield good("filter-maybe-listener" + v, "the filter errs: the look-up finds only the listener",
                   syn(family), filter="maybe")
        nobody = [service(1, 81)]
        yield good("filter-maybe-nothing" + v, "the filter errs: the look-up finds nothing",
                   syn(family, dport=81), service=nobody[0], services=nobody, filter="maybe", socket="none")
        for state in ("established", "time-wait"):
            yield bad("%s-syn%s" % (state, v), "the left to the kernel (RFC 5961, RFC 6191)",
                      syn(family, **own), "pass", existing, filter="maybe", socket=state)
            yield good("%s-neighbour-port%s" % (state, v), "another port of the same client",
                       syn(family, src=own["src"], sport=45679), filter="maybe", socket=state)
            yield bad("%s-fin%s" % (state, v), "no connection of any state gets this",
                      syn(family, flags=SYN | FIN, **own), "drop", {1: {"syn": 1, "drop_flags": 1}},
                      filter="maybe", socket=state)
        yield bad("established-rst" + v, "never touched", syn(family, flags=RST, **own), "pass", {},
                  filter="maybe", socket="established")
        yield bad("established-ack" + v, "data of a live connection: not counted",
                  syn(family, flags=ACK, ack=0x22222222, payload=b"data", **own), "pass", {},
                  filter="maybe", socket="established")


def themes():
    yield "lookup", "Ports and prefixes", list(lookup())
    yield "modes", "Modes and listener states", list(modes())
    yield "keys", "Epochs and missing keys", list(keys())
    yield "sockets", "Sockets that are already there", list(sockets())


def canaries():
    """Each is wrong in one way. Never to be fixed."""
    for where, place in (("ethernet", 3), ("ip", 14 + 8), ("ip-checksum", 14 + 10), ("tcp-isn", 34 + 5),
                         ("tcp-checksum", 34 + 16), ("last", -1)):
        v = good("x", "", syn(4))
        data = bytearray(p.flat(v["packets"][0]["out"]))
        data[place] ^= 1
        v["packets"][0]["out"] = [(bytes(data), "one bit of it is wrong")]
        yield dict(v, name="flipped-" + where, why="one bit of the answer is wrong")
    for name, change in (("short", lambda b: b[:-1]), ("long", lambda b: b + b"\0")):
        v = good("x", "", syn(6))
        v["packets"][0]["out"] = [(change(p.flat(v["packets"][0]["out"])), "wrong length")]
        yield dict(v, name="length-" + name, why="the answer has another length")
    for name, counters in (("missing", {1: {"syn": 1}}), ("extra", {1: {"syn": 1, "cookie_sent": 1, "drop_tx": 1}}),
                           ("twice", {1: {"syn": 2, "cookie_sent": 1}}), ("nowhere", {}),
                           ("other-service", {2: {"syn": 1, "cookie_sent": 1}})):
        yield dict(good("x", "", syn(4)), name="counters-" + name, why="other counters", counters=counters)
    for verdict in ("pass", "drop"):
        v = good("x", "", syn(4))
        packet = {"verdict": verdict, "in": v["packets"][0]["in"]}
        yield dict(v, name="verdict-" + verdict, why="it is answered", packets=[packet])
    v = bad("x", "", syn(4, flags=SYN | FIN), "pass", {1: {"syn": 1, "drop_flags": 1}})
    yield dict(v, name="verdict-dropped", why="it is dropped")
    yield dict(good("x", "", syn(4)), name="other-epoch", why="the answer of another epoch", epoch=p.EPOCH - 1)
    from theme_acks import adopt_vector
    for field, value in (("mss", 1400), ("wscale", 6), ("sack", False), ("timestamps", False), ("ecn", True)):
        v = adopt_vector("agreed-" + field, "the kernel is told something else", syn(4), FOUND)
        v["packets"][0]["agreed"] = dict(v["packets"][0]["agreed"], **{field: value})
        yield v
    v = adopt_vector("adopted-not", "it is adopted", syn(4), FOUND)
    v["packets"][0]["verdict"] = "pass"
    del v["packets"][0]["agreed"]
    yield v
