#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden vectors, vectors/*.yaml, vectors/edge/*.yaml, vectors/proxy/*.yaml, and
those that are wrong on purpose, vectors/canary/.

    vectors/generate.py           writes them beside itself
    vectors/generate.py DIR       writes them to DIR, to compare

Needs python3 and OpenSSL 3's libcrypto, nothing else. The bytes come from
vectors/packets.py and vectors/reference.py, never from the code under test.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import packets  # noqa: E402
import theme_acks  # noqa: E402
import theme_clients  # noqa: E402
import theme_edge  # noqa: E402
import theme_frames  # noqa: E402
import theme_malformed  # noqa: E402
import theme_services  # noqa: E402
import theme_signed  # noqa: E402
import theme_switch  # noqa: E402
import theme_translate  # noqa: E402

HEAD = "# Made by vectors/generate.py; do not edit. The format is told in vectors/README.md.\n"


def scalar(value):
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return '"%s"' % value.replace("\\", "\\\\").replace('"', '\\"')


def inline(value):
    if isinstance(value, dict):
        return "{" + ", ".join("%s: %s" % (k, inline(v)) for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(v) for v in value) + "]"
    return scalar(value)


def write_bytes(out, name, parts, indent):
    out.append("%s%s:" % (indent, name))
    for data, comment in parts:
        out.append('%s  - "%s" # %s' % (indent, data.hex(), comment))
    if not parts:
        out[-1] += " []"


def write_vector(out, v):
    out.append("  - name: %s" % v["name"])
    out.append("    why: %s" % scalar(v["why"]))
    for field in ("epoch", "keys", "stale_keys", "filter", "socket", "hops"):
        if field in v:
            out.append("    %s: %s" % (field, inline(v[field])))
    if "services" in v:
        out.append("    services:" if v["services"] else "    services: []")
        for service in v["services"]:
            out.append("      - " + inline(service))
    out.append("    packets:")
    for p in v["packets"]:
        out.append("      - verdict: %s" % p["verdict"])
        write_bytes(out, "in", p["in"], "        ")
        if "out" in p:
            write_bytes(out, "out", p["out"], "        ")
        if "agreed" in p:
            out.append("        agreed: %s" % inline(p["agreed"]))
    counters = {k: c for k, c in v["counters"].items() if c}
    out.append("    counters: %s" % inline(counters))


def write_theme(folder, name, about, vectors, head=()):
    names = [v["name"] for v in vectors]
    assert len(names) == len(set(names)), "name given twice in " + name
    out = ["format: 1", "about: " + scalar(about), *head, 'secret: "%s"' % packets.SECRET.hex(),
           "defaults:", "  epoch: %d" % packets.EPOCH,
           "  keys: %s # the epochs whose keys are loaded" % inline(
               [packets.EPOCH - n for n in (3, 2, 1, 0)]),
           "  services:", "    - " + inline(packets.SERVICE), "vectors:"]
    for v in vectors:
        write_vector(out, v)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (name + ".yaml")).write_text(HEAD + "\n".join(out) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    for module in (theme_clients, theme_frames, theme_malformed, theme_services, theme_signed,
                   theme_acks):
        for name, about, vectors in module.themes():
            write_theme(folder, name, about, vectors)
    for name, about, vectors in theme_edge.themes():
        write_theme(folder / "edge", name, about, vectors, ["layout: smartcookie"])
    write_theme(folder / "canary", "wrong",
                "Vectors that are wrong on purpose, each in one way: every runner must find each one",
                list(theme_services.canaries()))
    for sub, about, vectors in (
            ("proxy", "Segments of translated connections; see vectors/theme_translate.py", theme_translate.vectors()),
            ("canary/proxy", "Translations that are wrong on purpose, each in one way: every runner must find each one",
             theme_translate.canaries())):
        theme_translate.write(folder / sub, about, vectors, HEAD, write_bytes, inline, scalar)
    theme_switch.write(folder / "proxy", HEAD, write_bytes, inline, scalar)


main()
