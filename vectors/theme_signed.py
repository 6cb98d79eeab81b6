# SPDX-License-Identifier: Apache-2.0
"""SYNs with TCP-MD5 (kind 19) and TCP-AO (kind 29): which of them are signed, which only claim
to be something like it, and what each setting of a service makes of them.

What a kernel drops was tried with Linux 6.18 that has TCP-MD5 and no TCP-AO: it looks where 18
bytes of the list are left. test/host holds every form below to the kernel at hand.
"""
from packets import *  # noqa: F401,F403
import packets as p

NOTHING = offer()
h = bytes.fromhex
MD5 = h("1312") + b"\7" * 16
AO16 = h("1d10") + b"\7" * 14

# name, why, options
SIGNED = (
    ("md5", "as RFC 2385 has it", MD5 + h("0101")),
    ("md5-last", "behind padding", h("0101") + MD5),
    ("ao-16", "as most peers send it: a MAC of 12 bytes", AO16),
    ("ao-20", "a MAC of 16 bytes", h("1d14") + b"\7" * 18),
    ("ao-5", "the shortest: a MAC of one byte", h("1d05010107") + h("010101")),
    ("md5-between", "with other options that mean nothing here", h("fd04aabb") + MD5 + h("fd02")),
)
IGNORED = (
    ("md5-2", "no room for a digest; kernels do not look there", h("13020101")),
    ("ao-2", "no room for a MAC; kernels do not look there", h("1d020101")),
    ("ao-4", "key numbers and no MAC; kernels do not look there", h("1d040101")),
    ("ao-4-in-16", "the same in a longer list", h("1d040101") + b"\1" * 12),
    ("md5-2-at-17", "one byte less than what makes kernels look", h("010101" "1302") + b"\1" * 15),
    ("ao-twice-late", "the second where kernels do not look: neither counts", AO16 + AO16),
    ("md5-after-end", "behind the end of the list", h("0001") + MD5),
    ("md5-2-after-end", "nothing counts there", h("0001" "1302") + b"\1" * 16),
    ("lie-at-17", "a lying length where kernels do not look", h("010101" "fd30") + b"\1" * 15),
)
MALFORMED = (
    ("md5-2-in-20", "the kernel drops it", h("1302") + b"\1" * 18),
    ("md5-2-at-18", "as many bytes left as make kernels look", h("0101" "1302") + b"\1" * 16),
    ("md5-17", "one byte too short", h("1311") + b"\7" * 15 + h("010101")),
    ("md5-19", "one byte too long", h("1313") + b"\7" * 17 + h("01")),
    ("ao-2-in-20", "shorter than its fixed part", h("1d02") + b"\1" * 18),
    ("ao-3-in-20", "shorter than its fixed part", h("1d0301") + b"\1" * 17),
    ("ao-4-in-20", "a MAC of no byte", h("1d040101") + b"\1" * 16),
    ("md5-twice", "RFC 5925 2.2: one is all", MD5 + MD5 + h("01010101")),
    ("md5-ao", "both kinds", MD5 + AO16 + h("0101")),
    ("md5-ao-late", "both, the second where kernels do not look", MD5 + h("1d0501010701")),
    ("ao-md5", "both, the other way round", AO16 + MD5 + h("0101")),
    ("ao-twice", "two of the other kind", AO16 + AO16 + h("01010101")),
    ("lie-0", "a length of nothing", h("fd00") + b"\1" * 18),
    ("lie-1", "a length that does not hold itself", h("fd01") + b"\1" * 18),
    ("lie-beyond", "a length beyond the end", h("fd30") + b"\1" * 18),
    ("md5-lie", "signed, and then a lie where kernels still look", MD5 + h("fd30") + b"\1" * 18 + h("0101")),
)


def frame(family, data, n=0):
    return p.frame(fields(family, data, n))


def fields(family, data, n=0):
    return p.defaults(family, options=[(data, "as named")], sport=41000 + n)


def answered(family, data, service, n=0):
    f = fields(family, data, n)
    return {"verdict": "tx", "in": p.frame(f), "out": p.answer(f, service, NOTHING, p.EPOCH)}


def vectors():
    for setting in ("answer", "pass", "drop"):
        service = dict(p.SERVICE, signed=setting)
        more = {} if setting == "answer" else {"services": [service]}
        for family in (4, 6):
            def vector(name, why, packets, **counters):
                return dict(more, name="%s-%s-v%d" % (setting, name, family), why=why, packets=packets,
                            counters={1: dict(counters, syn=len(packets))})

            for name, why, data in SIGNED:
                if setting == "answer":
                    yield vector(name, why, [answered(family, data, service)], cookie_sent=1, signed_answered=1)
                elif setting == "drop":
                    yield vector(name, why, [{"verdict": "drop", "in": frame(family, data)}], drop_signed=1)
                else:
                    yield vector(name, why + "; the second is beyond the allowance",
                                 [{"verdict": "pass", "in": frame(family, data)}, answered(family, data, service, 1)],
                                 pass_signed=1, signed_excess=1, cookie_sent=1)
            for name, why, data in IGNORED:
                yield vector(name, why, [answered(family, data, service)], cookie_sent=1)
            for name, why, data in MALFORMED:
                yield vector(name, why, [{"verdict": "drop", "in": frame(family, data)}], drop_auth_option=1)


def themes():
    yield "signed", "SYNs with TCP-MD5 and TCP-AO, genuine in form or not", list(vectors())
