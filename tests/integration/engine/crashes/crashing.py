"""One process of the engine as a thread that is killed, or falls asleep, in front of its n-th effect.

An effect is a database transaction that may write (which happens or does not), something done to files, a sync of a
file or directory, or a Spark job. Nothing happens between two effects that anybody else could see, so to stop in front
of each, and behind the last, is to stop everywhere. A killed thread can do nothing more: every further effect, and
every look, ends it again, also while it cleans up. One that sleeps holds no database transaction, and goes on when it
is woken.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.filesystem import syncing
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.metastore.database.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_CHANGES = (
    "create_file", "make_directory", "rename", "rename_directory", "replace_file", "write_text", "delete",
    "delete_empty",
)  # fmt: skip
_LOOKS = ("list_files", "exists", "read_text", "read_range", "open_input")
_PATIENCE = 120
"""Seconds after which a thread that should have ended counts as hanging."""
_of_thread = threading.local()


class Killed(BaseException):
    """The process is gone."""


class Process:
    """The thread in which a statement runs.

    :param stop: in front of which effect it stops, counted from 1; 0 for none.
    :param sleeps: it goes on when it is woken; otherwise it is dead.
    :ivar done: the effects it had, in order.
    :ivar synced: bytes that were in files when it synced them, by inode.
    """

    def __init__(self, run: Callable[[], object], stop: int = 0, *, sleeps: bool = False) -> None:
        self._run, self._stop, self._sleeps = run, stop, sleeps
        self._dead = False
        self._arrived, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.done: list[str] = []
        self.failure: BaseException | None = None
        self.stopped = False
        self.in_transaction = False
        self.synced: dict[int, int] = {}

    def start(self) -> None:
        """Run it until it stops or has ended."""
        self._thread.start()
        assert self._arrived.wait(_PATIENCE), f"it hangs behind {self.done[-3:]}"

    def wake(self) -> None:
        """Let it run to its end."""
        self._woken.set()
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive(), f"it hangs behind {self.done[-3:]}"

    @property
    def dead(self) -> bool:
        """Whether it was killed."""
        return self._dead

    def effect(self, what: str, action: Callable[[], Any]) -> Any:
        """Something that others can see."""
        self.look()
        if len(self.done) + 1 == self._stop:
            self._halt()
        self.done.append(what)
        return action()

    def look(self) -> None:
        """Something that only this process sees."""
        if self._dead:
            raise Killed

    def _halt(self) -> None:
        self.stopped = True
        if not self._sleeps:
            self._dead = True
            raise Killed
        self._stop = 0
        self._arrived.set()
        assert self._woken.wait(10 * _PATIENCE), "nobody wakes it"

    def _work(self) -> None:
        _of_thread.process = self
        try:
            self._run()
            self.effect("the end", lambda: None)
        except Killed as killed:
            self.failure = killed
        except Exception as failure:  # noqa: BLE001 - the test says what it may be
            self.failure = failure
        finally:
            self._arrived.set()


def process_here() -> Process | None:
    """The process of this thread; None of one that is none."""
    return getattr(_of_thread, "process", None)


def effect(what: str, action: Callable[[], Any]) -> Any:
    """An effect of the thread's process; of a thread that is none, just done."""
    process = process_here()
    return action() if process is None else process.effect(what, action)


@contextmanager
def effects_counted(monkeypatch: Any) -> Iterator[None]:
    """While every effect of a :class:`Process` goes through it."""
    with monkeypatch.context() as patch:
        for verb in _CHANGES:
            patch.setattr(LocalFilesystem, verb, _counting(verb, getattr(LocalFilesystem, verb)))
        for verb in _LOOKS:
            patch.setattr(LocalFilesystem, verb, _looking(getattr(LocalFilesystem, verb)))
        patch.setattr(LocalFilesystem, "open_output", _opening(LocalFilesystem.open_output))
        patch.setattr(Database, "_retrying", _transacting(Database._retrying))
        # One after the other, in the thread of the process: threads of a pool are nobody's.
        patch.setattr(syncing, "in_threads", lambda call, items, _name: [call(item) for item in items])
        patch.setattr(syncing, "_sync", _syncing(syncing._sync))
        yield


class _Stream:
    """A file that is written: opening it and putting bytes into it are effects, each write one."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._name = inner, name

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *failure: object) -> None:
        self._inner.close()

    def write(self, piece: Any) -> Any:
        return effect(f"write {self._name}", lambda: self._inner.write(piece))

    def fileno(self) -> Any:
        """Asked for in front of a copy by the kernel."""
        return effect(f"write {self._name}", self._inner.fileno)


def _opening(inner: Any) -> Any:
    def open_output(self: Any, uri: str) -> Any:
        name = uri.rpartition("/")[2]
        return _Stream(effect(f"open_output {name}", lambda: inner(self, uri)), name)

    return open_output


def _syncing(inner: Any) -> Any:
    def sync(path: str) -> Any:
        process = process_here()

        def noted() -> None:
            inner(path)
            if process is not None:
                with contextlib.suppress(FileNotFoundError):
                    now = os.stat(path)
                    if stat.S_ISREG(now.st_mode):
                        process.synced[now.st_ino] = now.st_size

        return effect(f"sync {path.rpartition('/')[2]}", noted)

    return sync


def sizes(root: Path) -> dict[int, int]:
    """Bytes of all files below a directory, by inode."""
    return {now.st_ino: now.st_size for now in (path.stat() for path in root.rglob("*") if path.is_file())}


def lose_power(root: Path, before: Mapping[int, int], process: Process) -> None:
    """The machine goes down with a process: what it has written and not synced is lost, the names are not.

    :param before: bytes of the files that were on the disk when it began, by inode.
    """
    on_disk = {**before, **process.synced}
    for path in root.rglob("*"):
        if path.is_file() and path.stat().st_size > on_disk.get(path.stat().st_ino, 0):
            os.truncate(path, on_disk.get(path.stat().st_ino, 0))


def _counting(verb: str, inner: Any) -> Any:
    def change(self: Any, uri: str, *rest: Any, **options: Any) -> Any:
        what = f"{verb} {uri.rpartition('/')[2]}"
        return effect(what, lambda: inner(self, uri, *rest, **options))

    return change


def _looking(inner: Any) -> Any:
    def look(self: Any, *rest: Any, **options: Any) -> Any:
        process = process_here()
        if process is not None:
            process.look()
        return inner(self, *rest, **options)

    return look


def _transacting(inner: Any) -> Any:
    def transact(self: Any, operation: Any, *rest: Any, **options: Any) -> Any:
        process = process_here()
        if process is None:
            return inner(self, operation, *rest, **options)
        if options.get("reading"):
            process.look()
            return inner(self, operation, *rest, **options)
        name = getattr(operation, "__qualname__", "a partial").replace(".<locals>", "")
        # It would hold the locks of the outer one while it waits for a connection and for locks of its own.
        assert not process.in_transaction, f"{name} is a database transaction inside another one"

        def inside() -> Any:
            process.in_transaction = True
            try:
                return inner(self, operation, *rest, **options)
            finally:
                process.in_transaction = False

        return process.effect(f"transaction {name}", inside)

    return transact
