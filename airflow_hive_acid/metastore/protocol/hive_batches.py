"""Transaction batches: several txns opened at once, whose rows go into one ``delta_X_Y`` (Hive's streaming ingest).

A batch is one txn more than can be written in, its *anchor*, the first. It has the first write id of the range, holds
the lock that keeps the table as it is, and writes nothing. While it is open no compaction's high-water mark can fall
inside the range: a base or a merged delta that ends at X + 1 would hide the committed rows of ``delta_X_Y`` behind it
(its range counts as read up to there). A commit asks whether the anchor is open, so a batch whose lock was taken away
commits nothing any more. The other txns ask for no lock: theirs would wait behind others' exclusive requests, which
wait for the anchor.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, insert, select

from airflow_hive_acid.errors import (
    ClaimLostError,
    HiveAcidError,
    InvalidArgumentsError,
    TxnAbortedError,
)
from airflow_hive_acid.metastore.database.backend import execute_batch
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.database.heartbeats import Heartbeater
from airflow_hive_acid.metastore.locks.components import add_partitions, component_steps
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.names.objects import free_text
from airflow_hive_acid.metastore.protocol.lock_wait import abort_reason, wait_until_granted
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS
from airflow_hive_acid.metastore.txns.key_values import PREFIX, KeyValue
from airflow_hive_acid.metastore.txns.txns import lock_txn_step, require_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.verbs import Verbs

POSITION_PREFIX = f"{PREFIX}.position."
"""Where a stream of records stands; the stream's name follows."""

_READ = select(TABLE_PARAMS.c.PARAM_VALUE).where(
    TABLE_PARAMS.c.TBL_ID == bindparam("id"), TABLE_PARAMS.c.PARAM_KEY == bindparam("name")
)
_LOCK = _READ.with_for_update()
_CREATE = insert(TABLE_PARAMS).values(TBL_ID=bindparam("id"), PARAM_KEY=bindparam("name"), PARAM_VALUE="")


@dataclass(frozen=True, slots=True)
class OpenedBatch:
    """Txns that were opened together.

    :param anchor: the txn that is open as long as the batch, and writes nothing.
    :param txns: those to write in, ascending.
    :param write_ids: write id by txn, the anchor's among them.
    """

    anchor: int
    txns: tuple[int, ...]
    write_ids: dict[int, int]

    @property
    def low(self) -> int:
        """The first write id of the range."""
        return self.write_ids[self.anchor]

    @property
    def high(self) -> int:
        """The last write id of the range."""
        return self.write_ids[self.txns[-1]]


def open_batch(client: Verbs, table: TableName, number: int, lock: LockType, agent_info: str) -> OpenedBatch:
    """Open txns to write in, and their anchor; lock the table, then allocate the write ids of all of them (R1).

    :param number: how many; with the anchor at most ``hive.txn.max.open.batch``.
    :param lock: what a writer that inserts locks the table with.
    :raises InvalidArgumentsError: for a number that cannot be.
    :raises LockTimeoutError: when the lock was not granted in time; nothing is left behind.
    """
    most = client.settings.integer("hive.txn.max.open.batch")
    if not 1 <= number <= most - 1:
        raise InvalidArgumentsError(
            f"a batch of {number} transactions: 1 to {most - 1} can be opened at once, as hive.txn.max.open.batch is "
            f"{most} and one more holds the lock"
        )
    anchor, *txns = client.open_txns(number + 1, agent_info=agent_info)
    alive = BatchHeartbeat(client, (anchor, *txns))
    try:
        component = LockComponent(table.database, table.name, None, lock, Operation.NO_TXN)
        response = client.lock(component, txn_id=anchor, agent_info=agent_info)
        wait_until_granted(client, response, anchor, str(table))
        write_ids = client.allocate_write_ids(str(table), (anchor, *txns))
    except BaseException as error:
        client.abort_txns([*txns, anchor], abort_reason(error))
        raise
    finally:
        alive.close()
    return OpenedBatch(anchor, tuple(txns), write_ids)


class BatchHeartbeat:
    """Keeps the txns of a batch alive from the background, all of them with one statement.

    :param txns: ascending.
    """

    def __init__(self, client: Verbs, txns: Sequence[int]) -> None:
        self._client = client
        self._anchor = txns[0]
        self._alive = list(txns)
        #: A beat waits for the rows of a commit, and a commit for those of a beat: one at a time.
        self.turn = threading.Lock()
        seconds = client.settings.seconds("hive.txn.timeout") / 2
        self._beats = Heartbeater(lambda _txn: self.beat(), seconds, what="batch of txn")
        self._beats.add(self._anchor)

    def ended(self, txn_id: int) -> None:
        """A txn of it has ended."""
        self._alive.remove(txn_id)

    def beat(self) -> None:
        """Send a heartbeat for all that are open.

        :raises TxnAbortedError: when the anchor is not open any more.
        """
        with self.turn:
            for low, high in runs(self._alive):
                found = self._client.heartbeat_txn_range(low, high)
                if self._anchor in found.aborted or self._anchor in found.missing:
                    raise TxnAbortedError(
                        f"txn {self._anchor}, which held the lock of the batch, was ended by somebody else"
                    )

    def check(self) -> None:
        """Raise what a beat in the background found out."""
        lost = self._beats.lost(self._anchor)
        if lost is not None:
            raise lost

    def close(self) -> None:
        """No more beats."""
        self._beats.close()


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as ranges without gaps: what lies between may be txns of others."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def record_component(client: Verbs, txn_id: int, table: TableName, *, partitioned: bool, lock: LockType) -> None:
    """Record that a txn of a batch is about to write, with its write id: from then on it is not forgotten (R4).

    :raises TxnAbortedError: when it is aborted; :raises NoSuchTxnError: when it has ended.
    """
    component = LockComponent(table.database, table.name, None, lock, Operation.INSERT, dynamic_partitions=partitioned)

    def operation(connection: Connection) -> None:
        _require(connection, txn_id)
        execute_batch(connection, component_steps(txn_id, [component]))

    client.database.run(operation)


def name_partitions(client: Verbs, txn_id: int, table: TableName, names: Iterable[str]) -> None:
    """Record which partitions a txn of a batch is about to publish into (R12).

    Before it does: its rows cannot be taken out of the files it shares with committed txns, so whoever aborts it, a
    Hive's reaper that knows nothing of manifests among them, must leave behind where they are.

    :raises TxnAbortedError: when it is aborted; :raises NoSuchTxnError: when it has ended.
    """

    def operation(connection: Connection) -> None:
        _require(connection, txn_id)
        add_written(connection, txn_id=txn_id, table=table, names=names)

    client.database.run(operation)


def add_written(connection: Connection, *, txn_id: int, table: TableName, names: Iterable[str]) -> None:
    """The partitions that a txn of a batch has inserted into; its row must be locked."""
    add_partitions(connection, txn_id, table, sorted(names), Operation.INSERT)


def require_anchor(connection: Connection, anchor: int) -> None:
    """Inside a commit: the batch still has its lock.

    :raises TxnAbortedError: otherwise; the commit is refused.
    """
    try:
        _require(connection, anchor)
    except HiveAcidError as error:
        raise TxnAbortedError(f"the batch has lost its lock, and commits nothing any more: {error}") from error


def _require(connection: Connection, txn_id: int) -> None:
    step = lock_txn_step(txn_id)
    require_open(connection, txn_id, connection.execute(step.statement, dict(step.parameters)).all())


@dataclass(slots=True)
class Position:
    """Where a stream stands in a table: a table parameter that changes with the commits of its writer.

    :param text: as this writer knows it. A commit that finds another one is refused: another writer has gone on.
    """

    table_id: int
    stream: str
    text: str

    @property
    def key(self) -> str:
        """Name of the table parameter."""
        return POSITION_PREFIX + self.stream

    def moved(self, connection: Connection, text: str) -> None:
        """Inside a commit: set the position.

        :raises ClaimLostError: when another writer has moved it; the commit is refused.
        """
        found = connection.execute(_LOCK, {"id": self.table_id, "name": self.key}).scalar()
        if (found or "") != self.text:
            raise ClaimLostError(
                f"another writer of stream {self.stream!r} has gone on to {(found or '')[:200]}; this one knows "
                f"{self.text[:200] or 'no position'}. What it was about to commit is not: read the position again"
            )
        KeyValue(self.table_id, self.key, text).set(connection)


def read_position(client: Verbs, table_id: int, stream: str) -> Position:
    """Where a stream stands; its parameter is made if there is none."""
    free_text(stream, "name of the stream", 200)
    place = {"id": table_id, "name": POSITION_PREFIX + stream}

    def operation(connection: Connection) -> str:
        row = connection.execute(_READ, place).first()
        if row is None:
            connection.execute(_CREATE, place)
        return "" if row is None else str(row[0] or "")

    return Position(table_id, stream, client.database.run(operation, retry_duplicates=True))
