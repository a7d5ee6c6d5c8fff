"""Transaction batches: what readers see at any moment, what is refused, and what goes on beside an open one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine.applications.spool import error_of
from airflow_hive_acid.errors import (
    BadRecordError,
    ClaimLostError,
    InvalidArgumentsError,
    UnsupportedStatementError,
)
from airflow_hive_acid.format.jobs import Append, JobError, JobResult
from airflow_hive_acid.maintenance import run_reaper
from airflow_hive_acid.maintenance.doctor.doctor import examine_tables
from airflow_hive_acid.metastore.protocol.hive_batches import runs
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS
from airflow_hive_acid.settings import Source
from tests.integration.maintenance.batch_model import ModelSpark, read
from tests.integration.maintenance.cycles.steps import rows

from .world import compact, names, records, silent, states

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobSpec
    from airflow_hive_acid.metastore import MetastoreClient


@pytest.mark.rule("R4")
def test_readers_see_the_committed_txns_of_an_open_batch(client: MetastoreClient, engine: Engine) -> None:
    batch = engine.batch("w.t", transactions=4)
    batch.write(records(1, 2))
    assert read(client, "w.t") == []
    first = batch.commit()
    assert first is not None
    assert (first.rows, first.directories[0].rpartition("/")[2]) == (2, "delta_0000001_0000005")
    with client.snapshot(["w.t"]) as earlier:
        batch.write(records(3))
        batch.commit()
        assert read(client, "w.t", earlier) == [1, 2]
    batch.write(records(4))
    batch.abort()
    assert read(client, "w.t") == [1, 2, 3]
    assert "delta_0000001_0000005/bucket_00000_flush_length" in names(client, "w.t")
    batch.close()
    assert read(client, "w.t") == [1, 2, 3]
    assert names(client, "w.t") == ["delta_0000001_0000005/_orc_acid_version", "delta_0000001_0000005/bucket_00000"]
    assert "o" not in states(client)
    assert client.show_locks() == []


def test_used_up_batches_are_followed_by_others(client: MetastoreClient, engine: Engine) -> None:
    with engine.batch("w.t", transactions=2) as batch:
        for i in range(5):
            batch.write(records(i))
            batch.commit()
        batch.write(records(5))
    assert read(client, "w.t") == [0, 1, 2, 3, 4, 5]
    found = {name.partition("/")[0] for name in names(client, "w.t")}
    assert found == {"delta_0000001_0000003", "delta_0000004_0000006", "delta_0000007_0000009"}


def test_columns_that_a_table_gets_before_its_next_batch_are_those_of_the_records_from_then_on(
    client: MetastoreClient, engine: Engine, spark: ModelSpark
) -> None:
    """Between two batches nothing keeps the table as it is.

    t1  a record is written
    t2  ALTER TABLE … ADD COLUMNS
    t3  the record is committed: it was made for other columns, and is refused
    t4  records of the new columns go on
    """
    batch = engine.batch("w.t", transactions=2)
    batch.write(records(1))
    engine.run("ALTER TABLE w.t ADD COLUMNS (more INT)")
    with pytest.raises(BadRecordError, match=r"w\.t was altered .* has the columns id, more, and they have id; write"):
        batch.commit()
    with pytest.raises(BadRecordError, match="column more: the field is missing"):
        batch.write(records(1))
    batch.write([{"id": 1, "more": 2}])
    batch.commit()
    assert read(client, "w.t") == [1]
    batch.close()
    assert "o" not in states(client)


def test_an_exception_inside_of_the_block_drops_what_was_not_committed(client: MetastoreClient, engine: Engine) -> None:
    def fail() -> None:
        with engine.batch("w.t", transactions=3) as batch:
            batch.write(records(1))
            batch.commit()
            batch.write(records(2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert read(client, "w.t") == [1]
    assert "o" not in states(client)


def test_partitions_of_a_batch_are_named_by_its_commits(client: MetastoreClient, engine: Engine) -> None:
    """R12"""
    with (
        engine.batch("w.p", partition={"k": "a"}, transactions=2) as one,
        engine.batch("w.p", partition={"K": "b"}, transactions=2) as other,
    ):
        for i in range(2):
            one.write(records(i))
            other.write(records(10 + i))
            one.commit()
            other.commit()
    assert read(client, "w.p") == [0, 1, 10, 11]
    assert [p.name for p in client.catalog.list_partitions("w.p")] == ["k=a", "k=b"]
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({}, "record 3, column id: the field is missing"),
        ({"id": []}, "record 3, column id: [] is no int: give an int"),
        ({"id": 2**31}, "record 3, column id: 2147483648 is no int: it does not fit into 32 bits"),
        ({"id": 1, "ID2": 1}, "record 3, field id2: w.t has no such column to fill; it has id"),
        (7, "record 3 for w.t must be a dict of values, not 7"),
    ],
)
def test_a_poison_record_is_named_and_aborts_its_txn(
    client: MetastoreClient, engine: Engine, bad: Any, says: str
) -> None:
    with engine.batch("w.t", transactions=4) as batch:
        batch.write(records(1))
        batch.commit()
        batch.write(records(2, 3))
        with pytest.raises(BadRecordError) as failure:
            batch.write([bad])
        assert str(failure.value).startswith(says)
        batch.write(records(4))
    assert read(client, "w.t") == [1, 4]
    assert len({name.partition("/")[0] for name in names(client, "w.t")}) == 1


def test_a_record_that_only_spark_refuses_aborts_its_txn_alone(
    client: MetastoreClient, engine: Engine, spark: ModelSpark
) -> None:
    batch = engine.batch("w.t", transactions=4)
    batch.write(records(1))
    batch.commit()
    run = spark.run

    def refuse(spec: JobSpec) -> JobResult:
        if isinstance(spec.step, Append):
            raise error_of(JobError("BadRecordError", "row 1, column id: no int"))
        return run(spec)

    spark.run = refuse  # type: ignore[method-assign]
    batch.write(records(2))
    with pytest.raises(BadRecordError, match="row 1, column id"):
        batch.commit()
    spark.run = run  # type: ignore[method-assign]
    batch.write(records(3))
    assert batch.commit() is not None
    batch.close()
    assert read(client, "w.t") == [1, 3]
    assert len({name.partition("/")[0] for name in names(client, "w.t") if name.startswith("delta")}) == 1


@pytest.mark.setting("hive.acid.rows.max.bytes")
def test_too_many_bytes_are_refused_with_the_setting(client: MetastoreClient, engine: Engine) -> None:
    few = {"hive.acid.rows.max.bytes": "40"}
    engine._context.settings = engine._context.settings.with_overrides(Source.REQUEST, few)
    with engine.batch("w.t", transactions=2) as batch:
        with pytest.raises(InvalidArgumentsError, match=r"more than 40 bytes \(hive.acid.rows.max.bytes\)"):
            batch.write(records(*range(10)))
        assert batch.pending == 0
    assert read(client, "w.t") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"table": "w.t", "transactions": 1000}, "1 to 999 can be opened at once"),
        ({"table": "w.t", "transactions": 0}, "1 to 999 can be opened at once"),
        ({"table": "w.t", "partition": {"k": "a"}}, "w.t has no partitions"),
        ({"table": "w.p", "partition": {"j": "a"}}, "w.p is partitioned by k"),
        ({"table": "w.t", "stream": ""}, None),
        ({"table": "w.plain"}, "no full ACID table"),
    ],
)
def test_what_cannot_be_a_batch_is_refused_with_the_remedy(
    engine: Engine, arguments: dict[str, Any], says: str | None
) -> None:
    engine.run("CREATE TABLE w.plain (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    if says is None:
        with engine.batch(**arguments) as batch, pytest.raises(InvalidArgumentsError, match="this batch has no stream"):
            _ = batch.position
        return

    def write() -> None:
        batch = engine.batch(**arguments)
        batch.write(records(1))
        batch.commit()

    with pytest.raises((InvalidArgumentsError, UnsupportedStatementError), match=says):
        write()


def test_positions_move_with_the_commit_and_with_nothing_else(client: MetastoreClient, engine: Engine) -> None:
    with engine.batch("w.t", transactions=3, stream="orders") as batch:
        assert batch.position is None
        batch.write(records(1))
        batch.commit({"orders-0": 17})
        batch.write(records(2))
        with pytest.raises(ZeroDivisionError):
            batch.commit({"orders-0": 18}, check=lambda _conn: 1 / 0)  # type: ignore[arg-type, return-value]
        assert batch.position == {"orders-0": 17}
        batch.write(records(3))
        batch.commit()
    with engine.batch("w.t", stream="orders") as again:
        assert again.position == {"orders-0": 17}
    assert read(client, "w.t") == [1, 3]
    keys = {row["PARAM_KEY"]: row["PARAM_VALUE"] for row in rows(client, TABLE_PARAMS)}
    assert keys["_meta.position.orders"] == '{"orders-0": 17}'


def test_a_replaced_table_knows_where_its_streams_stand(client: MetastoreClient, engine: Engine) -> None:
    """It is the same table, as after INSERT OVERWRITE: its query may have had the rows of before.

    t1  a writer of stream orders commits up to 5
    t2  the table is replaced, by the text that SHOW CREATE TABLE has printed before
    t3  the writer, and one that begins now, go on behind 5
    """
    writer = engine.batch("w.t", transactions=1, stream="orders")
    writer.write(records(1))
    writer.commit(5)
    writer._open.close()  # type: ignore[union-attr] - as the next commit does
    engine.run(
        "CREATE OR REPLACE TABLE w.t (id INT) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true', '_meta.position.orders'='3', 'owner'='books')"
    )
    with engine.batch("w.t", stream="orders") as again:
        assert again.position == 5
    writer.write(records(6))
    writer.commit(6)
    writer.close()
    assert read(client, "w.t") == [6]
    properties = client.catalog.get_table("w.t").properties
    assert (properties["_meta.position.orders"], properties["owner"]) == ("6", "books")


def test_a_position_does_not_move_in_one_table_for_rows_in_another(client: MetastoreClient, engine: Engine) -> None:
    """
    t1  a writer of stream orders commits to w.t, until its batch is used up
    t2  w.t is called w.before now, and w.u is called w.t
    t3  the writer's next commit would be into the other table
    """
    engine.run("CREATE TABLE w.u (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    writer = engine.batch("w.t", transactions=1, stream="orders")
    writer.write(records(1))
    writer.commit(1)
    writer.write(records(2))
    writer._open.close()  # type: ignore[union-attr] - what the next commit does first, and then begins another
    for before, after in (("w.t", "w.before"), ("w.u", "w.t")):
        client.catalog.rename_table(before, after)
    open_before = states(client)
    with pytest.raises(InvalidArgumentsError, match=r"w\.t is not the table any more in which the stream"):
        writer.commit(2)
    writer.close()
    assert states(client).get("o", 0) == open_before.get("o", 0)
    assert (read(client, "w.t"), read(client, "w.before")) == ([], [1])
    with engine.batch("w.before", stream="orders") as again:
        assert again.position == 1


@pytest.mark.rule("R14")
def test_of_two_writers_of_a_stream_the_slower_one_commits_nothing(client: MetastoreClient, engine: Engine) -> None:
    one, other = (engine.batch("w.t", transactions=2, stream="orders") for _ in range(2))
    one.write(records(1))
    one.commit(1)
    other.write(records(1))
    with pytest.raises(ClaimLostError, match="another writer of stream 'orders' has gone on to 1"):
        other.commit(1)
    one.write(records(2))
    one.commit(2)
    one.close()
    other.close()
    assert read(client, "w.t") == [1, 2]


def test_compaction_stops_below_an_open_batch(client: MetastoreClient, engine: Engine, fs: Filesystem) -> None:
    """K: the anchor's write id is the smallest open one. A base of write id 3 would hide the rows of 2 and 3."""
    with client.transaction({"w.t": "insert"}):
        pass  # write id 1, of which there are no files
    batch = engine.batch("w.t", transactions=4)
    for i in range(2):
        batch.write(records(i))
        batch.commit()
    compact(client, fs, "w.t")
    assert read(client, "w.t") == [0, 1]
    batch.write(records(2))
    batch.commit()
    batch.close()
    compact(client, fs, "w.t")
    assert read(client, "w.t") == [0, 1, 2]
    assert {name.partition("_v")[0] for name in names(client, "w.t")} == {"base_0000006"}


def test_the_doctor_finds_nothing_in_a_table_that_is_being_written(
    client: MetastoreClient, engine: Engine, fs: Filesystem
) -> None:
    batch = engine.batch("w.t", transactions=3)
    batch.write(records(1))
    batch.commit()
    assert list(examine_tables(client, fs)) == []
    batch.close()
    assert list(examine_tables(client, fs)) == []


def test_heartbeats_keep_all_txns_of_a_batch_alive(client: MetastoreClient, engine: Engine, fs: Filesystem) -> None:
    batch = engine.batch("w.t", transactions=3)
    batch.write(records(1))
    batch.commit()
    silent(client)
    opened = batch._open
    assert opened is not None
    opened._heartbeat.beat()
    run_reaper(client, fs)
    assert states(client)["o"] == 3
    batch.write(records(2))
    batch.commit()
    batch.close()
    assert read(client, "w.t") == [1, 2]


def test_ranges_leave_out_the_txns_of_others() -> None:
    assert runs([]) == []
    assert runs([3, 4, 5, 8, 10, 11]) == [(3, 5), (8, 8), (10, 11)]
