"""The metastore cache: tables, partitions and databases in memory, synchronised by ValidWriteIdList (the cache's seed).

A transactional table is answered from memory only if its entry contains exactly the commits that the reader's
ValidWriteIdList sees; otherwise the database answers. What has no write ids (external tables, databases, names) is
answered as the log left it. A follower (``follower``) keeps entries up to date; services that run for long start
one, tasks and commands never do. ``docs/explanation/cache.md`` states each guarantee.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeVar

from airflow_hive_acid.errors import HiveAcidError, NoSuchObjectError
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.cache.entries import Store, TableEntry, ValueEntry, require_list
from airflow_hive_acid.metastore.cache.events import ALL_DATABASES, database_key, names_key
from airflow_hive_acid.metastore.cache.follower import CacheFollower
from airflow_hive_acid.metastore.cache.partitions import UndecidableError
from airflow_hive_acid.metastore.cache.reads import read_loaded
from airflow_hive_acid.metastore.cache.rules import Freshness, Verdict
from airflow_hive_acid.metastore.cache.state import CacheState
from airflow_hive_acid.metastore.cache.statistics import CacheStatistics
from airflow_hive_acid.metastore.catalog.rows.partitions import find_partitions, names_there, read_partitions
from airflow_hive_acid.metastore.catalog.rows.reader import (
    no_such_table,
    read_database_names,
    read_table_names,
    require_database,
)
from airflow_hive_acid.metastore.names.objects import TableName, database_name, table_name
from airflow_hive_acid.metastore.notifications.log import read_last_event_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from sqlalchemy import Connection
    from typing_extensions import Self

    from airflow_hive_acid.metastore.cache.entries import Entry
    from airflow_hive_acid.metastore.cache.state import Looking
    from airflow_hive_acid.metastore.cache.view import CachedView
    from airflow_hive_acid.metastore.catalog.catalog import Catalog
    from airflow_hive_acid.metastore.catalog.values.model import Database, Partition, PartitionSpec, Table
    from airflow_hive_acid.metastore.catalog.values.partition_conditions import PartitionFilter
    from airflow_hive_acid.metastore.verbs import Verbs

T = TypeVar("T")
log = logging.getLogger(__name__)

_PREWARM_BATCH = 200
_PREWARM_PART = 0.9
"""Of the memory: what prewarming fills, so that it does not push out what it has just read."""


class CachedCatalog:
    """The catalog's reads, from memory where that is exact.

    Every read of a transactional table takes its id and the reader's list, both from
    ``client.valid_write_ids_and_table_ids``. Before :meth:`start` and after :meth:`close` the database answers.

    :param client: of the metastore; it must stay open as long as the cache.
    :param catalog: its tables, read where the memory cannot answer.
    :param clock: monotonic seconds.
    """

    def __init__(self, client: Verbs, catalog: Catalog, *, clock: Callable[[], float] = time.monotonic) -> None:
        settings = client.settings
        self._client = client
        self._catalog = catalog
        self._database = client.database
        self._clock = clock
        self._lock = threading.Lock()
        self._max_lag = settings.seconds("hive.acid.cache.max.lag")
        self._state = CacheState(Store(settings.integer("hive.acid.cache.max.bytes")))
        interval = settings.seconds("hive.acid.cache.poll.interval")
        self._follower = CacheFollower(self._database, self._state, self._lock, interval, clock)
        self._counts = dict.fromkeys(Verdict, 0)
        self._too_large: dict[TableName, int] = {}
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, tell: Callable[[CacheStatistics], None] | None = None) -> Self:
        """Follow the log in the background; nothing happens when the cache is off, or no events are written.

        :param tell: is given the statistics once a minute, in the follower's thread.
        """
        if tell is not None:
            self._follower.tell = lambda: tell(self.statistics(ask_log=True))
        try:
            possible = self.is_possible()
        except HiveAcidError as error:
            log.warning("the cache is started, and will follow the log once the metastore answers: %s", error)
            possible = True
        if possible:
            self._follower.start()
        return self

    def close(self) -> None:
        """Stop following, and forget everything."""
        self._follower.stop()

    def is_possible(self) -> bool:
        """Whether it is switched on, and this metastore's changes are told."""
        if not self._client.settings.flag("hive.acid.cache.enabled"):
            return False
        return self._database.read(self._client.notifications.enabled)

    @property
    def follower(self) -> CacheFollower:
        """What follows the log."""
        return self._follower

    # --- tables and partitions ------------------------------------------------------------------------------------

    def get_table(
        self,
        db: str,
        table: str,
        table_id: int | None = None,
        valid_write_id_list: ValidWriteIdList | str | None = None,
    ) -> Table:
        """A table.

        :param table_id: TBL_ID; a table of the same name with another id is not the one asked for.
        :param valid_write_id_list: what the reader sees of a transactional table; None for any other one.
        :raises NoSuchObjectError: when it does not exist, or the name belongs to another table now.
        :raises InvalidArgumentsError: without a list for a transactional table, with one for another table.
        """
        return self._read(_key(db, table), table_id, valid_write_id_list, _copy, None)

    def list_partitions(
        self, db: str, table: str, filter: PartitionFilter | None = None, limit: int | None = None, *,
        after: str | None = None, table_id: int | None = None,
        valid_write_id_list: ValidWriteIdList | str | None = None,
    ) -> list[Partition]:  # fmt: skip
        """The partitions that fulfil a filter, sorted by name as Python sorts text.

        Pages (``limit``, ``after``) are in the order of the database, and come from it.
        """

        def cached(entry: TableEntry) -> list[Partition]:
            if limit is not None or after is not None or entry.partitions is None:
                raise UndecidableError(table)
            return entry.partitions.select(entry.table, filter)

        def asked(connection: Connection, found: Table) -> list[Partition]:
            listed = list(read_partitions(connection, found, filter, limit, after))
            return listed if limit is not None or after is not None else sorted(listed, key=lambda p: p.name)

        return self._read(_key(db, table), table_id, valid_write_id_list, cached, asked)

    def find_partitions(
        self, db: str, table: str, names: Sequence[str], *, table_id: int | None = None,
        valid_write_id_list: ValidWriteIdList | str | None = None,
    ) -> dict[str, Partition]:  # fmt: skip
        """Those of the partitions that exist, by name."""

        def cached(entry: TableEntry) -> dict[str, Partition]:
            if entry.partitions is None:
                raise UndecidableError(table)
            found = ((name, entry.partitions.get(name)) for name in names)
            return {name: partition for name, partition in found if partition is not None}

        def asked(connection: Connection, found: Table) -> dict[str, Partition]:
            return find_partitions(connection, found, names)

        return self._read(_key(db, table), table_id, valid_write_id_list, cached, asked)

    def get_partition(
        self, db: str, table: str, spec: PartitionSpec, *, table_id: int | None = None,
        valid_write_id_list: ValidWriteIdList | str | None = None,
    ) -> Partition:  # fmt: skip
        """One partition, by name or values.

        :raises NoSuchObjectError: when the table has no such partition.
        """

        def cached(entry: TableEntry) -> tuple[str, Partition | None]:
            if entry.partitions is None:
                raise UndecidableError(table)
            spelled, known = entry.table.spellings(spec), entry.partitions
            there = {name: found for name in spelled.names if (found := known.get(name)) is not None}
            name = spelled.choose(entry.table.qualified_name, there)
            return name, there.get(name)

        def asked(connection: Connection, found: Table) -> tuple[str, Partition | None]:
            (name,) = names_there(connection, found, [spec])
            return name, find_partitions(connection, found, [name]).get(name)

        name, found = self._read(_key(db, table), table_id, valid_write_id_list, cached, asked)
        if found is None:
            raise NoSuchObjectError(f"{db}.{table} has no partition {name}")
        return found

    # --- databases and names --------------------------------------------------------------------------------------

    def get_database(self, name: str, *, at_least: int = 0) -> Database:
        """A database, as the log left it.

        :param at_least: an event that must be contained: ``client.notifications.current_event_id()`` after a change of
            one's own; the database answers as long as the log was not followed so far.
        :raises NoSuchObjectError: with the names that look like it.
        """
        lowered = database_name(name)
        found = self._value(database_key(lowered), lambda connection: require_database(connection, lowered), at_least)
        if isinstance(found, tuple):
            raise AssertionError("names in the place of a database")
        return replace(found, properties=dict(found.properties))

    def list_databases(self, *, at_least: int = 0) -> list[str]:
        """All databases, sorted, as the log left them."""
        return self._names(ALL_DATABASES, read_database_names, at_least)

    def list_tables(self, db: str, *, at_least: int = 0) -> list[str]:
        """The names of the tables and views of a database, sorted, as the log left them.

        :raises NoSuchObjectError: when the database does not exist.
        """
        lowered = database_name(db)

        def read(connection: Connection) -> list[str]:
            require_database(connection, lowered)
            return read_table_names(connection, lowered)

        return self._names(names_key(lowered), read, at_least)

    # --- everything around ----------------------------------------------------------------------------------------

    def prewarm(
        self,
        databases: Iterable[str] | None = None,
        *,
        partitions: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Read tables before anybody asks, until nine tenths of the memory are full.

        :param databases: all of them by default.
        :param partitions: with their partitions, which takes as long as they are many.
        :param progress: is told after each step how many tables were read, and how many there are.
        :return: how many tables were read.
        """
        names = [database_name(name) for name in databases] if databases is not None else self.list_databases()
        keys = [TableName(db, table) for db in names for table in self.list_tables(db)]
        size, done = 1 if partitions else _PREWARM_BATCH, 0
        for start in range(0, len(keys), size):
            if self._state.position is None or self._state.store.currsize > _PREWARM_PART * self._state.store.maxsize:
                break
            batch = keys[start : start + size]
            with self._looking() as looking:
                _, found = self._database.read(
                    lambda connection, batch=batch: read_loaded(connection, batch, partitions=partitions)  # type: ignore[misc]
                )
                with self._lock:
                    for key, loaded in found.items():
                        self._state.offer(key, TableEntry.of(loaded), looking)
            done += len(batch)
            if progress is not None:
                progress(done, len(keys))
        return done

    def view(self, tables: Iterable[str], txn: str | int | None = None) -> CachedView:
        """Reads of tables under the ids and lists of this moment, taken in one round trip.

        :param txn: the reader's txn list or id, as for ``valid_write_ids_and_table_ids``.
        """
        from airflow_hive_acid.metastore.cache.view import CachedView  # it imports this module

        return CachedView(self, self._client.valid_write_ids_and_table_ids(tables, txn))

    def table(self, name: str) -> Table:
        """A table by ``db.table`` as it is now: what a service calls in the place of ``client.catalog.get_table``.

        :raises NoSuchObjectError: with the names that look like it.
        """
        found = self.tables([name])
        return next(iter(found.values())) if found else self._catalog.get_table(name)

    def tables(self, names: Sequence[str]) -> dict[str, Table]:
        """Those of the tables that exist, as they are now, by ``db.table``."""
        if self._state.position is None:
            return self._catalog.find_tables(names)
        return self.view(names).find_tables(names)

    def statistics(self, *, ask_log: bool = False) -> CacheStatistics:
        """What it has done so far, and how it is.

        :param ask_log: look up how many events it is behind.
        """
        followed = self._follower.followed
        end = self._client.notifications.current_event_id() if ask_log and self._state.position is not None else None
        with self._lock:
            counts, store, position = dict(self._counts), self._state.store, self._state.position
            entries, used = len(store), int(store.currsize)
        lag = None if followed.looked_at is None or position is None else self._clock() - followed.looked_at
        behind = lag is None or lag > self._max_lag
        state: Literal["off", "following", "behind"] = (
            "off" if position is None else "behind" if behind else "following"
        )
        return CacheStatistics(
            state=state, hits=counts[Verdict.HIT], missing=counts[Verdict.MISSING], stale=counts[Verdict.NEWER],
            older=counts[Verdict.OLDER], unconfirmed=counts[Verdict.UNCONFIRMED], replaced=counts[Verdict.REPLACED],
            behind=counts[Verdict.BEHIND], off=counts[Verdict.OFF], entries=entries, bytes=used,
            max_bytes=int(store.maxsize), evictions=store.evictions, position=position,
            lag_events=None if end is None or position is None else max(0, end - position), lag_seconds=lag,
            rounds=followed.rounds, events=followed.events, refreshed=followed.refreshed, failures=followed.failures,
            last_failure=followed.last_failure, restarts=followed.restarts,
            restarted_because=followed.restarted_because,
        )  # fmt: skip

    # --- inside ---------------------------------------------------------------------------------------------------

    def _read(
        self,
        key: TableName,
        table_id: int | None,
        given: ValidWriteIdList | str | None,
        cached: Callable[[TableEntry], T],
        asked: Callable[[Connection, Table], T] | None,
    ) -> T:
        """A read of a table: from its entry, or of the database.

        :param asked: how the database answers about partitions; None for the table alone.
        """
        reader = _parsed(given) if isinstance(given, str) else given
        verdict, entry = self._look(key, table_id, reader)
        if verdict is Verdict.HIT and isinstance(entry, TableEntry):
            require_list(entry.table, table_id, reader)
            if asked is None or entry.partitions is not None:
                with contextlib.suppress(UndecidableError):
                    answer = cached(entry)
                    self._counts[Verdict.HIT] += 1  # lost if two count at once, which statistics can bear
                    return answer
            verdict = Verdict.MISSING
        self._counts[verdict] += 1
        return self._ask(key, table_id, reader, verdict, cached, asked)

    def _look(
        self, key: TableName, table_id: int | None, reader: ValidWriteIdList | None
    ) -> tuple[Verdict, Entry | None]:
        if self._process != os.getpid():
            return Verdict.OFF, None  # forked: the follower is in the parent, and the lock may be held there
        with self._lock:
            verdict, entry = self._state.look(key, table_id, reader)
        looked_at = self._follower.followed.looked_at
        if verdict is Verdict.HIT and (looked_at is None or self._clock() - looked_at > self._max_lag):
            return Verdict.BEHIND, entry
        return verdict, entry

    def _ask(
        self,
        key: TableName,
        table_id: int | None,
        reader: ValidWriteIdList | None,
        verdict: Verdict,
        cached: Callable[[TableEntry], T],
        asked: Callable[[Connection, Table], T] | None,
    ) -> T:
        keeps_partitions = verdict is Verdict.MISSING and asked is not None

        def operation(connection: Connection) -> tuple[TableEntry, T]:
            _, found = read_loaded(connection, [key])
            loaded = found.get(key)
            if loaded is None:
                raise no_such_table(connection, *key)
            require_list(loaded.table, table_id, reader)
            entry = TableEntry.of(loaded)
            if asked is None:
                return entry, cached(entry)
            if keeps_partitions and loaded.table.is_partitioned and self._too_large.get(key) != loaded.table.id:
                _, found = read_loaded(connection, [key], partitions=True)
                entry = TableEntry.of(found[key])
                with contextlib.suppress(UndecidableError):
                    return entry, cached(entry)
            return entry, asked(connection, loaded.table)

        with self._looking() as looking:
            entry, answer = self._database.read(operation)
            as_of = entry.freshness.as_of
            with self._lock:
                position = self._state.position
                # A newer list, and the log is followed beyond what the database showed: the log will never tell.
                untold = verdict in (Verdict.NEWER, Verdict.REPLACED) and position is not None and as_of <= position
                if (verdict is Verdict.MISSING or untold) and not self._state.offer(key, entry, looking):
                    self._refused(key, entry)
                told = None if asked is None else object() if entry.partitions is None else entry.partitions
                known, shown = self._state.show(key, entry, looking, told)
            if isinstance(known, TableEntry) and not _agrees(known, cached, answer):
                with self._lock:
                    self._state.differs(key, known, shown, looking)
        return answer

    def _refused(self, key: TableName, entry: TableEntry) -> None:
        if entry.partitions is not None and entry.size > self._state.store.maxsize:
            self._too_large[key] = entry.table.id

    @contextlib.contextmanager
    def _looking(self) -> Iterator[Looking]:
        with self._lock:
            looking = self._state.begin_looking()
        try:
            yield looking
        finally:
            with self._lock:
                self._state.end_looking(looking)

    def _names(self, key: TableName, read: Callable[[Connection], list[str]], at_least: int) -> list[str]:
        found = self._value(key, lambda connection: tuple(read(connection)), at_least)
        if not isinstance(found, tuple):
            raise AssertionError("a database in the place of names")
        return list(found)

    def _value(
        self, key: TableName, read: Callable[[Connection], Database | tuple[str, ...]], at_least: int
    ) -> Database | tuple[str, ...]:
        verdict, entry = self._look(key, None, None)
        if verdict is Verdict.HIT and isinstance(entry, ValueEntry):
            if (self._state.position or 0) >= at_least:
                self._counts[Verdict.HIT] += 1
                return entry.value
            verdict = Verdict.UNCONFIRMED
        self._counts[verdict] += 1
        with self._looking() as looking:
            as_of, value = self._database.read(lambda connection: (read_last_event_id(connection), read(connection)))
            own = ValueEntry(value, Freshness(as_of))
            with self._lock:
                if verdict is Verdict.MISSING:
                    self._state.offer(key, own, looking)
                known, shown = self._state.show(key, own, looking)
                if isinstance(known, ValueEntry) and known.value != value:
                    self._state.differs(key, known, shown, looking)
        return value


def _agrees(known: TableEntry, cached: Callable[[TableEntry], T], answer: T) -> bool:
    """Whether an entry would have given the same answer; what it cannot tell is no difference."""
    try:
        return cached(known) == answer
    except UndecidableError:
        return True


def _copy(entry: TableEntry) -> Table:
    """The table, with dictionaries of its own: what a caller does to them is not the cache's business."""
    table = entry.table
    return replace(
        table,
        properties=dict(table.properties),
        storage=replace(table.storage, serde_properties=dict(table.serde_properties)),
    )


@lru_cache(4096)
def _key(db: str, table: str) -> TableName:
    return table_name(f"{db}.{table}")


@lru_cache(1024)
def _parsed(text: str) -> ValidWriteIdList:
    return ValidWriteIdList.parse(text)
