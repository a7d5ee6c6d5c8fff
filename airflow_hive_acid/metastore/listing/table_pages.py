"""Tables and partitions in pages, with how large they were when a service listed them last (HIVE_ACID_MEASURE).

Sizes of what was never listed by a service of ours are the catalog's own statistics. Nothing is listed for a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy import BigInteger, String, and_, case, cast, exists, func, null, select

from airflow_hive_acid.format.table_kinds import TRANSACTIONAL, table_kind
from airflow_hive_acid.metastore.compaction.decisions import read_newest_decisions
from airflow_hive_acid.metastore.compaction.measures import NEWEST_BY_TABLE, Measure, Measured, read_newest
from airflow_hive_acid.metastore.compaction.model import Compaction, Resource
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.listing.pages import Key, Page, Slice, fetch, newest_compactions
from airflow_hive_acid.metastore.schema.hive_catalog import (
    DBS,
    PARTITION_KEYS,
    PARTITION_PARAMS,
    PARTITIONS,
    TABLE_PARAMS,
    TBLS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.compaction.decisions import StoredDecision
    from airflow_hive_acid.metastore.database.database import Features

_CATALOG = "hive"
_P = TABLE_PARAMS.c
_MILLION = 1_000_000
_SHOWN_PARAMETERS = ("transactional", "transactional_properties", "numFiles", "totalSize")


@dataclass(frozen=True, slots=True)
class TablesWanted:
    """Which tables; None does not restrict.

    :param name: a part of the name, in any case.
    :param order: ``name``, or descending ``deltas``, ``bytes`` or ``delete_ratio``.
    :param only: the table with exactly this name.
    """

    database: str | None = None
    name: str | None = None
    transactional: bool | None = None
    order: str = "name"
    only: str | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table of the catalog, with what is known of its size.

    :param type: Hive's word, for example MANAGED_TABLE.
    :param measure: of all its partitions together; None when none was ever listed by a service.
    :param measured: when the last of them was, ms; ``parts`` how many were.
    :param files: and ``bytes`` by the catalog's statistics.
    """

    database: str
    table: str
    type: str
    owner: str | None
    partitioned: bool
    properties: dict[str, str]
    measure: Measure | None
    measured: int | None
    parts: int
    rank: int
    last_compaction: Compaction | None = None

    @property
    def transactional(self) -> Literal["full", "insert_only", "no"]:
        """``full``, ``insert_only`` or ``no``."""
        return table_kind(self.properties).value

    @property
    def files(self) -> int | None:
        """Data files: as measured, else by the catalog's statistics."""
        return self.measure.files if self.measure else _number(self.properties.get("numFiles"))

    @property
    def bytes(self) -> int | None:
        """Bytes: as measured, else by the catalog's statistics."""
        return self.measure.bytes if self.measure else _number(self.properties.get("totalSize"))


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition with what is known of its size, and what the Initiator decided about it last."""

    name: str
    properties: dict[str, str]
    measured: Measured | None
    decision: StoredDecision | None

    @property
    def files(self) -> int | None:
        """As :attr:`TableRow.files`."""
        return self.measured.measure.files if self.measured else _number(self.properties.get("numFiles"))

    @property
    def bytes(self) -> int | None:
        """As :attr:`TableRow.bytes`."""
        return self.measured.measure.bytes if self.measured else _number(self.properties.get("totalSize"))


def tables_page(connection: Connection, features: Features, wanted: TablesWanted, part: Slice) -> Page[TableRow]:
    """Tables by name, or those with the most deltas, bytes or deletes first."""
    # Without our table (an older schema) nothing was measured.
    newest = (NEWEST_BY_TABLE if features.measures else _no_measures()).subquery("newest")
    n = newest.c
    rank: sa.ColumnElement[int] = _rank(n, wanted.order).label("rank")
    is_partitioned = exists().where(PARTITION_KEYS.c.TBL_ID == TBLS.c.TBL_ID)
    statement = (
        select(
            TBLS.c.TBL_ID, DBS.c.NAME, TBLS.c.TBL_NAME, TBLS.c.TBL_TYPE, TBLS.c.OWNER,
            case((is_partitioned, 1), else_=0), n.files, n.deltas, n.delete_deltas, n.base_bytes, n.delta_bytes,
            n.delete_bytes, n.measured, n.parts, rank,
        )
        .select_from(TBLS)
        .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        .outerjoin(newest, and_(n.db == DBS.c.NAME, n.tbl == TBLS.c.TBL_NAME))
        .where(DBS.c.CTLG_NAME == _CATALOG)
    )  # fmt: skip
    if wanted.database is not None:
        statement = statement.where(DBS.c.NAME == wanted.database.lower())
    if wanted.only is not None:
        statement = statement.where(TBLS.c.TBL_NAME == wanted.only.lower())
    if wanted.name is not None:
        statement = statement.where(TBLS.c.TBL_NAME.contains(wanted.name.lower(), autoescape=True))
    if wanted.transactional is not None:
        marked = exists().where(
            _P.TBL_ID == TBLS.c.TBL_ID, func.lower(_P.PARAM_KEY) == TRANSACTIONAL, func.lower(_P.PARAM_VALUE) == "true"
        )
        statement = statement.where(marked if wanted.transactional else ~marked)
    ids: dict[tuple[str, str], int] = {}

    def make(row: Any) -> TableRow:
        table_id, database, name, kind, owner, partitioned, *numbers, measured, parts, rank = row
        ids[(database, name)] = table_id
        measure = None if parts is None else Measure(*map(int, numbers))
        return TableRow(
            database, name, kind or "", owner, bool(partitioned), {}, measure, measured, int(parts or 0), int(rank)
        )

    keys: tuple[Key, ...] = (Key(_rank(n, wanted.order), True), Key(DBS.c.NAME), Key(TBLS.c.TBL_NAME))
    if wanted.order == "name":
        keys = keys[1:]
    page = fetch(
        connection, statement, keys, part, make,
        lambda row: (row.database, row.table) if wanted.order == "name" else (row.rank, row.database, row.table),
    )  # fmt: skip
    return _completed(connection, page, ids)


def partitions_page(
    connection: Connection, features: Features, database: str, table: str, name: str | None, part: Slice
) -> Page[PartitionRow]:
    """The partitions of a table by name.

    :param name: a part of the name.
    """
    p = PARTITIONS.c
    statement = (
        select(p.PART_ID, p.PART_NAME)
        .join(TBLS, TBLS.c.TBL_ID == p.TBL_ID)
        .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        .where(DBS.c.CTLG_NAME == _CATALOG, DBS.c.NAME == database.lower(), TBLS.c.TBL_NAME == table.lower())
    )
    if name is not None:
        statement = statement.where(p.PART_NAME.contains(name, autoescape=True))
    page = fetch(connection, statement, (Key(p.PART_NAME),), part, lambda r: (r[0], r[1]), lambda item: (item[1],))
    resources = [Resource(database.lower(), table.lower(), item[1]) for item in page.items]
    measured = read_newest(connection, resources) if features.measures else {}
    decided = read_newest_decisions(connection, resources) if features.decisions else {}
    known = _parameters(connection, PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID, [item[0] for item in page.items])
    rows = tuple(
        PartitionRow(item[1], known.get(item[0], {}), measured.get(resource), decided.get(resource))
        for item, resource in zip(page.items, resources, strict=True)
    )
    return Page(rows, page.after, page.total, page.now)


def _completed(connection: Connection, page: Page[TableRow], ids: dict[tuple[str, str], int]) -> Page[TableRow]:
    """The rows with what is read for a page at once."""
    known = _parameters(connection, TABLE_PARAMS, _P.TBL_ID, [ids[(row.database, row.table)] for row in page.items])
    ended = newest_compactions(connection, [(row.database, row.table) for row in page.items])
    rows = tuple(
        TableRow(
            row.database, row.table, row.type, row.owner, row.partitioned,
            known.get(ids[(row.database, row.table)], {}), row.measure, row.measured, row.parts, row.rank,
            ended.get((row.database, row.table)),
        )
        for row in page.items
    )  # fmt: skip
    return Page(rows, page.after, page.total, page.now)


def _parameters(
    connection: Connection, table: sa.Table, owner: sa.ColumnElement[int], ids: Sequence[int]
) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for some in chunks(ids):
        statement = select(owner, table.c.PARAM_KEY, table.c.PARAM_VALUE).where(
            owner.in_(list(some)), table.c.PARAM_KEY.in_(_SHOWN_PARAMETERS)
        )
        for owner_id, key, value in connection.execute(statement):
            found.setdefault(owner_id, {})[key] = value or ""
    return found


def _rank(n: Any, order: str) -> sa.ColumnElement[int]:
    """What an order compares, as a whole number; -1 for what was never measured."""
    match order:
        case "deltas":
            return func.coalesce(n.deltas, -1)
        case "bytes":
            return func.coalesce(n.base_bytes + n.delta_bytes, -1)
        case "delete_ratio":
            everything = func.nullif(n.base_bytes + n.delta_bytes, 0, type_=BigInteger)
            return func.coalesce(cast(n.delete_bytes * _MILLION // everything, BigInteger), -1)
        case _:
            return sa.literal(0, BigInteger)


def _no_measures() -> sa.Select[Any]:
    names = [column.name for column in NEWEST_BY_TABLE.selected_columns]
    text = ("db", "tbl")
    # Not of the column's own type: MySQL 8 takes no collation inside CAST.
    nothing: dict[bool, sa.ColumnElement[Any]] = {True: cast(null(), String(128)), False: cast(null(), BigInteger)}
    columns = [nothing[name in text].label(name) for name in names]
    return select(*columns).where(sa.false())


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
