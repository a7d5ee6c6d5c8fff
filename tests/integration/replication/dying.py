"""Sites that die: in front of the n-th change of either side everything stops, as when the process was killed.

A change is a commit of a metastore or something done to files, at the primary or the replica. Nothing happens any more
after it, clean-up by ``finally`` included: that is what a kill looks like from outside.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.metastore import MetastoreClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.replication.site import RunJob, Site

_READS = frozenset({
    "can_fence", "list_files", "exists", "read_text", "read_range", "open_input", "local_path", "protocol", "at",
})  # fmt: skip


class Killed(BaseException):
    """The process was killed here; nobody may catch it."""


class Countdown:
    """Counts changes, and lets one be the last.

    :param number: of the change in front of which to die, counted from 1; None to live.
    :param before: called in front of each change with its number, while alive: what happens at the primary meanwhile.
    """

    def __init__(self, number: int | None = None, before: Callable[[int], None] | None = None) -> None:
        self.number, self.changes, self.what = number, 0, ""
        self._before = before
        self._lock = threading.RLock()
        self._is_inside = False

    @property
    def is_dead(self) -> bool:
        return self.number is not None and self.changes >= self.number

    def change(self, what: str, *, quietly: bool = False) -> None:
        """One more change; ``quietly``: nothing can happen at the primary now, its database is locked."""
        with self._lock:
            if self.is_dead:
                raise Killed(self.what)
            self.changes += 1
            if self.is_dead:
                self.what = what
                raise Killed(what)
            if self._before is not None and not self._is_inside and not quietly:
                self._is_inside = True
                try:
                    self._before(self.changes)
                finally:
                    self._is_inside = False


def what_killed(number: int, run: Callable[[Countdown], object]) -> str | None:
    """What was about to be changed when something died in front of its n-th change; None when it had ended before."""
    countdown = Countdown(number)
    try:
        run(countdown)
    except Killed:
        return countdown.what
    return None


class _Filesystem:
    """A filesystem whose changes count."""

    def __init__(self, inner: Any, countdown: Countdown) -> None:
        self._inner, self._countdown = inner, countdown

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._inner, verb)
        if verb in _READS or not callable(found):
            return found

        def change(uri: str, *rest: Any, **named: Any) -> Any:
            self._countdown.change(f"{verb} {uri.rpartition('/')[2]}")
            return found(uri, *rest, **named)

        return change


@contextlib.contextmanager
def dying(site: Site, countdown: Countdown, run_job: Callable[[Any], RunJob] | None = None) -> Iterator[Site]:
    """The site as a process of its own would use it that may be killed.

    :param run_job: makes what stands for Spark, from the filesystem.
    """
    url = site.client.database.url.render_as_string(hide_password=False)
    filesystem: Any = _Filesystem(site.filesystem, countdown)
    client = MetastoreClient(url, site.client.settings, user="replicator")
    # Heartbeats begin at a random moment, in a thread of their own: they would be changes that no count foresees, and
    # one that is killed is an exception in a thread. Nothing here lives as long as a txn may be silent.
    client.heartbeats._beat = lambda txn_id: None
    at_primary = site.name == "primary"

    def committing(connection: sa.Connection) -> None:
        try:
            countdown.change(f"commit at {site.name}", quietly=at_primary)
        except Killed:
            connection.invalidate()  # a dead process has none
            raise

    sa.event.listen(client.database.engine, "commit", committing)
    try:
        yield replace(
            site, client=client, filesystem=filesystem, run_job=run_job(filesystem) if run_job is not None else None
        )
    finally:
        with contextlib.suppress(Killed):
            client.close()
