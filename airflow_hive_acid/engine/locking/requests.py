"""What is asked to be locked, and the locks that were planned for it.

Which partitions a statement reads is known before its locks are, and its snapshot is taken after them: a transaction
that commits between the two may bring a partition that the snapshot shows and no lock covers. So planned locks know
what they were planned for. Under the locks the same is planned again: what is new means another request; what is listed
then is what the statement reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from airflow_hive_acid.metastore.protocol import Locks
from airflow_hive_acid.sql.text.masking import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.sql.locks.ddl_locks import DdlStatement
    from airflow_hive_acid.sql.locks.legacy_locks import LegacyLock
    from airflow_hive_acid.sql.model.origins import TableName
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.pruning import PartitionFilter
    from airflow_hive_acid.sql.model.statements import Truncate

Listed = Mapping[tuple[str, "PartitionFilter"], "list[PartitionRef]"]
"""Partitions, by the table and the condition they were asked for."""


@dataclass(frozen=True, slots=True)
class Statements:
    """A transaction that runs these plans and these TRUNCATEs."""

    plans: Sequence[Plan]
    truncates: Sequence[Truncate] = ()

    @property
    def text(self) -> str:
        """Its statements, for SHOW LOCKS EXTENDED."""
        texts = [*(plan.statement.text for plan in self.plans), *(truncate.text for truncate in self.truncates)]
        return hide_secrets("; ".join(dict.fromkeys(texts)))


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that is made and filled by a query; two of one name fail at once (``hive.txn.xlock.ctas``).

    :param transactional: what the table will be.
    """

    table: TableName
    query: Plan
    transactional: bool

    @property
    def text(self) -> str:
        """The query, for SHOW LOCKS EXTENDED."""
        return hide_secrets(self.query.statement.text)


@dataclass(frozen=True, slots=True)
class ReplacedTable:
    """A table that is there and gets another definition, and the rows of a query, if there is one.

    :param partitioned: whether the table is.
    """

    table: TableName
    statement: str
    queries: Sequence[Plan]
    partitioned: bool

    @property
    def text(self) -> str:
        """The statement, for SHOW LOCKS EXTENDED."""
        return hide_secrets(self.statement)


@dataclass(frozen=True, slots=True)
class Definition:
    """A statement of DDL."""

    statement: DdlStatement

    @property
    def text(self) -> str:
        """The statement, for SHOW LOCKS EXTENDED."""
        return hide_secrets(self.statement.text)


@dataclass(frozen=True, slots=True)
class Declared:
    """A transaction of which only tables and operations are known.

    :param operations: ``select``, ``insert``, ``overwrite``, ``update`` or ``delete`` by table.
    """

    operations: Mapping[str, str]

    @property
    def text(self) -> str:
        """Nobody knows yet what it will run."""
        return ""


NO_LOCKS = Locks(())
Wanted = Statements | NewTable | ReplacedTable | Definition | Declared


class Explained(Protocol):
    """A lock that says why it is there; its text is Hive's, as EXPLAIN LOCKS prints it."""

    @property
    def rule(self) -> str:
        """What was done, and the setting or property that decided."""


@dataclass(frozen=True, slots=True)
class PlannedLocks:
    """What to lock, by the partitions that there were.

    :param wanted: what it was planned for; it can be planned again.
    :param explained: every lock, with its rule.
    :param of_txn: what the txn asks the metastore for, and holds until it ends.
    :param beside: what is held beside the txn, by a manager of the Hive Concurrency Model.
    :param listed: the partitions of the tables that are locked partition by partition.
    """

    wanted: Wanted
    explained: Sequence[Explained] = ()
    of_txn: Locks = NO_LOCKS
    beside: tuple[LegacyLock, ...] = ()
    listed: Listed = field(default_factory=dict)

    def covers(self, other: PlannedLocks) -> bool:
        """Whether everything that the other plan locks is locked by this one."""
        return other._places <= self._places

    @property
    def _places(self) -> frozenset[tuple[str, ...]]:
        objects = (component.object for component in self.of_txn.components)
        return frozenset((*(tuple(part or "" for part in place) for place in objects), *(b.path for b in self.beside)))
