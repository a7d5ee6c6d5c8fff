"""What SHOW CREATE TABLE and DESCRIBE print of a table, as functions of what the catalog holds.

A CREATE TABLE that is printed makes the table again, here and in Hive. DESCRIBE has Hive's lines and words, without
the blanks that Hive fills columns with; EXTENDED prints the lines of FORMATTED.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.catalog import EXTERNAL_TABLE, KEYWORDS, ConstraintKind, storage_format
from airflow_hive_acid.metastore.replica import METADATA_STATE_ID, OVERWRITTEN, REBALANCED, STATE_ID
from airflow_hive_acid.metastore.txns import moves_with_commits
from airflow_hive_acid.sql.text.quoting import identifier, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_hive_acid.metastore.catalog import Constraint, Database, FieldSchema, Storage, Table, WholePartition

Line = list[str | None]
"""Name, type or value, comment."""

_KEPT_BY_THE_METASTORE = frozenset((
    "COLUMN_STATS_ACCURATE", "numFiles", "numRows", "rawDataSize", "totalSize", "numFilesErasureCoded",
    "transient_lastDdlTime", "last_modified_by", "last_modified_time", "numPartitions", "EXTERNAL", STATE_ID,
    METADATA_STATE_ID, OVERWRITTEN, REBALANCED,
))  # fmt: skip
"""Parameters that say how a table is, and not how it was wanted."""
_OF_COLUMNS = (ConstraintKind.NOT_NULL, ConstraintKind.DEFAULT)
"""Kinds that stand behind their column."""
_NAMED_KEYS = (ConstraintKind.PRIMARY_KEY, ConstraintKind.FOREIGN_KEY)
_KINDS_IN_ORDER = (*_NAMED_KEYS, ConstraintKind.UNIQUE, *_OF_COLUMNS, ConstraintKind.CHECK)
_BLANK: Line = ["", None, None]


def create_statement(table: Table, home: str, constraints: Sequence[Constraint] = ()) -> list[str]:
    """The lines of the statement that makes a table or view.

    :param constraints: all of the table.
    :param home: where a table of its kind and name lies by default: LOCATION is printed for another place.
    """
    name = f"{identifier(table.db)}.{identifier(table.name)}"
    if table.is_view:
        return [f"CREATE VIEW {name} AS {table.view_expanded or table.view_original or ''}"]
    storage = table.storage
    external = table.type == EXTERNAL_TABLE
    lines = [f"CREATE {'EXTERNAL ' if external else ''}TABLE {name}(", *_definitions(storage.columns, constraints)]
    comment = table.property("comment")
    if comment is not None:
        lines.append(f"COMMENT {quoted(comment)}")
    if table.partition_keys:
        lines += ["PARTITIONED BY (", *_definitions(table.partition_keys)]
    if storage.bucket_count > 0 and storage.bucket_columns:
        lines += ["CLUSTERED BY (", f"  {', '.join(map(identifier, storage.bucket_columns))})"]
        if storage.sort_columns:
            orders = (f"{identifier(column)} {'ASC' if order else 'DESC'}" for column, order in storage.sort_columns)
            lines += ["SORTED BY (", f"  {', '.join(orders)})"]
        lines.append(f"INTO {storage.bucket_count} BUCKETS")
    lines += _format(storage)
    if storage.location and storage.location.rstrip("/") != home.rstrip("/"):
        lines += ["LOCATION", f"  {quoted(storage.location)}"]
    wanted = {k: v for k, v in table.properties.items() if not _is_kept(k) and k != "comment"}
    if wanted:
        pairs = [f"  {quoted(key)}={quoted(value)}" for key, value in sorted(wanted.items())]
        lines += ["TBLPROPERTIES (", *(f"{pair}," for pair in pairs[:-1]), f"{pairs[-1]})"]
    return lines


def _is_kept(key: str) -> bool:
    """Whether a parameter says how a table is; so does where streams stand in its rows, which another one has not."""
    return key in _KEPT_BY_THE_METASTORE or moves_with_commits(key)


def _definitions(columns: Sequence[FieldSchema], constraints: Sequence[Constraint] = ()) -> list[str]:
    told = []
    for column in columns:
        own = [c for c in constraints if c.columns == (column.name,) and c.kind in _OF_COLUMNS]
        comment = f" COMMENT {quoted(column.comment)}" if column.comment else ""
        told.append(f"  {identifier(column.name)} {column.type}{''.join(map(_constraint, own))}{comment}")
    told += [f" {_constraint(c)}" for c in constraints if c.kind not in _OF_COLUMNS]
    return [*(f"{one}," for one in told[:-1]), f"{told[-1]})"] if told else ["  )"]


def _constraint(constraint: Constraint) -> str:
    """As CREATE TABLE takes it, with its state in words."""
    what = constraint.kind.words
    if constraint.kind is ConstraintKind.DEFAULT:
        what += f" {constraint.value}"
    elif constraint.kind is ConstraintKind.CHECK:
        what += f" ({constraint.value})"
    elif constraint.kind not in _OF_COLUMNS:
        what += f" ({', '.join(map(identifier, constraint.columns))})"
    if constraint.parent is not None:
        parent = ".".join(map(identifier, constraint.parent.split(".", 1)))
        what += f" REFERENCES {parent} ({', '.join(map(identifier, constraint.parent_columns))})"
    enabled = "ENABLE" if constraint.enabled else "DISABLE"
    relied = "RELY" if constraint.relied else "NORELY"
    return f" CONSTRAINT {identifier(constraint.name or '')} {what} {enabled} NOVALIDATE {relied}"


def _format(storage: Storage) -> list[str]:
    known = storage_format(storage.input_format, storage.serde[1])
    usual = {"serialization.format": "1"}
    special = {k: v for k, v in storage.serde_properties.items() if usual.get(k) != v}
    said_by_keyword = known is not None and KEYWORDS[known.keyword] == known and known.serde == storage.serde[1]
    if known is not None and said_by_keyword and known.output_format == storage.output_format and not special:
        return [f"STORED AS {known.keyword}"]
    lines = ["ROW FORMAT SERDE", f"  {quoted(storage.serde[1] or '')}"]
    if special:
        pairs = [f"  {quoted(key)}={quoted(value)}" for key, value in sorted(special.items())]
        lines += ["WITH SERDEPROPERTIES (", *(f"{pair}," for pair in pairs[:-1]), f"{pairs[-1]})"]
    lines += ["STORED AS INPUTFORMAT", f"  {quoted(storage.input_format or '')}"]
    return [*lines, "OUTPUTFORMAT", f"  {quoted(storage.output_format or '')}"]


def described(
    table: Table, partition: WholePartition | None, *, whole: bool, constraints: Sequence[Constraint] = ()
) -> Iterator[Line]:
    """The lines of DESCRIBE.

    :param constraints: all of the table, for EXTENDED or FORMATTED.

    :param partition: of DESCRIBE … PARTITION.
    :param whole: EXTENDED or FORMATTED.
    """
    columns = table.storage.columns if partition is None else partition.storage.columns or table.storage.columns
    if whole:
        yield ["# col_name", "data_type", "comment"]
    yield from _columns(columns)
    if table.partition_keys:
        yield _BLANK
        yield ["# Partition Information", None, None]
        yield ["# col_name", "data_type", "comment"]
        yield from _columns(table.partition_keys)
    if whole:
        yield _BLANK
        yield from _table_lines(table) if partition is None else _partition_lines(partition)
        if partition is None and constraints:
            yield from _constraint_lines(table, constraints)


def described_column(column: FieldSchema) -> Iterator[Line]:
    """The line of DESCRIBE t column."""
    yield from _columns([column])


def described_database(database: Database, *, extended: bool) -> Line:
    """The line of DESCRIBE DATABASE; with EXTENDED its properties, too."""
    parameters = ", ".join(f"{key}={value}" for key, value in sorted(database.properties.items()))
    return [
        database.name, database.description, database.location, database.own_managed_location, database.owner,
        database.owner_type, database.connector, database.remote_name,
        f"{{{parameters}}}" if extended and parameters else "",
    ]  # fmt: skip


def _columns(columns: Iterable[FieldSchema]) -> Iterator[Line]:
    for column in columns:
        yield [column.name, column.type, column.comment or ""]


def _table_lines(table: Table) -> Iterator[Line]:
    yield ["# Detailed Table Information", None, None]
    yield ["Database:", table.db, None]
    yield ["OwnerType:", table.owner_type or "USER", None]
    yield ["Owner:", table.owner, None]
    yield ["CreateTime:", _time(table.created), None]
    yield ["LastAccessTime:", _time(table.last_access), None]
    yield ["Retention:", str(table.retention), None]
    if table.location:
        yield ["Location:", table.location, None]
    yield ["Table Type:", table.type, None]
    if table.properties:
        yield ["Table Parameters:", None, None]
        yield from _pairs(table.properties)
    yield _BLANK
    yield from _storage_lines(table.storage)
    if table.view_original or table.view_expanded:
        yield _BLANK
        yield ["# View Information", None, None]
        yield ["Original Query:", table.view_original, None]
        yield ["Expanded Query:", table.view_expanded, None]


def _constraint_lines(table: Table, constraints: Sequence[Constraint]) -> Iterator[Line]:
    """Kind by kind, in Hive's order and words."""
    yield _BLANK
    yield ["# Constraints", None, None]
    for kind in _KINDS_IN_ORDER:
        those = [constraint for constraint in constraints if constraint.kind is kind]
        if not those:
            continue
        yield _BLANK
        plural = "" if kind is ConstraintKind.PRIMARY_KEY else "s"
        yield [f"# {kind.words.title()}{' Constraint' if kind not in _NAMED_KEYS else ''}{plural}", None, None]
        yield ["Table:", table.qualified_name, None]
        for constraint in those:
            yield ["Constraint Name:", constraint.name, None]
            yield from _constraint_columns(constraint)


def _constraint_columns(constraint: Constraint) -> Iterator[Line]:
    match constraint.kind:
        case ConstraintKind.FOREIGN_KEY:
            pairs = zip(constraint.columns, constraint.parent_columns, strict=False)
            for number, (column, referred) in enumerate(pairs, 1):
                parent = f"Parent Column Name:{constraint.parent}.{referred}"
                yield [parent, f"Column Name:{column}", f"Key Sequence:{number}"]
        case ConstraintKind.UNIQUE:
            for number, column in enumerate(constraint.columns, 1):
                yield [f"Column Name:{column}", f"Key Sequence:{number}", None]
        case ConstraintKind.PRIMARY_KEY | ConstraintKind.NOT_NULL:
            for column in constraint.columns:
                yield ["Column Name:", column, None]
        case _:
            word = "Default" if constraint.kind is ConstraintKind.DEFAULT else "Check"
            yield [f"Column Name:{', '.join(constraint.columns)}", f"{word} Value:{constraint.value}", None]


def _partition_lines(partition: WholePartition) -> Iterator[Line]:
    yield ["# Detailed Partition Information", None, None]
    yield ["Partition Value:", f"[{', '.join(partition.values)}]", None]
    yield ["Database:", partition.db, None]
    yield ["Table:", partition.table, None]
    yield ["CreateTime:", _time(partition.created), None]
    yield ["LastAccessTime:", _time(partition.last_access), None]
    yield ["Location:", partition.storage.location, None]
    if partition.properties:
        yield ["Partition Parameters:", None, None]
        yield from _pairs(partition.properties)
    yield _BLANK
    yield from _storage_lines(partition.storage)


def _storage_lines(storage: Storage) -> Iterator[Line]:
    yield ["# Storage Information", None, None]
    yield ["SerDe Library:", storage.serde[1], None]
    yield ["InputFormat:", storage.input_format, None]
    yield ["OutputFormat:", storage.output_format, None]
    yield ["Compressed:", "Yes" if storage.compressed else "No", None]
    yield ["Num Buckets:", str(storage.bucket_count), None]
    yield ["Bucket Columns:", f"[{', '.join(storage.bucket_columns)}]", None]
    orders = (f"Order(col:{column}, order:{order})" for column, order in storage.sort_columns)
    yield ["Sort Columns:", f"[{', '.join(orders)}]", None]
    if storage.serde_properties:
        yield ["Storage Desc Params:", None, None]
        yield from _pairs(storage.serde_properties)


def _pairs(properties: Mapping[str, str]) -> Iterator[Line]:
    for key, value in sorted(properties.items()):
        yield ["", key, value]


def _time(seconds: int) -> str:
    if seconds <= 0:
        return "UNKNOWN"
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%a %b %d %H:%M:%S UTC %Y")
