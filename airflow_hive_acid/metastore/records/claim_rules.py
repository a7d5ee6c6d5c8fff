"""Whether a unit of work is to be applied, or was applied already: R14 as a function of the record that is there.

A try that finds the unit committed, but not acknowledged, is a retry of one that died after its commit: it gets the
result. So is one of the same life, even after the acknowledgement: the task may die between acknowledging and telling
Airflow so. Only a new life of an acknowledged unit, as clearing a task that had succeeded begins one, is a deliberate
re-run. A unit that is merely claimed is taken over, whatever its owner is doing: that owner can no longer commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Sequence


_NAMES = 5
"""So many parts of a scope are names that people know."""


class ClaimState(Enum):
    """HAC_STATE."""

    CLAIMED = "l"
    COMMITTED = "c"
    ACKNOWLEDGED = "a"


class Rerun(Enum):
    """What becomes of a unit whose success was acknowledged, when its task is run anew on purpose."""

    APPLY = "apply"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Wish:
    """A unit that somebody wants to apply once.

    :param scope: what identifies the run it belongs to: DAG, run, task and map index, and what tells that run from
        others of the same name; or a key of one's own.
    :param unit: number of its first statement in the script.
    :param digest: digest of its rendered text and the tables that are named in it.
    :param life: the same for all tries between two deliberate re-runs.
    """

    scope: tuple[str, ...]
    unit: int
    digest: str
    life: str = ""
    on_rerun: Rerun = Rerun.APPLY

    def __str__(self) -> str:
        return f"statement {self.unit} of {' / '.join(self.scope[:_NAMES])}"


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A row of HIVE_ACID_CLAIM.

    :param txn_id: the owner's txn, once it has one.
    :param earlier_txns: txns of earlier owners that may not be fenced yet.
    :param result: documents of the statements' results, once committed.
    """

    state: ClaimState
    owner: str
    digest: str
    life: str
    txn_id: int | None = None
    earlier_txns: tuple[int, ...] = ()
    result: Sequence[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The unit is to be applied.

    :param earlier_txns: txns of earlier tries, to be fenced and aborted first.
    :param again: it was applied before, and this is a deliberate re-run.
    """

    earlier_txns: tuple[int, ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """The unit was applied by an earlier try.

    :param txn_id: the txn that applied it; None for a change of the catalog.
    :param result: documents of its statements' results.
    :param skipped: a deliberate re-run that is to skip what was applied.
    """

    txn_id: int | None
    result: tuple[dict[str, Any], ...]
    skipped: bool = False


def decide(record: ClaimRecord | None, wish: Wish) -> TakeOver | Recorded:
    """Apply, or return what is recorded.

    :raises InvalidArgumentsError: when an earlier try of this life has applied something else under this key.
    """
    if record is None:
        return TakeOver()
    if record.state is ClaimState.CLAIMED:
        mine = () if record.txn_id is None else (record.txn_id,)
        return TakeOver(tuple(dict.fromkeys((*record.earlier_txns, *mine))))
    if record.state is ClaimState.ACKNOWLEDGED and record.life != wish.life:
        if wish.on_rerun is Rerun.APPLY:
            return TakeOver(again=True)
        return _recorded(record, skipped=True)
    if record.digest != wish.digest:
        raise InvalidArgumentsError(
            f"{wish} has another text, or is about other tables, than the one that an earlier try has committed"
            f"{_as_txn(record)}; applying both could apply something twice. Templates must give the same text and "
            "database in every try (use ts or ds, not the time of day). If the statement was changed on purpose, clear "
            "the task once it has succeeded, or give it another task_id"
        )
    return _recorded(record)


def _as_txn(record: ClaimRecord) -> str:
    return "" if record.txn_id is None else f" as txn {record.txn_id}"


def _recorded(record: ClaimRecord, *, skipped: bool = False) -> Recorded:
    if record.result is None:
        raise AssertionError("a committed claim without its result")
    return Recorded(record.txn_id, tuple(record.result), skipped)
