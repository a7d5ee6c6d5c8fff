"""Kills a service in front of its n-th change: a process of its own, ended without any clean-up, as by SIGKILL.

A change is a commit of the metastore or something done to files; a directory may also be left half deleted.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from airflow_hive_acid.filesystem import Filesystem

KILLED, DONE, BROKEN = 9, 0, 1
# Forked from a server that has no threads and no connections: a copy of the tests' own process could be made while a
# thread there sends heartbeats, and would believe for ever that the database file is locked.
_PROCESSES = multiprocessing.get_context("forkserver")
# What a child would import for half a second is there when it is forked.
_PROCESSES.set_forkserver_preload([
    __name__, "pytest", "airflow_hive_acid.engine", "airflow_hive_acid.maintenance",
    "tests.integration.maintenance.batch_model", "tests.integration.maintenance.row_tables",
])  # fmt: skip
_CHANGES = ("create_file", "make_directory", "rename", "rename_directory", "write_text")


class _Countdown:
    """Ends this process in front of the change with a number."""

    def __init__(self, number: int, notes: Connection) -> None:
        self._left, self._notes = number, notes

    def before(self, what: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._notes.send(what)
            os._exit(KILLED)


class _KillingFilesystem:
    """A filesystem whose changes count."""

    def __init__(self, inner: Filesystem, countdown: _Countdown) -> None:
        self._inner, self._countdown = inner, countdown

    def delete(self, uri: str, *, inside: str) -> bool:
        name = uri.rpartition("/")[2]
        self._countdown.before(f"delete {name}")
        try:
            files = [info for info in self._inner.list_files(uri) if not info.is_dir]
        except (FileNotFoundError, NotADirectoryError):
            files = []
        if len(files) > 1:
            self._inner.delete(files[0].path, inside=inside)
            self._countdown.before(f"the rest of delete {name}")
        return self._inner.delete(uri, inside=inside)

    def __getattr__(self, verb: str) -> Any:
        if verb not in _CHANGES:
            return getattr(self._inner, verb)

        def change(uri: str, *rest: Any) -> Any:
            self._countdown.before(f"{verb} {uri.rpartition('/')[2]}")
            return getattr(self._inner, verb)(uri, *rest)

        return change


def run_and_kill(
    url: sa.URL, warehouse: str, settings: dict[str, str], number: int,
    service: Callable[[MetastoreClient, Filesystem], object],
) -> str | None:  # fmt: skip
    """Run a service in a process of its own and kill it in front of its change with a number, counted from 1.

    :param service: a function of a module, or a partial of one: it travels to the other process.
    :return: the change that did not happen any more; None when the service was done before.
    """
    reading, writing = _PROCESSES.Pipe(duplex=False)
    child = _PROCESSES.Process(
        target=_in_child,
        args=(url.render_as_string(hide_password=False), warehouse, settings, number, writing, service),
    )
    child.start()
    writing.close()
    child.join()
    try:
        what = reading.recv()
    except EOFError:
        what = None
    reading.close()
    assert child.exitcode in (KILLED, DONE), f"the service ended with {child.exitcode}: {what}"
    return str(what) if child.exitcode == KILLED else None


def _in_child(
    url: str, warehouse: str, settings: dict[str, str], number: int, notes: Connection,
    service: Callable[[MetastoreClient, Filesystem], object],
) -> None:  # fmt: skip
    countdown = _Countdown(number, notes)
    try:
        client = MetastoreClient(url, Settings({Source.CONNECTION: settings}), user="ann", host="dead")
        sa.event.listen(client.database.engine, "commit", lambda connection: countdown.before("commit"))
        filesystem: Any = _KillingFilesystem(open_filesystem(warehouse), countdown)
        service(client, filesystem)
    except BaseException as error:  # noqa: BLE001 - the test says what it was
        notes.send(repr(error))
        os._exit(BROKEN)
    os._exit(DONE)
