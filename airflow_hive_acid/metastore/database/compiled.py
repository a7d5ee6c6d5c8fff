"""Statements that SQLAlchemy has compiled, shared by all clients of a process.

An engine keeps what it has compiled to itself, and a client has an engine of its own. A process with many short-lived
clients (an API server, a triggerer) would compile the same statements again and again, which takes longer than to run
them.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from cachetools import LRUCache
from sqlalchemy.engine import Dialect

_MOST = 3000
"""Statements in a process; the package has fewer than that in its code, and IN lists do not count."""

_shared: LRUCache[Any, Any] = LRUCache(_MOST)
_lock = threading.Lock()
_kinds: weakref.WeakKeyDictionary[Dialect, tuple[Any, ...]] = weakref.WeakKeyDictionary()


class CompiledStatements:
    """What one engine has compiled, and what others have compiled for the same kind of database.

    SQLAlchemy's execution option ``compiled_cache``; its keys name the dialect by identity.
    """

    def __init__(self) -> None:
        self._own: dict[Any, Any] = {}

    def get(self, key: tuple[Any, ...]) -> Any:
        """A compiled statement; None when nobody has compiled it."""
        found = self._own.get(key)
        if found is None:
            with _lock:
                found = _shared.get(_shareable(key))
            if found is not None:
                self._keep(key, found)
        return found

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        self._keep(key, compiled)
        with _lock:
            _shared[_shareable(key)] = compiled

    def _keep(self, key: tuple[Any, ...], compiled: Any) -> None:
        if len(self._own) >= _MOST:
            self._own.clear()
        self._own[key] = compiled


def forget_kind(dialect: Dialect) -> None:
    """Something about a dialect has changed that its texts depend on."""
    _kinds.pop(dialect, None)


def _shareable(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_kind(part) if isinstance(part, Dialect) else part for part in key)


def _kind(dialect: Dialect) -> tuple[Any, ...]:
    """All of a dialect that may matter for a text: its class, the server's version and what it found there."""
    kind = _kinds.get(dialect)
    if kind is None:
        plain = {k: v for k, v in vars(dialect).items() if isinstance(v, str | int | float | tuple) or v is None}
        kind = _kinds[dialect] = (type(dialect), tuple(sorted(plain.items())))
    return kind
