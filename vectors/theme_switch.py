# SPDX-License-Identifier: Apache-2.0
"""What a proxy that is a switch makes of packets, step by step: the strategies
auth-full, auth-cookie and cookie, and an edge of the protocol `tagged`, with the layout `smartcookie`. Written from
docs/proxy.md, docs/split-protocol.md, docs/p4.md and the RFCs, never from core/ or p4/.

A step is a frame from the client's or the server's side, what goes on to the other
side and what comes back.
"""
import struct

import packets as p
import reference as ref
import theme_frames
from packets import ACK, CLIENT, EPOCH, FIN, NOP, PSH, RST, SECRET, SERVER, SERVICE, SYN, defaults, frame

SERVER_MAC = bytes.fromhex("02000000000b")
M32, M64 = 2**32 - 1, 2**64 - 1
SALT = 1  # of challenges without a cookie


def swap(n):
    return struct.unpack("<Q", struct.pack(">Q", n))[0]


def challenge(f):
    """docs/p4.md, "Challenges": three multiplications of 64 bits."""
    raw = p.address(f["src"])
    low, high = struct.unpack("<QQ", raw + bytes(16 - len(raw)))
    ports = struct.unpack("<I", struct.pack(">HH", f["sport"], f["dport"]))[0]
    h = (low * 0x9e3779b97f4a7c15 & M64) ^ high
    h = (h ^ SALT) + (f["seq"] << 32 | ports) & M64
    h = (h ^ h >> 32) * 0xbf58476d1ce4e5b9 & M64
    h = (h ^ h >> 29) * 0x94d049bb133111eb & M64
    return h >> 32


def cookie(f, index, shift, epoch=EPOCH):
    return ref.smartcookie(SECRET, epoch, p.address(f["src"]), p.address(f["dst"]), f["sport"], f["dport"],
                           f["seq"], index, shift)


def turned(f, **fields):
    """A segment of our own back to where f came from."""
    return defaults(f["family"], **dict(dict(
        src=f["dst"], dst=f["src"], sport=f["dport"], dport=f["sport"], eth_src=f["eth_dst"],
        eth_dst=f["eth_src"], ident=0, window=0), **fields))


def own(f, **fields):
    """A segment of our own that goes on as f would."""
    return dict(f, ident=0, tos=0, flow=0, ttl=64, options=(), payload=b"", **fields)


def step(side, f, on=None, back=None, entries=None):
    out = {"from": side, "in": frame(f)}
    if on is not None:
        out["on"] = frame(on)
    if back is not None:
        out["back"] = frame(back)
    if entries is not None:
        out["entries"] = entries
    return out


def client(f, on=None, back=None, entries=None):
    return step("client", f, on, back, entries)


def server(f, on=None, back=None, entries=None):
    return step("server", f, on, back, entries)


def vector(name, why, strategy, steps, **counters):
    return {"name": name, "why": why, "strategy": strategy, "steps": steps, "counters": counters}


def follow(f, **fields):
    """The client's next segment."""
    return dict(f, **dict(dict(seq=f["seq"] + 1 & M32, flags=ACK, options=()), **fields))


def syn(family, shift=8, **fields):
    options = [p.mss(1460), p.SACK, p.timestamps(1000), NOP]
    options.append(p.wscale(shift) if shift is not None else p.raw("010101", "NOP, NOP, NOP"))
    return defaults(family, options=options, **fields)


def told_mss(family):
    return SERVICE["mss_v%d" % family]


def index(family):
    return ref.mss_index(family, 1460)


def answer(f, isn, shift, window):
    options = [p.mss(told_mss(f["family"]))]
    if shift is not None:
        options += [NOP, p.wscale(SERVICE["wscale"])]
    return turned(f, seq=isn, ack=f["seq"] + 1 & M32, flags=SYN | ACK, window=window, options=options)


# A segment as long as the rest of its frame.
NO_LENGTH = dict(total=0, ext=[theme_frames.pad(theme_frames.HBH, "hop-by-hop options")])
BEHIND = dict(NO_LENGTH, trailer=b"\xee" * 6)


def auth_full(family):
    v = "-v%d" % family
    f = syn(family)
    isn = challenge(f)
    ask = client(f, back=answer(f, isn, None, SERVICE["window"]))
    proof = follow(f, ack=isn + 1 & M32)
    reset = turned(proof, seq=proof["ack"], ack=0, flags=RST)
    again = syn(family, sport=40001, seq=77)
    yield vector("full-challenge" + v, "an unknown source is asked; MSS alone is offered", "auth-full", [ask],
                 syn=1, challenge_sent=1)
    yield vector("full-accept" + v, "who answers is reset and may come again", "auth-full",
                 [ask, client(proof, back=reset, entries=1), client(again, on=again),
                  client(follow(again, ack=5), on=follow(again, ack=5))],
                 syn=2, challenge_sent=1, white_added=1, white_reset=1, forward_white=1)
    other = dict(proof, ack=proof["ack"] ^ 1)
    yield vector("full-any-ack" + v, "any ACK will do, but it may be of a connection that lives", "auth-full",
                 [client(other, on=other, entries=1), client(again, on=again)], white_added=1, syn=1, forward_white=1)
    for name, flags in (("rst", RST), ("fin", FIN), ("syn-ack", SYN | ACK)):
        g = dict(proof, flags=flags)
        yield vector("full-%s%s" % (name, v), "no proof of anything", "auth-full", [client(g, on=g), ask],
                     syn=1, challenge_sent=1)
    if family == 6:
        yield vector("full-no-length-trailer" + v, "what stands behind it is part of it, and the sum is wrong: no proof", "auth-full",
                     [client(follow(f, ack=isn + 1 & M32, **BEHIND), entries=0), ask], drop_checksum=1, syn=1, challenge_sent=1)
    back = turned(f, seq=9, ack=10, flags=ACK, eth_src=SERVER_MAC)
    yield vector("full-from-server" + v, "the server's side is not judged", "auth-full", [server(back, on=back)])


def auth_cookie(family):
    v = "-v%d" % family
    f = syn(family)
    isn = cookie(f, index(family), 8)
    ask = client(f, back=answer(f, isn, 8, SERVICE["window"]))
    proof = follow(f, ack=isn + 1 & M32)
    reset = turned(proof, seq=proof["ack"], ack=0, flags=RST)
    again = syn(family, sport=40001, seq=77)
    yield vector("cookie-accept" + v, "who returns the cookie is reset and may come again", "auth-cookie",
                 [ask, client(proof, back=reset, entries=1), client(again, on=again),
                  client(follow(again, ack=5), on=follow(again, ack=5))],
                 syn=2, cookie_sent=1, cookie_valid=1, white_added=1, white_reset=1, forward_white=1)
    for age, good in ((1, True), (2, False), (-1, False)):
        old = follow(f, ack=cookie(f, index(family), 8, EPOCH - age) + 1 & M32)
        yield vector("cookie-age-%d%s" % (age, v), "two epochs are good", "auth-cookie",
                     [client(old, back=turned(old, seq=old["ack"], ack=0, flags=RST), entries=1) if good
                      else client(old, on=old, entries=0)],
                     **({"cookie_valid": 1, "white_added": 1, "white_reset": 1} if good else {"cookie_invalid": 1}))
    bad = [dict(proof, ack=(isn ^ 1 << bit) + 1 & M32) for bit in range(32) if not 24 <= bit < 31]
    bad += [dict(proof, seq=proof["seq"] + 1 & M32), dict(proof, sport=proof["sport"] ^ 1)]
    yield vector("cookie-wrong" + v, "any bit wrong, a replay with another number or port: it goes on as it came",
                 "auth-cookie", [client(g, on=g) for g in bad] + [ask], cookie_invalid=len(bad), syn=1, cookie_sent=1)
    if family == 6:
        yield vector("cookie-no-length" + v, "as long as its frame", "auth-cookie",
                     [client(dict(proof, **NO_LENGTH), back=reset, entries=1)], cookie_valid=1, white_added=1, white_reset=1)
        yield vector("cookie-no-length-trailer" + v, "what stands behind it is part of it, and the sum is wrong: no proof", "auth-cookie",
                     [client(dict(proof, **BEHIND), entries=0), ask], cookie_valid=1, drop_checksum=1, syn=1, cookie_sent=1)
    near = {4: "192.0.2.2", 6: "2001:db8:1::2"}[family]
    g = syn(family, src=near)
    known = family == 6  # the same 64 bits
    yield vector("cookie-neighbour" + v, "IPv4 sources are known one by one, IPv6 by 64 bits", "auth-cookie",
                 [client(proof, back=reset, entries=1),
                  client(g, on=g) if known else client(g, back=answer(g, cookie(g, index(family), 8), 8, SERVICE["window"]))],
                 cookie_valid=1, white_added=1, white_reset=1, syn=1, **({"forward_white": 1} if known else {"cookie_sent": 1}))


def connection(family, shift, server_shift):
    """The steps that set a connection up, and its two numbers."""
    f = syn(family, shift)
    y = cookie(f, index(family), ref.WSCALE_NONE if shift is None else shift)
    ack = follow(f, ack=y + 1 & M32, window=501)
    mss = ref.MSS_TABLE[family][index(family)]
    opened = own(ack, seq=f["seq"], ack=0, flags=SYN)
    opened["options"] = [p.mss(mss)] + ([NOP, p.wscale(shift)] if shift is not None else [])
    z = 0x89abcdef
    reply = turned(f, seq=z, ack=f["seq"] + 1 & M32, flags=SYN | ACK, window=64000, eth_src=SERVER_MAC, ident=7,
                   options=[p.mss(1400)] + ([NOP, p.wscale(server_shift)] if server_shift is not None else []))
    scaled = shift is not None
    window = 501
    if scaled and server_shift is None:
        window = min(501 << shift, 65535)
    done = turned(reply, seq=f["seq"] + 1 & M32, ack=z + 1 & M32, flags=ACK, window=window)
    update = own(reply, seq=y + 1 & M32, flags=ACK, window=64000 >> (SERVICE["wscale"] if scaled else 0))
    update["ack"] = f["seq"] + 1 & M32
    return f, ack, y, z, opened, reply, done, update


def exchange(family, shift, server_shift, f, y, z):
    """Data both ways, as steps."""
    up = shift if shift is not None and server_shift is None else 0
    down = (server_shift or 0) - (SERVICE["wscale"] if shift is not None else 0)

    def moved(window, by):
        return min(window << by, 65535) if by >= 0 else window >> -by
    data = follow(f, ack=y + 1 & M32, flags=ACK | PSH, payload=b"GET / HTTP/1.0\r\n\r\n", window=600)
    back = turned(f, seq=z + 1 & M32, ack=f["seq"] + 19 & M32, flags=ACK | PSH, payload=b"HTTP/1.0 200 OK\r\n",
                  window=500, eth_src=SERVER_MAC, ident=8)
    return [client(data, on=dict(data, ack=z + 1 & M32, window=moved(600, up))),
            server(back, on=dict(back, seq=y + 1 & M32, window=moved(500, down if shift is not None else 0)))]


def translated(family):
    v = "-v%d" % family
    for shift, server_shift in ((8, 7), (8, 10), (0, 3), (14, None), (None, None), (None, 5)):
        f, ack, y, z, opened, reply, done, update = connection(family, shift, server_shift)
        given = None if shift is None else server_shift
        steps = [client(f, back=answer(f, y, shift, 0)), client(ack, on=opened),
                 server(reply, on=update, back=done, entries=1)]
        yield vector("translate-%s-%s%s" % (shift, server_shift, v), "window scale of client and server, or none",
                     "cookie", steps + exchange(family, shift, given, f, y, z),
                     syn=1, cookie_sent=1, cookie_valid=1, flow_opened=1, flow_ready=1)
    f, ack, y, z, opened, reply, done, update = connection(family, 8, 7)
    opens = dict(cookie_valid=1, flow_opened=1)
    yield vector("setup-again" + v, "a client that asks again has the server asked again", "cookie",
                 [client(ack, on=opened), client(ack, on=opened)], flow_retransmit=1, **opens)
    full = dict(ack, payload=b"first data", flags=ACK | PSH)
    yield vector("setup-data" + v, "data of a client that does not mind the window are dropped", "cookie",
                 [client(full, on=opened)], **opens)
    probe = dict(ack, seq=f["seq"])
    yield vector("setup-probe" + v, "a probe of the closed window opens, too: its number is one less", "cookie",
                 [client(probe, on=opened)], **opens)
    if family == 6:
        yield vector("setup-no-length-trailer" + v, "what stands behind it is part of it, and the sum is wrong: opens nothing", "cookie",
                     [client(dict(ack, **BEHIND), entries=0)], drop_checksum=1)
    filled = dict(probe, payload=b"x")
    yield vector("setup-no-probe" + v, "but not with data", "cookie", [client(filled, on=filled)], cookie_invalid=1)
    refusal = turned(f, seq=0, ack=f["seq"] + 1 & M32, flags=RST | ACK, eth_src=SERVER_MAC)
    yield vector("setup-refused" + v, "the client must see a RST that it believes", "cookie",
                 [client(ack, on=opened), server(refusal, on=own(refusal, seq=y + 1 & M32))], flow_refused=1, **opens)
    forged = dict(refusal, ack=refusal["ack"] + 1 & M32)
    yield vector("setup-other-rst" + v, "a RST of something else", "cookie",
                 [client(ack, on=opened), server(forged), server(reply, on=update, back=done)], flow_ready=1, **opens)
    older = turned(f, seq=5, ack=12345, flags=ACK, window=9, eth_src=SERVER_MAC)
    yield vector("setup-older" + v, "a server that thinks of an older connection is reset, and asked again when the "
                 "client asks", "cookie",
                 [client(ack, on=opened), server(older, back=turned(older, seq=12345, ack=0, flags=RST)), client(ack, on=opened),
                  server(reply, on=update, back=done)], flow_older=1, flow_retransmit=1, flow_ready=1, **opens)
    steps = [client(ack, on=opened), server(reply, on=update, back=done, entries=1)]
    yield vector("ready-reack" + v, "a SYN-ACK that comes again gets its ACK again", "cookie",
                 steps + [server(reply, on=update, back=done)], flow_ready=1, flow_reack=1, **opens)
    other = dict(f, seq=99)
    yield vector("ready-syn" + v, "a SYN on a live connection is left to the server (RFC 5961)", "cookie",
                 steps + [client(other, on=other)], flow_ready=1, syn=1, pass_existing=1, **opens)
    fin = dict(ack, flags=ACK | FIN)
    rst = follow(f, flags=RST, ack=0)
    yield vector("ready-ends" + v, "FIN and RST are translated like anything", "cookie",
                 steps + [client(fin, on=dict(fin, ack=z + 1 & M32)), client(rst, on=rst)], flow_ready=1, **opens)
    for name, g in (("ack", dict(ack, ack=1)), ("rst", dict(ack, flags=RST)), ("fin", dict(ack, flags=FIN))):
        yield vector("unknown-%s%s" % (name, v), "of a connection that is older than the proxy", "cookie",
                     [client(g, on=g)], **({"cookie_invalid": 1} if name == "ack" else {}))
    yield vector("unknown-server" + v, "likewise", "cookie", [server(reply, on=reply)])


EDGE, TAG_LEN, MTU = 7, 20, 1500  # docs/split-protocol.md


def key(label, epoch):
    return ref.chacha20_block(SECRET, 0, label + struct.pack("<Q", epoch))[:16]


def tagged(f, what):
    """The segment with a tag, first of its options. No timestamps are ever agreed on here."""
    words = struct.pack(">BBHI", 1 << 4 | what, SERVICE["wscale"] << 4, EDGE, EPOCH & M32)
    message = (p.address(f["src"]) + p.address(f["dst"]) + struct.pack(">HH", f["sport"], f["dport"])
               + struct.pack("<III", f["seq"], f["ack"], 0) + words)
    mac = struct.pack("<Q", ref.siphash24(key(b"TGT1", EPOCH), message))
    tag = b"\xfe\x14TG" + words + mac
    return dict(f, options=[(tag, "tag, " + {1: "SET-UP", 2: "PROBE"}[what])] + list(f["options"]))


def confirmation(f, epoch=EPOCH, edge=EDGE, spoil=0, label=b"TGC1", version=2):
    """The server's datagram about the client's flow f, as a frame's parts."""
    family = f["family"]
    src, dst = p.address(f["src"]), p.address(f["dst"])
    head = struct.pack(">HBBHH", 0x5447, version << 4 | 3, family, edge, 0)
    rest = (struct.pack(">IHH", epoch & M32, f["sport"], f["dport"]) + src + bytes(16 - len(src))
            + dst + bytes(16 - len(dst)))
    mac = ref.siphash24(key(label, epoch), head + rest) ^ spoil
    body = head + b"\x5c\x5c\0\0" + rest + struct.pack("<Q", mac)
    udp = struct.pack(">HHHH", 21575, 21575, 8 + len(body), 0) + body
    gate = p.address({4: "198.51.100.1", 6: "2001:db8:2::1"}[family])
    if family == 4:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + dst + gate
        ip = ip[:10] + struct.pack(">H", ref.checksum(ip)) + ip[12:]
    else:
        ip = struct.pack(">IHBB", 6 << 28, len(udp), 17, 64) + dst + gate
    return [(p.GATE_MAC + SERVER_MAC + (b"\x08\x00" if family == 4 else b"\x86\xdd"), "Ethernet"),
            (ip, "IP of a datagram to the edge"), (udp, "UDP, confirmation")]


def said(parts, on=None):
    """A step: a datagram from the server's side."""
    out = {"from": "server", "in": parts}
    if on is not None:
        out["on"] = on
    return out


def edge_tagged(family):
    v = "-v%d" % family
    f = syn(family)
    isn = cookie(f, index(family), 8)
    ack = follow(f, ack=isn + 1 & M32)
    data = dict(ack, payload=b"GET / HTTP/1.0\r\n\r\n", flags=ACK | PSH)
    more = dict(data, seq=data["seq"] + 18)
    ask = client(f, back=answer(f, isn, 8, SERVICE["window"]))
    setup = client(ack, on=tagged(ack, 1))
    yield vector("tagged-setup" + v, "a verified ACK is tagged; so is what follows, until the server confirms", "tagged",
                 [ask, setup, client(data, on=tagged(data, 1)), client(more, on=tagged(more, 2)),
                  said(confirmation(f)), client(more, on=more), client(ack, on=ack)],
                 syn=1, cookie_sent=1, cookie_valid=2, tag_setup=2, tag_probe=1, edge_unknown=1, confirm_taken=1, edge_known=2)
    opts = dict(ack, options=[p.raw("01010101", "NOPs")], payload=b"odd")
    yield vector("tagged-options" + v, "the tag is the first of the options", "tagged", [client(opts, on=tagged(opts, 1))],
                 cookie_valid=1, tag_setup=1)
    full = dict(ack, options=[p.raw("01" * 24, "24 NOPs")])
    yield vector("tagged-no-options" + v, "no room among the options: dropped", "tagged", [client(full)],
                 cookie_valid=1, tag_no_room=1)
    room = MTU - TAG_LEN - (40 if family == 4 else 60)
    fits, large = dict(ack, payload=bytes(room)), dict(ack, payload=bytes(room + 1))
    yield vector("tagged-mtu" + v, "no room in the MTU: dropped", "tagged", [client(large), client(fits, on=tagged(fits, 1))],
                 cookie_valid=2, tag_setup=1, tag_no_room=1)
    for epoch, good in ((EPOCH - 1, True), (EPOCH + 1, True), (EPOCH - 2, False), (EPOCH + 2, False)):
        steps = [said(confirmation(f, epoch))]
        steps.append(client(more, on=more) if good else client(more))
        yield vector("tagged-confirm-%+d%s" % (epoch - EPOCH, v), "neighbouring epochs count", "tagged", steps,
                     **({"confirm_taken": 1, "edge_known": 1} if good else {"confirm_forged": 1, "drop_ack": 1}))
    yield vector("tagged-forged" + v, "each byte of the MAC", "tagged",
                 [said(confirmation(f, spoil=1 << bit)) for bit in range(0, 64, 8)] + [client(more)],
                 confirm_forged=8, drop_ack=1)
    yield vector("tagged-wrong-key" + v, "a confirmation under the key of tags, or of cookies", "tagged",
                 [said(confirmation(f, label=b"TGT1")), said(confirmation(f, label=b"TGK1")), client(more)],
                 confirm_forged=2, drop_ack=1)
    older = confirmation(f, version=1, label=b"TGT1")
    yield vector("tagged-older" + v, "a confirmation of the version before is any datagram", "tagged",
                 [said(older, on=older), client(more)], drop_ack=1)
    other = confirmation(f, edge=EDGE + 1)
    yield vector("tagged-other-edge" + v, "for another edge: forwarded, and means nothing here", "tagged",
                 [said(other, on=other), client(more)], drop_ack=1)
    outside = confirmation(f)
    yield vector("tagged-outside" + v, "a confirmation from outside means nothing", "tagged",
                 [{"from": "client", "in": outside, "on": outside}, client(more)], drop_ack=1)
    back = turned(f, seq=9, ack=10, flags=ACK, eth_src=SERVER_MAC, window=5)
    yield vector("tagged-from-inside" + v, "what the server sends confirms, too", "tagged",
                 [server(back, on=back), client(more, on=more)], edge_refreshed=1, edge_known=1)
    for name, flags, counter in (("ack", ACK, "drop_ack"), ("rst", RST, "drop_rst"), ("fin", FIN, "drop_fin"),
                                 ("syn-ack", SYN | ACK, "drop_synack")):
        yield vector("tagged-flood-%s%s" % (name, v), "of no flow that is known", "tagged",
                     [client(dict(ack, flags=flags, ack=5))], **{counter: 1})


def write(folder, head, write_bytes, inline, scalar):
    everything = []
    for family in (4, 6):
        everything += list(auth_full(family)) + list(auth_cookie(family)) + list(translated(family)) + list(edge_tagged(family))
    out = ["format: 1", "about: " + scalar("A proxy that is a switch, step by step; see vectors/theme_switch.py"),
           'secret: "%s"' % SECRET.hex(), "epoch: %d" % EPOCH, "salt: %d" % SALT,
           "service: " + inline(SERVICE), "vectors:"]
    names = set()
    for v in everything:
        assert v["name"] not in names, v["name"]
        names.add(v["name"])
        out += ["  - name: " + v["name"], "    why: " + scalar(v["why"]), "    strategy: " + v["strategy"], "    steps:"]
        for s in v["steps"]:
            out.append("      - from: " + s["from"])
            for part in ("in", "on", "back"):
                if part in s:
                    write_bytes(out, part, s[part], "        ")
            if "entries" in s:
                out.append("        entries: %d" % s["entries"])
        out.append("    counters: " + inline(v["counters"]))
    (folder / "switch.yaml").write_text(head + "\n".join(out) + "\n")
