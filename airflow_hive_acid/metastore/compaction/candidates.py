"""What there is to do: candidates for compaction, compactions to clean up after, aborted writes to remove.

Hive's findPotentialCompactions, findReadyToClean and findReadyToCleanAborts as reads. Candidates come oldest first, so
that a flood of new writes cannot starve a table. What may be cleaned is decided elsewhere, from the numbers given here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, and_, bindparam, func, or_, select

from airflow_hive_acid.format.partitions import may_be_same
from airflow_hive_acid.metastore.compaction.model import (
    AbortedWrites,
    Candidate,
    Compaction,
    CompactionState,
    CompactionType,
    Resource,
    lists_of,
)
from airflow_hive_acid.metastore.compaction.rows import HISTORY, QUEUE, compaction, same_partition
from airflow_hive_acid.metastore.database.clock import clock_ms, clock_timestamp_before
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    TXN_COMPONENTS,
    TXNS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

_ctc, _cc, _tc, _cq = COMPLETED_TXN_COMPONENTS.c, COMPLETED_COMPACTIONS.c, TXN_COMPONENTS.c, COMPACTION_QUEUE.c

_WRITTEN = (
    select(_ctc.CTC_DATABASE, _ctc.CTC_TABLE, _ctc.CTC_PARTITION)
    .group_by(_ctc.CTC_DATABASE, _ctc.CTC_TABLE, _ctc.CTC_PARTITION)
    .order_by(func.min(_ctc.CTC_TIMESTAMP), func.min(_ctc.CTC_TXNID))
    .limit(bindparam("limit"))
)
_newest = (
    select(func.max(_cc.CC_ID).label("id")).group_by(_cc.CC_DATABASE, _cc.CC_TABLE, _cc.CC_PARTITION).subquery("newest")
)
UNSUCCESSFUL = (
    select(_cc.CC_DATABASE, _cc.CC_TABLE, _cc.CC_PARTITION)
    .join(_newest, _newest.c.id == _cc.CC_ID)
    .where(_cc.CC_STATE.in_([CompactionState.DID_NOT_INITIATE.value, CompactionState.FAILED.value]))
    .subquery("unsuccessful")
)
#: Only what was written since the last look, and what could not be compacted then.
_WRITTEN_SINCE = _WRITTEN.outerjoin(
    UNSUCCESSFUL,
    and_(
        UNSUCCESSFUL.c.CC_DATABASE == _ctc.CTC_DATABASE,
        UNSUCCESSFUL.c.CC_TABLE == _ctc.CTC_TABLE,
        same_partition(UNSUCCESSFUL.c.CC_PARTITION, _ctc.CTC_PARTITION),
    ),
).where(
    or_(
        _ctc.CTC_TIMESTAMP >= clock_timestamp_before(bindparam("seconds", type_=BigInteger)),
        UNSUCCESSFUL.c.CC_DATABASE.is_not(None),
    )
)

_aborted = (
    select(
        _tc.TC_DATABASE, _tc.TC_TABLE, _tc.TC_PARTITION, func.count().label("components"),
        func.min(TXNS.c.TXN_STARTED).label("oldest"),
    )
    .join(TXNS, TXNS.c.TXN_ID == _tc.TC_TXNID)
    .where(TXNS.c.TXN_STATE == "a")
    .group_by(_tc.TC_DATABASE, _tc.TC_TABLE, _tc.TC_PARTITION)
)  # fmt: skip
_too_many = func.count() > bindparam("count")
_too_old = and_(
    bindparam("age_ms", type_=BigInteger) >= 0,
    func.min(TXNS.c.TXN_STARTED) + bindparam("age_ms", type_=BigInteger) < clock_ms(),
)
_ABORTED = _aborted.having(or_(_too_many, _too_old)).order_by(func.min(TXNS.c.TXN_STARTED)).limit(bindparam("limit"))
_OPEN_WRITERS = (
    select(_tc.TC_DATABASE, _tc.TC_TABLE, _tc.TC_PARTITION, func.min(_tc.TC_TXNID).label("txn_id"))
    .join(TXNS, TXNS.c.TXN_ID == _tc.TC_TXNID)
    .where(TXNS.c.TXN_STATE == "o")
    .group_by(_tc.TC_DATABASE, _tc.TC_TABLE, _tc.TC_PARTITION)
)
_RETRIES = QUEUE.where(_cq.CQ_TYPE == CompactionType.ABORT_TXN_CLEANUP.value).order_by(_cq.CQ_ID)

_settled = (
    _cq.CQ_STATE == CompactionState.READY_FOR_CLEANING.value,
    _cq.CQ_TYPE != CompactionType.ABORT_TXN_CLEANUP.value,
    or_(
        _cq.CQ_COMMIT_TIME.is_(None),
        # Hive asks for an earlier time; here it is ready in the millisecond of its commit if there is no retention.
        _cq.CQ_COMMIT_TIME <= clock_ms() - _cq.CQ_RETRY_RETENTION - bindparam("retention_ms", type_=BigInteger),
    ),
)
# No OR between two NULLs: of that no database makes a hash or an index, and compares each with each.
_part = func.coalesce(_cq.CQ_PARTITION, "")
_lowest = (
    select(
        _cq.CQ_DATABASE, _cq.CQ_TABLE, _part.label("part"),
        func.min(func.coalesce(_cq.CQ_HIGHEST_WRITE_ID, 0)).label("highest"),
    )
    .where(*_settled)
    .group_by(_cq.CQ_DATABASE, _cq.CQ_TABLE, _part)
    .subquery("lowest")
)  # fmt: skip
_READY = (
    QUEUE.join(
        _lowest,
        and_(
            _lowest.c.CQ_DATABASE == _cq.CQ_DATABASE,
            _lowest.c.CQ_TABLE == _cq.CQ_TABLE,
            _lowest.c.part == _part,
            _lowest.c.highest == func.coalesce(_cq.CQ_HIGHEST_WRITE_ID, 0),
        ),
    )
    .where(*_settled, _cq.CQ_ID > bindparam("after"))
    .order_by(_cq.CQ_ID)
    .limit(bindparam("limit"))
)

_IN_WORK = QUEUE.where(
    _cq.CQ_STATE.in_([CompactionState.INITIATED.value, CompactionState.WORKING.value]),
    _cq.CQ_DATABASE.in_(bindparam("databases", expanding=True)),
    _cq.CQ_TABLE.in_(bindparam("tables", expanding=True)),
    _part.in_(bindparam("parts", expanding=True)),
)


def find_written(connection: Connection, last_checked_ms: int | None, now_ms: int, limit: int) -> list[Candidate]:
    """Tables and partitions with committed writes that no compaction has covered, longest waiting first.

    :param last_checked_ms: only those written since then, or last compacted in vain; None or 0 for all.
    """
    if last_checked_ms and last_checked_ms <= now_ms:  # the clock may have gone back since
        # Half a second more, as in Hive: the timestamp may have been rounded.
        seconds = max(0, (now_ms - last_checked_ms + 500) // 1000 + 1)
        rows = connection.execute(_WRITTEN_SINCE, {"limit": limit, "seconds": seconds})
    else:
        rows = connection.execute(_WRITTEN, {"limit": limit})
    return [Candidate(Resource(*row)) for row in rows]


def find_aborted(connection: Connection, count: int, age_ms: int, limit: int) -> list[AbortedWrites]:
    """Tables and partitions where aborted txns left more than ``count`` components, or one older than ``age_ms``.

    :param age_ms: negative: age alone is no reason.
    """
    rows = connection.execute(_ABORTED, {"count": count, "age_ms": age_ms, "limit": limit}).all()
    if not rows:
        return []
    writers = [(Resource(*of), int(txn_id)) for *of, txn_id in connection.execute(_OPEN_WRITERS)]
    retries = {c.resource: c for c in (compaction(r, "CQ") for r in connection.execute(_RETRIES).mappings())}
    found = []
    for row in rows:
        resource = Resource(row.TC_DATABASE, row.TC_TABLE, row.TC_PARTITION)
        open_txn = min((txn for where, txn in writers if _overlap(where, resource)), default=None)
        found.append(AbortedWrites(resource, int(row.components), int(row.oldest), open_txn, retries.get(resource)))
    return found


def _overlap(one: Resource, other: Resource) -> bool:
    """A write that has not named its partitions yet may go to any of them."""
    return one.table_name == other.table_name and (
        one.partition is None or other.partition is None or may_be_same(one.partition, other.partition)
    )


def find_ready(connection: Connection, retention_ms: int, limit: int, after: int = 0) -> list[Compaction]:
    """Finished compactions whose leftovers wait for the Cleaner; per table or partition the one that reaches least far.

    :param retention_ms: how long after the commit nothing is cleaned (delayed clean-up); 0 when that is off.
    :param after: only requests with larger ids.
    """
    rows = connection.execute(_READY, {"retention_ms": retention_ms, "limit": limit, "after": after}).mappings()
    return [compaction(row, "CQ") for row in rows]


def find_in_work(connection: Connection, resources: Sequence[Resource]) -> dict[Resource, Compaction]:
    """The requests for some tables and partitions that are initiated or being worked on."""
    found: dict[Resource, Compaction] = {}
    for part in chunks(resources):
        wanted, rows = set(part), connection.execute(_IN_WORK.order_by(_cq.CQ_ID), lists_of(part)).mappings()
        found |= {one.resource: one for one in (compaction(row, "CQ") for row in rows) if one.resource in wanted}
    return found


def find(connection: Connection, request_id: int) -> Compaction | None:
    """A request or a finished compaction by its id."""
    for statement, key, prefix in ((QUEUE, _cq.CQ_ID, "CQ"), (HISTORY, _cc.CC_ID, "CC")):
        row = connection.execute(statement.where(key == request_id)).mappings().first()
        if row is not None:
            return compaction(row, prefix)
    return None
