"""Compaction requests and their history as values: Hive's COMPACTION_QUEUE and COMPLETED_COMPACTIONS.

The letters of type and state overlap ('a' is MAJOR and did-not-initiate, 'i' MINOR and initiated), so raw letters
never leave this room.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names.objects import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROPERTIES_LIMIT = 2048
DEFAULT_POOL = "default"
"""How requests without a pool are shown."""


class CompactionType(Enum):
    """CQ_TYPE."""

    MAJOR = "a"
    MINOR = "i"
    REBALANCE = "r"
    ABORT_TXN_CLEANUP = "c"


class CompactionState(Enum):
    """CQ_STATE and CC_STATE."""

    INITIATED = "i"
    WORKING = "w"
    READY_FOR_CLEANING = "r"
    FAILED = "f"
    SUCCEEDED = "s"
    DID_NOT_INITIATE = "a"
    REFUSED = "c"
    ABORTED = "x"

    @property
    def text(self) -> str:
        """As SHOW COMPACTIONS prints it."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Resource:
    """What is compacted: an unpartitioned table, or one partition of a table."""

    database: str
    table: str
    partition: str | None = None

    @property
    def table_name(self) -> TableName:
        """The table alone."""
        return TableName(self.database, self.table)

    def __str__(self) -> str:
        name = f"{self.database}.{self.table}"
        return name if self.partition is None else f"{name} partition {self.partition}"


def lists_of(resources: Iterable[Resource]) -> dict[str, list[str]]:
    """The databases, tables and partitions (empty for none) of resources, as parameters of a statement."""
    asked = list(resources)
    return {
        "databases": sorted({resource.database for resource in asked}),
        "tables": sorted({resource.table for resource in asked}),
        "parts": sorted({resource.partition or "" for resource in asked}),
    }


@dataclass(frozen=True, slots=True)
class Compaction:
    """A request in the queue, or a finished one in the history.

    :param queued: whether it is still in the queue.
    :param properties: what the request overrides (``compactor.*``, ``compactorthreshold.*``, ``tblprops.*``).
    :param highest_write_id: high-water mark of the compactor's list: what the result replaces.
    :param txn_id: the compaction txn.
    :param next_txn_id: largest txn id when the compaction committed; txns up to it may read the replaced files.
    :param retry_retention: pause of the Cleaner after a failure, in ms.
    """

    id: int
    resource: Resource
    type: CompactionType
    state: CompactionState
    queued: bool
    properties: dict[str, str] = field(default_factory=dict)
    worker_id: str | None = None
    worker_version: str | None = None
    enqueue_time: int | None = None
    start: int | None = None
    end: int | None = None
    run_as: str | None = None
    highest_write_id: int | None = None
    job_id: str | None = None
    error: str | None = None
    txn_id: int | None = None
    next_txn_id: int | None = None
    commit_time: int | None = None
    initiator_id: str | None = None
    initiator_version: str | None = None
    cleaner_start: int | None = None
    retry_retention: int = 0
    pool: str | None = None
    number_of_buckets: int | None = None
    order_by: str | None = None

    @property
    def pool_name(self) -> str:
        """The compaction pool, as SHOW COMPACTIONS prints it."""
        return self.pool or DEFAULT_POOL

    @property
    def soft_deleted_location(self) -> str | None:
        """The directory a dropped table or partition left behind; None for a compaction."""
        return self.properties.get("location")


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """Answer to a compaction request.

    :param id: of the new request, or of the one that stands in its way.
    :param state: of that request.
    :param message: why it was not accepted, empty otherwise.
    """

    id: int
    state: CompactionState
    accepted: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table or partition the Initiator should look at.

    :param aborted_txns: components of aborted txns, when there are too many.
    :param has_old_abort: whether one of them has been waiting for longer than the threshold.
    :param writes: completed components that are there, and ``txn_sum`` the sum of their txn ids: when neither changes,
        nothing was written.
    """

    resource: Resource
    aborted_txns: int = 0
    has_old_abort: bool = False
    writes: int = 0
    txn_sum: int = 0


@dataclass(frozen=True, slots=True)
class AbortedWrites:
    """What aborted txns have left behind in a table or partition.

    :param components: number of TXN_COMPONENTS rows.
    :param oldest_started: when the oldest of the txns was opened, ms.
    :param min_open_txn: the oldest open txn that writes there; aborts above it must wait.
    :param retry: the queue row (type ABORT_TXN_CLEANUP) of an earlier failure, with its pause and error.
    """

    resource: Resource
    components: int
    oldest_started: int
    min_open_txn: int | None
    retry: Compaction | None = None


def format_properties(properties: Mapping[str, str]) -> str | None:
    """CQ_TBLPROPERTIES: Hive's StringableMap, lengths in UTF-16 units as Java counts them.

    :raises InvalidArgumentsError: when the text is longer than the column.
    """
    if not properties:
        return None
    parts = [f"{len(properties)}:"]
    for item in properties.items():
        parts += [f"{_units(text)}:{text}" for text in item]
    text = "".join(parts)
    if len(text) > PROPERTIES_LIMIT:
        raise InvalidArgumentsError(
            f"the properties of the request take {len(text)} characters; {PROPERTIES_LIMIT} is the most the queue holds"
        )
    return text


def parse_properties(text: str | None) -> dict[str, str]:
    """The properties in CQ_TBLPROPERTIES.

    :raises InvalidArgumentsError: when the text is none that Hive would write.
    """
    if not text:
        return {}
    data, position = text.encode("utf-16-le"), 0
    try:
        count, position = _number(data, position)
        found: dict[str, str] = {}
        for _ in range(count):
            key, position = _text(data, position)
            found[key], position = _text(data, position)
    except (ValueError, IndexError):
        raise InvalidArgumentsError(f"{text[:80]!r} are no properties of a compaction request") from None
    return found


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _number(data: bytes, position: int) -> tuple[int, int]:
    end = data.index(":".encode("utf-16-le"), position)
    return int(data[position:end].decode("utf-16-le")), end + 2


def _text(data: bytes, position: int) -> tuple[str, int]:
    length, position = _number(data, position)
    end = position + 2 * max(length, 0)
    if end > len(data):
        raise IndexError(end)
    return data[position:end].decode("utf-16-le"), end
