"""Txns and write ids that follow those of another Hive (replication): mapped txns, forced write ids, seeds.

A source txn is opened here once per policy, whoever asks again gets the same target (REPL_TXN_MAP). Write ids must be
the source's, so the table's numbering follows it. Seeds let a copied table, or a whole metastore, go on above what was
copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.database.backend import backend_of, lock_open_txns
from airflow_hive_acid.metastore.database.codes import AbortReason, Operation, TxnType
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import free_text
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG, DATABASE_PARAMS, DBS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    NEXT_WRITE_ID,
    REPL_TXN_MAP,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.setup.abilities import require_hive_4
from airflow_hive_acid.metastore.txns.aborts import abort_rows
from airflow_hive_acid.metastore.txns.history import LARGEST_TXN
from airflow_hive_acid.metastore.txns.txns import OpenRequest, open_txns
from airflow_hive_acid.metastore.txns.write_ids import allocate, max_allocated

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.database.database import Features
    from airflow_hive_acid.metastore.names.objects import TableName

MAX_POLICY = 256

_M = REPL_TXN_MAP.c
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_MAPPED = select(_M.RTM_SRC_TXN_ID, _M.RTM_TARGET_TXN_ID).where(
    _M.RTM_REPL_POLICY == bindparam("policy"), _M.RTM_SRC_TXN_ID.in_(_IDS)
)
_MAP = insert(REPL_TXN_MAP).values(
    RTM_REPL_POLICY=bindparam("policy"), RTM_SRC_TXN_ID=bindparam("source"), RTM_TARGET_TXN_ID=bindparam("target")
)
_UNMAP = delete(REPL_TXN_MAP).where(_M.RTM_TARGET_TXN_ID.in_(_IDS))
_IS_TARGET = select(_M.RTM_TARGET_TXN_ID).where(_M.RTM_TARGET_TXN_ID.in_(_IDS))
_DATABASES_OF = (
    select(DBS.c.DB_ID)
    .join(TXN_TO_WRITE_ID, TXN_TO_WRITE_ID.c.T2W_DATABASE == DBS.c.NAME)
    .where(DBS.c.CTLG_NAME == CATALOG, TXN_TO_WRITE_ID.c.T2W_TXNID.in_(_IDS))
    .distinct()
)
_INCOMPATIBLE = "repl.incompatible"
_HAS_NOTE = select(DATABASE_PARAMS.c.DB_ID).where(
    DATABASE_PARAMS.c.DB_ID == bindparam("id"), DATABASE_PARAMS.c.PARAM_KEY == _INCOMPATIBLE
)
_NOTE = insert(DATABASE_PARAMS).values(DB_ID=bindparam("id"), PARAM_KEY=_INCOMPATIBLE, PARAM_VALUE="true")
_SET_NOTE = (
    update(DATABASE_PARAMS)
    .where(DATABASE_PARAMS.c.DB_ID == bindparam("id"), DATABASE_PARAMS.c.PARAM_KEY == _INCOMPATIBLE)
    .values(PARAM_VALUE="true")
)
_FORGET_TABLE = delete(TXN_TO_WRITE_ID).where(
    TXN_TO_WRITE_ID.c.T2W_DATABASE == bindparam("db"), TXN_TO_WRITE_ID.c.T2W_TABLE == bindparam("tbl")
)
_LOCK_NEXT = (
    select(NEXT_WRITE_ID.c.NWI_NEXT)
    .where(NEXT_WRITE_ID.c.NWI_DATABASE == bindparam("db"), NEXT_WRITE_ID.c.NWI_TABLE == bindparam("tbl"))
    .with_for_update()
)
_SET_NEXT = (
    update(NEXT_WRITE_ID)
    .where(NEXT_WRITE_ID.c.NWI_DATABASE == bindparam("db"), NEXT_WRITE_ID.c.NWI_TABLE == bindparam("tbl"))
    .values(NWI_NEXT=bindparam("next"))
)
_FIRST = insert(NEXT_WRITE_ID).values(
    NWI_DATABASE=bindparam("db"), NWI_TABLE=bindparam("tbl"), NWI_NEXT=bindparam("next")
)
_PAIR = insert(TXN_TO_WRITE_ID).values(
    T2W_TXNID=bindparam("txn_id"),
    T2W_DATABASE=bindparam("db"),
    T2W_TABLE=bindparam("tbl"),
    T2W_WRITEID=bindparam("write_id"),
)
_COMPONENT = insert(TXN_COMPONENTS).values(
    TC_TXNID=bindparam("txn_id"),
    TC_DATABASE=bindparam("db"),
    TC_TABLE=bindparam("tbl"),
    TC_PARTITION=bindparam("part"),
    TC_OPERATION_TYPE=Operation.INSERT.code,
    TC_WRITEID=bindparam("write_id"),
)
_NOTHING_HELD: Mapping[int, Collection[str | None]] = {}
#: A txn's other columns, should one be needed to move the ids on.
_ENDED = {
    "TXN_STATE": "c", "TXN_STARTED": 0, "TXN_LAST_HEARTBEAT": 0, "TXN_USER": "", "TXN_HOST": "", "TXN_TYPE": 0,
}  # fmt: skip
_MAX_TXN = select(LARGEST_TXN)
_STILL_THERE = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_ID.in_(_IDS)).with_for_update()


@dataclass(frozen=True, slots=True)
class SourceWrite:
    """A write id of the source: its txn there and the id."""

    source_txn: int
    write_id: int


def mapped(connection: Connection, policy: str, source_txns: Sequence[int]) -> dict[int, int]:
    """Target txns by source txn, of those that are mapped."""
    found: dict[int, int] = {}
    for part in chunks(list(source_txns)):
        found.update(connection.execute(_MAPPED, {"policy": policy, "ids": list(part)}).all())
    return found


def open_replicated(
    connection: Connection,
    policy: str,
    source_txns: Sequence[int],
    request: OpenRequest,
    features: Features,
    gap_timeout_ms: int,
) -> list[int]:
    """Open a txn for each source txn, in order; those opened before are returned again.

    :param request: who opens; number and type are ours to fill.
    :raises InvalidArgumentsError: when only some of the source txns are mapped.
    """
    _check_policy(policy)
    wanted = list(dict.fromkeys(source_txns))
    if not wanted:
        raise InvalidArgumentsError(f"no source txns are given for policy {policy!r}")
    known = mapped(connection, policy, wanted)
    if len(known) == len(wanted):
        return [known[s] for s in wanted]
    if known:
        missing = [s for s in wanted if s not in known]
        raise InvalidArgumentsError(
            f"of the source txns of policy {policy!r} some are open here and some are not "
            f"({missing[:10]}); replay them as they were opened"
        )
    asked = OpenRequest(request.user, request.host, len(wanted), TxnType.REPL_CREATED, request.agent_info)
    targets = open_txns(connection, asked, features, gap_timeout_ms)
    connection.execute(
        _MAP, [{"policy": policy, "source": s, "target": t} for s, t in zip(wanted, targets, strict=True)]
    )
    return targets


def allocate_replicated(
    connection: Connection, policy: str, table: TableName, writes: Sequence[SourceWrite]
) -> dict[int, int]:
    """Give the target txns exactly the source's write ids; returns write ids by target txn.

    When the table's numbering here is elsewhere, what it remembers is dropped and it follows the source.

    :raises InvalidArgumentsError: when a source txn is not open here, or the ids are not consecutive.
    """
    ordered = sorted(writes, key=lambda w: w.write_id)
    targets = mapped(connection, policy, [w.source_txn for w in ordered])
    unknown = [w.source_txn for w in ordered if w.source_txn not in targets]
    if unknown:
        raise InvalidArgumentsError(
            f"source txns {unknown[:10]} of policy {policy!r} are not open here; open them first"
        )
    ids = [w.write_id for w in ordered]
    if ids != list(range(ids[0], ids[0] + len(ids))):
        raise InvalidArgumentsError(f"the source's write ids {ids[:10]} of {table} are not consecutive")
    of_table = {"db": table.database, "tbl": table.name}
    by_target = {targets[w.source_txn]: w.write_id for w in ordered}
    following = connection.execute(_LOCK_NEXT, of_table).scalar()
    if following is not None and following > ids[0] and _already(connection, table, by_target):
        return by_target
    if (following or 1) != ids[0]:
        connection.execute(_FORGET_TABLE, of_table)
        connection.execute(_FIRST if following is None else _SET_NEXT, {**of_table, "next": ids[0]})
    if sorted(by_target) != [targets[w.source_txn] for w in ordered]:
        raise InvalidArgumentsError(f"the source's write ids of {table} do not ascend with its txns")
    return allocate(connection, table, list(by_target))


def set_write_id_state(
    connection: Connection,
    table: TableName,
    state: ValidWriteIdList,
    request: OpenRequest,
    features: Features,
    gap_timeout_ms: int,
) -> bool:
    """Make a copied table's write ids what they are at the source (replTableWriteIdState).

    Aborted ids get txns of their own, which are aborted at once, so that readers here skip them too.

    :returns: false when the table has write ids already: then nothing is done.
    """
    if (
        max_allocated(connection, table)
        or connection.execute(_LOCK_NEXT, {"db": table.database, "tbl": table.name}).scalar() is not None
    ):
        return False
    aborted = sorted(state.aborted)
    of_table = {"db": table.database, "tbl": table.name}
    if aborted:
        asked = OpenRequest(request.user, request.host, len(aborted), TxnType.DEFAULT, request.agent_info)
        txn_ids = open_txns(connection, asked, features, gap_timeout_ms)
        connection.execute(
            _PAIR, [{**of_table, "txn_id": t, "write_id": w} for t, w in zip(txn_ids, aborted, strict=True)]
        )
        abort_rows(connection, txn_ids, features, AbortReason.REPLICATION)
    connection.execute(_FIRST, {**of_table, "next": state.high_watermark + 1})
    return True


def seed_write_ids(
    connection: Connection,
    table: TableName,
    state: ValidWriteIdList,
    aborted_txns: Sequence[int],
    committing: int,
    features: Features,
    held: Mapping[int, Collection[str | None]] = _NOTHING_HELD,
) -> bool:
    """Give a new table, inside the commit that creates it, the write ids of its source.

    Readers see ids up to the largest that TXN_TO_WRITE_ID has, and if it has exceptions, only next to one that they
    see: so the largest committed id becomes the committing txn's. It is purged from there only after the aborted ones,
    because its txn was opened after theirs.

    :param aborted_txns: open txns, one for each aborted id, all opened before the committing one; aborted here.
    :param held: partitions (None: the table) whose files may hold rows of an aborted id. It is remembered until a
        compaction has taken them out; what is forgotten is valid.
    :returns: false when the table has write ids already, or a txn is gone: then nothing is done.
    """
    of_table = {"db": table.database, "tbl": table.name}
    if max_allocated(connection, table) or connection.execute(_LOCK_NEXT, of_table).scalar() is not None:
        return False
    aborted = sorted(state.aborted)
    if len(aborted) != len(aborted_txns) or (aborted_txns and max(aborted_txns) >= committing):
        raise AssertionError("aborted write ids have txns of their own, older than the committing one")
    last = next((i for i in range(state.high_watermark, 0, -1) if i not in state.aborted), None)
    pairs = dict(zip(aborted_txns, aborted, strict=True)) | ({} if last is None else {committing: last})
    if aborted_txns:
        rows = connection.execute(_STILL_THERE, {"ids": list(aborted_txns)}).scalars()
        if set(rows) != set(aborted_txns):
            return False
        abort_rows(connection, list(aborted_txns), features, AbortReason.REPLICATION)
    if pairs:
        connection.execute(_PAIR, [{**of_table, "txn_id": t, "write_id": w} for t, w in pairs.items()])
    components = [
        {**of_table, "txn_id": txn_id, "part": part, "write_id": write_id}
        for txn_id, write_id in zip(aborted_txns, aborted, strict=True)
        for part in held.get(write_id, ())
    ]
    if components:
        connection.execute(_COMPONENT, components)
    connection.execute(_FIRST, {**of_table, "next": state.high_watermark + 1})
    return True


def note_incompatible(connection: Connection, txn_ids: Sequence[int]) -> None:
    """Note at the databases of replicated txns that they were aborted here, so that replication starts over.

    For aborts that did not come from the source; the mapping of these txns is dropped.
    """
    for part in chunks(list(txn_ids)):
        targets = list(connection.execute(_IS_TARGET, {"ids": list(part)}).scalars())
        if not targets:
            continue
        for database_id in connection.execute(_DATABASES_OF, {"ids": targets}).scalars().all():
            of_database = {"id": database_id}
            present = connection.execute(_HAS_NOTE, of_database).first() is not None
            connection.execute(_SET_NOTE if present else _NOTE, of_database)
        connection.execute(_UNMAP, {"ids": targets})


def forget_mapping(connection: Connection, target_txn: int) -> None:
    """Drop the mapping of a txn that has ended as at the source."""
    connection.execute(_UNMAP, {"ids": [target_txn]})


def seed_txn_id(connection: Connection, seed: int) -> None:
    """Let txn ids go on at ``seed`` (seedTxnId).

    :raises InvalidArgumentsError: when ids as large were given already.
    """
    require_hive_4(backend_of(connection).layout, "a start of txn ids", "they go on as NEXT_TXN_ID counts them")
    lock_open_txns(connection, exclusive=True)
    # R3: read after the lock, in a statement of its own.
    largest = int(connection.execute(_MAX_TXN).scalar_one())
    if largest >= seed:
        raise InvalidArgumentsError(f"txn ids up to {largest} were given already; they cannot go on at {seed}")
    backend_of(connection).restart_ids(connection, TXNS.c.TXN_ID, seed, _ENDED)


def _already(connection: Connection, table: TableName, by_target: dict[int, int]) -> bool:
    """Whether the targets have exactly these write ids: it was replayed before."""
    query = select(TXN_TO_WRITE_ID.c.T2W_TXNID, TXN_TO_WRITE_ID.c.T2W_WRITEID).where(
        TXN_TO_WRITE_ID.c.T2W_DATABASE == table.database,
        TXN_TO_WRITE_ID.c.T2W_TABLE == table.name,
        TXN_TO_WRITE_ID.c.T2W_TXNID.in_(sorted(by_target)),
    )
    return dict(connection.execute(query).all()) == by_target


def _check_policy(policy: str) -> None:
    free_text(policy, "replication policy", MAX_POLICY)
