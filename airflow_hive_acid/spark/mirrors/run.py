"""What a job of a mirror does: look at the target, decide, and make one commit.

The control plane calls :func:`follow` and :func:`verify` in a txn that reads the source (R16); what they are given says
what the source looks like to that reader. The target decides what is still to be done: what our own record says of it
may be older, or newer, than what is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from airflow_hive_acid.errors import (
    ChangesNoLongerAvailableError,
    InvalidArgumentsError,
    MirrorDivergedError,
    MirrorKeyError,
    MirrorNullKeyError,
    MirrorRefusedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.format.changes import DELETE as CHANGE_DELETE
from airflow_hive_acid.format.changes import KIND, Changes
from airflow_hive_acid.format.mirrors import (
    MirrorDecision,
    MirrorState,
    MirrorTarget,
    SourceTable,
    TargetFormat,
    Todo,
    checked_key,
    decide,
    event_of,
    key_now,
    made_since,
    may_become,
    next_state,
)
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import explain
from airflow_hive_acid.spark.mirrors.checksums import differences
from airflow_hive_acid.spark.mirrors.columns import mirror_columns
from airflow_hive_acid.spark.mirrors.delta import DeltaTarget
from airflow_hive_acid.spark.mirrors.iceberg import IcebergTarget
from airflow_hive_acid.spark.mirrors.merging import REMEDY, merge_statement, one_per_key
from airflow_hive_acid.spark.mirrors.partitions import ChangedPartitions, changed_partitions
from airflow_hive_acid.spark.mirrors.snapshots import at_write_id
from airflow_hive_acid.spark.mirrors.targets import DELETE, INSERT, OPERATION, UPDATE
from airflow_hive_acid.spark.read.changes import ChangedRows, find_changes
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.spark.jobs.program import Job
    from airflow_hive_acid.spark.mirrors.columns import MirrorColumns
    from airflow_hive_acid.spark.mirrors.targets import Found, Target


def follow(
    job: Job,
    *,
    target: str,
    source: Mapping[str, Any],
    key: Sequence[str] | None,
    cleaned: Mapping[str, int],
    partition_ids: Mapping[str, int],
    altered: Mapping[str, int],
    sequence: int,
    again: bool,
    refuse: bool,
    event: Sequence[int] | None = None,
    known: Sequence[int] | None = None,
    other_log: bool | None = None,
) -> dict[str, Any]:
    """Bring the target to the state of the source.

    :param source: document of a :class:`~airflow_hive_acid.format.mirrors.SourceTable`.
    :param key: None: as the target's state says.
    :param cleaned: by partition name, up to which write id a Cleaner may have removed what was replaced.
    :param partition_ids: by name, the id of each partition.
    :param altered: by name, the write id that has written or altered a partition last, where the catalog knows it.
    :param sequence: the largest number of a state that our record knows.
    :param again: copy it again in any case.
    :param refuse: fail instead of copying a target again that holds something.
    :param event: the source's latest event and its time, for the new state.
    :param known: those of the last state that our record knows.
    :param other_log: whether the event of the target's state is not in the source's log; None: nobody has looked.
    :return: what was done: ``todo``, ``reason``, ``state``, and how many rows were ``inserted``, ``updated`` and
        ``deleted``. Or nothing was, and ``unknown`` is the event that is to be looked for first.
    :raises MirrorKeyError: when two rows have the same key; nothing was changed.
    :raises MirrorConflictError: when somebody else changed the target; nothing of ours is in it.
    :raises MirrorRefusedError: when it may not be copied again, or holds another table and is no mirror that is known.
    """
    run = _Run(job, target, SourceTable.from_document(source), cleaned, partition_ids, altered, event_of(event))
    found = run.target.look()
    wanted = checked_key(key)
    if found.state is not None and not again and not sequence:
        _require_same_table(run, found.state)
    if found.state is not None and other_log is None and found.state.event not in (None, event_of(known)):
        return {"unknown": found.state.event}
    decision = decide(found.state, run.source, wanted, again=again, other_log=bool(other_log))
    if found.strange and found.exists:
        decision = MirrorDecision(Todo.BOOTSTRAP, found.strange)
    if decision.todo is Todo.NOTHING:
        return _document(decision, found.state, {})
    before = max(found.sequence, sequence)
    if decision.todo is Todo.FOLLOW and found.state is not None:
        try:
            return run.apply(decision, found.state, before)
        except (ChangesNoLongerAvailableError, MirrorDivergedError, UnsupportedStatementError) as lost:
            decision = MirrorDecision(Todo.BOOTSTRAP, str(lost))
            found = run.target.look()
    if refuse and found.exists:
        raise MirrorRefusedError(
            f"{run.shown} cannot follow {run.source.table}: {decision.reason}. Nothing was changed; allow it to be "
            "copied again (--bootstrap, bootstrap=True)"
        )
    kept = () if found.state is None else key_now(found.state, run.source)
    # Whoever named the key before its columns got other names means them still.
    if wanted is not None and (found.state is None or wanted != found.state.key):
        kept = wanted
    return run.bootstrap(decision, found, kept, before)


def _require_same_table(run: _Run, state: MirrorState) -> None:
    """Of a target that nobody here has ever written, another table's rows are not overwritten without asking.

    They may be all that is left of it: the table was handed over, and is dropped.
    """
    if state.source.table_id != run.source.table_id:
        raise MirrorRefusedError(
            f"{run.shown} holds {state.source.table}, which is another table than {run.source.table} is now, and no "
            "mirror of it is known here. Nothing was changed; name another target, or let it be overwritten "
            "(--bootstrap, bootstrap=True)"
        )


def verify(
    job: Job,
    *,
    target: str,
    source: Mapping[str, Any],
    cleaned: Mapping[str, int],
    partition_ids: Mapping[str, int],
    altered: Mapping[str, int],
) -> dict[str, Any]:
    """Compare the target with the source as it was at the target's state.

    :return: as of :func:`~airflow_hive_acid.spark.mirrors.checksums.differences`, and the ``state``.
    :raises MirrorDivergedError: when the target carries no state, or somebody else has written it.
    :raises HistoryGoneError: when the source cannot be read as it was then.
    """
    run = _Run(job, target, SourceTable.from_document(source), cleaned, partition_ids, altered)
    found = run.target.look()
    if found.state is None:
        raise MirrorDivergedError(f"{run.shown} holds no mirror: {found.strange or 'there is nothing yet'}")
    decision = decide(found.state, run.source, None)
    columns = mirror_columns(run.snapshot, found.state.key, run.format)
    if decision.todo is Todo.BOOTSTRAP or decision.steps or run.has_lost_partitions(decision, found.state, columns):
        raise MirrorDivergedError(
            f"{run.shown} cannot be compared before it has followed ({decision.reason}); run the mirror, then verify"
        )
    rows = columns.of(run.whole(found.state.write_id, columns))
    told = differences(rows, run.target.rows(), columns)
    return {**told, "state": found.state.to_text(), "strange": found.strange}


def open_target(spark: SparkSession, target: MirrorTarget) -> Target:
    """The target of a mirror."""
    if target.format is TargetFormat.ICEBERG:
        return IcebergTarget(spark, target.place)
    return DeltaTarget(spark, target.place)


class _Run:
    """One run of a mirror."""

    def __init__(
        self,
        job: Job,
        target: str,
        source: SourceTable,
        cleaned: Mapping[str, int],
        partition_ids: Mapping[str, int],
        altered: Mapping[str, int],
        event: tuple[int, int] | None = None,
    ) -> None:
        wanted = MirrorTarget.parse(target)
        self.spark = job.spark
        self.format = wanted.format
        self.shown = str(wanted)
        self.source = source
        self.snapshot = job.snapshot(source.table)
        self.target = open_target(job.spark, wanted)
        self._event = event
        self._cleaned = dict(cleaned)
        self._partition_ids = partition_ids
        self._altered = altered

    def whole(self, write_id: int, columns: MirrorColumns, ordinals: Sequence[int] | None = None) -> DataFrame:
        """The source as it was at a write id, with ``row__id`` where the target keeps it.

        :param ordinals: of partitions; None for all.
        """
        snapshot = at_write_id(self.snapshot, write_id, self._cleaned)
        if ordinals is not None:
            kept = tuple(snapshot.partitions[i] for i in ordinals)
            snapshot = replace(snapshot, partitions=kept, expected=None)
        return read_snapshot(self.spark, snapshot, row_ids=columns.hidden)

    def partitions(self, state: MirrorState, columns: MirrorColumns) -> ChangedPartitions:
        """What has become of partitions since a state."""
        rows = self.target.rows()
        made = made_since(state.source, self._partition_ids, self._altered)
        return changed_partitions(self.spark, self.snapshot, rows, columns, made)

    def has_lost_partitions(self, decision: MirrorDecision, state: MirrorState, columns: MirrorColumns) -> bool:
        """Whether the target has rows of partitions that are no more, which no write id tells of."""
        return decision.partitions_changed and self.partitions(state, columns).gone is not None

    def bootstrap(self, decision: MirrorDecision, found: Found, key: Sequence[str], before: int) -> dict[str, Any]:
        """Copy the source whole."""
        columns = mirror_columns(self.snapshot, key, self.format)
        rows = columns.of(self.whole(self.source.write_id, columns))
        if key:
            self._require_unique(rows, columns)
        state = next_state(self.source, key, before, self._event)
        try:
            self.target.replace(rows, columns, state, None if found.state is None else found.state)
        except (Py4JJavaError, PySparkException) as failure:
            raise explain(self.spark, failure, [self.snapshot.location]) from failure
        return _document(decision, state, {})

    def _require_unique(self, rows: DataFrame, columns: MirrorColumns) -> None:
        names = [F.col(schema.quoted(name)) for name in columns.key]
        doubled = rows.groupBy(*names).count().where("count > 1").drop("count").first()
        if doubled is not None:
            shown = ", ".join(f"{name} = {value}" for name, value in zip(columns.key, doubled, strict=True))
            raise MirrorKeyError(
                f"two rows of {self.source.table} have the key {shown}; {REMEDY}. The target was not changed"
            )

    def apply(self, decision: MirrorDecision, state: MirrorState, before: int) -> dict[str, Any]:
        """Let the target follow.

        :raises ChangesNoLongerAvailableError: when it cannot be told what has changed.
        :raises MirrorDivergedError: when the target is not what it says.
        """
        if not self.target.follows(decision.steps):
            raise MirrorDivergedError("columns were renamed or have got larger types, which this target cannot follow")
        key = key_now(state, self.source)
        columns = mirror_columns(self.snapshot, key, self.format)
        if not may_become(self.target.rows().columns, decision.steps, columns.names):
            raise MirrorDivergedError(
                "its columns are not those of its state: a run that had changed them has died, or somebody else has"
            )
        # Before its columns change: nothing may have changed when the changes cannot be told.
        changed = self._changed(decision, state, columns)
        after = next_state(self.source, key, before, self._event)
        try:
            if decision.steps:
                self.target.alter(decision.steps, columns)
            return _document(decision, after, self._commit(changed, columns, after))
        except (Py4JJavaError, PySparkException) as failure:
            raise explain(self.spark, failure, [self.snapshot.location]) from failure

    def _commit(self, changed: ChangedRows, columns: MirrorColumns, state: MirrorState) -> dict[str, int]:
        """Append or merge, whichever the kinds of changes need."""
        rows, deletes = changed.rows, changed.deletes
        if deletes and not columns.key:
            if rows.where(F.col(OPERATION) == DELETE).isEmpty():
                rows, deletes = rows.where(F.col(OPERATION) == INSERT), False
            else:
                raise MirrorDivergedError(
                    f"rows of {self.source.table} were replaced, which have no ids and no key to find them by"
                )
        # A row that a key knows may be there already: that is looked for even if nothing else was done.
        if not deletes and not (changed.inserts and state.key):
            return {INSERT: self.target.append(rows.drop(OPERATION), columns, state)}
        by_row_id = not state.key
        if not self._has_null_key(columns):
            statement = merge_statement(self.source.table, columns, by_row_id=by_row_id, nulls=False)
            try:
                return self.target.merge(rows, statement, state)
            except (Py4JJavaError, PySparkException) as failure:
                if not isinstance(explain(self.spark, failure, []), MirrorNullKeyError):
                    raise
        return self.target.merge(rows, merge_statement(self.source.table, columns, by_row_id=by_row_id), state)

    def _has_null_key(self, columns: MirrorColumns) -> bool:
        """Whether partition columns are in the key, and one of them is NULL; of other columns it is not known."""
        if not set(columns.partition) & set(columns.key):
            return False
        return any(DEFAULT_PARTITION in partition.values for partition in self.snapshot.partitions)

    def _changed(self, decision: MirrorDecision, state: MirrorState, columns: MirrorColumns) -> ChangedRows:
        """What has changed, one row for each row or key."""
        partitions = self.partitions(state, columns) if decision.partitions_changed else ChangedPartitions()
        events = self._events(decision, columns, partitions)
        rows = events.rows
        if partitions.anew:
            whole = self.whole(self.source.write_id, columns, sorted(partitions.anew))
            rows = rows.unionByName(columns.of(whole, f"'{INSERT}' as {OPERATION}"), allowMissingColumns=True)
        if partitions.gone is not None:
            if not columns.key:
                raise MirrorDivergedError(
                    f"partitions of {self.source.table} have gone, whose rows have no ids and no key to find them by"
                )
            if not set(columns.key) <= set(partitions.gone.columns):
                raise MirrorDivergedError("partitions have gone, and a key column has got another name")
            keys = [F.col(schema.quoted(name)) for name in columns.key]
            gone = partitions.gone.select(*keys, F.lit(DELETE).alias(OPERATION))
            rows = rows.unionByName(gone, allowMissingColumns=True)
        # A row's id is inserted or deleted, and only partitions made anew can do both to it.
        if state.key or partitions.gone is not None:
            rows = one_per_key(rows, columns, self.source.table)
        inserts, deletes = events.inserts or bool(partitions.anew), events.deletes or partitions.gone is not None
        return ChangedRows(rows, inserts=inserts, deletes=deletes)

    def _events(self, decision: MirrorDecision, columns: MirrorColumns, partitions: ChangedPartitions) -> ChangedRows:
        snapshot = self.snapshot
        if partitions.anew:
            kept = tuple(p for i, p in enumerate(snapshot.partitions) if i not in partitions.anew)
            snapshot = replace(snapshot, partitions=kept, expected=None)
        # A deleted row is found in the target by its key, or by its id, which its delete event names.
        data = {column.name.lower() for column in snapshot.columns}
        told = tuple(name for name in columns.key if name in data) if columns.key else None
        wanted = Changes(decision.first, decision.last, net=True, cleaned=self._cleaned, told=told)
        found = find_changes(self.spark, snapshot, wanted)
        rows = columns.of(found.rows, f"if({KIND} = '{CHANGE_DELETE}', '{DELETE}', '{INSERT}') as {OPERATION}")
        return replace(found, rows=rows)


def _document(decision: MirrorDecision, state: MirrorState | None, counts: Mapping[str, int]) -> dict[str, Any]:
    if state is None:
        raise InvalidArgumentsError("a mirror without a state needs something")
    return {
        "todo": decision.todo.value,
        "reason": decision.reason,
        "state": state.to_text(),
        "inserted": counts.get(INSERT, 0),
        "updated": counts.get(UPDATE, 0),
        "deleted": counts.get(DELETE, 0),
    }
