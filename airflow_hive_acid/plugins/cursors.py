"""Where a page begins, as opaque text in a URL: the key of the last row of the page before.

What comes back from a browser may be anything: it is read as a key of the expected shape, or refused.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from airflow_hive_acid.errors import InvalidArgumentsError

LONGEST = 4096
_LARGEST = 2**63


def encode(key: tuple[Any, ...] | None) -> str | None:
    """A key as text; None for None."""
    if key is None:
        return None
    text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(text: str | None, *shape: type) -> tuple[Any, ...] | None:
    """The key of a text.

    :param shape: the types of its parts: int or str.
    :raises InvalidArgumentsError: when it is no text of :func:`encode` for a key of this shape.
    """
    if text is None:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        key = json.loads(raw)
    except (binascii.Error, ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or [type(part) for part in key] != list(shape) or not all(map(_fits, key)):
        raise InvalidArgumentsError("cursor is none that this list has given out; begin without one")
    return tuple(key)


def _fits(part: int | str) -> bool:
    """Whether a database takes it."""
    if isinstance(part, int):
        return -_LARGEST <= part < _LARGEST
    return part.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in part)
