"""Statistics: what was counted in tables, partitions and columns (TAB_COL_STATS and PART_COL_STATS).

Which fields a type of column has is Hive's (ColumnStatisticsObj): whole numbers, dates (days) and timestamps (seconds)
have the LONG_ ones, fractions the DOUBLE_ ones, decimals texts. Numbers of distinct values are estimates there as here;
the others must be exact as long as COLUMN_STATS_ACCURATE names the column, because Hive answers MIN, MAX and COUNT from
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert

from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import PART_COL_STATS, TAB_COL_STATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore.catalog.rows.objects import TakeIds
    from airflow_hive_acid.metastore.catalog.values.model import Table

ENGINE = "hive"
"""Hive keeps statistics by the engine that they are for; it reads its own."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What one look found in a column.

    :param type: as the catalog spells it.
    :param nulls: rows without a value.
    :param low: the least value, and ``high`` the greatest: whole numbers, days or seconds since 1970, fractions, or
        texts of decimals; None where there is none, and for types without an order.
    :param distinct: about so many different values.
    :param mean_length: in characters or bytes, and ``most_length`` the longest; of texts and binary values.
    :param trues: and ``falses``: of booleans.
    :param exact: whether all but ``distinct`` may be relied on.
    """

    name: str
    type: str
    nulls: int
    low: int | float | str | None = None
    high: int | float | str | None = None
    distinct: int | None = None
    mean_length: float | None = None
    most_length: int | None = None
    trues: int | None = None
    falses: int | None = None
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Counted:
    """What one look found in a table without partitions, or in a partition.

    :param rows: None when rows were not read.
    :param files: data files that the snapshot sees, and ``bytes`` their sizes.
    :param columns: by what was asked for.
    """

    files: int
    bytes: int
    rows: int | None = None
    columns: tuple[ColumnStatistics, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Look:
    """The snapshot under which is counted.

    :param document: as of a reader, whose txn is kept open meanwhile; None for a plain table.
    """

    table: Table
    document: Mapping[str, Any] | None
    write_ids: ValidWriteIdList | None
    txns: ValidTxnList | None


def write_column_statistics(
    connection: Connection,
    found: Mapping[int, Sequence[ColumnStatistics]],
    take_ids: TakeIds,
    *,
    of_partitions: bool,
) -> None:
    """Let these take the place of what was known of the columns.

    :param found: by id of the partition, or of the table without partitions.
    """
    table, key = (PART_COL_STATS, "PART_ID") if of_partitions else (TAB_COL_STATS, "TBL_ID")
    every = [(owner_id, column) for owner_id, columns in found.items() for column in columns]
    if not every:
        return
    names = sorted({column.name for _, column in every})
    for owners in chunks(list(found)):
        connection.execute(
            delete(table).where(table.c[key].in_(owners), table.c.COLUMN_NAME.in_(names), table.c.ENGINE == ENGINE)
        )
    kind = IdKind.PARTITION_STATISTICS if of_partitions else IdKind.TABLE_STATISTICS
    seconds = now_ms(connection) // 1000
    rows = [
        {"CS_ID": cs_id, key: owner_id, "LAST_ANALYZED": seconds, "ENGINE": ENGINE, **_values(column)}
        for cs_id, (owner_id, column) in zip(take_ids(connection, kind, len(every)), every, strict=True)
    ]
    connection.execute(insert(table), rows)


def _values(column: ColumnStatistics) -> dict[str, Any]:
    bounds: dict[str, Any] = dict.fromkeys(
        f"{kind}_{end}_VALUE" for kind in ("LONG", "DOUBLE", "BIG_DECIMAL") for end in ("LOW", "HIGH")
    )
    for end, value in (("LOW", column.low), ("HIGH", column.high)):
        if isinstance(value, str):
            bounds[f"BIG_DECIMAL_{end}_VALUE"] = value
        elif isinstance(value, float):
            bounds[f"DOUBLE_{end}_VALUE"] = value
        elif value is not None:
            bounds[f"LONG_{end}_VALUE"] = value
    return {
        "COLUMN_NAME": column.name, "COLUMN_TYPE": column.type, "NUM_NULLS": column.nulls,
        "NUM_DISTINCTS": column.distinct, "AVG_COL_LEN": column.mean_length, "MAX_COL_LEN": column.most_length,
        "NUM_TRUES": column.trues, "NUM_FALSES": column.falses, **bounds,
    }  # fmt: skip
