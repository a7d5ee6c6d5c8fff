"""Waiting for commits to a table or partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import QuestionTrigger
from airflow_hive_acid.triggers.questions import Looked, Question, since, some

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.locks import TxnRow

Commits = dict[int, tuple[int, set[str]]]
"""Txn id and partition names by write id."""


@dataclass(eq=False, slots=True)
class CommitsQuestion(Question):
    """Have so many txns committed to a table or partition since a mark?

    Remembers what it has seen: compaction and a Hive's housekeeping remove older notes of commits. A table that was
    dropped and made anew counts its write ids anew: whatever is committed to it comes after the mark.

    :param after: write id of the mark.
    :param pending: write ids up to it that were open.
    :param table_id: which table had the name then; None: the one that has it at the first look.
    """

    table: str
    partition: str | None
    after: int
    pending: tuple[int, ...]
    commits: int
    table_id: int | None = None
    seen: Commits = field(default_factory=dict)

    def ask(self, client: MetastoreClient) -> Looked:
        """Look once."""
        from airflow_hive_acid.metastore.database import now_ms  # not needed to defer
        from airflow_hive_acid.metastore.listing import Mark, commits_since, open_writers, table_id
        from airflow_hive_acid.metastore.names import table_name

        name = table_name(self.table)

        def read(connection: Connection) -> Looked:
            what = str(name) if self.partition is None else f"{name}/{self.partition}"
            there = table_id(connection, name)
            if there is None:
                return Looked(False, f"waiting for commits to {what}, and there is no table {name} now")
            if there != self.table_id:
                if self.table_id is not None:
                    self.after, self.pending = 0, ()
                    self.seen.clear()
                self.table_id = there
            mark = Mark(self.after, self.pending)
            for write_id, txn_id, partition in commits_since(connection, name, self.partition, mark):
                self.seen.setdefault(write_id, (txn_id, set()))[1].add(partition)
            writers = [txn for _, txn in open_writers(connection, name)] if len(self.seen) < self.commits else []
            return judge_commits(what, self.after, self.commits, self.seen, writers, now_ms(connection))

        return client.database.read(read)


def commits_question(
    client: MetastoreClient, table: str, partition: str | None, after: int | None, commits: int
) -> CommitsQuestion:
    """The question, from what a user writes; without a write id the mark is where the table stands now.

    :raises InvalidArgumentsError: when the table has no transactions, or an argument makes no sense.
    :raises NoSuchObjectError: when there is no such table.
    """
    from airflow_hive_acid.metastore.listing import Mark, mark_of
    from airflow_hive_acid.metastore.names import resolve, table_name

    if commits < 1:
        raise InvalidArgumentsError(f"commits is {commits}; wait for at least one")
    if after is not None and after < 0:
        raise InvalidArgumentsError(
            f"after_write_id is {after}; write ids begin with 1, and 0 means from the beginning"
        )
    name = table_name(table)
    found = client.cache.table(str(name))
    if not found.is_transactional:
        raise InvalidArgumentsError(f"{name} is not transactional: nothing is ever committed to it")
    wanted = (
        None if partition is None else client.database.read(lambda connection: resolve(connection, name, partition))
    )
    mark = Mark(after) if after is not None else client.database.read(lambda connection: mark_of(connection, name))
    return CommitsQuestion(str(name), wanted, mark.write_id, mark.pending, commits, found.id)


def judge_commits(
    what: str,
    after: int,
    wanted: int,
    seen: Mapping[int, tuple[int, set[str]]],
    writers: Sequence[TxnRow],
    now: int,
) -> Looked:
    """Whether there were enough commits, or how many are missing and who is writing.

    :param what: the table or partition.
    :param writers: open txns with a write id of the table.
    :param now: milliseconds by the database's clock.
    """
    if len(seen) >= wanted:
        partitions = sorted({p for _, names in seen.values() for p in names if p})
        return Looked(True, answer={
            "write_ids": sorted(seen), "txn_ids": sorted({txn for txn, _ in seen.values()}), "partitions": partitions,
        })  # fmt: skip
    told = some([f"txn {t.txn_id} of {t.agent_info or f'{t.user}@{t.host}'}{since(t.started, now)}" for t in writers])
    return Looked(
        False,
        f"waiting for commits to {what} after write id {after}: {len(seen)} of {wanted} so far; "
        f"{f'writing: {told}' if writers else 'nobody is writing'}",
    )


class TableCommitTrigger(QuestionTrigger):
    """Fires when there were so many commits to a table or partition since a mark.

    :param after: write id of the mark.
    :param pending: write ids up to it that were open.
    :param table_id: which table had the name then; None of a sensor of an earlier release, that did not know.
    """

    def __init__(
        self,
        table: str,
        partition: str | None,
        after: int,
        pending: list[int],
        commits: int = 1,
        until: float | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
        table_id: int | None = None,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.table = table
        self.partition = partition
        self.after = after
        self.pending = pending
        self.commits = commits
        self.table_id = table_id

    def question(self) -> Question:
        """What is waited for."""
        return CommitsQuestion(self.table, self.partition, self.after, tuple(self.pending), self.commits, self.table_id)
