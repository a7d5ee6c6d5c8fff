"""One call for each of several things, some at a time: a filesystem answers slower than it could be asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_THREADS = 8
R = TypeVar("R")
S = TypeVar("S")


def in_threads(call: Callable[[S], R], items: Sequence[S], name: str, threads: int = _THREADS) -> list[R]:
    """``[call(item) for item in items]``, several at a time; the first error is raised.

    :param name: of the threads, for who looks at a process.
    """
    if len(items) < 2:
        return [call(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix=name) as pool:
        return list(pool.map(call, items))
