#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes core/test/known_answers.h: answers of OpenSSL's SipHash and ChaCha20,
and cookies computed by vectors/reference.py, which shares no code with core/.

    core/test/known_answers.py > core/test/known_answers.h
"""
import pathlib
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "vectors"))
import reference as ref  # noqa: E402

SECRET = bytes(range(32))
V4 = (bytes([192, 0, 2, 1]), bytes([198, 51, 100, 7]))
V6 = (bytes.fromhex("20010db8000100000000000000000001"),
      bytes.fromhex("20010db80002abcdef01234567890080"))
EPOCHS = (0, 1, 2, 7, 218750000, 218750001, 2**32 - 1, 2**32, 2**32 + 5)
OPTIONS = ((0, 15, 0, 0), (6, 7, 1, 0), (6, 7, 1, 1), (7, 14, 0, 1), (3, 0, 0, 0), (5, 8, 1, 1))


def bytes_c(data):
    return "{" + ", ".join("0x%02x" % b for b in data) + "}"


def challenges():
    print("/* Challenges without a cookie, under the key 00 .. 0f: SipHash-1-3 of the source, the ports\n"
          " * (both as on the wire), the client's number and the TTL; the lower half is the number. */\n"
          "static const struct {\n\tuint8_t src[16];\n\tuint32_t ports, client_isn, isn;\n\tuint8_t family, ttl;\n"
          "} tg_ka_challenges[] = {")
    for i in range(16):
        family, ttl = (4, 6)[i % 2], (0, 1, 64, 255)[i // 2 % 4]
        src = (bytes([192, 0, 2, i]), bytes.fromhex("20010db80001000000000000000000") + bytes([i]))[i % 2]
        ports = struct.pack(">HH", 1024 + 977 * i, (80, 443, 65535)[i % 3])
        isn = i * 0x9e3779b1 & 0xffffffff
        h = ref.siphash(bytes(range(16)), src + ports + struct.pack("<IB", isn, ttl), 1, 3)
        print("\t{%s, 0x%08xU, 0x%08xU, 0x%08xU, %d, %d},"
              % (bytes_c(src), struct.unpack("<I", ports)[0], isn, h & 0xffffffff, family, ttl))
    print("};\n")


def main():
    print("/* SPDX-License-Identifier: Apache-2.0\n"
          " * Made by core/test/known_answers.py with OpenSSL; do not edit. */\n"
          "#include <stdint.h>\n")
    print("/* SipHash-2-4 of 00 01 .. (i-1) under the key 00 .. 0f: the list of the paper's\n"
          " * reference implementation (its first is 31 0e 0e dd 47 db 6f 72). */")
    print("static const uint64_t tg_ka_siphash[64] = {")
    for i in range(64):
        print("\t0x%016xULL," % ref.siphash24(bytes(range(16)), bytes(range(i))))
    print("};\n")
    print("/* SipHash-1-3, likewise */\nstatic const uint64_t tg_ka_siphash13[64] = {")
    for i in range(64):
        print("\t0x%016xULL," % ref.siphash(bytes(range(16)), bytes(range(i)), 1, 3))
    print("};\n")
    challenges()
    nonce = bytes.fromhex("000000090000004a00000000")
    print("/* RFC 8439 section 2.3.2 */\nstatic const uint8_t tg_ka_chacha20[64] =\n\t%s;\n"
          % bytes_c(ref.chacha20_block(bytes(range(32)), 1, nonce)))
    print("/* Epoch keys of the secret 00 01 .. 1f */\n"
          "static const struct {\n\tuint64_t epoch;\n\tuint8_t key[16];\n} tg_ka_keys[] = {")
    for n in (0, 1, 2**32 + 5):
        print("\t{%dULL, %s}," % (n, bytes_c(ref.epoch_key(SECRET, n))))
    print("};\n")
    print("/* Cookies under the secret 00 01 .. 1f. v4: 192.0.2.1 -> 198.51.100.7; v6:\n"
          " * 2001:db8:1::1 -> 2001:db8:2:abcd:ef01:2345:6789:80. */\n"
          "struct tg_ka_cookie {\n\tuint64_t epoch;\n\tuint32_t client_isn, isn, tsval;\n"
          "\tuint16_t sport, dport, mss;\n\tuint8_t family, wscale, sack, ecn, ts;\n};\n"
          "static const struct tg_ka_cookie tg_ka_cookies[] = {")
    number = 0
    for epoch in EPOCHS:
        for index, wscale, sack, ecn in OPTIONS:
            number += 1
            for family, (src, dst) in ((4, V4), (6, V6)):
                for ts in (0, 1):
                    sport, dport = 1024 + number * 977 % 60000, (80, 443, 65535)[number % 3]
                    client_isn = number * 0x9e3779b1 & 0xffffffff
                    # as the cookie says it: with timestamps any number, else an index
                    mss = number * 40503 & 0xffff if ts else index
                    isn, tsval = ref.cookie(SECRET, epoch, src, dst, sport, dport, client_isn,
                                            mss, wscale, sack, ecn, ts)
                    print("\t{%dULL, 0x%08xU, 0x%08xU, 0x%08xU, %d, %d, %d, %d, %d, %d, %d, %d},"
                          % (epoch, client_isn, isn, tsval or 0, sport, dport, mss, family,
                             wscale, sack, ecn, ts))
    print("};")
    smart()


def smart():
    # 0, 12, 15, 39 bytes of 00 01 .. under the key 00 .. 07, from vectors_hsip32 of the
    # authors' reference implementation (github.com/veorq/SipHash): what comes below is
    # worth nothing if the writer of it does not know HalfSipHash.
    for length, tag in ((0, "a9359f5b"), (12, "57f0872f"), (15, "74fe2b97"), (39, "650b62b4")):
        if ref.halfsiphash24(bytes(range(8)), bytes(range(length))) != int.from_bytes(
                bytes.fromhex(tag), "little"):
            raise SystemExit("known_answers: HalfSipHash of %d bytes is wrong" % length)
    print("\n/* Layout smartcookie, the same secret and addresses */\n"
          "struct tg_ka_smartcookie {\n\tuint64_t epoch;\n\tuint32_t client_isn, isn;\n"
          "\tuint16_t sport, dport;\n\tuint8_t family, mss_index, wscale;\n};\n"
          "static const struct tg_ka_smartcookie tg_ka_smartcookies[] = {")
    number = 0
    for epoch in EPOCHS:
        for index, wscale, _, _ in OPTIONS:
            number += 1
            for family, (src, dst) in ((4, V4), (6, V6)):
                sport, dport = 1024 + number * 977 % 60000, (80, 443, 65535)[number % 3]
                client_isn = number * 0x9e3779b1 & 0xffffffff
                isn = ref.smartcookie(SECRET, epoch, src, dst, sport, dport, client_isn, index,
                                      wscale)
                print("\t{%dULL, 0x%08xU, 0x%08xU, %d, %d, %d, %d, %d}," % (
                    epoch, client_isn, isn, sport, dport, family, index, wscale))
    print("};")


main()
