"""Transactions across tasks as values: whose turn it is, whether it may go on, and whether it may be committed.

A member works only while it has the turn, so of all members at most one has begun and not finished something: whoever
gets the turn next undoes that first (R5, R14). The turn is a lease: one that is not extended is over, and its holder
can record nothing more. R9: a transaction whose keeper is silent is given up, and so is one that is too old or holds
back too many bytes from being cleaned.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from airflow_hive_acid.errors import HiveAcidError

NO_KEEPER = -1
"""HST_KEPT where tasks run one after the other in one process, so that none can run beside them."""


class SharedState(Enum):
    """HST_STATE."""

    OPEN = "o"
    COMMITTED = "c"
    ABORTED = "a"


class MemberState(Enum):
    """HSM_STATE."""

    BEGUN = "l"
    DONE = "d"


@dataclass(frozen=True, slots=True)
class Turn:
    """Who may work now.

    :param token: names the try; every change it makes is checked against it.
    :param until: milliseconds by the database's clock.
    """

    token: str
    member: str
    until: int


@dataclass(frozen=True, slots=True)
class SharedTxn:
    """A row of HIVE_ACID_SHARED_TXN, times in milliseconds by the database's clock.

    :param scope: who opened it: ``airflow``, DAG, run, task, map index.
    :param agent: the same as SHOW TRANSACTIONS says it.
    :param error: name of the class of the error that ended it.
    :param until: when it is too old.
    :param most_bytes: so many bytes may it hold back from cleaning; None for any number.
    :param kept: last beat of its keeper.
    :param now: when the row was read.
    """

    txn_id: int
    scope: tuple[str, ...]
    agent: str
    state: SharedState
    error: str | None
    reason: str | None
    document: Mapping[str, Any]
    written: Mapping[str, Any]
    statements: Mapping[str, int]
    turn: Turn | None
    begun: int
    until: int
    most_bytes: int | None
    kept: int | None
    now: int

    def __str__(self) -> str:
        return f"txn {self.txn_id} of {describe(self.scope)}"


@dataclass(frozen=True, slots=True)
class Member:
    """A row of HIVE_ACID_MEMBER.

    :param jobs: ids of the jobs of tries that are not undone.
    :param result: what it did, once it is done.
    """

    member: str
    name: str
    state: MemberState
    jobs: tuple[str, ...] = ()
    result: Sequence[Mapping[str, Any]] | None = None


def describe(scope: Sequence[str]) -> str:
    """Who a scope names, for people."""
    match scope:
        case ("airflow", dag, run, task, index, *_):
            mapped = "" if index == "-1" else f"[{index}]"
            return f"task {task}{mapped} of DAG {dag}, run {run}"
    return " / ".join(scope)


def holder_in_the_way(txn: SharedTxn, member: str) -> Turn | None:
    """Whose turn has to be waited for; None when the turn is free, over, or held by an earlier try of this member."""
    turn = txn.turn
    if turn is None or turn.until <= txn.now or turn.member == member:
        return None
    return turn


def half_done(members: Collection[Member]) -> list[Member]:
    """Members of which something is published that must be undone before anybody else works."""
    return [member for member in members if member.state is MemberState.BEGUN and member.jobs]


def unfinished(members: Collection[Member]) -> list[str]:
    """Members that have begun and not finished: with them half of a task's work would be committed."""
    return [member.name for member in members if member.state is MemberState.BEGUN]


def too_old(txn: SharedTxn) -> str | None:
    """Why it must end now for its age."""
    if txn.now < txn.until:
        return None
    hours = (txn.now - txn.begun) / 3_600_000
    return (
        f"{txn} was begun at {_utc(txn.begun)} and is still open after {hours:.1f} h, longer than it may be (max_age, "
        "hive.acid.shared.txn.max.age): it was aborted, because its locks stop others and nothing after its snapshot "
        "can be cleaned. Look why the task that commits it did not run"
    )


def holds_too_much(txn: SharedTxn, held: int) -> str | None:
    """Why it must end now for what the Cleaner keeps on its behalf."""
    if txn.most_bytes is None or held <= txn.most_bytes:
        return None
    return (
        f"{txn} holds back {held:,} bytes from being cleaned, more than the {txn.most_bytes:,} that it may "
        "(max_held_bytes, hive.acid.shared.txn.max.held.bytes): it was aborted. Make the transaction shorter, or raise "
        "the limit"
    )


def keeper_gone(txn: SharedTxn, silence_ms: int, grace_ms: int) -> str | None:
    """Why members must not go on: nobody keeps the transaction alive between them (R9).

    :param silence_ms: so long may a keeper be silent.
    :param grace_ms: so long may it take until there is one.
    """
    if txn.kept == NO_KEEPER:
        return None
    since = txn.begun + grace_ms if txn.kept is None else txn.kept
    if txn.now <= since + silence_ms:
        return None
    seconds = (txn.now - (txn.begun if txn.kept is None else txn.kept)) / 1000
    said = "never appeared" if txn.kept is None else "has gone"
    return (
        f"the keeper of {txn} {said} ({seconds:.0f} s; hive.acid.shared.txn.keeper.timeout): it was aborted, because "
        "nobody keeps it alive between its tasks. Look at the triggerer"
    )


def is_one_of(error: str | None, names: Collection[str], classes: Mapping[str, type[HiveAcidError]]) -> bool:
    """Whether an error is of one of these classes, subclasses included; by name, as records hold it."""
    if error is None or error not in classes:
        return False
    return any(issubclass(classes[error], classes[name]) for name in names if name in classes)


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
