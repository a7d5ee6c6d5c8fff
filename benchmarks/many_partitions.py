"""A table of very many partitions in the catalog, made by the database itself: a million take a minute.

One partition is added as always; the others are its rows with ids and names of their own, as INSERT … SELECT from a
list of numbers. There are no directories: whoever needs some makes those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind, allocate_ids
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.schema.hive_catalog import (
    PARTITION_KEY_VALS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SERDES,
)
from airflow_hive_acid.metastore.setup.schema import COMPLETED_TXN_COMPONENTS, HIVE_ACID_DECISION

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog.values.model import Table

HOURS = 100
"""Partitions of one day."""
AT_ONCE = 100_000
"""Partitions of one transaction."""


def partition_name(number: int) -> str:
    """The name of the partition with this number: ``day=d00012/hour=34`` is number 1,234."""
    return f"day=d{number // HOURS:05}/hour={number % HOURS}"


def make_table(client: MetastoreClient, partitions: int, *, kind: str = "string", hour: str = "int") -> Table:
    """``db.events`` with so many partitions, nothing of which was written; the database must be there.

    :param kind: type of the column ``day``, whose values are texts.
    :param hour: type of the column ``hour``.
    """
    keys = (Column("day", kind), Column("hour", hour))
    columns = (Column("id", "bigint"), Column("v", "bigint"))
    definition = TableDefinition("db", "events", columns, keys, properties={"transactional": "true"})
    table = client.catalog.create_table(definition)
    client.catalog.add_partitions(table.qualified_name, [partition_name(0)])
    first = client.catalog.find_partitions(table.qualified_name, [partition_name(0)])[partition_name(0)]
    for start in range(1, partitions, AT_ONCE):
        stop = min(start + AT_ONCE, partitions)

        def some(connection: Connection, start: int = start, stop: int = stop) -> None:
            _copy(connection, table, first.id, start, stop)

        client.database.run(some)
    return table


def mark_written(client: MetastoreClient, table: Table, partitions: int, txn_id: int, write_id: int) -> None:
    """A completed write of one txn to each of the partitions."""
    numbers = _numbers(0, partitions)
    rows = {
        "CTC_TXNID": sa.literal(txn_id), "CTC_DATABASE": sa.literal(table.db), "CTC_TABLE": sa.literal(table.name),
        "CTC_PARTITION": _name(numbers.c.number), "CTC_WRITEID": sa.literal(write_id),
        "CTC_UPDATE_DELETE": sa.literal("N"),
    }  # fmt: skip
    client.database.run(lambda connection: _insert(connection, COMPLETED_TXN_COMPONENTS, rows, numbers))


def mark_looked_at(client: MetastoreClient) -> None:
    """Every completed write is one that the Initiator has looked at, with nothing to do."""
    ctc = COMPLETED_TXN_COMPONENTS.c
    written = sa.select(
        ctc.CTC_DATABASE, ctc.CTC_TABLE, ctc.CTC_PARTITION, sa.func.count().label("writes"),
        sa.cast(sa.func.sum(ctc.CTC_TXNID), sa.BigInteger).label("txn_sum"),
    ).group_by(ctc.CTC_DATABASE, ctc.CTC_TABLE, ctc.CTC_PARTITION).cte("written")  # fmt: skip
    w = written.c
    rows = {
        "HAD_DATABASE": w.CTC_DATABASE, "HAD_TABLE": w.CTC_TABLE, "HAD_PART_NAME": w.CTC_PARTITION,
        "HAD_NEWEST": sa.literal("Y"), "HAD_AGAIN": sa.literal("N"), "HAD_SINCE": sa.literal(1),
        "HAD_LOOKED": sa.literal(1), "HAD_LOOKS": sa.literal(1), "HAD_WRITES": w.writes, "HAD_TXN_SUM": w.txn_sum,
        "HAD_KIND": sa.literal("NOTHING"), "HAD_RULE": sa.literal("no threshold reached"),
        "HAD_REASON": sa.literal("no threshold is reached"), "HAD_NUMBERS": sa.literal("{}"),
        "HAD_BLOCKED_BY": sa.literal("[]"),
    }  # fmt: skip
    client.database.run(lambda connection: _insert(connection, HIVE_ACID_DECISION, rows, written))


def _copy(connection: Connection, table: Table, of: int, start: int, stop: int) -> None:
    """The partitions with the numbers from ``start`` to before ``stop``, like the one with the id ``of``."""
    ids = {kind: allocate_ids(connection, kind, stop - start)[0] - start for kind in _KINDS}
    numbers = _numbers(start, stop)
    n = numbers.c.number
    part, sd, serde = (n + ids[kind] for kind in _KINDS)
    model = connection.execute(sa.select(PARTITIONS).where(PARTITIONS.c.PART_ID == of)).mappings().one()
    stored = connection.execute(sa.select(SDS).where(SDS.c.SD_ID == model["SD_ID"])).mappings().one()
    read = connection.execute(sa.select(SERDES).where(SERDES.c.SERDE_ID == stored["SERDE_ID"])).mappings().one()
    params = connection.execute(sa.select(PARTITION_PARAMS).where(PARTITION_PARAMS.c.PART_ID == of)).mappings().all()
    location = sa.literal(f"{table.location}/") + _name(n)
    _insert(connection, SERDES, _same(SERDES, read) | {"SERDE_ID": serde}, numbers)
    _insert(connection, SDS, _same(SDS, stored) | {"SD_ID": sd, "SERDE_ID": serde, "LOCATION": location}, numbers)
    _insert(
        connection, PARTITIONS, _same(PARTITIONS, model) | {"PART_ID": part, "SD_ID": sd, "PART_NAME": _name(n)},
        numbers,
    )  # fmt: skip
    for index, value in enumerate((_day(n), _hour(n))):
        keys = {"PART_ID": part, "PART_KEY_VAL": value, "INTEGER_IDX": sa.literal(index)}
        _insert(connection, PARTITION_KEY_VALS, keys, numbers)
    for param in params:
        _insert(connection, PARTITION_PARAMS, _same(PARTITION_PARAMS, param) | {"PART_ID": part}, numbers)


_KINDS = (IdKind.PARTITION, IdKind.STORAGE, IdKind.SERDE)


def _numbers(start: int, stop: int) -> sa.CTE:
    """The numbers from ``start`` to before ``stop``."""
    first = sa.select(sa.literal(start, sa.Integer).label("number")).cte("numbers", recursive=True)
    return first.union_all(sa.select(first.c.number + 1).where(first.c.number + 1 < stop))


def _day(number: Any) -> Any:
    return sa.literal("d") + sa.func.substr(sa.cast(100_000 + number // HOURS, sa.String), 2)


def _hour(number: Any) -> Any:
    return sa.cast(number % HOURS, sa.String)


def _name(number: Any) -> Any:
    return sa.literal("day=") + _day(number) + "/hour=" + _hour(number)


def _same(table: sa.Table, row: Any) -> dict[str, Any]:
    return {column.name: sa.literal(row[column.name], column.type) for column in table.columns}


def _insert(connection: Connection, table: sa.Table, values: dict[str, Any], numbers: sa.CTE) -> None:
    rows = sa.select(*(value.label(name) for name, value in values.items())).select_from(numbers)
    connection.execute(sa.insert(table).from_select(list(values), rows))
