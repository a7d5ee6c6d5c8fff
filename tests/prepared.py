"""What many tests begin with, a few tables: made by the first of them, and copied for the others.

To make three tables through an engine takes a tenth of a second, to copy their metastore and warehouse a hundredth.
"""

from __future__ import annotations

import atexit
import base64
import gzip
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from airflow_hive_acid.metastore import MetastoreClient

_PACKED = "H4sI"
"""How base64 of a gzip begins."""


class _Kept:
    """A metastore in SQLite and its warehouse.

    :param metastore: its file.
    :param warehouse: its directory, if there is one.
    """

    def __init__(self, metastore: str, warehouse: str | None) -> None:
        home = Path(tempfile.mkdtemp(prefix="hive-acid-prepared-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        self._metastore, self._files, self._warehouse = str(home / "metastore.db"), home / "warehouse", warehouse
        _copy(metastore, self._metastore)
        self._places: list[tuple[str, str]] = []
        if warehouse is None:
            return
        shutil.copytree(warehouse, self._files)
        with closing(sqlite3.connect(self._metastore)) as connection:
            connection.create_function("holds", 1, lambda value: warehouse in _read(value))
            self._places = [
                (table, column)
                for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
                for _, column, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall()
                if connection.execute(f'SELECT 1 FROM "{table}" WHERE holds("{column}")').fetchone()  # noqa: S608 - ours
            ]

    def give(self, metastore: str, warehouse: str | None) -> None:
        """Put a copy into these places; it says that it has always been there."""
        _copy(self._metastore, metastore)
        if warehouse is None or self._warehouse is None:
            return
        shutil.copytree(self._files, warehouse, dirs_exist_ok=True)
        before = self._warehouse
        with closing(sqlite3.connect(metastore, isolation_level=None)) as connection:
            connection.create_function("moved", 1, lambda value: _moved(value, before, warehouse))
            connection.execute("BEGIN")
            for table, column in self._places:
                connection.execute(f'UPDATE "{table}" SET "{column}" = moved("{column}")')  # noqa: S608 - names of ours
            connection.execute("COMMIT")


def _read(value: object) -> str:
    """The text of a value; messages of events are packed."""
    if not isinstance(value, str):
        return ""
    return gzip.decompress(base64.b64decode(value)).decode() if value.startswith(_PACKED) else value


def _moved(value: object, before: str, now: str) -> object:
    text = _read(value)
    if before not in text:
        return value
    text = text.replace(before, now)
    is_packed = str(value).startswith(_PACKED)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode() if is_packed else text


_kept: dict[Hashable, _Kept] = {}


def prepare(client: MetastoreClient, warehouse: str | None, what: Hashable, make: Callable[[], object]) -> None:
    """Bring a metastore that nobody has used yet, and its warehouse, to where ``make`` brings them.

    On SQLite that is done once for all clients with the same settings; on a server, where nothing is copied, each time.

    :param warehouse: URI of its directory; None: there are no files.
    :param what: says what ``make`` makes.
    """
    url, directory = client.database.url, None if warehouse is None else warehouse.removeprefix("file://")
    if url.get_backend_name() != "sqlite":
        make()
        return
    file = str(url.database)
    key = (what, tuple((found.setting.key, found.value) for found in client.settings))
    kept = _kept.get(key)
    if kept is None:
        make()
        _kept[key] = _Kept(file, directory)
    else:
        kept.give(file, directory)


def _copy(source: str, target: str) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
