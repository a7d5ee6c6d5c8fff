"""Waiting for locks to be released."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import names_overlap
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.settings_table import DUMMY_TXN_MANAGER
from airflow_hive_acid.triggers.base import QuestionTrigger
from airflow_hive_acid.triggers.questions import Looked, Question, since, some

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.errors import HiveAcidError
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.locks import LockRow

#: Hive's lock types, from weakest to strongest.
LOCK_TYPES = ("SHARED_READ", "SHARED_WRITE", "EXCL_WRITE", "EXCLUSIVE")


@dataclass(frozen=True, slots=True)
class LocksQuestion(Question):
    """Are these locks released? Names are lower case.

    :param database: and ``table`` and ``partition``: the object; with a partition, only locks count that concern it.
        As a user writes the partition; it is resolved against the table's columns when the question is asked.
    :param lock_id: one lock request instead of an object.
    :param txn_id: the locks of a txn instead, those it waits for included.
    :param lock_types: names of the types that count; None for all.
    """

    database: str | None = None
    table: str | None = None
    partition: str | None = None
    lock_id: int | None = None
    txn_id: int | None = None
    lock_types: frozenset[str] | None = None

    def ask(self, client: MetastoreClient) -> Looked:
        """Look once."""
        from airflow_hive_acid.metastore.database import now_ms  # not needed to defer

        if _is_legacy(client):
            return judge_locks(self.find_legacy(client), client.database.read(now_ms))

        def read(connection: Connection) -> tuple[list[LockRow], int]:
            return self.find(connection), now_ms(connection)

        return judge_locks(*client.database.read(read))

    @classmethod
    def ask_all(
        cls, client: MetastoreClient, questions: Sequence[LocksQuestion]
    ) -> dict[LocksQuestion, Looked | HiveAcidError]:
        """Look for many: the locks of a database are read once, however many ask for some of them."""
        from airflow_hive_acid.metastore.database import now_ms
        from airflow_hive_acid.metastore.listing import LockFilter, stream_locks

        if _is_legacy(client):
            # A class with slots is made anew, which the short form does not know.
            return super(LocksQuestion, cls).ask_all(client, questions)
        failed: dict[LocksQuestion, HiveAcidError] = {}

        def read(connection: Connection) -> tuple[dict[LocksQuestion, list[LockRow]], int]:
            found: dict[LocksQuestion, list[LockRow]] = {}
            meant: dict[LocksQuestion, LocksQuestion] = {}
            for question in questions:
                try:
                    meant[question] = question.resolved(connection)
                except InvalidArgumentsError as error:
                    failed[question] = error
            resolved = list(dict.fromkeys(meant.values()))
            rows: dict[LocksQuestion, list[LockRow]] = {question: [] for question in resolved}
            places = {LockFilter(question.database, txn_id=question.txn_id): None for question in resolved}
            for place in places:
                asked = [q for q in resolved if (q.database, q.txn_id) == (place.database, place.txn_id)]
                _share_out(stream_locks(connection, place), asked, rows)
            for question, named in meant.items():
                found[question] = rows[named]
            return found, now_ms(connection)

        found, now = client.database.read(read)
        return {**failed, **{question: judge_locks(rows, now) for question, rows in found.items()}}

    def find(self, connection: Connection) -> list[LockRow]:
        """The locks that are still to be released, chosen while they are read: a metastore may hold very many.

        :raises InvalidArgumentsError: when the table has no such partitions.
        """
        from airflow_hive_acid.metastore.listing import LockFilter, stream_locks

        places = LockFilter(self.database, txn_id=self.txn_id)
        named = self.resolved(connection)
        return [row for row in stream_locks(connection, places) if named.counts(row)]

    def find_legacy(self, client: MetastoreClient) -> list[LockRow]:
        """The same among the S and X locks of the Hive Concurrency Model, in our table or in ZooKeeper.

        :raises MetastoreUnavailableError: when ZooKeeper does not answer.
        """
        from airflow_hive_acid.metastore.locks import legacy_lock_manager

        named = client.database.read(self.resolved)
        with contextlib.closing(legacy_lock_manager(client.database, client.settings)) as manager:
            return [row for row in manager.stream_locks(self.database) if named.counts(row)]

    def resolved(self, connection: Connection) -> LocksQuestion:
        """The question with its partition as the table's columns have it; asked for again with every look."""
        if self.partition is None:
            return self
        from airflow_hive_acid.metastore.names import resolve

        return replace(self, partition=resolve(connection, f"{self.database}.{self.table}", self.partition))

    def counts(self, row: LockRow) -> bool:
        """Whether a lock is one of those.

        A lock of a table's database or of the table itself concerns its partitions, and the other way round. A request
        that only waits holds nothing, unless it is the one that was asked for.
        """
        if self.lock_types is not None and row.type.name not in self.lock_types:
            return False
        if self.lock_id is not None:
            return row.lock_id == self.lock_id
        if self.txn_id is not None:
            return row.txn_id == self.txn_id
        return row.state.name == "ACQUIRED" and _concerns(row, self.table, self.partition)


def locks_question(
    table: str | None,
    partition: str | None,
    lock_id: int | None,
    lock_types: Collection[str] | None,
    txn_id: int | None = None,
) -> LocksQuestion:
    """The question, from what a user writes.

    :raises InvalidArgumentsError: none or several of table, lock and txn; a partition without a table; an unknown type.
    """
    if sum(what is not None for what in (table, lock_id, txn_id)) != 1:
        raise InvalidArgumentsError("name what to wait for: either a table (or database), or a lock_id, or a txn_id")
    if partition is not None and (table is None or "." not in table):
        raise InvalidArgumentsError(f"partition {partition!r} needs its table as db.table, not {table!r}")
    for name in lock_types or ():
        if name not in LOCK_TYPES:
            raise InvalidArgumentsError(f"{name!r} is no lock type; Hive's are {', '.join(LOCK_TYPES)}")
    database, _, name = (table or "").lower().partition(".")
    types = None if lock_types is None else frozenset(lock_types)
    return LocksQuestion(database or None, name or None, partition, lock_id, txn_id, types)


def judge_locks(rows: Sequence[LockRow], now: int) -> Looked:
    """Whether it is over, or who holds what since when, in one line.

    :param now: milliseconds by the database's clock.
    """
    if not rows:
        return Looked(True)
    told = some([f"{row.type.name} of {row.describe()} {_verb(row)} {_holder(row)}{_since(row, now)}" for row in rows])
    return Looked(False, f"waiting for {len(rows)} lock{'s' * (len(rows) > 1)}: {told}")


class LocksReleasedTrigger(QuestionTrigger):
    """Fires when a lock, or all locks of an object or a txn, are released.

    :param table: ``db.table``, or ``db`` for a database.
    :param partition: partition name; with it, only locks count that concern this partition.
    :param lock_id: one lock request instead of an object.
    :param txn_id: a txn instead.
    :param lock_types: names of the types that count; None for all.
    """

    def __init__(
        self,
        table: str | None = None,
        partition: str | None = None,
        lock_id: int | None = None,
        lock_types: list[str] | None = None,
        txn_id: int | None = None,
        until: float | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.table = table
        self.partition = partition
        self.lock_id = lock_id
        self.lock_types = lock_types
        self.txn_id = txn_id

    def question(self) -> Question:
        """What is waited for."""
        return locks_question(self.table, self.partition, self.lock_id, self.lock_types, self.txn_id)


def _is_legacy(client: MetastoreClient) -> bool:
    return client.settings.string("hive.txn.manager") == DUMMY_TXN_MANAGER


def _share_out(
    rows: Iterable[LockRow], questions: Sequence[LocksQuestion], found: dict[LocksQuestion, list[LockRow]]
) -> None:
    """Give each row to those who asked for it. They are found by lock and by table: both sides may be very many."""
    by_lock: dict[int, list[LocksQuestion]] = {}
    by_table: dict[str, list[LocksQuestion]] = {}
    others: list[LocksQuestion] = []
    for question in questions:
        if question.lock_id is not None:
            by_lock.setdefault(question.lock_id, []).append(question)
        elif question.table is not None:
            by_table.setdefault(question.table, []).append(question)
        else:
            others.append(question)
    everybody = [*others, *(question for asked in by_table.values() for question in asked)]
    for row in rows:
        asked = everybody if row.table is None else [*others, *by_table.get(row.table, ())]
        for question in (*asked, *by_lock.get(row.lock_id, ())):
            if question.counts(row):
                found[question].append(row)


def _concerns(row: LockRow, table: str | None, partition: str | None) -> bool:
    if table is None or row.table is None:
        return True
    if row.table != table:
        return False
    return partition is None or row.partition is None or names_overlap(partition, row.partition)


def _verb(row: LockRow) -> str:
    return "held by" if row.state.name == "ACQUIRED" else "wanted by"


def _holder(row: LockRow) -> str:
    txn = f"txn {row.txn_id}" if row.txn_id else f"lock {row.lock_id}"
    return f"{txn} ({row.agent_info or f'{row.user}@{row.host}'})"


def _since(row: LockRow, now: int) -> str:
    return since(row.acquired_at, now) if row.state.name == "ACQUIRED" else ""
