#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes records.json: signed records and what must become of each.

    testdata/generate.py           writes it beside itself
    testdata/generate.py DIR       writes it to DIR, to compare

A second implementation of docs/bindings.md: CBOR from RFC 8949 in the few lines
below, COSE's Sig_structure from RFC 9052, Ed25519 from OpenSSL 3 (libcrypto, by
ctypes). Must never: read or run the Go code whose answers it gives.
"""
import ctypes
import ctypes.util
import hashlib
import json
import pathlib
import struct
import sys

_crypto = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
for _name, _result, _arguments in (
    ("EVP_PKEY_new_raw_private_key", ctypes.c_void_p,
     [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
    ("EVP_PKEY_get_raw_public_key", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]),
    ("EVP_MD_CTX_new", ctypes.c_void_p, []),
    ("EVP_DigestSignInit", ctypes.c_int,
     [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    ("EVP_DigestSign", ctypes.c_int,
     [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
):
    _function = getattr(_crypto, _name)
    _function.restype, _function.argtypes = _result, _arguments

ED25519 = 1087  # EVP_PKEY_ED25519
AAD = b"tidegate binding 1"
DAY = 86400
NOW = 1800000000


class Key:
    def __init__(self, name):
        seed = hashlib.sha256(("tidegate golden " + name).encode()).digest()
        self.handle = _crypto.EVP_PKEY_new_raw_private_key(ED25519, None, seed, 32)
        out, size = ctypes.create_string_buffer(32), ctypes.c_size_t(32)
        assert _crypto.EVP_PKEY_get_raw_public_key(self.handle, out, ctypes.byref(size)) == 1
        self.public = out.raw

    def sign(self, data):
        context = _crypto.EVP_MD_CTX_new()
        assert _crypto.EVP_DigestSignInit(context, None, None, None, self.handle) == 1
        out, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        assert _crypto.EVP_DigestSign(context, out, ctypes.byref(size), data, len(data)) == 1
        return out.raw


def head(major, value, force=0):
    """The initial bytes of an item; force widens the argument beyond need."""
    for code, fmt, limit in ((24, ">B", 1 << 8), (25, ">H", 1 << 16), (26, ">I", 1 << 32), (27, ">Q", 1 << 64)):
        if value < 24 and not force:
            return bytes([major << 5 | value])
        if value < limit and force <= code:
            return bytes([major << 5 | code]) + struct.pack(fmt, value)
    raise ValueError(value)


def uint(value, force=0):
    return head(0, value, force)


def bstr(data):
    return head(2, len(data)) + data


def array(*items):
    return head(4, len(items)) + b"".join(items)


def mapping(*pairs):
    return head(5, len(pairs)) + b"".join(k + v for k, v in pairs)


def tag(number, item):
    return head(6, number) + item


def boolean(value):
    return b"\xf5" if value else b"\xf4"


def address(text):
    """(tag, bytes) of an IPv4 or IPv6 address."""
    import ipaddress
    a = ipaddress.ip_address(text)
    return (52 if a.version == 4 else 54), a.packed


def prefix(text):
    number, packed = address(text.split("/")[0])
    return tag(number, array(uint(int(text.split("/")[1])), bstr(packed.rstrip(b"\0"))))


def endpoint(text):
    service, rest = text.split("=")
    host, port = rest.rsplit(":", 1)
    number, packed = address(host.strip("[]"))
    return array(uint({"ifp": 1, "flood": 2}.get(service) or int(service)), tag(number, bstr(packed)), uint(int(port)))


ROLES = {"border-manager": 1, "filter-manager": 2, "authority": 3, "key": 4}
ANCHOR, ISP, BM, FM = Key("anchor"), Key("isp"), Key("bm"), Key("fm")


def fields(**change):
    f = dict(version=1, role="border-manager", prefixes=["192.0.2.0/24", "2001:db8::/32"], endpoints=["ifp=192.0.2.1:4141"],
             key=BM.public, serial=7, not_before=NOW - DAY, not_after=NOW + 89 * DAY, issuer=ISP.public, revoked=False)
    f.update(change)
    return f


def pairs(f):
    role = ROLES.get(f["role"], f["role"])
    return [(uint(1), uint(f["version"])), (uint(2), uint(role)), (uint(3), array(*map(prefix, f["prefixes"]))),
            (uint(4), array(*map(endpoint, f["endpoints"]))), (uint(5), bstr(f["key"])), (uint(6), uint(f["serial"])),
            (uint(7), uint(f["not_before"])), (uint(8), uint(f["not_after"])), (uint(9), bstr(f["issuer"])),
            (uint(10), boolean(f["revoked"]))]


PROTECTED = mapping((uint(1), head(1, 7)))  # alg: EdDSA (-8)


def cose(payload, key=ISP, protected=PROTECTED, unprotected=mapping(), aad=AAD, outer=18, signature=None):
    tbs = array(head(3, 10) + b"Signature1", bstr(protected), bstr(aad), bstr(payload))
    signature = key.sign(tbs) if signature is None else signature
    body = array(bstr(protected), unprotected, bstr(payload), bstr(signature))
    return body if outer is None else tag(outer, body)


def record(by=ISP, **change):
    return cose(mapping(*pairs(fields(**change))), by)


def slot(f):
    data = b"tidegate slot 1" + f["issuer"] + f["key"] + bytes([ROLES[f["role"]]])
    return hashlib.sha256(data).digest()[:16]


def good():
    year = dict(not_before=NOW - DAY, not_after=NOW + 404 * DAY)
    for name, key, change in (
        ("border-manager", ISP, {}),
        ("filter-manager", ISP, dict(role="filter-manager", key=FM.public, endpoints=["ifp=[2001:db8::2]:4141", "flood=198.51.100.9:4142"])),
        ("authority", ANCHOR, dict(role="authority", key=ISP.public, issuer=ANCHOR.public, endpoints=[], prefixes=["192.0.2.0/24", "2001:db8::/32"])),
        ("whole-families", ANCHOR, dict(role="authority", key=ISP.public, issuer=ANCHOR.public, endpoints=[], prefixes=["0.0.0.0/0", "::/0"])),
        ("hosts", ISP, dict(prefixes=["192.0.2.255/32", "2001:db8::1/128"])),
        ("serial-of-one-byte", ISP, dict(serial=24)),
        ("serial-largest", ISP, dict(serial=(1 << 63) - 1)),
        ("prefixes-most", ISP, dict(prefixes=["10.0.%d.0/24" % i for i in range(256)])),
        ("endpoints-most", ISP, dict(endpoints=["ifp=192.0.2.%d:65535" % i for i in range(1, 9)])),
        ("validity-longest", ISP, dict(not_after=NOW + 397 * DAY)),
        ("revocation", ISP, dict(serial=8, revoked=True, prefixes=[], endpoints=[], **year)),
        ("key-revocation", ISP, dict(role="key", serial=8, revoked=True, prefixes=[], endpoints=[], **year)),
    ):
        f, raw = fields(**change), record(key, **change)
        yield dict(name=name, code="ok", raw=raw.hex(), slot=slot(f).hex(), digest=hashlib.sha256(raw).hexdigest()[:32],
                   fields=dict(f, key=f["key"].hex(), issuer=f["issuer"].hex()))


def bad():
    p = pairs(fields())
    plain = mapping(*p)
    yield "empty", "malformed", b""
    yield "not-cbor", "malformed", b"\xff\xff"
    yield "untagged", "malformed", cose(plain, outer=None)
    yield "other-tag", "malformed", cose(plain, outer=98)
    yield "trailing-byte", "malformed", cose(plain) + b"\0"
    yield "cut", "malformed", cose(plain)[:-1]
    yield "header-extra", "malformed", cose(plain, protected=mapping((uint(1), head(1, 7)), (uint(4), bstr(b"k"))))
    yield "header-es256", "malformed", cose(plain, protected=mapping((uint(1), head(1, 6))))
    yield "header-none", "malformed", cose(plain, protected=b"")
    yield "unprotected-kid", "malformed", cose(plain, unprotected=mapping((uint(4), bstr(b"k"))))
    yield "signature-short", "malformed", cose(plain, signature=b"\0" * 63)
    yield "signature-zero", "bad-signature", cose(plain, signature=b"\0" * 64)
    yield "signature-of-other-key", "bad-signature", cose(plain, BM)
    yield "signature-without-context", "bad-signature", cose(plain, aad=b"")
    right = cose(plain)
    yield "signature-bit", "bad-signature", right[:-1] + bytes([right[-1] ^ 1])
    order = (1 << 252) + 27742317777372353535851937790883648493
    s = int.from_bytes(right[-32:], "little") + order
    yield "signature-s-plus-order", "bad-signature", right[:-32] + s.to_bytes(32, "little")
    # Not the one encoding.
    yield "keys-out-of-order", "malformed", cose(mapping(p[1], p[0], *p[2:]))
    yield "key-twice", "malformed", cose(mapping(*p[:6], p[5], *p[6:]))
    yield "key-unknown", "malformed", cose(mapping(*p, (uint(11), uint(0))))
    yield "key-missing", "malformed", cose(mapping(*p[:9]))
    yield "key-text", "malformed", cose(mapping(*p[:9], (head(3, 1) + b"x", boolean(False))))
    yield "integer-long", "malformed", cose(mapping(*p[:5], (uint(6), uint(7, 24)), *p[6:]))
    yield "map-indefinite", "malformed", cose(b"\xbf" + b"".join(k + v for k, v in p) + b"\xff")
    yield "array-indefinite", "malformed", cose(mapping(*p[:3], (uint(4), b"\x9f" + endpoint("ifp=192.0.2.1:4141") + b"\xff"), *p[4:]))
    yield "string-indefinite", "malformed", cose(mapping(*p[:4], (uint(5), b"\x5f" + bstr(BM.public) + b"\xff"), *p[5:]))
    yield "serial-float", "malformed", cose(mapping(*p[:5], (uint(6), b"\xf9\x47\x00"), *p[6:]))
    yield "serial-negative", "malformed", cose(mapping(*p[:5], (uint(6), head(1, 6)), *p[6:]))
    yield "prefixes-null", "malformed", cose(mapping(*p[:2], (uint(3), b"\xf6"), *p[3:]))
    yield "payload-trailing", "malformed", cose(plain + b"\0")
    yield "payload-array", "malformed", cose(array(*[v for _, v in p]))
    yield "prefix-trailing-zero", "malformed", cose(mapping(*p[:2], (uint(3), array(tag(52, array(uint(24), bstr(b"\xc0\0\2\0"))))), *p[3:]))
    yield "prefix-wrong-tag", "malformed", cose(mapping(*p[:2], (uint(3), array(tag(53, array(uint(24), bstr(b"\xc0\0\2"))))), *p[3:]))
    yield "prefix-too-long", "malformed", cose(mapping(*p[:2], (uint(3), array(tag(52, array(uint(33), bstr(b"\xc0\0\2"))))), *p[3:]))
    yield "address-short", "malformed", cose(mapping(*p[:3], (uint(4), array(array(uint(1), tag(52, bstr(b"\xc0\0\2")), uint(1)))), *p[4:]))
    yield "record-too-long", "malformed", record(prefixes=["10.0.%d.0/24" % i for i in range(256)]) + b"\0" * 8192
    # Fields outside their limits.
    yield "version-2", "bad-version", record(version=2)
    yield "role-0", "bad-field", record(role=0)
    yield "role-5", "bad-field", record(role=5)
    yield "prefixes-none", "bad-field", record(prefixes=[])
    yield "prefixes-unsorted", "bad-field", record(prefixes=["198.51.100.0/24", "192.0.2.0/24"])
    yield "prefixes-twice", "bad-field", record(prefixes=["192.0.2.0/24", "192.0.2.0/24"])
    yield "prefixes-nested", "bad-field", record(prefixes=["192.0.2.0/24", "192.0.2.128/25"])
    yield "prefix-host-bits", "bad-field", record(prefixes=["192.0.2.1/24"])
    yield "prefix-v4-in-v6", "bad-field", record(prefixes=["::ffff:192.0.2.0/120"])
    yield "prefixes-257", "malformed", record(prefixes=["10.%d.%d.0/24" % (i >> 8, i & 255) for i in range(257)])
    yield "endpoints-none", "bad-field", record(endpoints=[])
    yield "endpoints-nine", "bad-field", record(endpoints=["ifp=192.0.2.1:%d" % i for i in range(1, 10)])
    yield "endpoint-service-3", "bad-field", record(endpoints=["3=192.0.2.1:1"])
    yield "endpoint-port-0", "bad-field", record(endpoints=["ifp=192.0.2.1:0"])
    yield "endpoint-multicast", "bad-field", record(endpoints=["ifp=224.0.0.1:1"])
    yield "endpoint-unspecified", "bad-field", record(endpoints=["ifp=[::]:1"])
    yield "key-short", "bad-field", cose(mapping(*pairs(fields(key=BM.public[:31]))))
    yield "key-is-issuer", "bad-field", cose(mapping(*pairs(fields(key=ISP.public))))
    yield "serial-0", "bad-field", record(serial=0)
    yield "serial-2-63", "bad-field", record(serial=1 << 63)
    yield "ends-before-it-begins", "bad-field", record(not_after=NOW - 2 * DAY)
    yield "ends-when-it-begins", "bad-field", record(not_after=NOW - DAY)
    yield "validity-too-long", "bad-field", record(not_after=NOW + 397 * DAY + 1)
    yield "time-too-late", "bad-field", record(not_after=1 << 41)
    yield "revocation-short", "bad-field", record(revoked=True, prefixes=[], endpoints=[])
    yield "revocation-with-prefix", "bad-field", record(revoked=True, endpoints=[], not_after=NOW + 404 * DAY)
    yield "key-not-revoked", "bad-field", record(role="key")


def main():
    cases = list(good())
    for name, code, raw in bad():
        cases.append(dict(name=name, code=code, raw=raw.hex()))
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent
    text = json.dumps(dict(now=NOW, records=cases), indent=1, sort_keys=True) + "\n"
    (folder / "records.json").write_text(text)


main()
