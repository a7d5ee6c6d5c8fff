"""Transaction batches of ours, read by a real Hive while they are written, after some of them failed, and compacted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine.outcomes.events import Published
from airflow_hive_acid.errors import BadRecordError, TxnAbortedError
from airflow_hive_acid.maintenance import run_cleaner
from tests.jobs import jobs_of

from .test_our_tables_in_hive import ACID, read_by_both

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.metastore import MetastoreClient

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def files_of(client: MetastoreClient, table: str) -> list[str]:
    root = Path(client.catalog.get_table(table).location.removeprefix("file:"))
    found = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith("_") and "/." not in name)


def txn_being_written(client: MetastoreClient, table: str) -> int:
    """The txn of the last job that is recorded for a table."""
    return jobs_of(client, table)[-1].txn_id


def test_hive_reads_the_committed_txns_of_a_batch_and_no_others(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed, rolled back, refused, aborted by Hive after its rows were flushed; then Hive compacts what is left.

    t1  A commits 1 and 2 into delta_X_Y, rolls 3 back
    t2  Hive reads; compacts, which must not look into the open batch
    t3  Hive aborts the txn that A is writing, whose rows are flushed already: A gives the batch up
    t4  B writes a batch of its own and finishes it
    t5  Hive compacts both
    """
    name = f"{hive_database}.t"
    engine.run(f"CREATE TABLE {name} (id INT, name STRING, price DECIMAL(10,2)) {ACID}")
    hive.run(f"insert into {name} values (0, 'from Hive', 0.5)")

    def record(number: int) -> dict[str, Any]:
        return {"id": number, "name": f"n{number}", "price": "1.25"}

    def numbers() -> list[int]:
        return sorted(row[0] for row in read_by_both(hive, engine, name))

    batch = engine.batch(name, transactions=6)
    batch.write([record(1), record(2)])
    batch.commit()
    assert numbers() == [0, 1, 2]
    batch.write([record(3)])
    batch.commit()
    batch.write([record(4)])
    batch.abort()
    with pytest.raises(BadRecordError, match="record 2, column price"):
        batch.write([record(5), {**record(6), "price": "12345678901"}])
    assert [f for f in files_of(client, name) if f.endswith("_flush_length")] == [
        "delta_0000002_0000008/bucket_00000_flush_length"
    ]

    hive.run(f"alter table {name} compact 'major'")
    hive.worker(query_based=True)
    assert numbers() == [0, 1, 2, 3]  # a base above write id 1 would have hidden those of the open batch

    aborted = []

    def aborted_by_hive(event: Event) -> None:
        if isinstance(event, Published):
            txn = txn_being_written(client, name)
            aborted.append(txn)
            hive.run(f"abort transactions {txn}")

    monkeypatch.setattr(engine._context, "emit", aborted_by_hive)
    batch.write([record(7)])
    with pytest.raises(TxnAbortedError):
        batch.commit()
    monkeypatch.undo()
    assert len(aborted) == 1
    assert numbers() == [0, 1, 2, 3]
    assert "delta_0000002_0000008/bucket_00000_flush_length" in files_of(client, name)

    with engine.batch(name, transactions=2) as other:
        other.write([record(8)])
        other.commit()
    batch.close()

    hive.run(f"alter table {name} compact 'major'")
    hive.worker(query_based=True)
    run_cleaner(client, engine._context.filesystem)
    assert numbers() == [0, 1, 2, 3, 8]


def test_partitions_and_buckets_of_a_batch_are_where_hive_looks_for_them(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str
) -> None:
    name = f"{hive_database}.p"
    hive.run(
        f"create table {name} (id int, at timestamp, tags array<string>) partitioned by (day string, h int) "
        f"clustered by (id) into 2 buckets stored as orc tblproperties ('transactional'='true')"
    )
    with engine.batch(name, partition={"day": "2026-11-22"}, transactions=3) as batch:
        for hour in (1, 2):
            batch.write(
                {"id": i, "at": f"2026-11-22 0{hour}:00:00.5", "tags": ["a", None], "h": hour + i % 2} for i in range(4)
            )
            batch.commit()
        assert len(read_by_both(hive, engine, name)) == 8
    hive.run(f"update {name} set tags = array('x') where h = 2 and id < 2")
    hive.run(f"delete from {name} where h = 1")
    rows = read_by_both(hive, engine, name)
    assert [(row[0], row[4]) for row in rows if row[2] == '["x"]'] == [(0, 2), (1, 2)]
    assert len(rows) == 6
