"""What the API answers and takes, as types. Times are milliseconds since 1970 by the metastore's clock.

All text is data that anybody with access to the metastore may have written: whoever shows it must escape it.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

T = TypeVar("T")
Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
PartitionName = Annotated[str, StringConstraints(min_length=1, max_length=767)]
Reason = Annotated[str, StringConstraints(max_length=1000, strip_whitespace=True)]
Number = int | float | str


class Model(BaseModel):
    """What all have in common."""

    model_config = ConfigDict(extra="forbid")


class Problem(Model):
    """What went wrong."""

    code: str = Field(examples=["not_found"])
    message: str
    retryable: bool


class ErrorBody(Model):
    """The body of every answer that is none."""

    error: Problem


class Page(Model, Generic[T]):
    """A part of a list.

    ``next`` is the cursor of the next page; ``total`` is counted with the first page alone.
    """

    items: list[T]
    next: str | None
    total: int | None
    now: int


class TaskLink(Model):
    """A task of Airflow; URLs are relative to Airflow's own."""

    dag_id: str
    run_id: str | None
    task_id: str | None
    map_index: int | None
    try_number: int | None
    dag_url: str
    run_url: str | None
    log_url: str | None


class Connection(Model):
    """An Airflow connection of a metastore."""

    conn_id: str
    metastore: str | None
    dialect: str | None
    warehouse: str | None
    default: bool
    can_act: bool
    error: str | None


class Connections(Model):
    """The metastores, who looks at them, and with which release."""

    items: list[Connection]
    user: str
    version: str


class Reading(Model):
    """A metric, judged."""

    name: str
    value: float
    labels: dict[str, str]
    level: Literal["ok", "warning", "error"]
    advice: str
    setting: str
    limit: float | None
    view: str


class Txn(Model):
    """A txn."""

    txn_id: int
    state: Literal["open", "aborted", "committed"]
    type: str
    started: int
    last_heartbeat: int
    user: str
    host: str
    agent_info: str | None
    abort_reason: str | None
    task: TaskLink | None
    compaction_id: int | None
    can_abort: bool


class Lock(Model):
    """A lock that is held or wanted."""

    id: str
    lock_id: int
    internal_id: int
    database: str
    table: str | None
    partition: str | None
    object: str
    state: str
    type: str
    txn_id: int | None
    last_heartbeat: int | None
    acquired_at: int | None
    user: str
    host: str
    agent_info: str | None
    blocked_by: str | None
    task: TaskLink | None
    can_withdraw: bool


class Component(Model):
    """What a txn writes."""

    database: str
    table: str | None
    partition: str | None
    operation: str
    write_id: int | None


class Job(Model):
    """A Spark job of a txn."""

    job_id: str
    table: str
    kind: str
    state: str
    application_id: str | None


class Edge(Model):
    """``source`` waits for ``target``, because of ``object``."""

    source: str
    target: str
    object: str
    in_cycle: bool


class Node(Model):
    """A txn, or a request outside txns, that waits or is waited for."""

    id: str
    txn_id: int | None
    lock_id: int | None
    user: str
    agent_info: str | None
    started: int | None
    task: TaskLink | None
    waiting: bool
    blocks: int
    depth: int
    in_cycle: bool


class Graph(Model):
    """Who waits for whom; edges that others imply are left out."""

    now: int
    nodes: list[Node]
    edges: list[Edge]
    cycles: list[list[str]]
    waiters: int
    total_nodes: int
    total_edges: int
    truncated: bool


class TxnDetail(Model):
    """A txn with what it holds, writes, runs and waits for."""

    now: int
    txn: Txn
    locks: list[Lock]
    components: list[Component]
    jobs: list[Job]
    waits_for: list[Edge]
    waited_by: list[Edge]
    sentence: str | None


class Compaction(Model):
    """A compaction request in the queue or in the history."""

    id: int
    database: str
    table: str
    partition: str | None
    object: str
    type: str
    state: str
    queued: bool
    pool: str
    enqueued: int | None
    started: int | None
    ended: int | None
    committed: int | None
    duration_ms: int | None
    worker_id: str | None
    worker_version: str | None
    initiator_id: str | None
    run_as: str | None
    error: str | None
    txn_id: int | None
    job_id: str | None
    highest_write_id: int | None
    rule: str | None
    reason: str | None
    task: TaskLink | None
    can_cancel: bool


class Decision(Model):
    """What the Initiator decided, and why."""

    partition: str | None
    kind: str
    rule: str
    reason: str
    numbers: dict[str, Number]
    blocked_by: list[str]
    request_id: int | None
    since: int | None
    looked: int | None
    looks: int


class CleaningNote(Model):
    """What the Cleaner did or would do, and for whom it keeps what."""

    request_id: int | None
    partition: str | None
    kind: str
    reason: str
    numbers: dict[str, Number]
    removed: list[str]
    kept: list[str]
    kept_for: list[str]
    since: int | None
    until: int | None


class CompactionDetail(Model):
    """A compaction with why it was asked for and what was cleaned up after it."""

    now: int
    compaction: Compaction
    properties: dict[str, str]
    decisions: list[Decision]
    cleaning: list[CleaningNote]


class DurationBucket(Model):
    """How long the compactions that ended within an hour or day took."""

    start: int
    type: str
    state: str
    count: int
    mean_ms: int | None
    max_ms: int | None


class Durations(Model):
    """How long compactions took, over time."""

    items: list[DurationBucket]
    now: int


class QueueCount(Model):
    """How many requests of a pool are in a state."""

    pool: str
    state: str
    count: int
    oldest: int | None


class Lease(Model):
    """One object of a lease that is held."""

    lease_id: int
    number: int
    database: str
    table: str
    partition: str | None
    object: str
    type: Literal["shared", "exclusive"]
    user: str
    started: int
    ends: int
    mirrored: bool
    task: TaskLink | None


class LeaseWaiter(Model):
    """One object that somebody waits to lease."""

    ticket: int
    number: int
    database: str
    table: str
    partition: str | None
    object: str
    type: Literal["shared", "exclusive"]
    user: str
    since: int
    alive_until: int
    task: TaskLink | None


class LeaseDrop(Model):
    """A lease that was dropped by force."""

    id: int
    time: int
    who: str
    why: str
    lease_id: int
    user: str
    object: str
    type: Literal["shared", "exclusive"]
    started: int
    ended: int


class Overview(Model):
    """What one looks at first."""

    now: int
    readings: list[Reading]
    findings: list[Reading]
    oldest_txn: Txn | None
    waiting_locks: list[Lock]
    failures: list[Compaction]
    queue: list[QueueCount]
    oldest_cleaning: Compaction | None
    leases: list[Lease]


class Because(Model):
    """Why somebody does something; kept with it."""

    reason: Reason = ""


class CompactionWish(Model):
    """What is to be compacted; without a partition a partitioned table is, where the Initiator's rules say so."""

    database: Name
    table: Name
    partition: PartitionName | None = None
    type: Literal["major", "minor", "rebalance"] = "major"
    pool: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None


class ActionPart(Model):
    """What became of one object."""

    object: str
    id: int | None
    done: bool
    message: str


class ActionAnswer(Model):
    """What an action has done; ``already``: it was so before."""

    done: bool
    already: bool
    message: str
    items: list[ActionPart]


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": text}
    for status, text in {
        401: "Nobody is logged in.",
        403: "The role does not allow it, or the request may be another site's.",
        404: "It is not there: it never was, or has vanished.",
        409: "It cannot be done as things stand.",
        422: "A parameter or field is unusable; the message names it.",
        503: "The metastore cannot be reached, or is none.",
    }.items()
}
"""The errors of every route."""
