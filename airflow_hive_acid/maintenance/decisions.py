"""What a maintenance service decided, in a form that explains itself.

A decision carries the numbers it was made from; ``str()`` of it is a line for a log or a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.metastore.compaction import CompactionType, Holder, Resource

Number = int | float | str
_SHOWN = 200
"""So many names are recorded."""
_PRINTED = 10


class Kind(Enum):
    """What was decided."""

    MAJOR = "major compaction"
    MINOR = "minor compaction"
    NOTHING = "nothing to do"
    SKIPPED = "left alone"
    NOT_ACCEPTED = "request not accepted"
    GIVEN_UP = "not tried"
    ERROR = "error"
    # of a worker
    COMPACTED = "compacted"
    FOR_CLEANER = "left to the Cleaner"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"
    # of a Cleaner
    CLEANED = "cleaned"
    WAITING = "waiting"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about one table or partition.

    :param reason: one sentence for a person.
    :param numbers: what it was decided from, by name.
    :param request_id: the compaction request it led to, or was about.
    :param rule: what decided: the setting whose threshold was passed, or one of ``initiator/rules.py``.
    :param blocked_by: what keeps it from being compacted, or from being seen as a whole.
    :param again: it is looked at in the next look even if nothing is written.
    """

    resource: Resource
    kind: Kind
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    request_id: int | None = None
    rule: str = ""
    blocked_by: tuple[str, ...] = ()
    again: bool = False

    @property
    def enqueued(self) -> bool:
        """Whether it put a request into the queue."""
        return self.request_id is not None and self.kind in (Kind.MAJOR, Kind.MINOR)

    def __str__(self) -> str:
        return _line(self.resource, self.kind, self.reason, self.request_id)


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """What became of one compaction request.

    :param directories: names of the directories published.
    :param rows: rows in them.
    """

    request_id: int
    resource: Resource
    type: CompactionType
    kind: Kind
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    rows: int = 0
    txn_id: int | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        return _line(self.resource, self.kind, self.reason, self.request_id)


@dataclass(frozen=True, slots=True)
class CleaningOutcome:
    """What the Cleaner did about one compaction, or about the aborted writes of one table or partition.

    :param removed: URIs that were deleted, or moved to the trash.
    :param blocked_by: for whom something was kept: txns, users, tasks.
    :param holders: the txns among them.
    :param trashed: those of ``removed`` that were moved to the trash.
    :param kept: URIs of what could go and was kept, as far as it was looked for.
    """

    resource: Resource
    kind: Kind
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    request_id: int | None = None
    holders: tuple[Holder, ...] = ()
    trashed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = _line(self.resource, self.kind, self.reason, self.request_id)
        if self.removed:
            text += f"; removed: {', '.join(_names(self.removed, _PRINTED))}"
        return f"{text}; kept for {', '.join(self.blocked_by)}" if self.blocked_by else text

    def details(self) -> dict[str, Any]:
        """The same for the record: names instead of URIs, and no more of them than anybody reads."""
        known = {str(holder) for holder in self.holders}
        return {
            "numbers": dict(self.numbers),
            "removed": _names(self.removed),
            "trashed": _names(self.trashed),
            "kept": _names(self.kept),
            "for": [
                *({"txn": h.txn_id, "user": h.user, "host": h.host, "agent": h.agent} for h in self.holders),
                *({"what": blocker} for blocker in self.blocked_by if blocker not in known),
            ],
        }


def _names(uris: Sequence[str], most: int = _SHOWN) -> list[str]:
    shown = [uri.rpartition("/")[2] for uri in uris[:most]]
    return shown if len(uris) <= most else [*shown, f"and {len(uris) - most} more"]


def _line(resource: Resource, kind: Kind, reason: str, request_id: int | None) -> str:
    request = f" (request {request_id})" if request_id is not None else ""
    return f"{resource}{request}: {kind.value}: {reason}"
