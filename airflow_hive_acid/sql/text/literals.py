"""What a text in quotes says, as Spark reads it (``SparkParserUtils.unescapeSQLString``).

sqlglot's versions read some escapes in other ways, ``\\U0001F600`` for example. Partitions are chosen by the values of
literals, and Spark then compares rows with what it has read itself: with two readings rows would be missing.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_BY_LETTER = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""Of any other character the backslash goes; those of LIKE keep it."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def text_of(literal: str) -> str:
    """The text that a literal stands for.

    :param literal: with its quotes, as it stands in the statement; ``r'…'`` has no escapes.
    """
    if literal[0] in "rR":
        return literal[2:-1]
    inside = literal[1:-1]
    if "\\" not in inside:
        return inside
    text = _ESCAPE.sub(_read, inside)
    if _SURROGATE.search(text) is None:
        return text
    # Two halves are one character; what is half of none is a question mark in Java's UTF-8.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub("?", joined)


def _read(found: re.Match[str]) -> str:
    short, long, octal, letter = found.groups()
    if letter is not None:
        return _BY_LETTER.get(letter, letter)
    code = int(octal, 8) if octal is not None else int(short or long, 16)
    if code < 1 << 16:
        return chr(code)
    # As Java divides a code point, one that there is not included.
    return chr(((code >> 10) + 0xD7C0) & 0xFFFF) + chr(0xDC00 | (code & 0x3FF))
