"""What is remembered of ACID tables that follow another metastore's: which attempt counts, and what came here.

``repl.target.for``, Hive's database parameter, says which policies write a database; it is set with the first sync,
locked by each, and removed by a fail-over, so that of a sync and a fail-over one sees what the other did (R3).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.errors import NoSuchObjectError, ReplicationBusyError
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import DATABASE_PARAMS, DBS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS
from airflow_hive_acid.metastore.schema.replication_acid import HIVE_ACID_REPL_SYNC, HIVE_ACID_REPL_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

TARGET_FOR = "repl.target.for"
"""Hive's parameter of a database: the policies that write it, with commas between."""
INCOMPATIBLE = "repl.incompatible"
"""Hive's parameter of a database in which a replicated txn was aborted by others."""

_S, _T, _P = HIVE_ACID_REPL_SYNC.c, HIVE_ACID_REPL_TABLE.c, DATABASE_PARAMS.c
_MINE = _S.HRS_POLICY == bindparam("policy")
_SYNC = select(_S.HRS_ATTEMPT, _S.HRS_TABLES, _S.HRS_STATE, _S.HRS_FAILED_OVER).where(_MINE)
_NEW_SYNC = insert(HIVE_ACID_REPL_SYNC).values(
    HRS_POLICY=bindparam("policy_name"), HRS_ATTEMPT=bindparam("attempt"), HRS_TABLES=bindparam("tables"),
    HRS_STARTED=clock_ms(),
)  # fmt: skip
_NEXT_SYNC = (
    update(HIVE_ACID_REPL_SYNC)
    .where(_MINE)
    .values(
        HRS_ATTEMPT=bindparam("attempt"), HRS_TABLES=bindparam("tables"), HRS_STARTED=clock_ms(), HRS_FAILED_OVER=None
    )
)
_DONE = update(HIVE_ACID_REPL_SYNC).where(_MINE).values(HRS_STATE=bindparam("state"), HRS_TABLES="[]")
_STATE = update(HIVE_ACID_REPL_SYNC).where(_MINE).values(HRS_STATE=bindparam("state"))
_FAILED_OVER = (
    update(HIVE_ACID_REPL_SYNC).where(_MINE).values(HRS_FAILED_OVER=clock_ms(), HRS_ATTEMPT=bindparam("attempt"))
)
_RECORDS = select(_T.HRT_TABLE_ID, _T.HRT_SOURCE_TABLE, _T.HRT_SOURCE_ID, _T.HRT_WRITE_IDS, _T.HRT_STATE).where(
    _T.HRT_POLICY == bindparam("policy")
)
_CAME = (
    select(_T.HRT_WRITE_IDS)
    .join(TBLS, TBLS.c.TBL_ID == _T.HRT_TABLE_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(DBS.c.NAME == bindparam("db"), DBS.c.CTLG_NAME == "hive", TBLS.c.TBL_NAME == bindparam("tbl"))
)
_FORGET = delete(HIVE_ACID_REPL_TABLE).where(
    _T.HRT_POLICY == bindparam("policy"), _T.HRT_TABLE_ID.in_(bindparam("ids", expanding=True))
)
_RESTATE = (
    update(HIVE_ACID_REPL_TABLE).where(_T.HRT_POLICY == bindparam("of_policy")).values(HRT_STATE=bindparam("state"))
)
_UNLOCK = delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID.in_(bindparam("ids", expanding=True)))
_NAMES = (
    select(TBLS.c.TBL_ID, DBS.c.NAME, TBLS.c.TBL_NAME)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(TBLS.c.TBL_ID.in_(bindparam("ids", expanding=True)))
)
_FORGET_ALL = delete(HIVE_ACID_REPL_TABLE).where(_T.HRT_POLICY == bindparam("policy"))
_DATABASE = select(DBS.c.DB_ID).where(DBS.c.NAME == bindparam("name"), DBS.c.CTLG_NAME == "hive").with_for_update()
_TARGETS = select(_P.PARAM_VALUE).where(_P.DB_ID == bindparam("id"), _P.PARAM_KEY == TARGET_FOR)
_UNMARK = delete(DATABASE_PARAMS).where(_P.DB_ID == bindparam("id"), _P.PARAM_KEY == bindparam("key"))
_MARK = insert(DATABASE_PARAMS).values(DB_ID=bindparam("id"), PARAM_KEY=TARGET_FOR, PARAM_VALUE=bindparam("value"))
_ALL_TARGETS = select(DBS.c.NAME, _P.PARAM_VALUE).join(DBS, DBS.c.DB_ID == _P.DB_ID).where(
    _P.PARAM_KEY == TARGET_FOR, DBS.c.CTLG_NAME == "hive"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """The last sync of a policy.

    :param attempt: token of who began last.
    :param tables: tables in whose directories it may have left something; empty after it succeeded.
    :param state_id: event of the source whose state the replica has; None before the first sync.
    :param failed_over: when the replica became a primary, in ms; None while it follows.
    """

    attempt: str
    tables: tuple[str, ...]
    state_id: int | None
    failed_over: int | None


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table that follows another.

    :param table_id: TBL_ID here, ``source_id`` that of ``source_table`` at the source.
    :param write_ids: the source's list as of ``state_id``, with every id aborted since.
    :param state_id: event of the source whose state it has; since a fail-over, the latest event here before that.
    """

    table_id: int
    source_table: str
    source_id: int
    write_ids: ValidWriteIdList
    state_id: int


def policies_of(value: str | None) -> list[str]:
    """The policies that ``repl.target.for`` names."""
    return [name.strip() for name in (value or "").split(",") if name.strip()]


def read_sync(connection: Connection, policy: str, *, lock: bool = False) -> SyncRecord | None:
    """The last sync; None when there was none."""
    row = connection.execute(_SYNC.with_for_update() if lock else _SYNC, {"policy": policy}).first()
    if row is None:
        return None
    attempt, tables, state_id, failed_over = row
    return SyncRecord(attempt, tuple(json.loads(tables)), state_id, failed_over)


def read_records(connection: Connection, policy: str) -> dict[int, TableRecord]:
    """The tables of a policy, by their TBL_ID here."""
    return {
        table_id: TableRecord(table_id, source_table, source_id, ValidWriteIdList.parse(write_ids), state_id)
        for table_id, source_table, source_id, write_ids, state_id in connection.execute(_RECORDS, {"policy": policy})
    }


def came_up_to(connection: Connection, table: TableName) -> int:
    """The largest write id that a table got from another site, 0 if it got none.

    A sync brings one state to the next: what has come and gone between the two at the source has never been here.
    """
    lists = connection.execute(_CAME, {"db": table.database, "tbl": table.name}).scalars()
    return max((ValidWriteIdList.parse(text).high_watermark for text in lists), default=0)


def read_names(connection: Connection, table_ids: Iterable[int]) -> dict[int, str]:
    """``db.table`` of those of the tables that exist."""
    found: dict[int, str] = {}
    for part in chunks(sorted(table_ids)):
        for table_id, database, name in connection.execute(_NAMES, {"ids": list(part)}):
            found[table_id] = f"{database}.{name}"
    return found


def begin_attempt(connection: Connection, policy: str, attempt: str, tables: Iterable[str]) -> SyncRecord | None:
    """Take over: whoever began before commits nothing any more (R5).

    :param tables: those that this one works on; those of an attempt before that did not end stay noted.
    :return: what was recorded before.
    """
    before = read_sync(connection, policy, lock=True)
    noted = sorted({*tables, *(() if before is None else before.tables)})
    values = {"attempt": attempt, "tables": json.dumps(noted)}
    if before is None:
        connection.execute(_NEW_SYNC, {"policy_name": policy, **values})
    else:
        connection.execute(_NEXT_SYNC, {"policy": policy, **values})
    return before


def require_attempt(connection: Connection, policy: str, attempt: str) -> SyncRecord:
    """Lock the policy's row, and refuse an attempt that another has taken over from (R3, R5).

    :raises ReplicationBusyError: saying so.
    """
    found = read_sync(connection, policy, lock=True)
    if found is None or found.attempt != attempt:
        by = "was failed over" if found is not None and found.failed_over else "has been taken over by another sync"
        raise ReplicationBusyError(f"replication policy {policy!r} {by} meanwhile; this sync changes nothing")
    return found


def release_locks(connection: Connection, txn_ids: Sequence[int]) -> None:
    """Let go of what txns of syncs hold that do not count any more: who takes over may have to drop the table."""
    for part in chunks(list(txn_ids)):
        connection.execute(_UNLOCK, {"ids": list(part)})


def finish_attempt(connection: Connection, policy: str, state_id: int) -> None:
    """The sync is done."""
    connection.execute(_DONE, {"policy": policy, "state": state_id})


def note_state(connection: Connection, policy: str, state_id: int) -> None:
    """The tables have the state of an event of the source without a sync: they had it before they began to follow."""
    connection.execute(_STATE, {"policy": policy, "state": state_id})


def mark_failed_over(connection: Connection, policy: str, attempt: str, event_id: int | None = None) -> None:
    """The replica is a primary from now on.

    :param event_id: the latest event here; what follows it tells how the tables differ from what came. None: it is
        noted already.
    """
    connection.execute(_FAILED_OVER, {"policy": policy, "attempt": attempt})
    if event_id is not None:
        connection.execute(_RESTATE, {"of_policy": policy, "state": event_id})


def write_records(connection: Connection, policy: str, records: Sequence[TableRecord]) -> None:
    """Remember what came here."""
    forget_records(connection, policy, [r.table_id for r in records])
    rows = [
        {
            "HRT_POLICY": policy, "HRT_TABLE_ID": r.table_id, "HRT_SOURCE_TABLE": r.source_table,
            "HRT_SOURCE_ID": r.source_id, "HRT_WRITE_IDS": str(r.write_ids), "HRT_STATE": r.state_id,
        }
        for r in records
    ]  # fmt: skip
    if rows:
        connection.execute(insert(HIVE_ACID_REPL_TABLE), rows)


def forget_records(connection: Connection, policy: str, table_ids: Sequence[int] | None = None) -> None:
    """Forget tables, or all of a policy."""
    if table_ids is None:
        connection.execute(_FORGET_ALL, {"policy": policy})
        return
    for part in chunks(list(table_ids)):
        connection.execute(_FORGET, {"policy": policy, "ids": list(part)})


def target_databases(connection: Connection, policy: str) -> list[str]:
    """The databases that a policy writes."""
    return sorted(str(name) for name, value in connection.execute(_ALL_TARGETS) if policy in policies_of(value))


def mark_target(connection: Connection, database: str, policy: str) -> None:
    """Note that a policy writes a database, and only policies do.

    :raises NoSuchObjectError: when the database does not exist.
    """
    database_id, policies = _locked(connection, database)
    if policy not in policies:
        _write_targets(connection, database_id, [*policies, policy])


def require_target(connection: Connection, database: str, policy: str) -> None:
    """Lock a database's row, and refuse a policy that does not write it (any more).

    :raises ReplicationBusyError: it was failed over meanwhile.
    """
    if policy not in _locked(connection, database)[1]:
        raise ReplicationBusyError(
            f"database {database} is no target of replication policy {policy!r} any more: it was failed over; "
            "nothing was changed there"
        )


def unmark_target(connection: Connection, database: str, policy: str) -> None:
    """The policy writes the database no more; what it said of its state goes, too."""
    database_id, policies = _locked(connection, database)
    _write_targets(connection, database_id, [p for p in policies if p != policy])
    connection.execute(_UNMARK, {"id": database_id, "key": INCOMPATIBLE})


def _locked(connection: Connection, database: str) -> tuple[int, list[str]]:
    database_id = connection.execute(_DATABASE, {"name": database}).scalar()
    if database_id is None:
        raise NoSuchObjectError(
            f"there is no database {database} at the replica; a database must exist before it is replicated: create it"
        )
    # R3: read after the lock, in a statement of its own.
    return int(database_id), policies_of(connection.execute(_TARGETS, {"id": database_id}).scalar())


def _write_targets(connection: Connection, database_id: int, policies: Sequence[str]) -> None:
    of_database: dict[str, Any] = {"id": database_id}
    connection.execute(_UNMARK, {**of_database, "key": TARGET_FOR})
    if policies:
        connection.execute(_MARK, {**of_database, "value": ",".join(policies)})
