"""HIVE_ACID_READ: how often tables and partitions are read, as far as our own jobs tell.

Jobs count what they have read when they end; the Initiator marks the count whenever it finds a compaction, ours or a
real Hive's, that it has not seen before. The difference is how often readers have opened what was written since. It is
a measure for decisions and no record: a process that dies takes its last count along, and a renamed table begins anew.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, delete, exists, insert, select, update

from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import DBS, TBLS
from airflow_hive_acid.metastore.schema.reads import HIVE_ACID_READ

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database

KEPT_MS = 90 * 86_400_000
"""How long the count of something is kept that is neither read nor looked at."""

_R = HIVE_ACID_READ.c
_NUMBERS = (_R.HRD_READS, _R.HRD_COMPACTION, _R.HRD_COMPACTION_READS, _R.HRD_COMPACTION_SINCE, _R.HRD_BASE,
            _R.HRD_BASE_READS, _R.HRD_BASE_SINCE)  # fmt: skip
_FIND = select(_R.HRD_KEY, *_NUMBERS).where(_R.HRD_KEY.in_(bindparam("keys", expanding=True)))
_COUNT = (
    update(HIVE_ACID_READ)
    .where(_R.HRD_KEY == bindparam("key"))
    .values(HRD_READS=_R.HRD_READS + bindparam("more", type_=BigInteger), HRD_LAST=bindparam("now"))
)
_MARK = (
    update(HIVE_ACID_READ)
    .where(_R.HRD_KEY == bindparam("key"))
    .values(
        HRD_LAST=bindparam("now"), HRD_COMPACTION=bindparam("compaction"),
        HRD_COMPACTION_READS=bindparam("compaction_reads"), HRD_COMPACTION_SINCE=bindparam("compaction_since"),
        HRD_BASE=bindparam("base"), HRD_BASE_READS=bindparam("base_reads"), HRD_BASE_SINCE=bindparam("base_since"),
    )
)  # fmt: skip
_INSERT = insert(HIVE_ACID_READ)
_OLD = select(_R.HRD_KEY).where(
    (_R.HRD_LAST < clock_ms() - bindparam("age", type_=BigInteger))
    | ~exists().where(DBS.c.DB_ID == TBLS.c.DB_ID, DBS.c.NAME == _R.HRD_DATABASE, TBLS.c.TBL_NAME == _R.HRD_TABLE)
)
_DELETE = delete(HIVE_ACID_READ).where(_R.HRD_KEY.in_(bindparam("keys", expanding=True)))


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the count of reads stood when a compaction was found.

    :param of: the compaction's txn, or the write id of the base; -1: none was looked for yet.
    :param reads: the count then.
    :param since: when that was, ms by the database's clock.
    """

    of: int
    reads: int
    since: int


NO_MARK = Mark(-1, 0, 0)


@dataclass(frozen=True, slots=True)
class ReadCount:
    """How often a table or partition was read, with the Initiator's marks.

    :param reads: reads counted so far, those of the whole table included.
    :param compaction: the mark of the newest compaction, and ``base`` that of the base.
    """

    reads: int = 0
    compaction: Mark = NO_MARK
    base: Mark = NO_MARK


class ReadCounts:
    """The counts of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_there(self) -> bool:
        """Whether this metastore has the table; an older schema of ours has not."""
        return self._database.read(lambda connection: self._database.features(connection).reads)

    def add(self, read: Collection[Resource]) -> None:
        """Count one more read of each of these; a table with partitions stands for a read of all of them."""

        def operation(connection: Connection) -> None:
            if not self._database.features(connection).reads:
                return
            now = now_ms(connection)
            # In one order: two readers of the same partitions must not wait for each other.
            for key, resource in sorted((_key(resource), resource) for resource in set(read)):
                if not connection.execute(_COUNT, {"key": key, "more": 1, "now": now}).rowcount:
                    connection.execute(_INSERT, _row(key, resource, ReadCount(1), now))

        if read:
            self._database.run(operation, retry_duplicates=True)

    def find(self, resources: Collection[Resource]) -> tuple[int, dict[Resource, ReadCount]]:
        """The counts of tables and partitions; one that was never read or marked has none.

        :return: the time now, ms by the database's clock, and the counts.
        """
        wanted = {resource: _key(resource) for resource in resources}
        tables = {r: _key(Resource(r.database, r.table)) for r in resources if r.partition is not None}

        def operation(connection: Connection) -> tuple[int, dict[str, ReadCount]]:
            found: dict[str, ReadCount] = {}
            for part in chunks(sorted({*wanted.values(), *tables.values()})):
                found |= {key: _count(row) for key, *row in connection.execute(_FIND, {"keys": list(part)})}
            return now_ms(connection), found

        now, found = self._database.read(operation)
        counts: dict[Resource, ReadCount] = {}
        for resource, key in wanted.items():
            own, whole = found.get(key), found.get(tables[resource]) if resource in tables else None
            if own is not None or whole is not None:
                own = own or ReadCount()
                counts[resource] = ReadCount(own.reads + (whole.reads if whole else 0), own.compaction, own.base)
        return now, counts

    def mark(self, found: Mapping[Resource, ReadCount]) -> None:
        """Note the marks of these counts; the counts themselves stay."""

        def operation(connection: Connection) -> None:
            now = now_ms(connection)
            for key, resource, count in sorted((_key(r), r, c) for r, c in found.items()):
                values = {
                    "key": key, "now": now, "compaction": count.compaction.of,
                    "compaction_reads": count.compaction.reads, "compaction_since": count.compaction.since,
                    "base": count.base.of, "base_reads": count.base.reads, "base_since": count.base.since,
                }  # fmt: skip
                if not connection.execute(_MARK, values).rowcount:
                    connection.execute(_INSERT, _row(key, resource, ReadCount(0, count.compaction, count.base), now))

        if found:
            self._database.run(operation, retry_duplicates=True)

    def purge(self, kept_ms: int = KEPT_MS) -> int:
        """Forget counts of what is gone, or was not looked at for long; returns how many."""
        if not self.is_there:
            return 0

        def operation(connection: Connection) -> int:
            # Read first: MySQL does not delete from what a subquery reads.
            keys = list(connection.execute(_OLD, {"age": kept_ms}).scalars())
            for part in chunks(keys):
                connection.execute(_DELETE, {"keys": list(part)})
            return len(keys)

        return self._database.run(operation)


def _count(row: Any) -> ReadCount:
    reads, compaction, compaction_reads, compaction_since, base, base_reads, base_since = map(int, row)
    return ReadCount(reads, Mark(compaction, compaction_reads, compaction_since), Mark(base, base_reads, base_since))


def _key(resource: Resource) -> str:
    names = "\0".join((resource.database, resource.table, resource.partition or ""))
    return hashlib.sha256(names.encode("utf-8", "surrogatepass")).hexdigest()


def _row(key: str, resource: Resource, count: ReadCount, now: int) -> dict[str, Any]:
    return {
        "HRD_KEY": key, "HRD_DATABASE": resource.database, "HRD_TABLE": resource.table,
        "HRD_PART_NAME": resource.partition or "", "HRD_READS": count.reads, "HRD_LAST": now,
        "HRD_COMPACTION": count.compaction.of, "HRD_COMPACTION_READS": count.compaction.reads,
        "HRD_COMPACTION_SINCE": count.compaction.since, "HRD_BASE": count.base.of, "HRD_BASE_READS": count.base.reads,
        "HRD_BASE_SINCE": count.base.since,
    }  # fmt: skip
