"""What a maintenance service decided, in a form that explains itself.

A decision carries the numbers it was made from; ``str()`` of it is a line for a log or a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.metastore.compaction_queue_model import CompactionType, Resource

Number = int | float | str


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
    """

    resource: Resource
    kind: Kind
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    request_id: int | None = None

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

    :param removed: URIs that were deleted.
    :param blocked_by: for whom something was kept: txns, users, tasks.
    """

    resource: Resource
    kind: Kind
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    request_id: int | None = None

    def __str__(self) -> str:
        return _line(self.resource, self.kind, self.reason, self.request_id)


def _line(resource: Resource, kind: Kind, reason: str, request_id: int | None) -> str:
    request = f" (request {request_id})" if request_id is not None else ""
    return f"{resource}{request}: {kind.value}: {reason}"
