"""How many live deltas a writer may find where it adds one more: it is told, waits for compaction, or is refused.

Each write leaves a delta that every reader merges from then on. Streams have a budget of their own, because they write
without end (:mod:`airflow_hive_acid.engine.streams.budget`); this is for all others: statements of scripts, operators
and programs, and transaction batches. What replaces all deltas (INSERT OVERWRITE, TRUNCATE) is never held back.

Only places count that are known before the write begins. The partitions of an INSERT whose rows name them are not:
there those count that a maintenance service has last measured at that number, and nobody is held back for them.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.errors import BackPressureError, HiveAcidError
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import PartitionRef
from airflow_hive_acid.format.partitions import parse_partition_name, partition_name
from airflow_hive_acid.format.table_kinds import no_auto_compaction
from airflow_hive_acid.maintenance.initiator.by_hand import Wanted, ask
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.settings import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.model.plans import Plan, TableWrite

log = logging.getLogger(__name__)

MAX_DELTAS = "hive.acid.writer.max.deltas"
ACTION = "hive.acid.writer.max.deltas.action"
WAIT = "hive.acid.writer.max.deltas.wait"
_KEYS = (MAX_DELTAS, ACTION, WAIT)
_MOST_PLACES = 20
"""Directories that are listed for one write: with the most deltas, as they were measured."""
_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Limit:
    """The settings ``hive.acid.writer.max.deltas…``.

    :param deltas: from this many on a writer is held back; 0: never.
    :param action: ``warn``, ``wait`` or ``refuse``.
    :param wait: seconds to wait at most.
    """

    deltas: int
    action: str
    wait: float

    @classmethod
    def of(cls, settings: Settings, table: Table) -> Limit:
        """As the table's properties of these names say, else the settings.

        :raises InvalidArgumentsError: when a property is not of its setting's type.
        """
        own = {key: value for key, value in table.properties.items() if key.lower() in _KEYS}
        if own:
            settings = settings.with_overrides(Source.TABLE, own)
        return cls(settings.integer(MAX_DELTAS), settings.string(ACTION), settings.seconds(WAIT))


def hold_back(
    context: Context,
    plans: Iterable[Plan],
    table_of: Callable[[str], Table],
) -> None:
    """Hold a statement back, before it writes, where there are too many deltas already.

    :param table_of: looks the tables up that it changes.
    :raises BackPressureError: when it is refused, or compaction has not made them fewer in time; may be tried again.
    """
    for write in [plan.write for plan in plans if plan.write is not None]:
        if not write.transactional or write.operation == "overwrite":
            continue
        table = table_of(write.table)
        limit = Limit.of(context.settings, table)
        if limit.deltas:
            places, certain = _places(context, write, table, limit)
            _hold_back(context, table, places, limit, certain=certain)


def hold_back_batch(
    context: Context,
    table: Table,
    static: Sequence[tuple[str, str]],
) -> None:
    """The same for a batch of txns, before it is opened.

    :param static: the partition columns whose values are the same for all records.
    :raises BackPressureError: as :func:`hold_back`.
    """
    limit = Limit.of(context.settings, table)
    if not limit.deltas:
        return
    certain = len(static) == len(table.partition_columns)
    if certain:
        name = partition_name(static) if static else ""
        known = KnownPartitions(context.client.catalog, table)
        places = [PartitionRef("", table.location)] if not name else [known[name]] if name in known else []
    else:
        places = _fullest(context, table, limit)
    _hold_back(context, table, places, limit, certain=certain)


def live_deltas(client: MetastoreClient, filesystem: Filesystem, table: Table, uri: str) -> int:
    """Count the deltas that a reader of a table or partition would have to merge now; its directory is listed."""
    name = table.qualified_name
    txns = client.get_valid_txns()
    write_ids = client.get_valid_write_ids([name], txns)[name]
    try:
        listing = filesystem.list_files(uri)
    except FileNotFoundError:
        return 0
    found = acid_state([FileEntry(f"{i.relative}/", 0) for i in listing if i.is_dir], write_ids, txns)
    return len(found.deltas)


def ask_for_compaction(
    client: MetastoreClient, filesystem: Filesystem, table: Table, partition: str, deltas: int
) -> None:
    """Ask for a minor compaction; the owner's ``no_auto_compaction`` forbids it, and a failure is only logged.

    :param partition: its name; empty for a table, or where it is not known: then the Initiator's rules choose.
    """
    if no_auto_compaction(client.catalog.get_database(table.db).properties, table.properties):
        return
    spec = dict(parse_partition_name(partition)) if partition else None
    try:
        for answer in ask(client, filesystem, Wanted(table.qualified_name, spec, "minor")):
            log.info("%s has %s live deltas: %s", named(table, partition), deltas, answer)
    except HiveAcidError as problem:
        log.warning("no compaction could be asked for: %s", problem)


def named(table: Table, partition: str) -> str:
    """``db.table`` or ``db.table/k=v``."""
    return f"{table.qualified_name}/{partition}" if partition else table.qualified_name


def _places(
    context: Context, write: TableWrite, table: Table, limit: Limit
) -> tuple[list[PartitionRef], bool]:  # fmt: skip
    """Where a statement adds deltas, as far as that is known, and whether it surely may do so there."""
    if not table.is_partitioned:
        return [PartitionRef("", table.location)], True
    if write.partitions.alternatives:
        refs = KnownPartitions(context.client.catalog, table).matching(write.partitions)
        if len(refs) <= _MOST_PLACES:
            return refs, True
    kept = [ref for ref in _fullest(context, table, limit) if write.partitions.keeps(ref.values)]
    return kept, write.operation != "insert"


def _fullest(context: Context, table: Table, limit: Limit) -> list[PartitionRef]:
    """The partitions that were last measured at so many deltas."""
    found = context.client.measures.fullest(table_name(table.qualified_name), limit.deltas, _MOST_PLACES)
    names = [one.resource.partition for one in found if one.resource.partition is not None]
    known = KnownPartitions(context.client.catalog, table)
    known.look_up(names)
    return [known[name] for name in names if name in known]


def _hold_back(
    context: Context,
    table: Table,
    places: Sequence[PartitionRef],
    limit: Limit,
    *,
    certain: bool,
) -> None:
    until = time.monotonic() + limit.wait
    waiting = False
    while full := _too_many(context, table, places, limit):
        place, deltas = full[0]
        more = f" (and {len(full) - 1} more of its partitions)" if len(full) > 1 else ""
        said = f"{named(table, place.name)} has {deltas} live deltas{more}; {MAX_DELTAS} is {limit.deltas}"
        if not waiting:
            for each, count in full:
                ask_for_compaction(context.client, context.filesystem, table, each.name, count)
        remedy = "Run Worker and Cleaner, and see SHOW COMPACTIONS; then try again: nothing was written"
        if limit.action == "warn" or not certain:
            log.warning("%s; compaction does not keep up", said)
            context.note(f"{said}; compaction does not keep up")
            return
        if limit.action == "refuse":
            raise BackPressureError(f"{said}, and writers are refused from there on. {remedy}")
        if not waiting:
            log.warning("%s; waiting for a compaction for up to %g s", said, limit.wait)
            context.note(f"{said}; waiting for a compaction for up to {limit.wait:g} s ({WAIT})")
            waiting = True
        elif time.monotonic() >= until:
            raise BackPressureError(f"{said}, and no compaction has made them fewer in {limit.wait:g} s. {remedy}")
        time.sleep(min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))


def _too_many(
    context: Context, table: Table, places: Sequence[PartitionRef], limit: Limit
) -> list[tuple[PartitionRef, int]]:
    """The places that have too many deltas now, the fullest first."""
    counted = [(place, live_deltas(context.client, context.filesystem, table, place.location)) for place in places]
    return sorted((each for each in counted if each[1] >= limit.deltas), key=lambda each: -each[1])
