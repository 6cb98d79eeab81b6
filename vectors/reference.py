# SPDX-License-Identifier: Apache-2.0
"""The cookie, the key schedule and the Internet checksum, written a second time
from docs/cookie-format.md and the RFCs, so that known answers and golden packets
do not come from the code they test.

SipHash-2-4 and ChaCha20 are OpenSSL's (libcrypto 3, by ctypes); only the
standard library is needed besides. Must never: read anything under core/ or bpf/.
"""
import ctypes
import ctypes.util
import struct

_crypto = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
for _name, _result, _arguments in (
    ("EVP_MAC_fetch", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]),
    ("EVP_MAC_CTX_new", ctypes.c_void_p, [ctypes.c_void_p]),
    ("EVP_MAC_CTX_free", None, [ctypes.c_void_p]),
    ("EVP_MAC_init", ctypes.c_int,
     [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]),
    ("EVP_MAC_update", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
    ("EVP_MAC_final", ctypes.c_int,
     [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]),
    ("EVP_CIPHER_CTX_new", ctypes.c_void_p, []),
    ("EVP_CIPHER_CTX_free", None, [ctypes.c_void_p]),
    ("EVP_chacha20", ctypes.c_void_p, []),
    ("EVP_EncryptInit_ex", ctypes.c_int,
     [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]),
    ("EVP_EncryptUpdate", ctypes.c_int,
     [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]),
):
    _function = getattr(_crypto, _name)
    _function.restype, _function.argtypes = _result, _arguments


class _Param(ctypes.Structure):  # OSSL_PARAM
    _fields_ = [("key", ctypes.c_char_p), ("type", ctypes.c_uint), ("data", ctypes.c_void_p),
                ("size", ctypes.c_size_t), ("return_size", ctypes.c_size_t)]


_siphash = _crypto.EVP_MAC_fetch(None, b"SIPHASH", None)
if not _siphash:
    raise SystemExit("vectors: this libcrypto has no SipHash; OpenSSL 3 is needed")


def siphash24(key: bytes, message: bytes) -> int:
    """SipHash-2-4, 64 bits, as the number whose little-endian bytes are the tag."""
    return siphash(key, message, 2, 4)


def siphash(key: bytes, message: bytes, c_rounds: int, d_rounds: int) -> int:
    numbers = {b"size": ctypes.c_uint(8), b"c-rounds": ctypes.c_uint(c_rounds), b"d-rounds": ctypes.c_uint(d_rounds)}
    parameters = (_Param * 4)()
    for i, (name, value) in enumerate(numbers.items()):
        parameters[i] = _Param(name, 2, ctypes.cast(ctypes.byref(value), ctypes.c_void_p), 4, 0)
    context = _crypto.EVP_MAC_CTX_new(_siphash)
    tag, length = ctypes.create_string_buffer(8), ctypes.c_size_t(0)
    good = (_crypto.EVP_MAC_init(context, key, len(key), parameters)
            and _crypto.EVP_MAC_update(context, message, len(message))
            and _crypto.EVP_MAC_final(context, tag, ctypes.byref(length), 8))
    _crypto.EVP_MAC_CTX_free(context)
    if not good or length.value != 8:
        raise SystemExit("vectors: OpenSSL's SipHash failed")
    return int.from_bytes(tag.raw, "little")


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """One block of key stream, RFC 8439 section 2.3."""
    context = _crypto.EVP_CIPHER_CTX_new()
    iv = struct.pack("<I", counter) + nonce
    out, length = ctypes.create_string_buffer(128), ctypes.c_int(0)
    good = (_crypto.EVP_EncryptInit_ex(context, _crypto.EVP_chacha20(), None, key, iv)
            and _crypto.EVP_EncryptUpdate(context, out, ctypes.byref(length), bytes(64), 64))
    _crypto.EVP_CIPHER_CTX_free(context)
    if not good or length.value != 64:
        raise SystemExit("vectors: OpenSSL's ChaCha20 failed")
    return out.raw[:64]


def epoch_key(secret: bytes, epoch: int) -> bytes:
    return chacha20_block(secret, 0, b"TGK1" + struct.pack("<Q", epoch))[:16]


MSS_TABLE = {4: [536, 1220, 1300, 1360, 1400, 1440, 1460, 8960],
             6: [1220, 1280, 1340, 1360, 1400, 1420, 1440, 8940]}
WSCALE_NONE = 15
PLAIN, TIMESTAMPS = 1, 2


def mss_index(family: int, mss: int) -> int:
    """The largest entry that is not above `mss`; the first if all are."""
    return max([0] + [i for i, entry in enumerate(MSS_TABLE[family]) if entry <= mss])


def said_mss(family: int, mss: int, timestamps: bool) -> int:
    """What a cookie says of the client's MSS; 0: the client said nothing."""
    if not timestamps:
        return mss_index(family, mss)
    return mss or MSS_TABLE[family][0]


def agreed_mss(family: int, said: int, timestamps: bool) -> int:
    return said if timestamps else MSS_TABLE[family][said]


def cookie_mac(secret, epoch, src, dst, sport, dport, client_isn, mss, wscale, sack, ecn, form):
    options = mss << 6 | wscale << 2 | sack << 1 | ecn
    message = (dst + struct.pack("<I", epoch & 0xffffffff) + struct.pack(">HH", sport, dport) + src
               + struct.pack("<I", client_isn) + struct.pack("<I", options | form << 22)[:3])
    return siphash24(epoch_key(secret, epoch), message)


def cookie(secret, epoch, src, dst, sport, dport, client_isn, mss, wscale, sack, ecn,
           timestamps):
    """(ISN, TSval) of the SYN-ACK; TSval is None in the plain form. Addresses as bytes; mss from said_mss."""
    mac = cookie_mac(secret, epoch, src, dst, sport, dport, client_isn, mss, wscale, sack, ecn,
                     TIMESTAMPS if timestamps else PLAIN)
    field = mss << 6 | wscale << 2 | sack << 1 | ecn
    parity = (epoch & 1) << 31
    if timestamps:
        return parity | mac & (2**31 - 1), field << 10 | mac >> 31 & (2**10 - 1)
    return parity | field << 22 | mac & (2**22 - 1), None


def halfsiphash24(key: bytes, message: bytes) -> int:
    """HalfSipHash-2-4, 32 bits. Not OpenSSL's, which has none; known_answers.py holds
    it to the authors' published vectors."""
    mask = 2**32 - 1

    def left(x, n): return (x << n | x >> 32 - n) & mask

    def rounds(v, n):
        for _ in range(n):
            v[0] = v[0] + v[1] & mask
            v[2] = v[2] + v[3] & mask
            v[1], v[3] = left(v[1], 5) ^ v[0], left(v[3], 8) ^ v[2]
            v[0] = left(v[0], 16) + v[3] & mask
            v[2] = v[2] + v[1] & mask
            v[1], v[3] = left(v[1], 13) ^ v[2], left(v[3], 7) ^ v[0]
            v[2] = left(v[2], 16)

    k0, k1 = struct.unpack("<II", key)
    v = [k0, k1, 0x6c796765 ^ k0, 0x74656462 ^ k1]
    padded = message + bytes(-(len(message) + 1) % 4) + bytes([len(message) & 255])
    for (word,) in struct.iter_unpack("<I", padded):
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xff
    rounds(v, 4)
    return v[1] ^ v[3]


def smart_key(secret: bytes, epoch: int) -> bytes:
    return chacha20_block(secret, 0, b"TGH1" + struct.pack("<Q", epoch))[:8]


def smart_hash(key, src, dst, sport, dport, client_isn):
    words = [n for part in (src, dst) for (n,) in struct.iter_unpack(">I", part)]
    message = struct.pack("<%dI" % (len(words) + 1), *words, sport << 16 | dport)
    return halfsiphash24(key, message + struct.pack("<I", client_isn)[:3])


def smartcookie(secret, epoch, src, dst, sport, dport, client_isn, index, wscale):
    """The ISN in the layout `smartcookie`."""
    mac = smart_hash(smart_key(secret, epoch), src, dst, sport, dport, client_isn)
    return (epoch & 1) << 31 | index << 28 | wscale << 24 | mac & (2**24 - 1)


def checksum(data: bytes) -> int:
    """RFC 1071, over big-endian words."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
