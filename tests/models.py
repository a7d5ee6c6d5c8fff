"""What property tests share: an embedded metastore that costs little, and Hive's lock rules asked thing by thing."""

from __future__ import annotations

import atexit
import functools
import itertools
import shutil
import tempfile
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore.locks.compatibility import Lock

Place = tuple[str, str | None, str | None]

SR, SW, XW, X = LockType
#: Request (row) against existing lock (column), same object: does it wait? Hive's matrix, written out.
WAITS = {
    SR: {SR: False, SW: False, XW: False, X: True},
    SW: {SR: False, SW: False, XW: True, X: True},
    XW: {SR: False, SW: True, XW: True, X: True},
    X: {SR: True, SW: True, XW: True, X: True},
}
PLACES: tuple[Place, ...] = (
    ("a", None, None),
    ("b", None, None),
    ("a", "t", None),
    ("a", "u", None),
    ("b", "t", None),
    ("a", "t", "p=1"),
    ("a", "t", "p=2"),
    ("a", "u", "p=1"),
)


def things(place: Place) -> set[tuple[str, str, str]]:
    """The smallest things a place covers, in a world of two databases, two tables and two partitions each."""
    return {
        thing
        for thing in product("ab", "tu", ("p=1", "p=2"))
        if all(part is None or part == own for part, own in zip(place, thing, strict=True))
    }


def must_wait(request: Lock, existing: Lock) -> bool:
    """The model: they cover a common thing, and the matrix says wait, but for Hive's two exceptions."""
    if request.txn_id == existing.txn_id != 0:
        return False
    if not things((request.database, request.table, request.partition)) & things(
        (existing.database, existing.table, existing.partition)
    ):
        return False
    if (request.type, existing.type) == (SR, X) and request.table is None and existing.table is not None:
        return False
    if (request.type, existing.type) == (X, SR) and existing.table is None and request.table is not None:
        return False
    return WAITS[request.type][existing.type]


_numbers = itertools.count(1)


@contextmanager
def embedded_metastore() -> Iterator[MetastoreClient]:
    """A client of a fresh embedded metastore: a copy of an empty one, in memory where that is possible."""
    template = _template()
    path = template.with_name(f"{next(_numbers)}.db")
    shutil.copyfile(template, path)
    try:
        with MetastoreClient(f"sqlite:///{path}") as client:
            yield client
    finally:
        path.unlink()


@functools.cache
def _template() -> Path:
    memory = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
    home = Path(tempfile.mkdtemp(prefix="hive-acid-models-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    path = home / "template.db"
    with MetastoreClient(f"sqlite:///{path}") as client:
        client.create_schema()
    return path
