"""How the clean-up for one request ends: what becomes of the request in the queue, and what there is to say."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.maintenance.cleaner.rules import attempts, retry_pause_ms
from airflow_hive_acid.maintenance.decisions import CleaningOutcome, Kind
from airflow_hive_acid.metastore.compaction import Covered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.maintenance.cleaner.look import Look
    from airflow_hive_acid.maintenance.decisions import Number
    from airflow_hive_acid.metastore.compaction import Compaction, Holder

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Account:
    """What one clean-up has done to files so far, and what it leaves; also when it breaks off.

    :ivar removed: URIs of what was removed, or would be in a dry run.
    :ivar trashed: those of them that went to the trash.
    :ivar kept: URIs of what could go and is kept.
    """

    removed: list[str] = field(default_factory=list)
    trashed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a clean-up ends.

    :param kind: CLEANED: it is done, the request goes, and what it covered is forgotten. REFUSED: it must not be done.
        FAILED: there is nothing to clean up after. WAITING: nothing was removed, it is looked at again. KEPT: something
        has to stay for now, the Cleaner comes back to it.
    :param covered: of CLEANED: what of the table's or partition's history.
    :param fenced: of CLEANED: aborted txns of which nothing can come any more; None: all.
    """

    kind: Kind
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    blocked_by: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
    covered: Covered = Covered.COMPACTED
    fenced: Sequence[int] | None = None


def settle(look: Look, request: Compaction, ending: Ending, account: Account) -> CleaningOutcome:
    """Write an ending down in the queue, unless this is only to say what would be done."""
    compactions, kind = look.client.compactions, ending.kind
    if look.dry_run:
        return _outcome(request, ending, account)
    if kind is Kind.CLEANED:
        compactions.mark_cleaned(request, ending.covered, ending.fenced)
    elif kind is Kind.REFUSED:
        compactions.mark_refused(request, ending.reason)
    elif kind is Kind.FAILED:
        compactions.mark_failed(request, ending.reason)
    elif kind is Kind.KEPT and not account.removed and request.cleaner_start is None:
        # Once something was removed, the note that it has begun stays: what the compaction had replaced is not
        # complete any more, and a replication must not go by it.
        compactions.stop_cleaning(request)
    return _outcome(request, ending, account)


def settle_failure(look: Look, request: Compaction, error: Exception, account: Account) -> CleaningOutcome:
    """Try again later with growing pauses, and give up in the end (K14)."""
    reason = f"{type(error).__name__}: {error}"
    compactions, first = look.client.compactions, look.thresholds.retry_pause_ms
    count = attempts(request.retry_retention, first)
    kind, more = Kind.ERROR, ""
    try:
        if look.dry_run:
            pass
        elif count >= look.thresholds.max_attempts:
            compactions.mark_failed(request, reason)
            kind = Kind.FAILED
        else:
            pause = retry_pause_ms(request.retry_retention, first)
            compactions.retry_cleaning(request, reason, pause)
            more = f"; trying again in {pause // 1000} s"
    except HiveAcidError as problem:
        log.warning("the failed clean-up of compaction %d could not be recorded: %s", request.id, problem)
    numbers: dict[str, Number] = {"failed_attempts": count + 1, "removed": len(account.removed)}
    return _outcome(request, Ending(kind, f"{reason}{more}", numbers), account)


def _outcome(request: Compaction, ending: Ending, account: Account) -> CleaningOutcome:
    holders = ending.holders
    return CleaningOutcome(
        request.resource, ending.kind, ending.reason, ending.numbers, tuple(account.removed),
        (*ending.blocked_by, *map(str, holders)), request.id, holders, tuple(account.trashed), tuple(account.kept),
    )  # fmt: skip
