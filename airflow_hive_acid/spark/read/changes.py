"""What a range of write ids has changed in a table, as rows.

Inserted rows are in the deltas of the range. A deleted row is where it was inserted; the delete event names it by write
id, bucket and row number. Hive's UPDATE is a delete event and an insert event with nothing that ties them, so they are
the two halves of an update only where the caller names a key. Which directories are read is said by
``format.changes``; what cannot be known to be complete is refused there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.errors import ChangesNoLongerAvailableError, UnsupportedStatementError
from airflow_hive_acid.format import changes as kinds
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.changes import PartKind, as_of, complete_up_to, partition_changes
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.accelerator import accelerator
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.read import fast_reader, in_place, originals, plain
from airflow_hive_acid.spark.read.files import list_partitions, partition_roots
from airflow_hive_acid.spark.read.open_tables import only_seen
from airflow_hive_acid.spark.read.reader import (
    BROADCAST_DELETES_BYTES,
    IDENTITY,
    ROW_ID,
    data_columns,
    delete_events,
    insert_events,
    open_table,
    partition_values,
    presented,
    project,
    table_rows,
)
from airflow_hive_acid.spark.read.scan import (
    PATH,
    PartitionValues,
    ScanFile,
    found_or_fail,
    lookup_table,
    metadata_path,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_hive_acid.format.changes import Changes, Part
    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.spark.read.data_files import EventFile, OriginalDataFile
    from airflow_hive_acid.spark.read.open_tables import OpenTable

_BY = f"{schema.INTERNAL_PREFIX}by"
_GONE = f"{schema.INTERNAL_PREFIX}gone"
_OF = f"{schema.INTERNAL_PREFIX}of_"
_KNOWN_PATH = f"{schema.INTERNAL_PREFIX}changed_path"
_KEYS = (*schema.IDENTITY, schema.PARTITION)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The changes of a range of write ids.

    :param rows: as :func:`read_changes` gives them.
    :param inserts: whether inserted rows may be among them, by the names of the files; ``deletes`` deleted ones.
    """

    rows: DataFrame
    inserts: bool
    deletes: bool


def read_changes(spark: SparkSession, snapshot: TableSnapshot, wanted: Changes) -> DataFrame:
    """The changes of a range of write ids.

    :param snapshot: of an open, registered reader that sees the whole range (R16).
    :return: data columns, partition columns, ``change__kind`` (insert, delete, update_before, update_after),
        ``change__writeid`` (NULL where rows of several write ids were merged), ``change__txnid`` and ``row__id``.
    :raises ChangesNoLongerAvailableError: when compaction has passed the range; names what can still be read.
    """
    return find_changes(spark, snapshot, wanted).rows


def find_changes(spark: SparkSession, snapshot: TableSnapshot, wanted: Changes) -> ChangedRows:
    """What :func:`read_changes` reads, and which kinds of changes can be in it."""
    if not snapshot.transactional:
        raise UnsupportedStatementError(f"{snapshot.table} has no transactions, and so no changes to tell")
    write_ids = ValidWriteIdList.parse(snapshot.write_ids)
    columns = schema.table_columns(snapshot.columns, snapshot.table)
    partition_columns = schema.table_columns(snapshot.partition_columns, snapshot.table)
    parts = _parts(spark, snapshot, write_ids, wanted)
    inserted: list[DataFrame] = []
    deleted: list[DataFrame] = []
    for part, ordinals in parts.items():
        come, gone = _part(spark, snapshot, write_ids, part, ordinals, wanted)
        inserted += come
        deleted += gone
    names = [schema.quoted(c.name) for c in (*columns, *partition_columns)]
    if not inserted and not deleted:
        return ChangedRows(_nothing(spark, columns, partition_columns), inserts=False, deletes=False)
    found = union([*inserted, *deleted])
    # One range of events is net already where it is read.
    if snapshot.has_row_ids and not (wanted.net and all(part.kind is PartKind.EVENTS for part in parts)):
        found = _without_undone(found, wanted)
    return ChangedRows(_shown(found, names, wanted), inserts=bool(inserted), deletes=bool(deleted))


def _parts(
    spark: SparkSession, snapshot: TableSnapshot, write_ids: ValidWriteIdList, wanted: Changes
) -> dict[Part, set[int]]:
    """The partitions by how their changes are read.

    :raises ChangesNoLongerAvailableError: when some cannot be.
    """
    txns = ValidTxnList.parse(snapshot.txns)
    found: dict[Part, set[int]] = {}
    available, why, where = 0, "", ""
    if wanted.last < wanted.first:
        return found
    for ordinal, listing in enumerate(list_partitions(HadoopFilesystem.of(spark), snapshot)):
        name = snapshot.partitions[ordinal].name
        changes = partition_changes(
            listing, write_ids, txns, wanted.first, wanted.last,
            cleaned=wanted.cleaned.get(name, 0), insert_only=snapshot.insert_only, net=wanted.net,
        )  # fmt: skip
        if changes.parts is None and changes.available_from > available:
            available, why, where = changes.available_from, changes.why, name
        for part in changes.parts or ():
            found.setdefault(part, set()).add(ordinal)
    if available:
        complete = complete_up_to(write_ids)
        left = f"those of the write ids {available} to {complete} are" if available <= complete else "none so far are"
        place = f"{snapshot.table}/{where}" if where else snapshot.table
        raise ChangesNoLongerAvailableError(
            f"the changes of {snapshot.table} from write id {wanted.first} to {wanted.last} cannot be told any more: "
            f"in {place} {why}. Of its changes {left} still available; read the table as a whole, and go on from there"
        )
    return found


def _part(
    spark: SparkSession,
    snapshot: TableSnapshot,
    write_ids: ValidWriteIdList,
    part: Part,
    ordinals: Collection[int],
    wanted: Changes,
) -> tuple[list[DataFrame], list[DataFrame]]:
    """Inserted rows, and deleted ones."""
    if part.kind is PartKind.REPLACED:
        before, after = as_of(write_ids, part.first - 1), as_of(write_ids, part.last)
        return (
            _all_rows(spark, snapshot, after, ordinals, part.last, gone=False),
            _all_rows(spark, snapshot, before, ordinals, part.last, gone=True),
        )
    if not snapshot.has_row_ids:
        return _plain_rows(spark, snapshot, as_of(write_ids, part.last), ordinals, part.first), []
    table = open_table(spark, snapshot, seen=as_of(write_ids, part.last), only=ordinals)
    if table.changing:
        raise UnsupportedStatementError(
            f"{table.name} holds updates in place of a Hive before version 3 ({min(table.changing)}), which do not say "
            "what was there before; run a major compaction, and read changes from then on"
        )
    come = (_left if wanted.net else _inserted)(spark, table, part.first)
    return come, _deleted(spark, table, part.first, wanted)


def _all_rows(
    spark: SparkSession,
    snapshot: TableSnapshot,
    seen: ValidWriteIdList,
    ordinals: Collection[int],
    by: int,
    *,
    gone: bool,
) -> list[DataFrame]:
    """Everything that was there, as one kind of change."""
    if not snapshot.has_row_ids:
        return _plain_rows(spark, snapshot, seen, ordinals, 0, by=by, gone=gone)
    table = open_table(spark, snapshot, seen=seen, only=ordinals)
    rows = table_rows(spark, table, identity=True)
    names = [schema.quoted(c.name) for c in (*table.columns, *table.partition_columns)]
    return [rows.selectExpr(*names, *IDENTITY, schema.PARTITION, f"{by}L as {_BY}", f"{str(gone).lower()} as {_GONE}")]


def _outputs(table: OpenTable, by: str, gone: str, told: tuple[str, ...] | None = None) -> list[str | Column]:
    ids = [f"{name} as {schema.internal(name)}" for name in schema.IDENTITY]
    data = [
        column if told is None or c.name in told else presented(f"cast(null as {schema.sql_type(c.type)})", c)
        for c, column in zip(table.columns, data_columns(table), strict=True)
    ]
    return [
        *data,
        *partition_values(table.partitions),
        *ids,
        schema.PARTITION,
        f"{by} as {_BY}",
        f"{gone} as {_GONE}",
    ]


def _inserted(spark: SparkSession, table: OpenTable, first: int) -> list[DataFrame]:
    """Rows that the range has inserted."""
    parts = []
    outputs = _outputs(table, schema.CURRENT_WRITE_ID, "false")
    files = [f for f in table.files.inserts if not f.in_base and f.max_write_id >= first]
    if files:
        events = only_seen(insert_events(spark, table, files), table, files)
        if any(f.min_write_id < first for f in files):
            events = events.where(f"coalesce({schema.CURRENT_WRITE_ID}, 0L) >= {first}L")
        parts.append(project(events, outputs))
    loaded = [f for f in table.files.originals if f.in_delta and f.write_id >= first]
    if loaded:
        parts.append(project(originals.rows(spark, table, loaded, identity=True), outputs))
    return parts


def _left(spark: SparkSession, table: OpenTable, first: int) -> list[DataFrame]:
    """Rows that the range has inserted and not deleted again: what a reader of its end sees of its files."""
    files = [f for f in table.files.inserts if not f.in_base and f.max_write_id >= first]
    loaded = [f for f in table.files.originals if f.in_delta and f.write_id >= first]
    if not files and not loaded:
        return []
    rows = table_rows(spark, table, identity=True, inserts=files, loaded=loaded)
    if any(f.min_write_id < first for f in files):
        rows = rows.where(f"{IDENTITY[0]} >= {first}L")
    names = [schema.quoted(c.name) for c in (*table.columns, *table.partition_columns)]
    return [rows.selectExpr(*names, *IDENTITY, schema.PARTITION, f"{IDENTITY[0]} as {_BY}", f"false as {_GONE}")]


def _deleted(spark: SparkSession, table: OpenTable, first: int, wanted: Changes) -> list[DataFrame]:
    """Rows that the range has deleted, as they were; net: without those that it has inserted."""
    files = [f for f in table.files.deletes if f.max_write_id >= first]
    if not files:
        return []
    told = wanted.told
    # Where deletes were merged, older ones are among them, which the jar does not tell apart.
    is_exact = all(f.min_write_id >= first for f in files)
    package = accelerator(spark) if wanted.net and told is not None and is_exact else None
    newest = first - 1 if wanted.net else max(f.max_write_id for f in files)
    if told == ():
        gone = _gone(spark, table, files, first, wanted, newest, package=package)
        named_again = gone.selectExpr(
            *[f"{_OF}{k} as {k}" for k in _KEYS], f"{_OF}by", *table.partitions.internal_names
        )
        return [project(named_again, _outputs(table, f"{_OF}by", "true", told))]
    reach: dict[tuple[int, int], int] = {}
    for f in files:
        reach[f.partition, f.bucket] = max(f.max_write_id, reach.get((f.partition, f.bucket), 0))
    hit = [f for f in table.files.inserts if f.min_write_id <= min(newest, reach.get((f.partition, f.bucket), -1))]
    loaded = [f for f in table.files.originals if f.write_id <= min(newest, reach.get((f.partition, f.bucket), -1))]
    by = f"{_OF}by" if told is None or not wanted.net else "cast(null as bigint)"
    outputs = _outputs(table, by, "true", told)
    parts = []
    if package is not None:
        fast, slow = fast_reader.divide(table, hit)
        hit = list(slow)
        if fast:
            found = fast_reader.deleted_events(spark, package, table, fast, files, newest)
            parts.append(project(found, outputs))
    if rows := _to_be_found(spark, table, hit, loaded):
        # A number in an expression is compiled anew each time; files from before the range hold no rows of it.
        bound = newest if wanted.net and any(f.max_write_id > newest for f in hit) else None
        gone = _gone(spark, table, files, first, wanted, bound)
        if sum(f.size for f in files) <= BROADCAST_DELETES_BYTES:
            gone = F.broadcast(gone)
        joined = union(rows).join(gone, F.expr(" and ".join(f"{k} = {_OF}{k}" for k in _KEYS)))
        parts.append(project(joined, outputs))
    return parts


def _gone(
    spark: SparkSession,
    table: OpenTable,
    files: Sequence[EventFile],
    first: int,
    wanted: Changes,
    made_up_to: int | None,
    *,
    package: Any = None,
) -> DataFrame:
    """Which rows the range has deleted, and by which write id.

    :param made_up_to: the newest write id of the rows; None for any.
    :param package: of the jar, if it is to read the events.
    """
    if package is not None and made_up_to is not None:
        events = fast_reader.delete_events(spark, package, table, files, made_up_to)
    else:
        events = delete_events(spark, table, files)
        if any(f.min_write_id < first for f in files):
            events = events.where(f"coalesce({schema.CURRENT_WRITE_ID}, 0L) >= {first}L")
        if wanted.net and made_up_to is not None:
            events = events.where(f"coalesce({schema.IDENTITY[0]}, 0L) <= {made_up_to}L")
    named = {schema.BUCKET: in_place.packed_bucket(table)}
    places = table.partitions.internal_names if wanted.told == () else ()
    gone = events.selectExpr(
        *[f"{named.get(k, k)} as {_OF}{k}" for k in _KEYS], f"{schema.CURRENT_WRITE_ID} as {_OF}by", *places
    )
    if wanted.net and wanted.told:
        return gone
    # An UPDATE by Hive's multi-statement transactions may have left a delete twice (R18).
    return gone.groupBy(*[f"{_OF}{k}" for k in _KEYS], *places).agg(F.min(f"{_OF}by").alias(f"{_OF}by"))


def _to_be_found(
    spark: SparkSession, table: OpenTable, files: Sequence[EventFile], loaded: Sequence[OriginalDataFile]
) -> list[DataFrame]:
    """The rows of files, to be joined with the events that have deleted some of them."""
    columns = [*schema.HEADER, schema.ROW, schema.PARTITION, *table.partitions.internal_names]
    rows = []
    if files:
        rows.append(only_seen(insert_events(spark, table, files), table, files).select(*columns))
    if loaded:
        rows.append(originals.rows(spark, table, loaded, identity=True).select(*columns))
    return rows


def _plain_rows(
    spark: SparkSession,
    snapshot: TableSnapshot,
    seen: ValidWriteIdList,
    ordinals: Collection[int],
    first: int,
    *,
    by: int | None = None,
    gone: bool = False,
) -> list[DataFrame]:
    """Rows of an insert-only table: of all directories from a write id on, each under the one that wrote it.

    :param by: the write id that all of them are put down to.
    """
    fs = HadoopFilesystem.of(spark)
    columns = schema.table_columns(snapshot.columns, snapshot.table)
    partition_columns = schema.table_columns(snapshot.partition_columns, snapshot.table)
    partitions = PartitionValues(partition_columns, tuple(p.values for p in snapshot.partitions))
    txns = ValidTxnList.parse(snapshot.txns)
    files: list[ScanFile] = []
    known: list[dict[str, object]] = []
    for ordinal, (root, listing) in enumerate(
        zip(partition_roots(fs, snapshot), list_partitions(fs, snapshot), strict=True)
    ):
        if ordinal not in ordinals:
            continue
        state = acid_state(listing, seen, txns)
        for directory in state.inserts if first == 0 else state.deltas:
            named = directory.directory
            if named.max_write_id < first:
                continue
            single = named.max_write_id if named.min_write_id == named.max_write_id else None
            for entry in directory.plain_files():
                uri = paths.join(root, entry.path)
                files.append(ScanFile(uri, ordinal))
                known.append({_KNOWN_PATH: metadata_path(uri), _BY: single if by is None else by})
    found = plain.rows(spark, snapshot, columns, partitions, files)
    if found is None:
        return []
    if by is None:
        types = T.StructType([T.StructField(_KNOWN_PATH, T.StringType()), T.StructField(_BY, T.LongType())])
        found = found.join(F.broadcast(lookup_table(spark, known, types)), F.expr(f"{PATH} = {_KNOWN_PATH}"), "left")
        # A file that the lookup does not know must not pass for one of merged rows.
        checked = found_or_fail(_KNOWN_PATH, "no write id is known for file")
        write_id = f"if({checked} is null, null, {_BY}) as {_BY}"
    else:
        write_id = f"{by}L as {_BY}"
    data = [presented(schema.quoted(c.name), c) for c in columns]
    ids = [f"cast(null as {schema.header_type(n).simpleString()}) as {schema.internal(n)}" for n in schema.IDENTITY]
    return [
        project(
            found,
            [*data, *partition_values(partitions), *ids, schema.PARTITION, write_id, f"{str(gone).lower()} as {_GONE}"],
        )
    ]


def _without_undone(found: DataFrame, wanted: Changes) -> DataFrame:
    """Without rows that the same txn has inserted and deleted: nobody ever saw them. Net: that the range has."""
    keys = [*IDENTITY, schema.PARTITION]
    same = [f"{k} = {_OF}{k}" for k in keys]
    made_here = f"{IDENTITY[0]} >= {wanted.first}L"
    if not wanted.net:
        same.append(f"{_BY} = {_OF}by")
        made_here = f"{IDENTITY[0]} = {_BY}"
    # Only rows that were made here as well can meet an inserted one; rows of other files are not looked for twice.
    deletes = found.where(f"{_GONE} and {made_here}")
    deletes = deletes.selectExpr(*[f"{k} as {_OF}{k}" for k in keys], f"{_BY} as {_OF}by")
    inserted = found.where(f"not {_GONE}").join(deletes, F.expr(" and ".join(same)), "left_anti")
    return inserted.unionByName(found.where(f"{_GONE} and not ({made_here})"))


def _shown(found: DataFrame, names: Sequence[str], wanted: Changes) -> DataFrame:
    kind = f"if({_GONE}, '{kinds.DELETE}', '{kinds.INSERT}')"
    if wanted.key:
        keys = [schema.quoted(k) for k in wanted.key]
        group = [F.expr(k) for k in keys] + ([] if wanted.net else [F.col(_BY)])
        window = Window.partitionBy(*group)
        inserts, deletes = f"{_OF}inserts", f"{_OF}deletes"
        found = found.withColumns(
            {
                inserts: F.sum(F.expr(f"if({_GONE}, 0, 1)")).over(window),
                deletes: F.sum(F.expr(f"if({_GONE}, 1, 0)")).over(window),
                f"{_OF}latest": F.max(_BY).over(window),
            }
        )
        given = " and ".join(f"{k} is not null" for k in keys)
        paired = f"{inserts} = 1 and {deletes} = 1 and {given}"
        kind = f"if({paired}, if({_GONE}, '{kinds.BEFORE}', '{kinds.AFTER}'), {kind})"
        found = found.withColumn(_BY, F.expr(f"if({paired}, {_OF}latest, {_BY})"))
    txn = "cast(null as bigint)"
    if wanted.txns:
        known = f"from_json({schema.sql_text(json.dumps(wanted.txns))}, 'map<string,bigint>')"
        txn = f"try_element_at({known}, cast({_BY} as string))"
    row_id = f"if({IDENTITY[0]} is null, null, {ROW_ID.partition(' as ')[0]}) as {schema.PSEUDO_COLUMN}"
    return found.selectExpr(
        *names, f"{kind} as {kinds.KIND}", f"{_BY} as {kinds.WRITE_ID}", f"{txn} as {kinds.TXN_ID}", row_id
    )


def _nothing(
    spark: SparkSession, columns: Sequence[schema.TableColumn], partition_columns: Sequence[schema.TableColumn]
) -> DataFrame:
    values = [presented(f"cast(null as {schema.sql_type(c.type)})", c) for c in (*columns, *partition_columns)]
    own = [
        f"cast(null as string) as {kinds.KIND}", f"cast(null as bigint) as {kinds.WRITE_ID}",
        f"cast(null as bigint) as {kinds.TXN_ID}",
        f"cast(null as struct<writeid:bigint,bucketid:int,rowid:bigint>) as {schema.PSEUDO_COLUMN}",
    ]  # fmt: skip
    return project(spark.range(0), [*values, *own])
