"""HIVE_ACID_CLAIM: what a task does, it does once, however often it is tried (R14).

A unit is claimed before its txn is opened; the commit marks it in its own database transaction, and only for the owner
of the claim. So of two tries, whatever they are doing, at most one commits; and whoever comes later, or has lost the
answer to a commit, finds here what became of it (R17).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.errors import ClaimLostError
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.records.claim_rules import ClaimRecord, ClaimState, Recorded, TakeOver, Wish, decide
from airflow_hive_acid.metastore.schema.claims import HIVE_ACID_CLAIM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection
    from typing_extensions import Self

    from airflow_hive_acid.metastore.database.database import Database

_C = HIVE_ACID_CLAIM.c
_KEY = (_C.HAC_SCOPE == bindparam("scope"), _C.HAC_UNIT == bindparam("unit"))
_MINE = (*_KEY, _C.HAC_OWNER == bindparam("owner"), _C.HAC_STATE == ClaimState.CLAIMED.value)
_LOCK = (
    select(
        _C.HAC_STATE, _C.HAC_OWNER, _C.HAC_DIGEST, _C.HAC_LIFE, _C.HAC_TXNID, _C.HAC_EARLIER_TXNS, _C.HAC_RESULT
    )
    .where(*_KEY)
    .with_for_update()
)  # fmt: skip
_INSERT = insert(HIVE_ACID_CLAIM).values(HAC_UPDATED=clock_ms())
_TAKE = update(HIVE_ACID_CLAIM).where(*_KEY).values(HAC_TXNID=None, HAC_RESULT=None, HAC_UPDATED=clock_ms())
_BEGUN = update(HIVE_ACID_CLAIM).where(*_MINE).values(HAC_TXNID=bindparam("txn_id"), HAC_UPDATED=clock_ms())
_FENCED = update(HIVE_ACID_CLAIM).where(*_MINE).values(HAC_EARLIER_TXNS="[]", HAC_UPDATED=clock_ms())
_DONE = (
    update(HIVE_ACID_CLAIM)
    .where(*_MINE)
    .values(HAC_STATE=ClaimState.COMMITTED.value, HAC_RESULT=bindparam("result"), HAC_UPDATED=clock_ms())
)
_COMMIT = _DONE.where(_C.HAC_TXNID == bindparam("txn_id"))
_APPLIED = select(_C.HAC_STATE).where(
    *_KEY, _C.HAC_OWNER == bindparam("owner"), _C.HAC_STATE != ClaimState.CLAIMED.value
)  # fmt: skip
_ADOPT = update(HIVE_ACID_CLAIM).where(*_KEY, _C.HAC_STATE == ClaimState.COMMITTED.value).values(
    HAC_LIFE=bindparam("life")
)  # fmt: skip
_ACKNOWLEDGE = (
    update(HIVE_ACID_CLAIM)
    .where(_C.HAC_SCOPE == bindparam("scope"), _C.HAC_STATE == ClaimState.COMMITTED.value)
    .values(HAC_STATE=ClaimState.ACKNOWLEDGED.value, HAC_UPDATED=clock_ms())
)
_FORGET = delete(HIVE_ACID_CLAIM).where(_C.HAC_UPDATED < clock_ms() - bindparam("age"))


@dataclass(frozen=True, slots=True)
class Claim:
    """A unit that is ours to apply, until another try takes it over.

    :param earlier_txns: txns of earlier tries, to be fenced and aborted before anything is locked.
    :param again: it was applied before, and this is a deliberate re-run.
    """

    wish: Wish
    owner: str
    earlier_txns: tuple[int, ...] = ()
    again: bool = False

    def to_document(self) -> dict[str, Any]:
        """As plain values, for another process that commits under it."""
        wish = self.wish
        return {
            "scope": list(wish.scope),
            "unit": wish.unit,
            "digest": wish.digest,
            "life": wish.life,
            "owner": self.owner,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The claim that :meth:`to_document` made the document of."""
        scope = tuple(str(part) for part in document["scope"])
        wish = Wish(scope, int(document["unit"]), str(document["digest"]), str(document["life"]))
        return cls(wish, str(document["owner"]))

    def key(self) -> dict[str, Any]:
        """Parameters that find its row, as long as it is ours."""
        return {**_key(self.wish), "owner": self.owner}

    def lost(self) -> ClaimLostError:
        """The error for a claim that is not ours any more."""
        return ClaimLostError(
            f"{self.wish} was taken over by another try, which applies it; nothing of this one becomes visible"
        )


@dataclass(frozen=True, slots=True)
class Unapplied:
    """A unit that was not applied, and will not be under its claim.

    :param txns: in which it was, and which may be open still; none when a later try sees to them.
    """

    txns: tuple[int, ...] = ()


@dataclass(slots=True)
class Unit:
    """A statement whose change of the catalog is its commit, too: both happen, or neither.

    :param begun: told the txn in which it is applied.
    :param in_commit: what marks it as applied, inside the commit of its txn, or in the change itself without one.
    :param is_applied: whether it is marked, by a commit whose answer was lost.
    :param committed: whether that has happened.
    """

    begun: Callable[[int], None]
    in_commit: Callable[[int | None], Callable[[Connection], None]]
    is_applied: Callable[[Connection], bool]
    committed: bool = False


class Claims:
    """Idempotency records of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._current: ContextVar[Unit | None] = ContextVar("unit", default=None)

    @contextlib.contextmanager
    def applying(self, unit: Unit | None) -> Iterator[None]:
        """Around a statement that changes the catalog: the first commit inside marks it as applied.

        :param unit: None around what it changes besides: that is not yet the statement.
        """
        token = self._current.set(unit)
        try:
            yield
        finally:
            self._current.reset(token)

    @property
    def current(self) -> Unit | None:
        """What this thread is about to apply."""
        unit = self._current.get()
        return None if unit is None or unit.committed else unit

    def take(self, wish: Wish, resumed: str | None = None) -> Claim | Recorded:
        """Claim a unit, or find out that it was applied; who held the claim before cannot commit any more.

        :param resumed: owner of a claim under which another process of the same try has waited: it is gone on with.
        :raises InvalidArgumentsError: when something else was applied under its key.
        """
        owner = str(uuid.uuid4())

        def operation(connection: Connection) -> Claim | Recorded:
            record = _locked(connection, wish)
            if record is not None and record.state is ClaimState.CLAIMED and record.owner == resumed:
                return Claim(wish, resumed)
            decision = decide(record, wish)
            if isinstance(decision, Recorded):
                if record is not None and record.life != wish.life:
                    # It belongs to this life from here on: once it is acknowledged, a retry is none of a later one.
                    connection.execute(_ADOPT, {**_key(wish), "life": wish.life})
                return decision
            _write(connection, wish, owner, decision)
            return Claim(wish, owner, decision.earlier_txns, decision.again)

        return self._database.run(operation, retry_duplicates=True)

    def begun(self, claim: Claim, txn_id: int) -> None:
        """Note the txn in which the unit is applied, so that the next try can fence it.

        :raises ClaimLostError: when the claim was taken over.
        """
        self._mine(claim, _BEGUN, {"txn_id": txn_id})

    def fenced(self, claim: Claim) -> None:
        """The txns of earlier tries are fenced and aborted.

        :raises ClaimLostError: when the claim was taken over.
        """
        self._mine(claim, _FENCED, {})

    def in_change(self, claim: Claim, result: Sequence[dict[str, Any]]) -> Callable[[Connection], None]:
        """As :meth:`at_commit`, for a change that needs no txn and is made in one database transaction."""
        return partial(_mark, _DONE, claim, {"result": _json(result)})

    def at_commit(self, claim: Claim, txn_id: int, result: Sequence[dict[str, Any]]) -> Callable[[Connection], None]:
        """What the commit of the txn has to do in its own database transaction; raises ClaimLostError to refuse it.

        :param result: documents of the results, for whoever tries again.
        """
        return partial(_mark, _COMMIT, claim, {"txn_id": txn_id, "result": _json(result)})

    def is_applied(self, claim: Claim, connection: Connection) -> bool:
        """Whether the unit was applied under this claim."""
        return connection.execute(_APPLIED, claim.key()).first() is not None

    def done(self, claim: Claim, result: Sequence[dict[str, Any]]) -> None:
        """A unit that needs no txn, because it changes the catalog only, is applied; again is fine.

        :raises ClaimLostError: when the claim was taken over meanwhile.
        """

        def operation(connection: Connection) -> None:
            if not self.is_applied(claim, connection):  # else this is a repetition: the answer was lost
                _mark(_DONE, claim, {"result": _json(result)}, connection)

        self._database.run(operation)

    def settle(self, claim: Claim) -> Recorded | Unapplied:
        """What became of a commit whose answer was lost; one that is still on its way can no longer succeed (R17).

        :return: what was committed; or that nothing was, and nothing will be.
        """

        def operation(connection: Connection) -> Recorded | Unapplied:
            record = _locked(connection, claim.wish)
            if record is None or record.owner != claim.owner:
                return Unapplied()
            if record.state is not ClaimState.CLAIMED:
                decision = decide(record, claim.wish)
                return decision if isinstance(decision, Recorded) else Unapplied()
            mine = () if record.txn_id is None else (record.txn_id,)
            _write(connection, claim.wish, str(uuid.uuid4()), TakeOver((*record.earlier_txns, *mine)))
            return Unapplied(mine)

        return self._database.run(operation)

    def acknowledge(self, scope: tuple[str, ...]) -> int:
        """The task that did all this has succeeded: what follows in another life is a deliberate re-run.

        :return: number of units.
        """
        return self._database.run(
            lambda connection: connection.execute(_ACKNOWLEDGE, {"scope": _digest(scope)}).rowcount
        )

    def forget(self, age_ms: int) -> int:
        """Drop records that nobody has touched for so long.

        :return: their number.
        """
        return self._database.run(lambda connection: connection.execute(_FORGET, {"age": age_ms}).rowcount)

    def _mine(self, claim: Claim, statement: Any, values: dict[str, Any]) -> None:
        def operation(connection: Connection) -> None:
            if not connection.execute(statement, {**claim.key(), **values}).rowcount:
                raise claim.lost()

        self._database.run(operation)


def digest_of(statements: Sequence[str]) -> str:
    """Digest of the rendered text of a unit."""
    return _digest(tuple(statements))


def _locked(connection: Connection, wish: Wish) -> ClaimRecord | None:
    row = connection.execute(_LOCK, _key(wish)).first()
    if row is None:
        return None
    state, owner, digest, life, txn_id, earlier, result = row
    return ClaimRecord(
        ClaimState(state),
        owner,
        digest,
        life,
        txn_id,
        tuple(json.loads(earlier)),
        None if result is None else json.loads(result),
    )


def _write(connection: Connection, wish: Wish, owner: str, decision: TakeOver) -> None:
    """The row of a unit that is now claimed by this owner; a racer's insert is a duplicate key, and looked at again."""
    values = {
        "HAC_NAME": _json(wish.scope),
        "HAC_DIGEST": wish.digest,
        "HAC_LIFE": wish.life,
        "HAC_STATE": ClaimState.CLAIMED.value,
        "HAC_OWNER": owner,
        "HAC_EARLIER_TXNS": _json(decision.earlier_txns),
    }
    if not connection.execute(_TAKE.values(values), _key(wish)).rowcount:
        key = _key(wish)
        connection.execute(_INSERT, {"HAC_SCOPE": key["scope"], "HAC_UNIT": key["unit"], **values})


def _mark(statement: Any, claim: Claim, values: dict[str, Any], connection: Connection) -> None:
    if not connection.execute(statement, {**claim.key(), **values}).rowcount:
        raise claim.lost()


def _key(wish: Wish) -> dict[str, Any]:
    return {"scope": _digest(wish.scope), "unit": wish.unit}


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.sha256(_json(parts).encode()).hexdigest()


def _json(value: Any) -> str:
    """ASCII only, which every database keeps as it is."""
    return json.dumps(value, ensure_ascii=True)
