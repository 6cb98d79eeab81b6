# SPDX-License-Identifier: Apache-2.0
"""Builds frames for the golden vectors, each as a list of (bytes, comment) parts,
and the answers that the gate owes to SYNs. Written from the RFCs and
docs/cookie-format.md; must never read anything under core/ or bpf/.
"""
import ipaddress
import struct

import reference as ref

SECRET = bytes(range(32))
EPOCH = 218750000  # 1.75e9 s after 1970, in epochs of 8 s; even
CLIENT_MAC, GATE_MAC = bytes.fromhex("02000000000a"), bytes.fromhex("020000000001")
CLIENT = {4: "192.0.2.1", 6: "2001:db8:1::1"}
SERVER = {4: "198.51.100.7", 6: "2001:db8:2::7"}
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = 1, 2, 4, 8, 16, 32, 64, 128
FLAG_NAMES = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (PSH, "PSH"), (ACK, "ACK"), (URG, "URG"),
              (ECE, "ECE"), (CWR, "CWR"))

# The service of most vectors, as the gate is told it.
SERVICE = {"id": 1, "port": 80, "prefixes": [], "mode": "always", "listener": "ok",
           "mss_v4": 1460, "mss_v6": 1440, "window": 65535, "wscale": 7, "sack": True,
           "timestamps": True, "ecn": True}


# TCP options, as (bytes, name).
def mss(n): return struct.pack(">BBH", 2, 4, n), "MSS %d" % n
def wscale(n): return bytes([3, 3, n]), "WS %d" % n
def timestamps(val, ecr=0): return struct.pack(">BBII", 8, 10, val, ecr), "TS %d/%d" % (val, ecr)
def raw(text, name): return bytes.fromhex(text), name


SACK, NOP, EOL = (b"\4\2", "SACK"), (b"\1", "NOP"), (b"\0", "EOL")


# The layout of all cookies that are made: tidegate, or smartcookie, which keeps
# neither SACK nor timestamps nor ECN, so that nothing of these is ever agreed.
LAYOUT = "tidegate"


def address(text):
    return ipaddress.ip_address(text).packed


def family_of(fields):
    return ipaddress.ip_address(fields["dst"]).version


def defaults(family, **fields):
    """Every field of a segment; what is not given is an ordinary client's."""
    f = dict(family=family, src=CLIENT[family], dst=SERVER[family], sport=40000, dport=80,
             seq=0x01020304, ack=0, flags=SYN, window=64240, urgent=0, options=(), payload=b"",
             doff=None, reserved=0, tcp_sum=None,
             tags=(), eth_src=CLIENT_MAC, eth_dst=GATE_MAC, ethertype=None, trailer=b"",
             tos=0, ident=0x1234, frag=0x4000, ttl=64, ip_options=b"", total=None, ihl=None,
             version=None, ip_sum=None, ext=(), flow=0, l4=None)
    unknown = set(fields) - set(f)
    assert not unknown, unknown
    f.update(fields)
    return f


def tcp_bytes(f):
    options = b"".join(o for o, _ in f["options"])
    assert len(options) % 4 == 0 or f["doff"] is not None, "options not padded: %r" % (f["options"],)
    doff = f["doff"] if f["doff"] is not None else 5 + len(options) // 4
    head = struct.pack(">HHIIBBHHH", f["sport"], f["dport"], f["seq"], f["ack"],
                       doff << 4 | f["reserved"], f["flags"], f["window"], 0, f["urgent"])
    segment = head + options + f["payload"]
    src, dst = address(f["src"]), address(f["dst"])
    pseudo = src + dst + (struct.pack(">BBH", 0, 6, len(segment)) if f["family"] == 4
                          else struct.pack(">IHBB", len(segment), 0, 0, 6))
    total = ref.checksum(pseudo + segment)
    if callable(f["tcp_sum"]):
        total = f["tcp_sum"](total, 0xffff ^ ref.checksum(pseudo))
    elif f["tcp_sum"] is not None:
        total = f["tcp_sum"]
    return segment[:16] + struct.pack(">H", total) + segment[18:], len(options)


def flag_text(flags):
    return "+".join(name for bit, name in FLAG_NAMES if flags & bit) or "no flags"


def tcp_parts(f):
    if f["l4"] is not None:
        return [(f["l4"], "what follows")] if f["l4"] else []
    segment, option_len = tcp_bytes(f)
    parts = [(segment[:20], "TCP %d > %d %s seq %08x ack %08x win %d"
              % (f["sport"], f["dport"], flag_text(f["flags"]), f["seq"], f["ack"], f["window"]))]
    if option_len:
        parts.append((segment[20:20 + option_len], "options: "
                      + ", ".join(name for _, name in f["options"])))
    if f["payload"]:
        parts.append((f["payload"], "data, %d bytes" % len(f["payload"])))
    return parts


def ip_parts(f, inner_len):
    """The IP header and its options or extension headers."""
    src, dst = address(f["src"]), address(f["dst"])
    where = "%s > %s" % (f["src"], f["dst"])
    if f["family"] == 4:
        head_len = 20 + len(f["ip_options"])
        ihl = head_len // 4 if f["ihl"] is None else f["ihl"]
        total = head_len + inner_len if f["total"] is None else f["total"]
        head = struct.pack(">BBHHHBBH", (f["version"] or 4) << 4 | ihl, f["tos"], total, f["ident"],
                           f["frag"], f["ttl"], 6, 0) + src + dst + f["ip_options"]
        total = ref.checksum(head) if f["ip_sum"] is None else f["ip_sum"]
        head = head[:10] + struct.pack(">H", total) + head[12:]
        parts = [(head[:20], "IPv4 " + where)]
        if f["ip_options"]:
            parts.append((head[20:], "IPv4 options"))
        return parts
    chain, kinds = b"", [kind for kind, _, _ in f["ext"]] + [6]
    parts = []
    for (_, body, name), following in zip(f["ext"], kinds[1:]):
        header = bytes([following]) + body
        chain += header
        parts.append((header, name))
    total = len(chain) + inner_len if f["total"] is None else f["total"]
    head = struct.pack(">IHBB", (f["version"] or 6) << 28 | f["tos"] << 20 | f["flow"], total,
                       kinds[0], f["ttl"]) + src + dst
    return [(head, "IPv6 " + where)] + parts


def frame(f):
    """The whole frame as a list of (bytes, comment)."""
    ethertype = f["ethertype"] or (0x0800 if f["family"] == 4 else 0x86dd)
    parts = [(f["eth_dst"] + f["eth_src"], "Ethernet")]
    for tag_type, tag in f["tags"]:
        parts.append((struct.pack(">HH", tag_type, tag), "tag %04x, VLAN %d" % (tag_type, tag & 4095)))
    parts.append((struct.pack(">H", ethertype), "ethertype"))
    inner = tcp_parts(f)
    parts += ip_parts(f, sum(len(b) for b, _ in inner)) + inner
    if f["trailer"]:
        parts.append((f["trailer"], "bytes after the packet"))
    return parts


def flat(parts):
    return b"".join(b for b, _ in parts)


def cut(parts, length):
    """The first `length` bytes of a frame."""
    out = []
    for data, comment in parts:
        if length <= 0:
            break
        out.append((data[:length], comment if len(data) <= length else comment + " (cut)"))
        length -= len(data)
    return out


def agreed_options(f, service, offer):
    """(MSS as the cookie says it, wscale, sack, ecn, ts) of the cookie. `offer` is what a reader of the
    SYN's options must find: mss, wscale (None: absent), sack, ts (None, or the TSval)."""
    both_scale = offer["wscale"] is not None and service["wscale"] != ref.WSCALE_NONE
    if LAYOUT == "smartcookie":
        return (ref.mss_index(f["family"], offer["mss"]),
                min(offer["wscale"], 14) if both_scale else ref.WSCALE_NONE, False, False, False)
    ecn = service["ecn"] and f["flags"] & (ECE | CWR) == ECE | CWR and f["tos"] & 3 == 0
    ts = offer["ts"] is not None and service["timestamps"]
    return (ref.said_mss(f["family"], offer["mss"], ts),
            min(offer["wscale"], 14) if both_scale else ref.WSCALE_NONE,
            bool(offer["sack"] and service["sack"]), bool(ecn), ts)


def offer(mss=0, wscale=None, sack=False, ts=None):
    return dict(mss=mss, wscale=wscale, sack=sack, ts=ts)


def cookie_for(f, choice, epoch):
    """(isn, tsval) for the SYN f; `choice` from agreed_options."""
    index, shift, sack, ecn, ts = choice
    if LAYOUT == "smartcookie":
        return ref.smartcookie(SECRET, epoch, address(f["src"]), address(f["dst"]), f["sport"],
                               f["dport"], f["seq"], index, shift), None
    return ref.cookie(SECRET, epoch, address(f["src"]), address(f["dst"]), f["sport"], f["dport"],
                      f["seq"], index, shift, sack, ecn, ts)


def answer(f, service, found, epoch):
    """The SYN-ACK that the gate owes to the SYN f."""
    choice = agreed_options(f, service, found)
    isn, tsval = cookie_for(f, choice, epoch)
    _, _, sack, ecn, ts = choice
    options = [mss(service["mss_v%d" % f["family"]])]
    if ts:
        options += ([SACK] if sack else [NOP, NOP]) + [timestamps(tsval, found["ts"])]
    elif sack:
        options += [NOP, NOP, SACK]
    if choice[1] != ref.WSCALE_NONE:
        options += [NOP, wscale(service["wscale"])]
    return frame(defaults(
        f["family"], src=f["dst"], dst=f["src"], sport=f["dport"], dport=f["sport"], seq=isn,
        ack=(f["seq"] + 1) & 0xffffffff, flags=SYN | ACK | (ECE if ecn else 0),
        window=service["window"], options=options, ident=0, tags=f["tags"],
        eth_src=f["eth_dst"], eth_dst=f["eth_src"]))


def ack_for(f, found, epoch, service=None, change=None, **fields):
    """(ACK fields, what the kernel must be told) of a client that answers the cookie
    which it got for the SYN f in `epoch`. `change(isn, tsval)` makes a forgery."""
    service = service or SERVICE
    choice = agreed_options(f, service, found)
    isn, tsval = cookie_for(f, choice, epoch)
    if change:
        isn, tsval = change(isn, tsval)
    said, shift, sack, ecn, ts = choice
    options = [NOP, NOP, timestamps((found["ts"] + 20) & 0xffffffff, tsval & 0xffffffff)] if ts else []
    tuple_fields = {k: f[k] for k in ("family", "src", "dst", "sport", "dport", "tags", "eth_src",
                                      "eth_dst")}
    base = dict(tuple_fields, seq=(f["seq"] + 1) & 0xffffffff, ack=(isn + 1) & 0xffffffff, flags=ACK,
                options=options, window=64240 >> (0 if shift == ref.WSCALE_NONE else shift))
    base.update(fields)
    agreed = {"mss": max(ref.agreed_mss(f["family"], said, ts), ref.MSS_TABLE[f["family"]][0]), "wscale": shift,
              "rcv_wscale": 0 if shift == ref.WSCALE_NONE else service["wscale"],
              "sack": sack, "timestamps": ts, "ecn": ecn}
    return defaults(base.pop("family"), **base), agreed
