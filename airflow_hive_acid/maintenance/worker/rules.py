"""The Worker's rules as pure functions: what is refused, what is enough, what the result must be called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, PublishError
from airflow_hive_acid.format.names import FLUSH_LENGTH_SUFFIX, DirectoryKind, base_name, delete_delta_name, delta_name
from airflow_hive_acid.format.ordering import order_text, read_order
from airflow_hive_acid.metastore.compaction import CompactionType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hive_acid.format.acid_state import AcidState, StateDirectory
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.metastore.compaction import Compaction

NOTHING_TO_DO = "None of the compaction thresholds met, compaction request is refused!"
"""Hive's words, which its users search for."""


def refusal(
    request: Compaction, table: Table | None, *, partition_exists: bool, policies: Sequence[str] = ()
) -> str | None:
    """Why a request cannot be worked on; None when it can.

    :param policies: replication policies that write the table.
    """
    resource = request.resource
    if table is None:
        return f"there is no table {resource.database}.{resource.table} (any more)"
    if not table.is_transactional:
        return f"{table.qualified_name} is not transactional"
    if request.type is CompactionType.REBALANCE and (table.bucket_count > 0 or table.is_insert_only):
        return f"{table.qualified_name} cannot be rebalanced: it is bucketed or insert-only"
    if request.type is CompactionType.REBALANCE and policies:
        return (
            f"{table.qualified_name} is written by the replication policy {', '.join(policies)}, whose changes know "
            "its rows by the ids that they have at the source: rebalance it there"
        )
    if table.sort_columns and not table.is_insert_only:
        return f"{table.qualified_name} is sorted by {table.sort_columns[0][0]}, and rows with ids lie in their order"
    if table.is_partitioned and resource.partition is None:
        return f"{table.qualified_name} is partitioned; request the compaction of a partition"
    if not table.is_partitioned and resource.partition is not None:
        return f"{table.qualified_name} is not partitioned"
    if not partition_exists:
        return f"there is no partition {resource.partition} of {table.qualified_name} (any more)"
    try:
        order_of(request, table)
    except InvalidArgumentsError as error:
        return str(error)
    return None


def order_of(request: Compaction, table: Table) -> str | None:
    """What a rebalance orders rows by: read again here, because others write into the queue as well.

    :raises InvalidArgumentsError: for anything but columns of the table.
    """
    if request.type is not CompactionType.REBALANCE or not request.order_by:
        return None
    return order_text(read_order(request.order_by, [column.name for column in table.columns]))


def is_enough(kind: CompactionType, state: AcidState) -> bool:
    """Whether a compaction would bring anything: something must be merged with something else.

    A major one also where a Hive would refuse: rows of aborted txns in the delta of a batch go in no other way, and
    a file that its writer never closed is read as a copy for as long as it is there.
    """
    if kind is CompactionType.REBALANCE:
        return True
    deltas = len(state.deltas)
    if kind is CompactionType.MAJOR:
        unfinished = any(delta.needs_row_check or _is_unclosed(delta) for delta in state.deltas)
        return bool(state.originals) or deltas + (state.base is not None) > 1 or unfinished
    if deltas == 2:
        # One delta with its delete delta is what a compaction would write again.
        return len({delta.directory.kind for delta in state.deltas}) == 1
    return deltas > 1


@dataclass(frozen=True, slots=True)
class Part:
    """Deltas that are merged first, because there are too many for one job.

    :param above: they were written after this write id,
    :param upto: and up to this one.
    """

    above: int
    upto: int
    deltas: tuple[StateDirectory, ...]


def parts_first(state: AcidState, most: int) -> tuple[Part, ...]:
    """The partial minor compactions that leave at most about ``most`` deltas, oldest deltas first.

    A part ends where no other delta begins at or below its end: the events of a write id must not be in two deltas that
    readers both see (R18). So a part may hold more than ``most`` deltas where their ranges overlap.

    :param most: ``hive.compactor.max.num.delta``; no parts when there are not more deltas than that.
    """
    deltas = sorted(state.deltas, key=lambda d: (d.directory.min_write_id, d.directory.max_write_id))
    if len(deltas) <= most:
        return ()
    parts: list[Part] = []
    above, part = 0, []  # type: tuple[int, list[StateDirectory]]
    upto = 0
    for index, delta in enumerate(deltas):
        part.append(delta)
        upto = max(upto, delta.directory.max_write_id)
        after = deltas[index + 1].directory.min_write_id if index + 1 < len(deltas) else None
        if len(part) >= most and after is not None and after > upto:
            parts.append(Part(above, upto, tuple(part)))
            above, part = upto, []
    return tuple(parts)


def outside_of_batches(directories: Iterable[StateDirectory], highest: int) -> int:
    """The high-water mark of a compaction, lowered until it cuts through no writer's delta.

    A base or delta that ended inside the range of a transaction batch would hide its rows up to there: readers go by
    the ranges in the names. It happens where txns at the end of a batch are open, and none at its beginning: in one of
    a Hive's streaming client, and in one of ours whose first txn somebody aborted.
    """
    ranges = [(d.directory.min_write_id, d.directory.max_write_id) for d in directories if _is_batch(d)]
    for low, high in sorted(ranges, reverse=True):
        if low <= highest < high:
            highest = low - 1
    return highest


def _is_unclosed(found: StateDirectory) -> bool:
    return _is_batch(found) and any(entry.path.endswith(FLUSH_LENGTH_SUFFIX) for entry in found.files)


def _is_batch(found: StateDirectory) -> bool:
    named = found.directory
    several = named.kind is not DirectoryKind.BASE and named.min_write_id < named.max_write_id
    return several and not named.visibility_txn_id


def same_definition(
    before: Table, now: Table | None, partition_before: Partition | None, partition_now: Partition | None
) -> str | None:
    """What has changed about a table or partition since a compaction began; None when its files still fit."""
    if now is None or now.id != before.id:
        return "the table was dropped" + ("" if now is None else " and made anew")
    if (partition_before is None) != (partition_now is None):
        return "the partition was dropped"
    if partition_before is not None and partition_now is not None:
        if partition_before.id != partition_now.id:
            return "the partition was dropped and made anew"
        if partition_before.location != partition_now.location:
            return f"the partition lies at {partition_now.location}, not at {partition_before.location} any more"
    for what in ("location", "columns", "partition_columns", "bucket_columns", "bucket_count", "is_insert_only",
                 "is_transactional", "format"):  # fmt: skip
        if getattr(before, what) != getattr(now, what):
            return f"its {what.removeprefix('is_').replace('_', ' ')} changed"
    return None


def needs_cleaning(state: AcidState) -> bool:
    """Whether there is something for the Cleaner although there is nothing to compact."""
    return bool(state.obsolete or state.obsolete_originals or state.aborted)


def result_names(kind: CompactionType, state: AcidState, highest_write_id: int, txn_id: int) -> tuple[str, ...]:
    """The directories a compaction may write; none when its sources hold no file."""
    if kind is not CompactionType.MINOR:
        return (base_name(highest_write_id, txn_id),)
    with_data = [delta for delta in state.deltas if delta.plain_files()]
    if not with_data:
        return ()
    low = min(delta.directory.min_write_id for delta in with_data)
    return (
        delta_name(low, highest_write_id, visibility_txn_id=txn_id),
        delete_delta_name(low, highest_write_id, visibility_txn_id=txn_id),
    )


def check_result(kind: CompactionType, written: Sequence[str], allowed: tuple[str, ...]) -> None:
    """Refuse a result that is not the one asked for.

    Others than a minor compaction always write a base, even an empty one; a minor one leaves out a kind without a row.

    :raises PublishError: naming what is wrong.
    """
    unknown = sorted(set(written) - set(allowed))
    if unknown or len(set(written)) != len(written):
        raise PublishError(f"the compaction reported {unknown or list(written)}; it may write each of {allowed} once")
    if kind is not CompactionType.MINOR and not written:
        raise PublishError(f"the compaction did not report {allowed[0]}; without it the sources would stay for ever")
