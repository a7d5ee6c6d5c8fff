"""HIVE_ACID_SHARED_TXN and HIVE_ACID_MEMBER: the record of transactions that several tasks work in.

Every change is one short database transaction that locks the row first and decides by what it reads after that (R3).
What a member records is accepted only while it has the turn, so a try that another one has taken over can neither
start a job nor finish (R14); the commit marks the row in its own database transaction and only for the holder of the
turn, so a commit and an abort exclude each other (R17).
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Integer, String, bindparam, delete, func, insert, or_, select, update

from airflow_hive_acid.errors import ClaimLostError, NoSuchTxnError
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
from airflow_hive_acid.metastore.records.shared_rules import (
    Member,
    MemberState,
    SharedState,
    SharedTxn,
    Turn,
    half_done,
    holder_in_the_way,
)
from airflow_hive_acid.metastore.schema.shared_txns import HIVE_ACID_MEMBER, HIVE_ACID_SHARED_TXN
from airflow_hive_acid.metastore.txns.txns import lock_txn_step
from airflow_hive_acid.metastore.txns.withdrawals import give_up_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.txns.withdrawals import GivenUp

_NAMES = 5
"""So many parts of a scope are names."""
_T = HIVE_ACID_SHARED_TXN.c
_M = HIVE_ACID_MEMBER.c
_BY_ID = _T.HST_TXNID == bindparam("txn_id")
_SELECT = select(
    _T.HST_TXNID, _T.HST_SCOPE, _T.HST_AGENT, _T.HST_STATE, _T.HST_ERROR, _T.HST_REASON, _T.HST_DOCUMENT,
    _T.HST_WRITTEN, _T.HST_STATEMENTS, _T.HST_TURN, _T.HST_TURN_MEMBER, _T.HST_TURN_UNTIL, _T.HST_BEGUN,
    _T.HST_UNTIL, _T.HST_MOST_BYTES, _T.HST_KEPT,
)  # fmt: skip
_LOCK = _SELECT.where(_BY_ID).with_for_update()
_OPEN_ONES = _SELECT.where(_T.HST_STATE == SharedState.OPEN.value).order_by(_T.HST_TXNID)
_INSERT = insert(HIVE_ACID_SHARED_TXN).values(HST_STATE=SharedState.OPEN.value, HST_WRITTEN="{}", HST_STATEMENTS="{}")
_UPDATE = update(HIVE_ACID_SHARED_TXN).where(_BY_ID)
_NO_TURN = {"HST_TURN": None, "HST_TURN_MEMBER": None, "HST_TURN_UNTIL": None}
_COMMITTED = _UPDATE.where(
    _T.HST_STATE == SharedState.OPEN.value, _T.HST_TURN == bindparam("token")
).values(HST_STATE=SharedState.COMMITTED.value, HST_UPDATED=clock_ms(), **_NO_TURN)  # fmt: skip
_MEMBERS = (
    select(_M.HSM_MEMBER, _M.HSM_NAME, _M.HSM_STATE, _M.HSM_JOBS, _M.HSM_RESULT)
    .where(_M.HSM_TXNID == bindparam("txn_id"))
    .order_by(_M.HSM_UPDATED, _M.HSM_MEMBER)
)
_EARLIER = (
    select(_T.HST_SCOPE, _M.HSM_NAME)
    .join_from(HIVE_ACID_SHARED_TXN, HIVE_ACID_MEMBER, _M.HSM_TXNID == _T.HST_TXNID)
    .where(
        _T.HST_TXNID < bindparam("txn_id"),
        func.substr(_T.HST_SCOPE, 1, bindparam("length", type_=Integer)) == bindparam("beginning", type_=String),
        _M.HSM_STATE == MemberState.DONE.value,
    )
    .order_by(_T.HST_TXNID, _M.HSM_UPDATED, _M.HSM_MEMBER)
)
_MEMBER = update(HIVE_ACID_MEMBER).where(
    _M.HSM_TXNID == bindparam("txn_id"), _M.HSM_MEMBER == bindparam("member")
)  # fmt: skip
_ADD_MEMBER = insert(HIVE_ACID_MEMBER).values(HSM_STATE=MemberState.BEGUN.value, HSM_JOBS="[]", HSM_UPDATED=clock_ms())
_OLD = or_(_T.HST_STATE != SharedState.OPEN.value, _T.HST_UNTIL < clock_ms()) & (
    _T.HST_UPDATED < clock_ms() - bindparam("age")
)
_FORGET = delete(HIVE_ACID_SHARED_TXN).where(_OLD)
_FORGET_MEMBERS = delete(HIVE_ACID_MEMBER).where(_M.HSM_TXNID.not_in(select(_T.HST_TXNID)))


@dataclass(frozen=True, slots=True)
class NewSharedTxn:
    """A txn that was begun and is to be worked in by several tasks.

    :param max_age_ms: after so long it is aborted.
    :param most_bytes: as in :class:`SharedTxn`.
    """

    txn_id: int
    scope: tuple[str, ...]
    agent: str
    document: Mapping[str, Any]
    max_age_ms: int
    most_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """An answer to who wants to work.

    :param txn: as it is now.
    :param token: of the turn, if it was granted.
    :param done: the member as an earlier try has finished it; then nothing is to be done, and no turn was taken.
    :param holder: name of the member that has the turn, if somebody else has.
    :param half_done: members to undo first.
    """

    txn: SharedTxn
    token: str | None = None
    done: Member | None = None
    holder: str | None = None
    half_done: tuple[Member, ...] = ()


class SharedTxns:
    """Transactions across tasks of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: NewSharedTxn) -> SharedTxn:
        """Record a txn that has just begun."""

        def operation(connection: Connection) -> SharedTxn:
            now = now_ms(connection)
            values = {
                "HST_TXNID": new.txn_id,
                "HST_SCOPE": _json(new.scope),
                "HST_AGENT": new.agent,
                "HST_DOCUMENT": _json(new.document),
                "HST_BEGUN": now,
                "HST_UNTIL": now + new.max_age_ms,
                "HST_MOST_BYTES": new.most_bytes,
                "HST_UPDATED": now,
            }
            found = _find(connection, new.txn_id)  # a repetition after a lost connection
            if found is None:
                connection.execute(_INSERT, values)
                found = _find(connection, new.txn_id)
            if found is None:
                raise AssertionError("the row that was inserted is not there")
            return found

        return self._database.run(operation)

    def find(self, txn_id: int) -> SharedTxn | None:
        """The record of a txn, None if there is none (any more)."""
        return self._database.read(lambda connection: _find(connection, txn_id))

    def get(self, txn_id: int) -> SharedTxn:
        """The record of a txn.

        :raises NoSuchTxnError: when there is none.
        """
        found = self.find(txn_id)
        if found is None:
            raise _missing(txn_id)
        return found

    def members(self, txn_id: int) -> list[Member]:
        """Its members, in the order in which they changed last."""
        return self._database.read(lambda connection: _members(connection, txn_id))

    def done_before(self, txn_id: int) -> list[tuple[str, ...]]:
        """Names of members that finished in earlier transactions of the same task, and have not finished in this one.

        :raises NoSuchTxnError: when there is no such record.
        """

        def operation(connection: Connection) -> list[tuple[str, ...]]:
            txn = _find(connection, txn_id)
            if txn is None:
                raise _missing(txn_id)
            # The run, the task and its index: what else is in a scope may be new when the task is cleared.
            task = txn.scope[:_NAMES]
            beginning = _json(task)[:-1]
            of_task = {"txn_id": txn_id, "beginning": beginning, "length": len(beginning)}
            here = {m.name for m in _members(connection, txn_id) if m.state is MemberState.DONE}
            earlier = dict.fromkeys(
                name
                for scope, name in connection.execute(_EARLIER, of_task)
                if json.loads(scope)[:_NAMES] == list(task) and name not in here
            )
            return [tuple(json.loads(name)) for name in earlier]

        return self._database.read(operation)

    def open_ones(self) -> list[SharedTxn]:
        """All that are neither committed nor aborted."""

        def operation(connection: Connection) -> list[SharedTxn]:
            now = now_ms(connection)
            return [_txn(row, now) for row in connection.execute(_OPEN_ONES)]

        return self._database.read(operation)

    def take_turn(self, txn_id: int, member: str, name: str, hold_ms: int) -> TurnTaken:
        """Ask to work, as a new try of a member; an earlier try of it can record nothing more from here on.

        :param member: digest of its name; empty for the commit.
        :param hold_ms: the turn ends after so long unless it is extended.
        :raises NoSuchTxnError: when there is no such record.
        """
        token = uuid.uuid4().hex

        def operation(connection: Connection) -> TurnTaken:
            txn = _locked(connection, txn_id)
            known = {m.member: m for m in _members(connection, txn_id)}
            own = known.get(member)
            if own is not None and own.state is MemberState.DONE:
                return TurnTaken(txn, done=own)
            if txn.state is not SharedState.OPEN:
                return TurnTaken(txn)
            holder = holder_in_the_way(txn, member)
            if holder is not None:
                other = known.get(holder.member)
                return TurnTaken(txn, holder="the commit" if other is None else other.name)
            if own is None and member:
                connection.execute(_ADD_MEMBER, {"HSM_TXNID": txn_id, "HSM_MEMBER": member, "HSM_NAME": name})
            turn = {"HST_TURN": token, "HST_TURN_MEMBER": member, "HST_TURN_UNTIL": txn.now + hold_ms}
            connection.execute(_UPDATE.values(**turn, HST_UPDATED=txn.now), {"txn_id": txn_id})
            return TurnTaken(txn, token, half_done=tuple(half_done(known.values())))

        return self._database.run(operation, retry_duplicates=True)

    def extend_turn(self, txn_id: int, token: str, hold_ms: int) -> SharedTxn:
        """Go on working.

        :return: the record, for whoever wants to know whether that makes sense.
        :raises ClaimLostError: when the turn is somebody else's, or the transaction has ended.
        """

        def operation(connection: Connection) -> SharedTxn:
            txn = _holding(connection, txn_id, token)
            connection.execute(_UPDATE.values(HST_TURN_UNTIL=txn.now + hold_ms), {"txn_id": txn_id})
            return txn

        return self._database.run(operation)

    def half_done(self, txn_id: int, token: str) -> list[Member]:
        """What the holder of the turn has to undo if it stops: only what was begun up to now.

        :raises ClaimLostError: as for :meth:`extend_turn`; then somebody else undoes it.
        """

        def operation(connection: Connection) -> list[Member]:
            _holding(connection, txn_id, token)
            return half_done(_members(connection, txn_id))

        return self._database.run(operation)

    def give_up_half_done(self, txn_id: int, token: str, members: Collection[str]) -> GivenUp:
        """Decide that the jobs of members that have not finished do not count: no commit has the turn meanwhile, and
        one that comes later finds them unfinished.

        :raises ClaimLostError: as for :meth:`extend_turn`.
        :raises TxnAbortedError: when the txn is not open any more.
        """

        def operation(connection: Connection) -> GivenUp:
            # The txn's row first, as its commit does.
            lock = lock_txn_step(txn_id)
            connection.execute(lock.statement, dict(lock.parameters))
            _holding(connection, txn_id, token)
            begun = half_done([m for m in _members(connection, txn_id) if m.member in members])
            return give_up_jobs(connection, txn_id, {job_id for m in begun for job_id in m.jobs})

        return self._database.run(operation)

    def undone(self, txn_id: int, token: str, members: Sequence[str]) -> None:
        """Nothing is left of what these members had half done.

        :raises ClaimLostError: as for :meth:`extend_turn`.
        """

        def operation(connection: Connection) -> None:
            _holding(connection, txn_id, token)
            for member in members:
                connection.execute(_MEMBER.values(HSM_JOBS="[]"), {"txn_id": txn_id, "member": member})

        self._database.run(operation)

    def record_job(self, txn_id: int, token: str, member: str, job_id: str, statements: Mapping[str, int]) -> None:
        """Note a job before it starts, and that its statement ids are given out (R5).

        :param statements: next statement id by table.
        :raises ClaimLostError: as for :meth:`extend_turn`.
        """

        def operation(connection: Connection) -> None:
            txn = _holding(connection, txn_id, token)
            jobs = next((m.jobs for m in _members(connection, txn_id) if m.member == member), ())
            given = dict(txn.statements)
            for table, number in statements.items():
                given[table] = max(number, given.get(table, 0))
            connection.execute(_UPDATE.values(HST_STATEMENTS=_json(given)), {"txn_id": txn_id})
            listed = _json(list(dict.fromkeys((*jobs, job_id))))
            connection.execute(_MEMBER.values(HSM_JOBS=listed), {"txn_id": txn_id, "member": member})

        self._database.run(operation)

    def finish(
        self, txn_id: int, token: str, member: str, written: Mapping[str, Any], result: Sequence[Mapping[str, Any]]
    ) -> None:
        """A member is done: what it wrote belongs to the transaction, and the turn is free.

        :raises ClaimLostError: as for :meth:`extend_turn`.
        """
        done = {"HSM_STATE": MemberState.DONE.value, "HSM_RESULT": _json(list(result))}

        def operation(connection: Connection) -> None:
            own = {m.member: m for m in _members(connection, txn_id)}.get(member)
            if own is not None and own.state is MemberState.DONE:
                return  # a repetition after a lost connection
            txn = _holding(connection, txn_id, token)
            connection.execute(_MEMBER.values(**done, HSM_UPDATED=txn.now), {"txn_id": txn_id, "member": member})
            connection.execute(
                _UPDATE.values(HST_WRITTEN=_json(written), HST_UPDATED=txn.now, **_NO_TURN), {"txn_id": txn_id}
            )

        self._database.run(operation)

    def give_back(self, txn_id: int, token: str) -> None:
        """Stop working without having finished; fine when the turn is somebody else's already."""
        statement = _UPDATE.where(_T.HST_TURN == bindparam("token")).values(**_NO_TURN)
        self._database.run(lambda connection: connection.execute(statement, {"txn_id": txn_id, "token": token}))

    def at_commit(self, txn_id: int, token: str) -> Callable[[Connection], None]:
        """What the commit has to do in its own database transaction; raises ClaimLostError to refuse it."""
        return partial(_mark_committed, txn_id, token)

    def mark_aborted(self, txn_id: int, error: str, reason: str) -> SharedTxn:
        """Nobody works in it or commits it any more, unless it is committed already.

        :param error: name of the class of the error that ends it.
        :return: the record as it is then: the first who ended it counts.
        :raises NoSuchTxnError: when there is no such record.
        """
        ended = {"HST_STATE": SharedState.ABORTED.value, "HST_ERROR": error[:64], "HST_REASON": reason}

        def operation(connection: Connection) -> SharedTxn:
            txn = _locked(connection, txn_id)
            if txn.state is SharedState.OPEN:
                connection.execute(_UPDATE.values(**ended, HST_UPDATED=txn.now, **_NO_TURN), {"txn_id": txn_id})
            return _locked(connection, txn_id)

        return self._database.run(operation)

    def keep(self, txn_id: int, beat: int | None = None) -> SharedTxn | None:
        """A beat of the keeper (R9).

        :param beat: NO_KEEPER to say that there is none; by default the time.
        :return: the record; None when there is none (any more).
        """
        value = clock_ms() if beat is None else beat
        open_one = _UPDATE.where(_T.HST_STATE == SharedState.OPEN.value).values(HST_KEPT=value)

        def operation(connection: Connection) -> SharedTxn | None:
            connection.execute(open_one, {"txn_id": txn_id})
            return _find(connection, txn_id)

        return self._database.run(operation)

    def forget(self, age_ms: int) -> int:
        """Drop records of transactions that ended so long ago.

        :return: their number.
        """

        def operation(connection: Connection) -> int:
            number = connection.execute(_FORGET, {"age": age_ms}).rowcount
            if number:
                connection.execute(_FORGET_MEMBERS)
            return number

        return self._database.run(operation)


def _mark_committed(txn_id: int, token: str, connection: Connection) -> None:
    if not connection.execute(_COMMITTED, {"txn_id": txn_id, "token": token}).rowcount:
        raise ClaimLostError(
            f"txn {txn_id} was given up, or another try commits it; nothing of this one becomes visible"
        )


def _holding(connection: Connection, txn_id: int, token: str) -> SharedTxn:
    txn = _locked(connection, txn_id)
    if txn.state is not SharedState.OPEN:
        raise ClaimLostError(f"{txn} has ended: {txn.reason or txn.state.name.lower()}; nothing more is done in it")
    if txn.turn is None or txn.turn.token != token:
        raise ClaimLostError(f"{txn}: another try or member has taken over; nothing of this try counts")
    return txn


def _locked(connection: Connection, txn_id: int) -> SharedTxn:
    row = connection.execute(_LOCK, {"txn_id": txn_id}).first()
    if row is None:
        raise _missing(txn_id)
    return _txn(row, now_ms(connection))  # R3: the clock after the wait


def _find(connection: Connection, txn_id: int) -> SharedTxn | None:
    row = connection.execute(_SELECT.where(_BY_ID), {"txn_id": txn_id}).first()
    return None if row is None else _txn(row, now_ms(connection))


def _members(connection: Connection, txn_id: int) -> list[Member]:
    return [
        Member(
            member, name, MemberState(state), tuple(json.loads(jobs)), None if result is None else json.loads(result)
        )
        for member, name, state, jobs, result in connection.execute(_MEMBERS, {"txn_id": txn_id})
    ]


def _txn(row: Any, now: int) -> SharedTxn:
    (txn_id, scope, agent, state, error, reason, document, written, statements, token, member, turn_until, begun,
     until, most_bytes, kept) = row  # fmt: skip
    return SharedTxn(
        txn_id,
        tuple(json.loads(scope)),
        agent,
        SharedState(state),
        error,
        reason,
        json.loads(document),
        json.loads(written),
        json.loads(statements),
        None if token is None else Turn(token, member or "", turn_until),
        begun,
        until,
        most_bytes,
        kept,
        now,
    )


def _missing(txn_id: int) -> NoSuchTxnError:
    return NoSuchTxnError(
        f"txn {txn_id} is no transaction across tasks, or is forgotten; clear the task that begins it"
    )


def _json(value: Any) -> str:
    """ASCII only, which every database keeps as it is."""
    return json.dumps(value, ensure_ascii=True)
