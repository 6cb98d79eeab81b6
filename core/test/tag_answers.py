#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes core/test/tag_answers.h: tags and confirmations made from
docs/split-protocol.md with OpenSSL's SipHash and ChaCha20; shares no code with core/.
With `sync`, what edges tell each other, which core/ does not know.

    core/test/tag_answers.py > core/test/tag_answers.h
    core/test/tag_answers.py sync > internal/role/edge/testdata/sync_answers.txt
"""
import pathlib
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "vectors"))
import reference as ref  # noqa: E402

SECRET = bytes(range(32))
ADDRESSES = {4: (bytes([192, 0, 2, 1]), bytes([198, 51, 100, 7])),
             6: (bytes.fromhex("20010db8000100000000000000000001"),
                 bytes.fromhex("20010db80002abcdef01234567890080"))}


def key(label, epoch):
    return ref.chacha20_block(SECRET, 0, label + struct.pack("<Q", epoch))[:16]


def tag(family, sport, dport, seq, ack, tsecr, what, wscale, edge, epoch):
    src, dst = ADDRESSES[family]
    head = struct.pack(">BBHI", 1 << 4 | what, wscale << 4, edge, epoch & 0xffffffff)
    message = src + dst + struct.pack(">HH", sport, dport) + struct.pack("<III", seq, ack, tsecr) + head
    mac = ref.siphash24(key(b"TGT1", epoch), message)
    return b"\xfe\x14TG" + head + struct.pack("<Q", mac)


def confirm(family, sport, dport, edge, epoch):
    client, server = (a.ljust(16, b"\0") for a in ADDRESSES[family])
    first = b"TG" + bytes([2 << 4 | 3, family]) + struct.pack(">HH", edge, 0)
    rest = struct.pack(">IHH", epoch & 0xffffffff, sport, dport) + client + server
    mac = ref.siphash24(key(b"TGC1", epoch), first + rest)
    return first + bytes(4) + rest + struct.pack("<Q", mac)


def sync(filter_bits, edge, epoch, positions):
    body = (b"TG" + bytes([3 << 4 | 4, filter_bits]) + struct.pack(">HHI", edge, len(positions), epoch & 0xffffffff)
            + struct.pack("<%dI" % len(positions), *positions))
    return body + struct.pack("<Q", ref.siphash24(key(b"TGS1", epoch), body))


def write_sync():
    print("# Made by core/test/tag_answers.py with OpenSSL; do not edit.\n"
          "# filter KEY; sync FILTER-BITS EDGE EPOCH POSITIONS MESSAGE\n"
          "filter", key(b"TGT1", 2**64 - 1).hex())
    for number, epoch in enumerate((0, 7, 218750001, 2**32 - 1, 2**32 + 5)):
        for count in (1, 5, 9, 11, 320):
            positions = [(k + 1) * 0x9e3779b1 * (number + 1) & 0xffffff for k in range(count)]
            edge = 1 + number * 60
            print("sync", 20 + number, edge, epoch, ",".join(map(str, positions)),
                  sync(20 + number, edge, epoch, positions).hex())


def bytes_c(data):
    return "{" + ", ".join("0x%02x" % b for b in data) + "}"


def wire32(data):
    return "0x%08xU" % struct.unpack("<I", data)[0]


def main():
    print("/* SPDX-License-Identifier: Apache-2.0\n"
          " * Made by core/test/tag_answers.py with OpenSSL; do not edit. */\n#include <stdint.h>\n")
    print("struct tg_ka_tag {\n\tuint64_t epoch;\n\tuint32_t ports, seq, ack, tsecr;\n\tuint16_t edge;\n"
          "\tuint8_t family, what, wscale;\n\tuint8_t src[16], dst[16], tag[20];\n};\n"
          "static const struct tg_ka_tag tg_ka_tags[] = {")
    number = 0
    for epoch in (0, 7, 218750001, 2**32 - 1, 2**32 + 5):
        for family in (4, 6):
            for what in (1, 2):
                number += 1
                sport, dport = 1024 + number * 977 % 60000, (80, 443, 65535)[number % 3]
                seq, ack, tsecr = (number * k & 0xffffffff for k in (0x9e3779b1, 0x85ebca6b, 0xc2b2ae35))
                tsecr = tsecr if number % 4 else 0
                edge, wscale = (1, 255, 7)[number % 3], (0, 7, 14, 15)[number % 4]
                src, dst = (a.ljust(16, b"\0") for a in ADDRESSES[family])
                print("\t{%dULL, %s, 0x%08xU, 0x%08xU, 0x%08xU, %d, %d, %d, %d,\n\t %s,\n\t %s,\n\t %s},"
                      % (epoch, wire32(struct.pack(">HH", sport, dport)), seq, ack, tsecr, edge, family,
                         what, wscale, bytes_c(src), bytes_c(dst),
                         bytes_c(tag(family, sport, dport, seq, ack, tsecr, what, wscale, edge, epoch))))
    print("};\n")
    print("struct tg_ka_confirm {\n\tuint64_t epoch;\n\tuint32_t ports;\n\tuint16_t edge;\n\tuint8_t family;\n"
          "\tuint8_t client[16], server[16], bytes[60];\n};\n"
          "static const struct tg_ka_confirm tg_ka_confirms[] = {")
    for number, epoch in enumerate((0, 7, 218750001, 2**32 + 5)):
        for family in (4, 6):
            sport, dport, edge = 40000 + number, 443, 1 + number * 80
            client, server = (a.ljust(16, b"\0") for a in ADDRESSES[family])
            print("\t{%dULL, %s, %d, %d, %s,\n\t %s,\n\t %s},"
                  % (epoch, wire32(struct.pack(">HH", sport, dport)), edge, family, bytes_c(client),
                     bytes_c(server), bytes_c(confirm(family, sport, dport, edge, epoch))))
    print("};")


if sys.argv[1:] == ["sync"]:
    write_sync()
else:
    main()
