"""Waiting for txns to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import QuestionTrigger
from airflow_hive_acid.triggers.questions import Looked, Question, since, some

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.locks import TxnRow

ENDS = ("committed", "aborted")
FORGOTTEN = "forgotten"
"""It has ended, and its row is gone: nobody can tell any more how."""


@dataclass(frozen=True, slots=True)
class TxnsQuestion(Question):
    """Have all of these txns ended, and as demanded?

    :param demanded: ``committed`` or ``aborted``; None: either.
    """

    txn_ids: tuple[int, ...]
    demanded: str | None = None

    def __post_init__(self) -> None:
        if not self.txn_ids:
            raise InvalidArgumentsError("name the txns to wait for: txn_id is a number, or a list of numbers")
        if self.demanded is not None and self.demanded not in ENDS:
            raise InvalidArgumentsError(f"expect is {self.demanded!r}; give {' or '.join(ENDS)}, or None for either")

    def ask(self, client: MetastoreClient) -> Looked:
        """Look once."""
        looked = self.ask_all(client, [self])[self]
        if isinstance(looked, HiveAcidError):
            raise looked
        return looked

    @classmethod
    def ask_all(
        cls, client: MetastoreClient, questions: Sequence[TxnsQuestion]
    ) -> dict[TxnsQuestion, Looked | HiveAcidError]:
        """Look for many: the txns of all are read together."""
        from airflow_hive_acid.metastore.database import now_ms  # not needed to defer

        def read(connection: Connection) -> dict[TxnsQuestion, Looked | HiveAcidError]:
            rows, committed, highest = _read(
                connection, sorted({txn_id for asked in questions for txn_id in asked.txn_ids})
            )
            now = now_ms(connection)
            return {q: judge_txns(q.txn_ids, q.demanded, rows, committed, highest, now) for q in questions}

        return client.database.read(read)


def judge_txns(
    txn_ids: Sequence[int],
    demanded: str | None,
    rows: Mapping[int, TxnRow],
    committed: frozenset[int],
    highest: int,
    now: int,
) -> Looked:
    """Whether all have ended, as demanded; or who is still at work since when.

    :param rows: of those that the metastore still lists.
    :param committed: those without a row whose writes show that they were committed.
    :param highest: largest txn id that was ever given.
    :param now: milliseconds by the database's clock.
    """
    states: dict[int, str] = {}
    for txn_id in txn_ids:
        row = rows.get(txn_id)
        if row is None and txn_id > highest:
            return Looked(False, failed=f"txn {txn_id} was never opened; the latest is {highest}")
        if row is None:
            states[txn_id] = "committed" if txn_id in committed else FORGOTTEN
        else:
            states[txn_id] = row.state.name.lower()
    for txn_id, state in states.items():
        if demanded is not None and state not in (demanded, "open"):
            return Looked(False, failed=_otherwise(txn_id, state, demanded, rows.get(txn_id)))
    still = [rows[txn_id] for txn_id, state in states.items() if state == "open"]
    if still:
        told = some([_describe(row, now) for row in still])
        return Looked(False, f"waiting for {len(still)} txn{'s' * (len(still) > 1)}: {told}")
    return Looked(True, answer={"states": {str(txn_id): state for txn_id, state in states.items()}})


class TxnsEndedTrigger(QuestionTrigger):
    """Fires when txns have ended.

    :param expect: ``committed`` or ``aborted``; None: either.
    """

    def __init__(
        self,
        txn_ids: list[int],
        expect: str | None = None,
        until: float | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.txn_ids = txn_ids
        self.expect = expect

    def question(self) -> Question:
        """What is waited for."""
        return TxnsQuestion(tuple(self.txn_ids), self.expect)


def _read(connection: Connection, txn_ids: Sequence[int]) -> tuple[dict[int, TxnRow], frozenset[int], int]:
    from airflow_hive_acid.metastore.database import chunks
    from airflow_hive_acid.metastore.listing import committed_of, highest_txn_id, txn_rows

    # The highest first: a txn that is opened meanwhile is not one that never was.
    highest = highest_txn_id(connection)
    rows = {row.txn_id: row for part in chunks(list(txn_ids)) for row in txn_rows(connection, part)}
    missing = [txn_id for txn_id in txn_ids if txn_id not in rows]
    committed = {txn_id for part in chunks(missing) for txn_id in committed_of(connection, part)} if missing else set()
    return rows, frozenset(committed), max([highest, *rows])


def _describe(row: TxnRow, now: int) -> str:
    who = row.agent_info or f"{row.user}@{row.host}"
    beat = max(0, now - row.last_heartbeat) // 1000
    return f"txn {row.txn_id} of {who}, open{since(row.started, now)}, last heartbeat {beat} s ago"


def _otherwise(txn_id: int, state: str, demanded: str, row: TxnRow | None) -> str:
    if state == FORGOTTEN:
        return (
            f"txn {txn_id} has ended so long ago that the metastore does not know any more whether it was {demanded}; "
            "wait for it sooner, or without expect"
        )
    why = f" ({row.abort_reason})" if row is not None and state == "aborted" and row.abort_reason else ""
    return f"txn {txn_id} was {state}{why}, not {demanded}"
