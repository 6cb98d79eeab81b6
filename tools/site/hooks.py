# SPDX-License-Identifier: Apache-2.0
"""What the site needs to know of this project's documents.

A fence's first word is its language; what follows it is for the tests that run the fence (test/docs, test/howto), and for the reader: the machine
and the file that it is for become its title. Links that leave docs/ are to the source tree, which the site does not have: they become paths.
"""

import posixpath
import re

FENCE = re.compile(r"^(\s*)```(\w+) +(\S.*)$", re.M)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]*)(?:#[^)\s]*)?\)")


def fence(match):
    indent, language, rest = match.groups()
    words = dict(word.partition("=")[::2] for word in rest.split())
    title = words.get("file", "")
    if "on" in words:
        title = f"{title} on {words['on']}".strip()
    if "expect" in words:
        title = "prints, among others"
    return f'{indent}``` {{.{language} title="{title}"}}' if title else f"{indent}```{language}"


def on_page_markdown(markdown, page, **_):
    here = posixpath.dirname(page.file.src_uri)

    def link(match):
        text, target = match.groups()
        path = posixpath.normpath(posixpath.join("docs", here, target))
        if path.startswith("docs/"):
            return match.group(0)
        return f"{text} (`{path}` in the source tree)" if path not in text else text

    return LINK.sub(link, FENCE.sub(fence, markdown))
