"""With hive.compute.query.using.stats=true a real Hive counts what is there, whoever wrote it and whoever compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.schema.hive_catalog import PARTITION_PARAMS, PARTITIONS, TBLS

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from tests.interop.hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

#: Kind of table: its partition columns, and the values of two places. Hive makes the first, a write of ours the second.
KINDS = {
    "two keys": ("hour int, day string", ["7", "'mon'"], ["3", "'a b/c=d:e%f'"]),
    "varchar": ("grade varchar(8)", ["'low'"], ["'high!'"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_hive_counts_by_statistics_what_is_there(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str, kind: str
) -> None:
    """Hive's Worker calls numRows exact after a minor compaction, whatever it is: it has to be right all the time."""
    columns, first, second = KINDS[kind]
    keys = [column.split(" ")[0] for column in columns.split(", ")]
    name = f"s_{kind.replace(' ', '_')}"
    table = f"{hive_database}.{name}"
    (here, place), (there, other) = ((_values(v), _clause(keys, v)) for v in (first, second))
    hive.run(
        f"create table {table} (id int, n int) partitioned by ({columns}) "
        "stored as orc tblproperties ('transactional'='true')"
    )
    hive.run(f"alter table {table} add{place}")
    hive.run("set hive.compute.query.using.stats=true", "counting")
    count = f"select {', '.join(keys)}, count(*) from {table} group by {', '.join(keys)}"
    claimed = 0
    for ours, statement in [
        (True, f"INSERT INTO {table} VALUES (1, 1{here}), (2, 2{here}), (3, 3{there})"),
        (False, f"insert into {table} values (4, 4{here})"),
        (False, f"alter table {table}{place} compact 'minor'"),
        (True, f"UPDATE {table} SET n = 5 WHERE id <> 1; DELETE FROM {table} WHERE id = 1"),
        (False, f"alter table {table}{other} compact 'minor'"),
        (False, f"alter table {table} add columns (extra int)"),
        (False, f"update {table} set n = 6 where id = 2"),
        (False, f"alter table {table}{place} compact 'minor'"),
        (True, f"ALTER TABLE {table}{place} COMPACT 'major'"),
        (True, f"INSERT INTO {table} VALUES (9, 9, 9{here})"),
        (False, f"insert into {table} values (8, 8, 8{here}), (7, 7, 7{there})"),
        (False, f"alter table {table}{place} compact 'minor'"),
    ]:
        if ours:
            engine.run(statement)
        else:
            hive.run(statement)
        if "compact" in statement.lower():
            if ours:
                engine.run_compactions("statistics")
            else:
                hive.worker()
            hive.clean(table)
        real = {tuple(str(value) for value in row[:-1]): row[-1] for row in hive.run(count)}
        for partition, number in _claims(client, name).items():
            key = tuple(unquote(part.partition("=")[2]) for part in partition.split("/"))
            assert number == str(real.get(key, 0)), (statement, partition)
            claimed += 1
        assert hive.run(f"select count(*) from {table}", "counting") == [(sum(real.values()),)], statement
    assert claimed > 2  # otherwise nothing was looked at


def _values(values: list[str]) -> str:
    return "".join(f", {value}" for value in values)


def _clause(keys: list[str], values: list[str]) -> str:
    return f" partition ({', '.join(f'{k}={v}' for k, v in zip(keys, values, strict=True))})"


def _claims(client: MetastoreClient, table: str) -> dict[str, str | None]:
    """numRows of each partition whose number of rows is called exact."""
    parameters = (
        sa.select(PARTITIONS.c.PART_NAME, PARTITION_PARAMS.c.PARAM_KEY, PARTITION_PARAMS.c.PARAM_VALUE)
        .join(PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID == PARTITIONS.c.PART_ID)
        .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
        .where(TBLS.c.TBL_NAME == table)
    )
    with client.database.transaction() as connection:
        found = {(name, key): value for name, key, value in connection.execute(parameters)}
    claim = '"BASIC_STATS":"true"'
    exact = [name for (name, key), value in found.items() if key == "COLUMN_STATS_ACCURATE" and claim in value]
    return {name: found.get((name, "numRows")) for name in exact}
