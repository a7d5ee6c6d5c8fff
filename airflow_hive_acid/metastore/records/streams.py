"""HIVE_ACID_STREAM: each micro-batch of a stream is committed once, however often it is tried (R14).

The micro-batches of a stream have numbers that only grow, so one row says of all of them what was committed: the last
number. The commit of a micro-batch moves it in its own database transaction, and only for the stream's owner and its
present attempt. So of two processes that run one stream, whatever they are doing, at most one commits a micro-batch;
and a lost answer to a commit is looked up here (R17).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.errors import ClaimLostError, InvalidArgumentsError, NoSuchObjectError, StreamBusyError
from airflow_hive_acid.metastore.catalog.rows.reader import read_tables_by_id
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM, offsets_text, read_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database

_S = HIVE_ACID_STREAM.c
_KEY = _S.HSR_STREAM == bindparam("stream")
_MINE = (_KEY, _S.HSR_OWNER == bindparam("owner"))
_COLUMNS = (
    _S.HSR_NAME, _S.HSR_TABLE, _S.HSR_SOURCE, _S.HSR_OWNER, _S.HSR_WHO, _S.HSR_ATTEMPT, _S.HSR_OPEN_TXNS, _S.HSR_BATCH,
    _S.HSR_TXNID, _S.HSR_WRITEID, _S.HSR_BATCHES, _S.HSR_ROWS, _S.HSR_QUARANTINED, _S.HSR_OFFSETS,
    (clock_ms() - _S.HSR_BEAT).label("silent_ms"),
)  # fmt: skip
_LOCK = select(*_COLUMNS).where(_KEY).with_for_update()
_FIND = select(*_COLUMNS).where(_KEY)
_LIST = select(*_COLUMNS).order_by(_S.HSR_STREAM)
_INSERT = insert(HIVE_ACID_STREAM).values(HSR_BEAT=clock_ms(), HSR_UPDATED=clock_ms())
_TAKE = update(HIVE_ACID_STREAM).where(_KEY).values(HSR_BEAT=clock_ms(), HSR_UPDATED=clock_ms())
_BEAT = update(HIVE_ACID_STREAM).where(*_MINE).values(HSR_BEAT=clock_ms())
_BEGUN = (
    update(HIVE_ACID_STREAM)
    .where(*_MINE)
    .values(HSR_ATTEMPT=bindparam("attempt"), HSR_OPEN_TXNS=bindparam("txns"), HSR_BEAT=clock_ms())
)
_ENDED = update(HIVE_ACID_STREAM).where(*_MINE).values(HSR_ATTEMPT="", HSR_OPEN_TXNS="[]", HSR_BEAT=clock_ms())
_LEAVE = update(HIVE_ACID_STREAM).where(*_MINE).values(HSR_OWNER="", HSR_UPDATED=clock_ms())
_FORGET = delete(HIVE_ACID_STREAM).where(_KEY)
_COMMIT = (
    update(HIVE_ACID_STREAM)
    .where(*_MINE, _S.HSR_ATTEMPT == bindparam("attempt"), _S.HSR_BATCH < bindparam("batch"))
    .values(
        HSR_BATCH=bindparam("batch"),
        HSR_TXNID=bindparam("txn_id"),
        HSR_WRITEID=bindparam("write_id"),
        HSR_OFFSETS=bindparam("offsets"),
        HSR_OPEN_TXNS="[]",
        HSR_ATTEMPT="",
        HSR_BATCHES=_S.HSR_BATCHES + 1,
        HSR_ROWS=_S.HSR_ROWS + bindparam("rows"),
        HSR_QUARANTINED=_S.HSR_QUARANTINED + bindparam("quarantined"),
        HSR_BEAT=clock_ms(),
        HSR_UPDATED=clock_ms(),
    )
)
NONE_YET = -1
"""Before the first micro-batch."""
_ANEW: dict[str, Any] = {
    "HSR_BATCH": NONE_YET, "HSR_TXNID": None, "HSR_WRITEID": None, "HSR_BATCHES": 0, "HSR_ROWS": 0,
    "HSR_QUARANTINED": 0, "HSR_OFFSETS": None,
}  # fmt: skip
"""Of a stream whose table is gone: none of what it has committed is in the next one of that name."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What is known of a stream.

    :param source: which checkpoint it comes from.
    :param who: who runs it, or ran it last; ``running`` says whether that process has left.
    :param open_txns: txns of attempts that may not be ended yet.
    :param batch: the last micro-batch that was committed, -1 for none; in this txn, with this write id.
    :param rows: rows of all micro-batches, and ``quarantined`` those that were set aside.
    :param offsets: what the stream said of its sources with the last commit, as JSON text.
    :param silent_ms: milliseconds since its last sign of life, by the database's clock.
    :param table_id: of the table that the last micro-batch was written to; None where that is not known.
    """

    name: str
    table: str
    source: str
    who: str
    running: bool
    open_txns: tuple[int, ...]
    batch: int
    txn_id: int | None
    write_id: int | None
    batches: int
    rows: int
    quarantined: int
    offsets: str | None
    silent_ms: int
    table_id: int | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that may commit to a stream, until another one takes it over.

    :param token: what every change of the record is checked against.
    :param found: the record as it was when it was taken over.
    :param table_id: of the table that it writes.
    """

    stream: str
    token: str
    found: Stream
    table_id: int

    def lost(self) -> ClaimLostError:
        """The error for a stream that another process runs now."""
        return ClaimLostError(
            f"stream {self.stream} was taken over by another process, which goes on with it; nothing of what this one "
            "had begun becomes visible"
        )


class Streams:
    """The streams of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(
        self, name: str, table: str, source: str, who: str, *, table_id: int, silent_ms: int, start_over: bool = False
    ) -> Owner:  # fmt: skip
        """Become the process that runs a stream.

        What it has committed counts as long as the table that it was written to is there, whatever that is called.

        :param table: ``db.table`` that it writes, as it is called now; ``table_id`` says which one that is.
        :param source: which checkpoint it comes from; another one numbers its micro-batches anew.
        :param who: names us; whoever has the same name is an earlier try of ours, and over.
        :param silent_ms: another process that has given no sign of life for so long counts as dead.
        :param start_over: accept another checkpoint, and apply its micro-batches from the first.
        :raises StreamBusyError: when another process runs it.
        :raises InvalidArgumentsError: when it writes another table, or comes from another checkpoint.
        """
        token = str(uuid.uuid4())

        def operation(connection: Connection) -> Owner:
            # R3: the row is locked, then decided on.
            row = connection.execute(_LOCK, {"stream": digest(name)}).first()
            if row is None:
                values = {
                    "HSR_STREAM": digest(name), "HSR_NAME": name, "HSR_TABLE": table, "HSR_SOURCE": source,
                    "HSR_OWNER": token, "HSR_WHO": who, "HSR_ATTEMPT": "", "HSR_OPEN_TXNS": "[]",
                    "HSR_BATCH": NONE_YET, "HSR_BATCHES": 0, "HSR_ROWS": 0, "HSR_QUARANTINED": 0,
                }  # fmt: skip
                connection.execute(_INSERT, values)
                return Owner(name, token, _new(name, table, source, who), table_id)
            known = _stream(row)
            _require_silent(known, who, silent_ms)
            found = _of_table(connection, known, table, table_id)
            _check_source(found, source, start_over)
            taken: dict[str, Any] = {
                "HSR_OWNER": token, "HSR_WHO": who, "HSR_SOURCE": source, "HSR_ATTEMPT": "", "HSR_TABLE": table,
            }  # fmt: skip
            if found is not known:
                taken |= _ANEW
            batch = found.batch
            if found.source != source:
                batch = taken["HSR_BATCH"] = NONE_YET
            connection.execute(_TAKE.values(taken), {"stream": digest(name)})
            return Owner(name, token, replace(found, batch=batch), table_id)

        return self._database.run(operation, retry_duplicates=True)

    def beat(self, owner: Owner) -> None:
        """Say that we are alive.

        :raises ClaimLostError: when another process has taken it over.
        """
        self._mine(owner, _BEAT, {})

    def begun(self, owner: Owner, attempt: str, txn_ids: Sequence[int]) -> None:
        """Note the attempt at a micro-batch, with its txn and those before that are not ended yet.

        :raises ClaimLostError: when another process has taken the stream over.
        """
        self._mine(owner, _BEGUN, {"attempt": attempt, "txns": json.dumps(list(txn_ids))})

    def ended(self, owner: Owner) -> None:
        """All attempts before were fenced and aborted.

        :raises ClaimLostError: when another process has taken the stream over.
        """
        self._mine(owner, _ENDED, {})

    def at_commit(
        self,
        owner: Owner,
        attempt: str,
        batch: int,
        txn_id: int,
        write_id: int | None,
        rows: int,
        quarantined: int,
        offsets: str | None,
    ) -> Callable[[Connection], None]:
        """What the commit of a micro-batch does in its own database transaction; it raises ClaimLostError to refuse."""
        values = {
            "attempt": attempt, "batch": batch, "txn_id": txn_id, "write_id": write_id, "rows": rows,
            "quarantined": quarantined, "offsets": offsets_text(offsets, owner.table_id),
        }  # fmt: skip
        return partial(_commit, owner, values)

    def settle(self, owner: Owner, batch: int) -> Stream | None:
        """What became of a commit whose answer was lost; one that is still on its way can no longer succeed (R17).

        :return: the record if it was committed; None when it was not, and then it never will be.
        :raises ClaimLostError: when another process has taken the stream over; it finds out.
        """

        def operation(connection: Connection) -> Stream | None:
            row = connection.execute(_LOCK, {"stream": digest(owner.stream)}).first()
            if row is None or row.HSR_OWNER != owner.token:
                raise owner.lost()
            found = _stream(row)
            if found.batch >= batch:
                return found
            connection.execute(_TAKE.values(HSR_ATTEMPT=""), {"stream": digest(owner.stream)})
            return None

        return self._database.run(operation)

    def leave(self, owner: Owner) -> None:
        """Another process may run it now, at once; nothing happens if one does already."""
        self._database.run(
            lambda connection: connection.execute(_LEAVE, {"stream": digest(owner.stream), "owner": owner.token})
        )

    def find(self, name: str) -> Stream:
        """A stream.

        :raises NoSuchObjectError: when there is none of that name.
        """
        row = self._database.read(lambda connection: connection.execute(_FIND, {"stream": digest(name)}).first())
        if row is None:
            raise _no_such(name)
        return _stream(row)

    def all(self) -> list[Stream]:
        """All streams."""
        return self._database.read(lambda connection: [_stream(row) for row in connection.execute(_LIST)])

    def forget(self, name: str, *, silent_ms: int) -> None:
        """Forget a stream that nobody runs: a later one of that name starts with nothing committed.

        :param silent_ms: a process that has given no sign of life for so long counts as dead, and commits nothing more.
        :raises NoSuchObjectError: when there is none of that name.
        :raises StreamBusyError: while a process runs it.
        """

        def operation(connection: Connection) -> None:
            row = connection.execute(_LOCK, {"stream": digest(name)}).first()
            if row is None:
                raise _no_such(name)
            found = _stream(row)
            if found.running and found.silent_ms < silent_ms:
                raise StreamBusyError(
                    f"stream {name} is run by {found.who}; end it first. If it is dead, it counts as that after "
                    f"{silent_ms / 1000:.0f} s without a sign of life (hive.acid.stream.owner.timeout)"
                )
            connection.execute(_FORGET, {"stream": digest(name)})

        self._database.run(operation)

    def _mine(self, owner: Owner, statement: Any, values: dict[str, Any]) -> None:
        def operation(connection: Connection) -> None:
            key = {"stream": digest(owner.stream), "owner": owner.token}
            if not connection.execute(statement, {**key, **values}).rowcount:
                raise owner.lost()

        self._database.run(operation)


def digest(name: str) -> str:
    """HSR_STREAM of a stream."""
    return hashlib.sha256(name.encode()).hexdigest()


def _new(name: str, table: str, source: str, who: str) -> Stream:
    return Stream(name, table, source, who, False, (), NONE_YET, None, None, 0, 0, 0, None, 0)


def _no_such(name: str) -> NoSuchObjectError:
    return NoSuchObjectError(f"there is no stream {name}; hive-acid stream show lists those there are")


def _of_table(connection: Connection, found: Stream, table: str, table_id: int) -> Stream:
    """What counts of a record for a table: all, or nothing when the table that was written to is gone.

    A Hive drops, makes and renames tables, and knows nothing of the record.

    :raises InvalidArgumentsError: when it is of another table.
    """
    written = found.table
    if found.table_id is not None:
        if found.table_id == table_id:
            return found
        there = read_tables_by_id(connection, [found.table_id]).get(found.table_id)
        if there is None and written == table:
            return replace(_new(found.name, table, found.source, found.who), open_txns=found.open_txns)
        written = written if there is None else there.qualified_name
    elif written == table:
        return found
    raise InvalidArgumentsError(
        f"stream {found.name} writes {written}, not {table}; give each stream into a table a name of its own. "
        f"If {written} was {table} before, and the stream is to go on into the table that has its name now, "
        f"forget what it has committed: hive-acid stream forget {found.name}"
    )


def _require_silent(found: Stream, who: str, silent_ms: int) -> None:
    if found.running and found.who != who and found.silent_ms < silent_ms:
        raise StreamBusyError(
            f"stream {found.name} is run by {found.who}, which gave a sign of life {found.silent_ms / 1000:.1f} s ago; "
            f"it counts as dead after {silent_ms / 1000:.0f} s (hive.acid.stream.owner.timeout). Two streams into one "
            "table need two names"
        )


def _check_source(found: Stream, source: str, start_over: bool) -> None:
    if found.source != source and found.batch != NONE_YET and not start_over:
        raise InvalidArgumentsError(
            f"stream {found.name} has committed micro-batch {found.batch} of another checkpoint ({found.source}, not "
            f"{source}): which rows of this one are in {found.table} already, nobody can tell. Go on from the old "
            "checkpoint, give the stream another name, or say start_over=True to apply all of the new checkpoint"
        )


def _commit(owner: Owner, values: dict[str, Any], connection: Connection) -> None:
    if not connection.execute(_COMMIT, {"stream": digest(owner.stream), "owner": owner.token, **values}).rowcount:
        raise owner.lost()


def _stream(row: Any) -> Stream:
    offsets, table_id = read_offsets(row.HSR_OFFSETS)
    return Stream(
        name=row.HSR_NAME,
        table=row.HSR_TABLE,
        source=row.HSR_SOURCE,
        who=row.HSR_WHO,
        running=row.HSR_OWNER != "",
        open_txns=tuple(json.loads(row.HSR_OPEN_TXNS)),
        batch=row.HSR_BATCH,
        txn_id=row.HSR_TXNID,
        write_id=row.HSR_WRITEID,
        batches=row.HSR_BATCHES,
        rows=row.HSR_ROWS,
        quarantined=row.HSR_QUARANTINED,
        offsets=offsets,
        silent_ms=int(row.silent_ms),
        table_id=table_id,
    )
