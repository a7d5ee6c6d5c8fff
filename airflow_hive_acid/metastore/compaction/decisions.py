"""What the Initiator decided (HIVE_ACID_DECISION), and with it what it has to look at again.

Hive keeps one time for all tables and asks which were written since; what did not fit into that look, or was written by
a commit that became visible late, is forgotten. Here every table and partition has a mark of its own: number and sum of
the txn ids of its completed components at the last look. What has another mark now, or none, is looked at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    DateTime,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    union_all,
    update,
)

from airflow_hive_acid.format.partitions import spellings
from airflow_hive_acid.metastore.compaction.candidates import UNSUCCESSFUL
from airflow_hive_acid.metastore.compaction.model import Candidate, Resource, lists_of
from airflow_hive_acid.metastore.compaction.written import (
    candidate_of,
    read_marks,
    read_touched,
    read_unsuccessful,
    read_written,
)
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_TXN_COMPONENTS
from airflow_hive_acid.metastore.schema.ours import HIVE_ACID_DECISION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from sqlalchemy import Connection, Select

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.names.objects import TableName

KEPT = 5
"""Outcomes kept of one table or partition."""
KEPT_MS = 7 * 86_400_000
"""How long outcomes are kept that a later one has replaced, and those of tables that nothing more is known of."""
_MOST_REASON = 4000

_ctc, _had = COMPLETED_TXN_COMPONENTS.c, HIVE_ACID_DECISION.c
_written = (
    select(
        _ctc.CTC_DATABASE, _ctc.CTC_TABLE, _ctc.CTC_PARTITION,
        func.count().label("writes"),
        cast(func.sum(_ctc.CTC_TXNID), BigInteger).label("txn_sum"),
        func.min(_ctc.CTC_TIMESTAMP).label("oldest"),
        func.min(_ctc.CTC_TXNID).label("first_txn"),
    )
    .where(_ctc.CTC_TABLE.is_not(None))
    .group_by(_ctc.CTC_DATABASE, _ctc.CTC_TABLE, _ctc.CTC_PARTITION)
    .subquery("written")
)  # fmt: skip
_w = _written.c
_NUMBER = cast(null(), BigInteger)
_TIME = cast(null(), DateTime)


def _part(table: Any, db: Any, tbl: Any, part: Any, *, where: Any, **known: Any) -> Select[Any]:
    """Rows of one of the three tables in the same columns, so that one grouping brings them together."""
    columns = {
        "writes": _NUMBER, "txn_sum": _NUMBER, "oldest": _TIME, "first_txn": _NUMBER, "looked": _NUMBER,
        "seen_writes": _NUMBER, "seen_sum": _NUMBER, "again": _NUMBER,
    }  # fmt: skip
    named = [column.label(name) for name, column in {**columns, **known}.items()]
    return select(
        db.label("db"), tbl.label("tbl"), func.coalesce(part, "").label("part"), *named
    ).select_from(table).where(*where)  # fmt: skip


_one = literal(1, BigInteger)
# Grouped instead of joined: PostgreSQL knows nothing of the groups of a subquery, and compared each with each.
_parts = union_all(
    _part(
        _written, _w.CTC_DATABASE, _w.CTC_TABLE, _w.CTC_PARTITION, where=(), writes=_w.writes, txn_sum=_w.txn_sum,
        oldest=_w.oldest, first_txn=_w.first_txn,
    ),
    _part(
        HIVE_ACID_DECISION, _had.HAD_DATABASE, _had.HAD_TABLE, _had.HAD_PART_NAME, where=(_had.HAD_NEWEST == "Y",),
        looked=_had.HAD_LOOKED, seen_writes=_had.HAD_WRITES, seen_sum=_had.HAD_TXN_SUM,
        again=case((_had.HAD_AGAIN == "Y", _one), else_=_NUMBER),
    ),
    _part(
        UNSUCCESSFUL, UNSUCCESSFUL.c.CC_DATABASE, UNSUCCESSFUL.c.CC_TABLE, UNSUCCESSFUL.c.CC_PARTITION, where=(),
        again=_one,
    ),
).subquery("parts")  # fmt: skip
_p = _parts.c
_known = (
    select(
        _p.db, _p.tbl, _p.part,
        *(func.max(_p[name]).label(name) for name in (
            "writes", "txn_sum", "oldest", "first_txn", "looked", "seen_writes", "seen_sum", "again")),
    )
    .group_by(_p.db, _p.tbl, _p.part)
    .subquery("known")
)  # fmt: skip
_k = _known.c
_CHANGED = (
    select(_k.db, _k.tbl, _k.part, _k.writes, _k.txn_sum)
    .where(
        _k.writes.is_not(None),
        or_(
            _k.looked.is_(None),
            and_(
                # Not "before": a clock that went back has left times that are still to come.
                _k.looked != bindparam("look", type_=BigInteger),
                or_(_k.seen_writes != _k.writes, _k.seen_sum != _k.txn_sum, _k.again == _one),
            ),
        ),
    )
    # What was never looked at, then what was not for longest; of those the oldest writes, then where there are most.
    .order_by(func.coalesce(_k.looked, 0), _k.oldest, _k.writes.desc(), _k.first_txn)
    .limit(bindparam("limit"))
)
_CHANGED_SINCE = _CHANGED.where(_k.looked.is_not(None))
# Not by triples: MariaDB looks for those in a list of its own and misses what is no ASCII in a latin1 column. So rows
# of other resources come, too.
_ASKED = and_(
    _had.HAD_NEWEST == "Y",
    _had.HAD_DATABASE.in_(bindparam("databases", expanding=True)),
    _had.HAD_TABLE.in_(bindparam("tables", expanding=True)),
    _had.HAD_PART_NAME.in_(bindparam("parts", expanding=True)),
)
_NEWEST = select(_had.HAD_ID, _had.HAD_DATABASE, _had.HAD_TABLE, _had.HAD_PART_NAME, _had.HAD_KIND, _had.HAD_RULE,
                 _had.HAD_REQUEST_ID).where(_ASKED)  # fmt: skip
_DECISIONS = select(HIVE_ACID_DECISION).where(_ASKED)
_LOOKED = select(_had.HAD_DATABASE, _had.HAD_TABLE, _had.HAD_PART_NAME, _had.HAD_LOOKED, _had.HAD_WRITES,
                 _had.HAD_TXN_SUM, _had.HAD_AGAIN).where(_ASKED)  # fmt: skip
_SAME_AGAIN = (
    update(HIVE_ACID_DECISION)
    .where(_had.HAD_ID == bindparam("id"))
    .values(
        HAD_LOOKED=bindparam("look"), HAD_LOOKS=_had.HAD_LOOKS + 1, HAD_AGAIN=bindparam("again"),
        HAD_WRITES=bindparam("writes"), HAD_TXN_SUM=bindparam("txn_sum"), HAD_REASON=bindparam("reason"),
        HAD_NUMBERS=bindparam("numbers"), HAD_BLOCKED_BY=bindparam("blocked_by"),
    )
)  # fmt: skip
_REPLACED = update(HIVE_ACID_DECISION).where(_had.HAD_ID == bindparam("id")).values(HAD_NEWEST="N")
_INSERT = insert(HIVE_ACID_DECISION)
_OF_RESOURCE = (
    select(HIVE_ACID_DECISION)
    .where(
        _had.HAD_DATABASE == bindparam("db"),
        _had.HAD_TABLE == bindparam("tbl"),
        _had.HAD_PART_NAME.in_(bindparam("parts", expanding=True)),
    )
    .order_by(_had.HAD_ID.desc())
    .limit(bindparam("limit"))
)
_ranked = select(
    _had.HAD_ID,
    _had.HAD_LOOKED,
    func.row_number()
    .over(partition_by=(_had.HAD_DATABASE, _had.HAD_TABLE, _had.HAD_PART_NAME), order_by=_had.HAD_ID.desc())
    .label("number"),
).subquery("ranked")
_TOO_MANY = select(_ranked.c.HAD_ID).where(_ranked.c.number > bindparam("kept"))
_REPLACED_LONG_AGO = select(_had.HAD_ID).where(_had.HAD_NEWEST == "N", _had.HAD_LOOKED < bindparam("before"))
_OF_NOTHING = (
    select(_had.HAD_ID)
    .outerjoin(
        COMPLETED_TXN_COMPONENTS,
        and_(
            _ctc.CTC_DATABASE == _had.HAD_DATABASE,
            _ctc.CTC_TABLE == _had.HAD_TABLE,
            func.coalesce(_ctc.CTC_PARTITION, "") == _had.HAD_PART_NAME,
        ),
    )
    .where(_had.HAD_NEWEST == "Y", _had.HAD_LOOKED < bindparam("before"), _ctc.CTC_TXNID.is_(None))
)
_DELETE = delete(HIVE_ACID_DECISION).where(_had.HAD_ID.in_(bindparam("ids", expanding=True)))


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """An outcome of the Initiator about one table or partition.

    :param kind: name of a :class:`~airflow_hive_acid.maintenance.decisions.Kind`.
    :param rule: what decided.
    :param blocked_by: what keeps it from being compacted, or from being seen as a whole.
    :param again: it is looked at in the next look in any case.
    :param since: when the outcome was this for the first time, ms by the database's clock.
    :param looked: when it was so last.
    :param looks: how often in between.
    """

    resource: Resource
    kind: str
    rule: str
    reason: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    blocked_by: tuple[str, ...] = ()
    request_id: int | None = None
    again: bool = False
    since: int = 0
    looked: int = 0
    looks: int = 1


@dataclass(frozen=True, slots=True)
class Looked:
    """What was noted of a table or partition when it was looked at last.

    :param when: that look, ms by the database's clock.
    :param writes: number, and ``txn_sum`` sum of the txn ids, of its completed components then.
    :param again: it is to be looked at in any case.
    """

    when: int
    writes: int
    txn_sum: int
    again: bool


class CompactionDecisions:
    """The Initiator's decisions in one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_there(self) -> bool:
        """Whether this metastore has the table; an older schema of ours has not."""
        return self._database.read(lambda connection: self._database.features(connection).decisions)

    def find_changed(self, look: int, limit: int, *, only_known: bool = False) -> list[Candidate]:
        """What was written since it was looked at last, or must be looked at again; longest waiting first.

        :param look: when this look began: what it has looked at already is left out.
        :param only_known: without what was never looked at.
        """
        statement, parameters = (_CHANGED_SINCE if only_known else _CHANGED), {"look": look, "limit": limit}
        return self._database.read(
            lambda connection: [candidate_of(row) for row in connection.execute(statement, parameters)]
        )

    def find_changed_since(self, low: int, look: int, limit: int) -> list[Candidate] | None:
        """As :meth:`find_changed`, of what txns from an id on have written, or must be looked at again; what was looked
        at and has not changed is not read for it.

        :param low: every txn with a smaller id had ended when everything was looked at last.
        :return: None when there is more than ``limit`` of it.
        """

        def operation(connection: Connection) -> list[Candidate] | None:
            unsuccessful = read_unsuccessful(connection)
            touched = read_touched(connection, low, look, limit, unsuccessful)
            if touched is None:
                return None
            return _due(connection, read_marks(connection, touched), look, set(unsuccessful))

        return self._database.read(operation)

    def walk_changed(self, look: int, size: int) -> Iterator[list[Candidate]]:
        """As :meth:`find_changed`, all of it, by name instead of by age; one walk over everything that was written.

        :param size: of the pages that are read; what is given at once is no more.
        """
        unsuccessful = set(self._database.read(read_unsuccessful))
        after: Resource | None = None
        while page := self.find_written(size, after):

            def due(connection: Connection, page: list[Candidate] = page) -> list[Candidate]:
                return _due(connection, page, look, unsuccessful)

            yield self._database.read(due)
            if len(page) < size:
                return
            after = page[-1].resource

    def find_written(
        self, limit: int, after: Resource | None = None, table: TableName | None = None
    ) -> list[Candidate]:
        """Everything with completed components, whenever it was looked at, by name.

        :param after: the last one of the page before.
        :param table: of this table alone.
        """
        return self._database.read(lambda connection: read_written(connection, limit, after, table))

    def written(self, resource: Resource) -> Candidate | None:
        """A table or partition with its completed components; None when it has none."""
        names = spellings(resource.partition) if resource.partition else (None,)
        asked = [replace(resource, partition=name) for name in names]
        found = self._database.read(lambda connection: read_marks(connection, asked))
        if not found:
            return None
        writes, txn_sum = sum(one.writes for one in found), sum(one.txn_sum for one in found)
        return replace(found[0], resource=resource, writes=writes, txn_sum=txn_sum)

    def store(self, look: int, outcomes: Sequence[tuple[Candidate, StoredDecision]]) -> None:
        """Remember what was decided in a look; an outcome that was the same before only gets a new time."""

        def operation(connection: Connection) -> None:
            for part in chunks(list(outcomes)):
                _store(connection, look, part)

        self._database.run(operation)

    def of(self, resource: Resource, limit: int = KEPT) -> list[StoredDecision]:
        """The last outcomes for a table or partition, newest first."""
        if not self.is_there:
            return []
        names = _names(resource)
        parameters = {"db": names["db"], "tbl": names["tbl"], "parts": list(spellings(names["part"])), "limit": limit}
        return self._database.read(
            lambda connection: [_stored(row) for row in connection.execute(_OF_RESOURCE, parameters)]
        )

    def of_table(self, database: str, table: str, limit: int) -> list[StoredDecision]:
        """The last outcomes for a table and its partitions, newest first."""
        if not self.is_there:
            return []
        statement = (
            select(HIVE_ACID_DECISION)
            .where(_had.HAD_DATABASE == database, _had.HAD_TABLE == table)
            .order_by(_had.HAD_LOOKED.desc(), _had.HAD_ID.desc())
            .limit(limit)
        )
        return self._database.read(lambda connection: [_stored(row) for row in connection.execute(statement)])

    def purge(self, now: int, kept: int = KEPT, kept_ms: int = KEPT_MS) -> int:
        """Forget what is too much or too old; returns how many rows.

        :param kept: outcomes of one table or partition that stay.
        :param kept_ms: age beyond which replaced ones go, and those of what has no uncleaned writes any more.
        """
        if not self.is_there:
            return 0
        parameters = {"kept": kept, "before": now - kept_ms}

        def operation(connection: Connection) -> int:
            # Read first: MySQL does not delete from what a subquery reads.
            ids = {
                decision_id
                for statement in (_TOO_MANY, _REPLACED_LONG_AGO, _OF_NOTHING)
                for decision_id in connection.execute(statement, parameters).scalars()
            }
            for part in chunks(sorted(ids)):
                connection.execute(_DELETE, {"ids": list(part)})
            return len(ids)

        return self._database.run(operation)


def read_newest_decisions(connection: Connection, resources: Sequence[Resource]) -> dict[Resource, StoredDecision]:
    """What was decided last about these tables and partitions."""
    found: dict[Resource, StoredDecision] = {}
    for part in chunks(resources):
        rows, wanted = connection.execute(_DECISIONS, lists_of(part)), set(part)
        found |= {one.resource: one for one in map(_stored, rows) if one.resource in wanted}
    return found


def read_decisions_of_requests(connection: Connection, request_ids: Sequence[int]) -> dict[int, StoredDecision]:
    """What led to these compaction requests, as far as it is remembered."""
    found: dict[int, StoredDecision] = {}
    for part in chunks(request_ids):
        statement = select(HIVE_ACID_DECISION).where(_had.HAD_REQUEST_ID.in_(list(part))).order_by(_had.HAD_ID)
        for decision in map(_stored, connection.execute(statement)):
            if decision.request_id is not None:
                found.setdefault(decision.request_id, decision)
    return found


def is_due(candidate: Candidate, looked: Looked | None, look: int, *, failed: bool) -> bool:
    """Whether something that was written has to be looked at.

    :param looked: what was noted when it was looked at last.
    :param look: when this look began; what it has looked at already is not due.
    :param failed: its last compaction failed or was not begun.
    """
    if looked is None:
        return True
    changed = (looked.writes, looked.txn_sum) != (candidate.writes, candidate.txn_sum)
    return looked.when != look and (changed or looked.again or failed)


def _due(
    connection: Connection, written: Sequence[Candidate], look: int, unsuccessful: Set[Resource]
) -> list[Candidate]:
    due: list[Candidate] = []
    for part in chunks(written):
        rows = connection.execute(_LOOKED, lists_of(one.resource for one in part))
        known = {
            (database, table, name): Looked(when, writes, txn_sum, again == "Y")
            for database, table, name, when, writes, txn_sum, again in rows
        }
        due += [
            one
            for one in part
            if is_due(one, known.get(_key_of(one.resource)), look, failed=one.resource in unsuccessful)
        ]
    return due


def _store(connection: Connection, look: int, outcomes: Sequence[tuple[Candidate, StoredDecision]]) -> None:
    keys = [_key_of(candidate.resource) for candidate, _ in outcomes]
    asked = lists_of(candidate.resource for candidate, _ in outcomes)
    newest = {
        (database, table, partition): (decision_id, tuple(said))
        for decision_id, database, table, partition, *said in connection.execute(_NEWEST, asked)
    }
    same, replaced, new = [], [], []
    for (candidate, decision), key in zip(outcomes, keys, strict=True):
        values = {
            "look": look, "again": "Y" if decision.again else "N", "writes": candidate.writes,
            "txn_sum": candidate.txn_sum, "reason": _plain(decision.reason),
            "numbers": json.dumps(dict(decision.numbers)), "blocked_by": json.dumps(decision.blocked_by),
        }  # fmt: skip
        decision_id, said = newest.get(key, (None, None))
        if said == (decision.kind, decision.rule, decision.request_id):
            same.append({"id": decision_id, **values})
            continue
        if decision_id is not None:
            replaced.append({"id": decision_id})
        new.append({
            "HAD_DATABASE": key[0], "HAD_TABLE": key[1], "HAD_PART_NAME": key[2], "HAD_NEWEST": "Y",
            "HAD_AGAIN": values["again"], "HAD_SINCE": look, "HAD_LOOKED": look, "HAD_LOOKS": 1,
            "HAD_WRITES": candidate.writes, "HAD_TXN_SUM": candidate.txn_sum, "HAD_KIND": decision.kind,
            "HAD_RULE": decision.rule, "HAD_REASON": values["reason"], "HAD_NUMBERS": values["numbers"],
            "HAD_BLOCKED_BY": values["blocked_by"], "HAD_REQUEST_ID": decision.request_id,
        })  # fmt: skip
    for statement, rows in ((_SAME_AGAIN, same), (_REPLACED, replaced), (_INSERT, new)):
        if rows:
            connection.execute(statement, rows)


def _plain(text: str) -> str:
    """ASCII, which the column takes on every database; a message may hold file names of any alphabet."""
    return text.replace("\0", " ")[:_MOST_REASON].encode("ascii", "backslashreplace").decode()


def _names(resource: Resource) -> dict[str, Any]:
    return {"db": resource.database, "tbl": resource.table, "part": resource.partition or ""}


def _key_of(resource: Resource) -> tuple[str, str, str]:
    return resource.database, resource.table, resource.partition or ""


def _stored(row: Any) -> StoredDecision:
    resource = Resource(row.HAD_DATABASE, row.HAD_TABLE, row.HAD_PART_NAME or None)
    return StoredDecision(
        resource, row.HAD_KIND, row.HAD_RULE, row.HAD_REASON, json.loads(row.HAD_NUMBERS or "{}"),
        tuple(json.loads(row.HAD_BLOCKED_BY or "[]")), row.HAD_REQUEST_ID, row.HAD_AGAIN == "Y", row.HAD_SINCE,
        row.HAD_LOOKED, row.HAD_LOOKS,
    )  # fmt: skip
