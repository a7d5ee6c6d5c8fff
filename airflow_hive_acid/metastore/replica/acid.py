"""The last step of a sync of ACID tables: in one transaction what was copied becomes rows that readers see.

Write ids here are the source's. A reader's high-water mark is the largest write id whose txn it sees
(TXN_TO_WRITE_ID), so the new ids belong to txns that are opened here and now: whoever began before sees none of them,
whoever begins afterwards all. A run of committed ids needs two rows, for its first id and its last, which all tables
share; between them no row means committed. Ids open at the source get a txn each that stays open (REPL_TXN_MAP),
aborted ones a txn that is aborted. Per table txns ascend with write ids, in every sync: purges of TXN_TO_WRITE_ID
remove the oldest txns first, and must never leave a lower id as the largest one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, func, insert, select, update

from airflow_hive_acid.errors import ReplicaDivergedError
from airflow_hive_acid.format.id_ranges import IdRanges
from airflow_hive_acid.metastore.catalog.rows.drop import delete_storage, forget_partitions
from airflow_hive_acid.metastore.catalog.rows.partitions import add_partitions, delete_partitions, find_partitions
from airflow_hive_acid.metastore.catalog.rows.reader import read_tables_by_id
from airflow_hive_acid.metastore.catalog.thrift.events import CatalogEvents
from airflow_hive_acid.metastore.compaction.cleaning import insert_soft_deletes
from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.database.backend import lock_open_txns
from airflow_hive_acid.metastore.database.clock import clock_ms, clock_timestamp
from airflow_hive_acid.metastore.database.codes import AbortReason, TxnType
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.database.failures import OpenTookTooLongError
from airflow_hive_acid.metastore.notifications import events
from airflow_hive_acid.metastore.replica.advances import Advance, IdState, TableAdvance, rows_for
from airflow_hive_acid.metastore.replica.compactions import require_no_compaction
from airflow_hive_acid.metastore.replica.overwritten import add_runs
from airflow_hive_acid.metastore.replica.rebalances import note_rebalances
from airflow_hive_acid.metastore.replica.records import (
    finish_attempt,
    require_attempt,
    require_target,
    write_records,
)
from airflow_hive_acid.metastore.replica.verbs import unname_places
from airflow_hive_acid.metastore.replica.waiting import waiting_txns, why_lost
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_TXN_COMPONENTS,
    MIN_HISTORY_LEVEL,
    NEXT_WRITE_ID,
    REPL_TXN_MAP,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.setup.abilities import require_hive_4
from airflow_hive_acid.metastore.txns import commits
from airflow_hive_acid.metastore.txns import events as txn_events
from airflow_hive_acid.metastore.txns.aborts import abort_rows
from airflow_hive_acid.metastore.txns.replicas import mapped
from airflow_hive_acid.metastore.txns.statistics import forget
from airflow_hive_acid.metastore.txns.txns import OpenRequest, open_txns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.verbs import Verbs

STATE_ID = "repl.last.id"
METADATA_STATE_ID = "hive.acid.repl.last.metadata.id"
MAX_POLICY = 256

_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_OF_NEXT = (NEXT_WRITE_ID.c.NWI_DATABASE == bindparam("db"), NEXT_WRITE_ID.c.NWI_TABLE == bindparam("tbl"))
_LOCK_NEXT = select(NEXT_WRITE_ID.c.NWI_NEXT).where(*_OF_NEXT).with_for_update()
_SET_NEXT = update(NEXT_WRITE_ID).where(*_OF_NEXT).values(NWI_NEXT=bindparam("next"))
_FIRST = insert(NEXT_WRITE_ID).values(
    NWI_DATABASE=bindparam("db"), NWI_TABLE=bindparam("tbl"), NWI_NEXT=bindparam("next")
)
_PAIR = insert(TXN_TO_WRITE_ID).values(
    T2W_TXNID=bindparam("txn_id"), T2W_DATABASE=bindparam("db"), T2W_TABLE=bindparam("tbl"),
    T2W_WRITEID=bindparam("write_id"),
)  # fmt: skip
_COMMIT = update(TXNS).where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o").values(TXN_STATE="c")
_ALIVE = update(TXNS).where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=clock_ms())
_FORGET_LEVEL = delete(MIN_HISTORY_LEVEL).where(MIN_HISTORY_LEVEL.c.MHL_TXNID.in_(_IDS))
_MAP = insert(REPL_TXN_MAP).values(
    RTM_REPL_POLICY=bindparam("policy"), RTM_SRC_TXN_ID=bindparam("source"), RTM_TARGET_TXN_ID=bindparam("target")
)
_SYNC_TXNS = select(REPL_TXN_MAP.c.RTM_TARGET_TXN_ID).where(
    REPL_TXN_MAP.c.RTM_REPL_POLICY == bindparam("policy"), REPL_TXN_MAP.c.RTM_SRC_TXN_ID <= 0
)
_M = REPL_TXN_MAP.c
_OPEN_MAPPED = (
    select(_M.RTM_TARGET_TXN_ID)
    .join(TXNS, TXNS.c.TXN_ID == _M.RTM_TARGET_TXN_ID)
    .where(
        TXNS.c.TXN_STATE == "o",
        sa.or_(
            _M.RTM_REPL_POLICY == bindparam("policy"),
            func.substr(_M.RTM_REPL_POLICY, 1, func.length(bindparam("more", type_=sa.String)))
            == bindparam("more", type_=sa.String),
        ),
    )
    .with_for_update()
)
_UNMAP = delete(REPL_TXN_MAP).where(REPL_TXN_MAP.c.RTM_TARGET_TXN_ID.in_(_IDS))
_COMPLETE = insert(COMPLETED_TXN_COMPONENTS).values(
    CTC_TXNID=bindparam("txn_id"), CTC_DATABASE=bindparam("db"), CTC_TABLE=bindparam("tbl"),
    CTC_PARTITION=bindparam("part"), CTC_TIMESTAMP=clock_timestamp(), CTC_WRITEID=bindparam("write_id"),
    CTC_UPDATE_DELETE=bindparam("flag"),
)  # fmt: skip
_STAMP_QUEUE = (
    update(COMPACTION_QUEUE)
    .where(COMPACTION_QUEUE.c.CQ_TXN_ID == bindparam("txn_id"))
    .values(CQ_NEXT_TXN_ID=select(func.max(TXNS.c.TXN_ID)).scalar_subquery(), CQ_COMMIT_TIME=clock_ms())
)
_FORGET_PARAM = delete(TABLE_PARAMS).where(
    TABLE_PARAMS.c.TBL_ID.in_(_IDS), TABLE_PARAMS.c.PARAM_KEY == STATE_ID
)  # fmt: skip
_SET_PARAM = insert(TABLE_PARAMS).values(TBL_ID=bindparam("id"), PARAM_KEY=STATE_ID, PARAM_VALUE=bindparam("value"))


def sync_txns(connection: Connection, policy: str) -> list[int]:
    """Open txns of syncs of a policy: they are mapped under the negative state id."""
    return sorted(connection.execute(_SYNC_TXNS, {"policy": policy}).scalars())


def open_mapped_txns(connection: Connection, policy: str) -> list[int]:
    """Open txns here that stand for txns of the source, or for syncs, under a policy."""
    return sorted(connection.execute(_OPEN_MAPPED, {"policy": policy, "more": f"{policy}/"}).scalars())


def unmap(connection: Connection, txn_ids: Sequence[int]) -> None:
    """Forget what they stand for."""
    for part in chunks(txn_ids):
        connection.execute(_UNMAP, {"ids": list(part)})


def advance(connection: Connection, client: Verbs, request: Advance) -> None:
    """Make everything visible, or nothing; the last thing of its transaction.

    :raises ReplicationBusyError: when another sync took over, or the replica was failed over; nothing was changed.
    :raises ReplicaDivergedError: when somebody else wrote one of the tables; names all of them.
    :raises CopyFailedError: when a compaction here would show what the sync hides; nothing was changed.
    """
    require_hive_4(client.database.backend.layout, "a replica", "replicate to a metastore of this package or of Hive 4")
    found = require_attempt(connection, request.policy, request.attempt)
    if found.state_id == request.state_id and not found.tables:
        return  # asked again after a reply was lost: it is done
    tables = sorted(request.tables, key=lambda t: t.name)
    for database in sorted({t.name.database for t in tables}):
        require_target(connection, database, request.policy)
    _require_untouched(connection, tables)
    features = client.database.features(connection)
    resolved = _Resolved.read(connection, tables)
    for table in tables:
        _change_partitions(connection, client, table, request.sync_txn)
    if request.metadata is not None:
        request.metadata(connection)
    # All that needs no txn comes first: txns that are opened must appear soon (openTxns, step 8).
    _number(connection, tables)
    _outdate(connection, tables)
    _note(connection, tables, request)
    require_no_compaction(connection, [t.name for t in tables if t.hides], request.seen)
    owned = _Owners(connection, client, request)
    owned.give(tables)
    ended, given_up = [*owned.committed, *resolved.committed], [*owned.aborted, *resolved.aborted]
    for part in chunks(ended):
        connection.execute(_COMMIT, {"ids": list(part)})
        if features.min_history_level:
            connection.execute(_FORGET_LEVEL, {"ids": list(part)})
    if given_up:
        abort_rows(connection, given_up, features, AbortReason.REPLICATION)
    for part in chunks([*resolved.committed, *resolved.aborted]):
        connection.execute(_UNMAP, {"ids": list(part)})
    for part in chunks(resolved.waiting):
        connection.execute(_ALIVE, {"ids": list(part)})
    _complete(connection, tables, resolved.top | owned.top, request.sync_txn)
    _tell(connection, client, tables, owned, resolved)
    _tell_emptied(connection, client, tables)
    log = client.notifications
    if not request.sync_txn:
        owned.require_in_time()
        log.write(connection, [])
        return
    connection.execute(_STAMP_QUEUE, {"txn_id": request.sync_txn})
    unname_places(connection, request.sync_txn)
    owned.require_in_time()
    hooks = commits.CommitHooks(events=lambda c, facts: txn_events.committed(c, log, facts))
    replayed = commits.Replayed(request.policy, -request.state_id)
    commits.commit_txn(connection, commits.CommitRequest(request.sync_txn, hooks=hooks, replayed=replayed), features)


def _require_untouched(connection: Connection, tables: Sequence[TableAdvance]) -> None:
    """Lock the numbering of each table, and refuse when somebody else took ids from it."""
    foreign: dict[str, str] = {}
    for table in tables:
        following = connection.execute(_LOCK_NEXT, {"db": table.name.database, "tbl": table.name.name}).scalar()
        there, left = (following or 1) - 1, table.known.high_watermark
        if there != left:
            foreign[str(table.name)] = f"write ids up to {there} were given here, replication left {left}"
    if foreign:
        raise diverged(foreign)


def diverged(tables: Mapping[str, str]) -> ReplicaDivergedError:
    """The error that names tables and proposes a bootstrap."""
    listed = "; ".join(f"{name}: {why}" for name, why in sorted(tables.items()))
    return ReplicaDivergedError(
        f"the replica has diverged: {listed}. Nothing was overwritten; bootstrap these tables again "
        f"({', '.join(sorted(tables))}), which drops what is there, or take them out of the policy",
        dict(tables),
    )


@dataclass(frozen=True, slots=True)
class _Resolved:
    """Txns here of write ids that were open at the last sync, by what became of them."""

    committed: list[int]
    aborted: list[int]
    waiting: list[int]
    top: dict[TableName, tuple[int, int]]

    @classmethod
    def read(cls, connection: Connection, tables: Sequence[TableAdvance]) -> _Resolved:
        found = cls([], [], [], {})
        lost: dict[str, str] = {}
        for table in tables:
            waiting = waiting_txns(connection, table.name, table.known.open)
            why = why_lost(table.known.open - waiting.keys(), table.write_ids)
            if why is not None:
                lost[str(table.name)] = why
            for write_id, txn_id in sorted(waiting.items()):
                valid = table.write_ids.is_valid(write_id)
                if write_id in table.write_ids.open:
                    found.waiting.append(txn_id)
                else:
                    (found.committed if valid else found.aborted).append(txn_id)
                    if valid:
                        found.top[table.name] = (txn_id, write_id)
        if lost:
            raise diverged(lost)
        return found


class _Owners:
    """Txns that are opened for the new write ids of all tables."""

    def __init__(self, connection: Connection, client: Verbs, request: Advance) -> None:
        self._conn, self._client, self._request = connection, client, request
        self._opened = time.monotonic()
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.pairs: dict[TableName, dict[int, int]] = {}
        self.top: dict[TableName, tuple[int, int]] = {}
        self.all: list[int] = []

    def give(self, tables: Sequence[TableAdvance]) -> None:
        """Open the txns, give them the ids, and advance the numbering."""
        rows = {t.name: rows_for(t.known, t.write_ids) for t in tables}
        wanted = {name: found for name, found in rows.items() if found}
        first = {n for n, found in wanted.items() if found[0][1] is IdState.COMMITTED}
        alone = {n for n in first if len(wanted[n]) == 1}
        last = {n for n, found in wanted.items() if found[-1][1] is IdState.COMMITTED and n not in alone}
        middle = [
            (name, write_id, state)
            for name, found in sorted(wanted.items())
            for number, (write_id, state) in enumerate(found)
            if not (name in first and number == 0) and not (name in last and number == len(found) - 1)
        ]
        count = bool(first) + len(middle) + bool(last)
        if not count:
            return
        ids = self._open(count)
        owned: list[tuple[TableName, int, int]] = []
        if first:
            self.committed.append(ids[0])
            owned += [(name, wanted[name][0][0], ids[0]) for name in first]
        by_name = {t.name: t for t in tables}
        for (name, write_id, state), txn_id in zip(middle, ids[bool(first) :], strict=False):
            owned.append((name, write_id, txn_id))
            if state is IdState.OPEN:
                self._map(by_name[name], write_id, txn_id)
            else:
                (self.committed if state is IdState.COMMITTED else self.aborted).append(txn_id)
        if last:
            self.committed.append(ids[-1])
            owned += [(name, wanted[name][-1][0], ids[-1]) for name in last]
        self._write(owned)

    def require_in_time(self) -> None:
        """The rows must appear before readers give up waiting for them (openTxns, step 8); else all is repeated."""
        if self.all and (time.monotonic() - self._opened) * 1000 >= self._client.gap_timeout_ms:
            raise OpenTookTooLongError("opening took longer than hive.txn.opentxn.timeout")

    def _open(self, count: int) -> list[int]:
        client, connection = self._client, self._conn
        agent = f"replication {self._request.policy}"
        request = OpenRequest(client.user, client.host, count, TxnType.REPL_CREATED, agent)
        self._opened = time.monotonic()
        # R11: they are committed here, too, so their ids must not be seen late. No later id is given until this COMMIT.
        lock_open_txns(connection, exclusive=True)
        self.all = open_txns(connection, request, client.database.features(connection), client.gap_timeout_ms)
        return self.all

    def _map(self, table: TableAdvance, write_id: int, txn_id: int) -> None:
        source = table.source_txns.get(write_id)
        if source is None:
            return
        policy = self._request.policy
        if mapped(self._conn, policy, [source]):
            # It writes another table as well, or did at an earlier sync: each of its ids has a txn of its own here.
            policy = f"{policy}/{table.name}"[:MAX_POLICY]
        self._conn.execute(_MAP, {"policy": policy, "source": source, "target": txn_id})

    def _write(self, owned: Sequence[tuple[TableName, int, int]]) -> None:
        connection = self._conn
        rows = [
            {"txn_id": txn_id, "db": name.database, "tbl": name.name, "write_id": write_id}
            for name, write_id, txn_id in owned
        ]
        connection.execute(_PAIR, rows)
        done = set(self.committed)
        for name, write_id, txn_id in sorted(owned, key=lambda row: row[1]):
            self.pairs.setdefault(name, {})[txn_id] = write_id
            if txn_id in done:
                self.top[name] = (txn_id, write_id)


def _change_partitions(connection: Connection, client: Verbs, table: TableAdvance, sync_txn: int) -> None:
    _renew(connection, table)
    if not table.added and not table.gone:
        return
    catalog = CatalogEvents(client.notifications)
    now = read_tables_by_id(connection, [table.table.id])[table.table.id]
    if table.added:
        new = add_partitions(
            connection, table.table, table.added, write_id=table.write_ids.high_watermark or None, empty=False
        )
        catalog.partitions_added(connection, now, new)
    if not table.gone:
        return
    there = find_partitions(connection, table.table, list(table.gone))
    catalog.dropping_partitions(connection, now, [p.id for p in there.values()])
    delete_storage(connection, delete_partitions(connection, [p.id for p in there.values()]))
    forget_partitions(connection, table.name, list(there))
    # Whoever reads them by an older snapshot goes on: the Cleaner removes them after them.
    insert_soft_deletes(
        connection, [(Resource(*table.name, name), partition.location) for name, partition in there.items()],
        txn_id=sync_txn, highest_write_id=table.write_ids.high_watermark, purge=False,
    )  # fmt: skip


def _renew(connection: Connection, table: TableAdvance) -> None:
    """Partitions that were dropped and added again are others from now on, in their old places.

    A mirror knows partitions by their ids: no write id tells it that rows have gone.
    """
    if not table.emptied:
        return
    there = find_partitions(connection, table.table, list(table.emptied))
    delete_storage(connection, delete_partitions(connection, [p.id for p in there.values()]))
    places = {name: partition.location for name, partition in there.items()}
    add_partitions(
        connection, table.table, sorted(there), write_id=table.write_ids.high_watermark or None, empty=False,
        locations=places,
    )  # fmt: skip


def _number(connection: Connection, tables: Sequence[TableAdvance]) -> None:
    """The tables' numbering goes on above the source's."""
    for table in tables:
        if table.write_ids.high_watermark > table.known.high_watermark:
            following = {"db": table.name.database, "tbl": table.name.name, "next": table.write_ids.high_watermark + 1}
            if not connection.execute(_SET_NEXT, following).rowcount:
                connection.execute(_FIRST, following)


def _outdate(connection: Connection, tables: Sequence[TableAdvance]) -> None:
    """Statistics of what is written stop being exact."""
    for table in tables:
        if table.written:
            parts = find_partitions(
                connection, table.table, [w.partition for w in table.written if w.partition is not None]
            )
            high = table.write_ids.high_watermark
            forget(connection, [(table.table.id, None, high), *((table.table.id, p.id, high) for p in parts.values())])


def _complete(
    connection: Connection, tables: Sequence[TableAdvance], owners: Mapping[TableName, tuple[int, int]], sync_txn: int
) -> None:
    """Completed components: what the replica's own Initiator goes by."""
    rows = []
    for table in tables:
        txn_id = owners[table.name][0] if table.name in owners else sync_txn
        rows += [
            {
                "txn_id": txn_id, "db": table.name.database, "tbl": table.name.name, "part": w.partition,
                "write_id": w.write_id, "flag": "Y" if w.changes else "N",
            }
            for w in table.written
        ]  # fmt: skip
    if rows:
        connection.execute(_COMPLETE, rows)


def _note(connection: Connection, tables: Sequence[TableAdvance], request: Advance) -> None:
    ids = [t.table.id for t in tables]
    for part in chunks(ids):
        connection.execute(_FORGET_PARAM, {"ids": list(part)})
    if ids:
        connection.execute(_SET_PARAM, [{"id": i, "value": str(request.state_id)} for i in ids])
    note_rebalances(connection, {t.table.id: (t.source_id, t.rebalanced) for t in tables})
    add_runs(connection, {t.table.id: t.overwritten for t in tables if t.overwritten is not None})
    write_records(connection, request.policy, [t.record(request.state_id) for t in tables])
    finish_attempt(connection, request.policy, request.state_id)


def _tell(
    connection: Connection, client: Verbs, tables: Sequence[TableAdvance], owned: _Owners, resolved: _Resolved
) -> None:
    """Events of the replica's own log: its cache, its watchers and its replicas learn from them."""
    told = [events.open_txn(owned.all)] if owned.all else []
    told += [events.alloc_write_id(n.database, n.name, pairs) for n, pairs in sorted(owned.pairs.items())]
    written: dict[int, list[tuple[str, int]]] = {}
    for name, pairs in owned.pairs.items():
        for txn_id, write_id in pairs.items():
            written.setdefault(txn_id, []).append((name.database, write_id))
    for name, (txn_id, write_id) in resolved.top.items():
        written.setdefault(txn_id, []).append((name.database, write_id))
    ranges = _ranges(tables, owned)
    told += [events.commit_txn(t, written.get(t, ()), ranges.get(t)) for t in [*owned.committed, *resolved.committed]]
    told += [events.abort_txn(t, written.get(t, ())) for t in [*owned.aborted, *resolved.aborted]]
    client.notifications.later(connection, told)


def _tell_emptied(connection: Connection, client: Verbs, tables: Sequence[TableAdvance]) -> None:
    """Partitions that were dropped and added again at the source are told as that, or nobody could see it here.

    Behind the write ids of the sync: as of none of them there was, or is, what was dropped.
    """
    catalog = CatalogEvents(client.notifications)
    for table in tables:
        if table.emptied:
            now = read_tables_by_id(connection, [table.table.id])[table.table.id]
            there = find_partitions(connection, table.table, list(table.emptied))
            catalog.dropping_partitions(connection, now, [p.id for p in there.values()])
            catalog.partitions_added(connection, now, sorted(there))


def _ranges(tables: Sequence[TableAdvance], owned: _Owners) -> dict[int, dict[str, list[tuple[int, int]]]]:
    """By txn, the write ids of each table that its commit tells of.

    Two txns stand for all committed ids of a sync. The last one tells of all of them, which are one commit here, and
    the first one of none.
    """
    found: dict[int, dict[str, list[tuple[int, int]]]] = {}
    done = set(owned.committed)
    for table in tables:
        if table.name not in owned.top:
            continue
        first, mark = table.known.high_watermark + 1, table.write_ids.high_watermark
        runs = list((IdRanges([(first, mark)]) - table.write_ids.exceptions).runs)
        for txn_id in done & owned.pairs[table.name].keys():
            last = txn_id == owned.top[table.name][0]
            found.setdefault(txn_id, {})[str(table.name)] = runs if last else []
    return found
