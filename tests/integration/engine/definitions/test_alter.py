"""ALTER TABLE, ABORT and LOAD through the engine: what they change, and what they refuse."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    NoSuchObjectError,
    SqlSyntaxError,
    UnsupportedStatementError,
)
from airflow_hive_acid.metastore.schema.hive_catalog import COLUMNS_V2, PARTITIONS, SDS
from airflow_hive_acid.metastore.txns.jobs import JobState
from airflow_hive_acid.settings import Settings, Source


def names(client, table="w.p"):
    return [p.name for p in client.catalog.list_partitions(table)]


def path_of(location):
    return Path(location.removeprefix("file:"))


@pytest.fixture
def plain(engine):
    """A plain partitioned table w.e."""
    engine.run(
        "CREATE TABLE w.e (a INT) PARTITIONED BY (k STRING) STORED AS TEXTFILE TBLPROPERTIES ('transactional'='false')"
    )
    return "w.e"


def test_rename_moves_the_table(engine, client):
    engine.run("INSERT INTO w.t VALUES (1, 'a')")
    engine.run("ALTER TABLE w.t RENAME TO w.u")
    assert client.catalog.list_tables("w") == ["p", "u"]
    assert path_of(client.catalog.get_table("w.u").location).name == "u"


def test_columns_are_added_replaced_and_changed(engine, client):
    engine.run("ALTER TABLE w.t ADD COLUMNS (c INT COMMENT 'third')")
    engine.run("ALTER TABLE w.t CHANGE COLUMN a id BIGINT COMMENT 'key'")
    table = client.catalog.get_table("w.t")
    assert [(c.name, c.type) for c in table.columns] == [("id", "bigint"), ("b", "string"), ("c", "int")]
    assert table.comments == {"id": "key", "c": "third"}
    engine.run("ALTER TABLE w.t REPLACE COLUMNS (id BIGINT, b STRING, c BIGINT, d DATE) CASCADE")
    assert [c.name for c in client.catalog.get_table("w.t").columns] == ["id", "b", "c", "d"]


def test_a_partition_catches_up_with_the_columns_of_its_table(engine, client):
    """RESTRICT, Hive's default, leaves partitions with the columns that they have; ADD COLUMNS adds to these."""
    engine.run(
        "ALTER TABLE w.p ADD PARTITION (k='x'); ALTER TABLE w.p CHANGE COLUMN a a INT COMMENT 'key' CASCADE;"
        "ALTER TABLE w.p ADD COLUMNS (b INT COMMENT 'new') RESTRICT; ALTER TABLE w.p ADD PARTITION (k='y')"
    )

    def columns(partition):
        found = client.catalog.get_whole_partition("w.p", partition)
        return [(c.name, c.type, c.comment) for c in found.storage.columns]

    both = [("a", "int", "key"), ("b", "int", "new")]
    assert (columns("k=x"), columns("k=y")) == (both[:1], both)
    engine.run("ALTER TABLE w.p PARTITION (k='x') ADD COLUMNS (b INT COMMENT 'new')")
    assert columns("k=x") == both
    engine.run("ALTER TABLE w.p PARTITION (k='x') ADD COLUMNS (c INT)")
    assert columns("k=x") == [*both, ("c", "int", None)]


def test_a_column_of_a_type_that_only_a_hive_makes_is_in_the_way_of_no_other(engine, client):
    kind = "timestamp with local time zone"
    made = sa.update(COLUMNS_V2).where(COLUMNS_V2.c.COLUMN_NAME == "b").values(TYPE_NAME=kind)
    client.database.run(lambda connection: connection.execute(made))
    engine.run(
        "ALTER TABLE w.t ADD COLUMNS (c INT); ALTER TABLE w.t CHANGE COLUMN a id BIGINT;"
        "ALTER TABLE w.t RENAME COLUMN b TO at"
    )
    assert [(c.name, c.type) for c in client.catalog.get_table("w.t").columns] == [
        ("id", "bigint"), ("at", kind), ("c", "int"),
    ]  # fmt: skip
    with pytest.raises(SqlSyntaxError, match="is not supported: Hive itself cannot read back"):
        engine.run("ALTER TABLE w.p ADD COLUMNS (c TIMESTAMP WITH LOCAL TIME ZONE)")


def test_properties_are_set_and_unset(engine, client):
    engine.run("ALTER TABLE w.t SET TBLPROPERTIES ('a'='1', 'b'='2')")
    engine.run("ALTER TABLE w.t UNSET TBLPROPERTIES ('a')")
    properties = client.catalog.get_table("w.t").properties
    assert (properties.get("a"), properties["b"]) == (None, "2")
    with pytest.raises(InvalidArgumentsError, match="IF EXISTS"):
        engine.run("ALTER TABLE w.t UNSET TBLPROPERTIES ('a')")
    engine.run("ALTER TABLE w.t UNSET TBLPROPERTIES IF EXISTS ('a')")


def test_partitions_are_added_renamed_and_dropped(engine, client):
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a') PARTITION (k='b'), PARTITION (k='c')")
    assert names(client) == ["k=a", "k=b", "k=c"]
    assert all(path_of(p.location).is_dir() for p in client.catalog.list_partitions("w.p"))
    with pytest.raises(AlreadyExistsError, match="k=a already"):
        engine.run("ALTER TABLE w.p ADD PARTITION (k='a') PARTITION (k='d')")
    engine.run("ALTER TABLE w.p ADD IF NOT EXISTS PARTITION (k='a') PARTITION (k='d')")
    engine.run("ALTER TABLE w.p PARTITION (k='d') RENAME TO PARTITION (k='e')")
    engine.run("ALTER TABLE w.p DROP PARTITION (k='a'), PARTITION (k>='c')")
    assert names(client) == ["k=b"]


def test_an_added_partition_has_a_write_id(engine, client):
    before = client.max_allocated_write_id("w.p")
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a')")
    assert client.max_allocated_write_id("w.p") == before + 1


def test_dropping_what_is_not_there(engine, client):
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a')")
    with pytest.raises(NoSuchObjectError, match=r"no partition \(k='z'\); nothing was dropped"):
        engine.run("ALTER TABLE w.p DROP PARTITION (k='a'), PARTITION (k='z')")
    assert names(client) == ["k=a"]
    engine.run("ALTER TABLE w.p DROP IF EXISTS PARTITION (k='z'), PARTITION (k='a')")
    assert names(client) == []


def test_a_comparison_that_cannot_be_decided_drops_nothing(engine, client):
    engine.run(
        "CREATE TABLE w.n (a INT) PARTITIONED BY (k INT) STORED AS ORC;"
        "ALTER TABLE w.n ADD PARTITION (k=1) PARTITION (k=20) PARTITION (k=3)"
    )
    with pytest.raises(InvalidArgumentsError, match="'two' is no value of that type"):
        engine.run("ALTER TABLE w.n DROP PARTITION (k < 'two')")
    with pytest.raises(InvalidArgumentsError, match="no partition column j"):
        engine.run("ALTER TABLE w.n DROP PARTITION (j < 2)")
    engine.run("ALTER TABLE w.n DROP PARTITION (k > 2)")
    assert names(client, "w.n") == ["k=1"]


@pytest.mark.parametrize(
    ("kind", "value", "other", "written"),
    [("INT", "1", "2", "01"), ("DATE", "2024-01-02", "2024-01-03", "2024-1-2"), ("DOUBLE", "1.0", "2.0", "1"),
     ("DECIMAL(5,2)", "1.5", "2.5", "1.50"), ("BOOLEAN", "true", "false", "TRUE"), ("STRING", "a", "b", "a")],
)  # fmt: skip
def test_a_drop_may_give_some_of_the_values_however_they_are_written(engine, client, kind, value, other, written):
    engine.run(
        f"CREATE TABLE w.n (a INT) PARTITIONED BY (k {kind}, m INT) STORED AS ORC;"
        f"ALTER TABLE w.n ADD PARTITION (k = '{value}', m = 1) PARTITION (k = '{other}', m = 1);"
        f"ALTER TABLE w.n DROP PARTITION (k = '{written}')"
    )
    assert names(client, "w.n") == [f"k={other}/m=1"]
    with pytest.raises(NoSuchObjectError, match="nothing was dropped"):
        engine.run(f"ALTER TABLE w.n DROP PARTITION (k = '{written}', m > 0)")
    engine.run(f"ALTER TABLE w.n DROP PARTITION (k = '{other}', m > 0)")
    assert names(client, "w.n") == []


@pytest.mark.parametrize(
    ("kind", "values", "clause", "left"),
    [("DECIMAL(5,2)", ["1.5", "2", "10.25"], "k < '10'", ["10.25"]),
     ("DECIMAL(5,2)", ["1.5", "2", "10.25"], "k > 1.505", ["1.5"]),
     ("DOUBLE", ["1.5", "10.0", "1.0E7"], "k >= 10", ["1.5"]),
     ("TIMESTAMP", ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5"], "k > '2024-1-1'", ["2024-01-01 00:00:00"]),
     ("DATE", ["2024-01-02", "2024-01-10"], "k < '2024-1-10'", ["2024-01-10"]),
     ("BOOLEAN", ["true", "false"], "k <> TRUE", ["true"]), ("CHAR(3)", ["a  ", "ab "], "k > 'a'", ["a  "]),
     ("STRING", ["a", "b", "c"], "k > 'a', k <> 'c'", ["a", "c"])],
)  # fmt: skip
def test_a_drop_by_order_compares_values_as_their_type(engine, client, kind, values, clause, left):
    null = "__HIVE_DEFAULT_PARTITION__"
    added = " ".join(f"PARTITION (k = '{value}')" for value in [*values, null])
    engine.run(
        f"CREATE TABLE w.n (a INT) PARTITIONED BY (k {kind}) STORED AS ORC; ALTER TABLE w.n ADD {added};"
        f"ALTER TABLE w.n DROP PARTITION ({clause})"
    )
    assert sorted(names(client, "w.n")) == sorted(f"k={value.replace(':', '%3A')}" for value in [*left, null])


def test_the_partition_of_null_is_dropped_by_its_name_and_by_no_order(engine, client):
    null = "__HIVE_DEFAULT_PARTITION__"
    engine.run(
        "CREATE TABLE w.n (a INT) PARTITIONED BY (k STRING, m INT) STORED AS ORC;"
        f"ALTER TABLE w.n ADD PARTITION (k='a', m=1) PARTITION (k='{null}', m=1) PARTITION (k='b', m='{null}')"
    )
    with pytest.raises(InvalidArgumentsError, match="stands for NULL; it is compared by = and <>"):
        engine.run(f"ALTER TABLE w.n DROP PARTITION (k > '{null}')")
    engine.run(f"ALTER TABLE w.n DROP PARTITION (k = '{null}')")
    assert names(client, "w.n") == ["k=a/m=1", f"k=b/m={null}"]
    engine.run(f"ALTER TABLE w.n DROP PARTITION (m <> '{null}')")
    assert names(client, "w.n") == [f"k=b/m={null}"]


def called(client, name, other):
    """Give a partition a name that a Hive's MSCK REPAIR takes from its directory, and nobody would write."""
    with client.database.transaction() as connection:
        connection.execute(sa.update(PARTITIONS).where(PARTITIONS.c.PART_NAME == name).values(PART_NAME=other))


@pytest.mark.parametrize("stored", ["STORED AS ORC", "STORED AS ORC TBLPROPERTIES ('transactional'='false')"])
def test_a_partition_that_a_hive_called_otherwise_is_dropped_and_renamed(engine, client, stored):
    """``h=01`` of an INT: it was refused, with the advice to write 1, which is no partition."""
    engine.run(
        f"CREATE TABLE w.h (a INT) PARTITIONED BY (h INT) {stored};"
        "ALTER TABLE w.h ADD PARTITION (h=1) PARTITION (h=2) PARTITION (h=3)"
    )
    for number in (1, 2, 3):
        called(client, f"h={number}", f"h=0{number}")
    assert client.catalog.get_partition("w.h", "h=02").name == "h=02"
    engine.run("ALTER TABLE w.h DROP PARTITION (h=1); ALTER TABLE w.h DROP PARTITION (h > 2)")
    assert names(client, "w.h") == ["h=02"]
    engine.run("ALTER TABLE w.h PARTITION (h='02') RENAME TO PARTITION (h=2)")
    assert names(client, "w.h") == ["h=2"]


def test_a_value_means_the_partition_that_a_hive_called_otherwise(engine, client, fake):
    """An INSERT OVERWRITE of ``h=1`` left the rows of ``h=01``, which has the same value, beside the new ones."""
    engine.run(
        "CREATE TABLE w.h (a INT) PARTITIONED BY (h INT) STORED AS ORC; ALTER TABLE w.h ADD PARTITION (h=1);"
        "ALTER TABLE w.h ADD PARTITION (h=2)"
    )
    called(client, "h=1", "h=01")
    fake.partitions = [("1",)]
    for target in ("PARTITION (h=1) SELECT 9", "PARTITION (h) SELECT 9, 1"):
        with pytest.raises(InvalidArgumentsError, match=r"'h=01' of the same value as 'h=1'.*RENAME"):
            engine.run(f"INSERT OVERWRITE TABLE w.h {target}")
    assert names(client, "w.h") == ["h=01", "h=2"]
    engine.run("ALTER TABLE w.h TOUCH PARTITION (h=1); ALTER TABLE w.h PARTITION (h=1) COMPACT 'major'")
    assert [one.resource.partition for one in client.compactions.show(database="w", table="h")] == ["h=01"]
    [explained] = engine.run("EXPLAIN LOCKS TRUNCATE TABLE w.h PARTITION (h=1)")
    assert not any("h=1" in str(row) for row in explained.rows.rows)
    for altered in ("RENAME TO PARTITION (h=1)", "SET LOCATION 'file:/x'"):
        [explained] = engine.run(f"EXPLAIN LOCKS ALTER TABLE w.h PARTITION (h=1) {altered}")
        assert "w.h.h=01 -> EXCLUSIVE" in str(explained.rows.rows)
    [explained] = engine.run("EXPLAIN LOCKS ALTER TABLE w.h DROP PARTITION (h=1), PARTITION (h='02')")
    assert [found in str(explained.rows.rows) for found in ("h=01", "h=2", "h=02", "h=1 ")] == [
        True,
        True,
        False,
        False,
    ]
    [emptied] = engine.run("TRUNCATE TABLE w.h PARTITION (h=1)")
    place = client.catalog.get_partition("w.h", "h=01").location
    assert [path_of(uri).parent for uri in emptied.directories] == [path_of(place)]
    with pytest.raises(AlreadyExistsError, match="h=01 already"):
        engine.run("ALTER TABLE w.h ADD PARTITION (h=1)")
    engine.run("ALTER TABLE w.h PARTITION (h=1) RENAME TO PARTITION (h=1)")
    fake.partitions = [("1",), ("2",)]
    engine.run("INSERT OVERWRITE TABLE w.h PARTITION (h) SELECT 9, 1")
    assert names(client, "w.h") == ["h=1", "h=2"]


def test_a_partition_that_has_no_value_of_its_type_is_not_dropped_by_order(engine, client):
    engine.run(
        "CREATE TABLE w.n (a INT) PARTITIONED BY (k INT) STORED AS ORC;"
        "ALTER TABLE w.n ADD PARTITION (k=1) PARTITION (k=20)"
    )
    called(client, "k=20", "k=new")
    with pytest.raises(InvalidArgumentsError, match=r"k=new of w\.n is meant cannot be told"):
        engine.run("ALTER TABLE w.n DROP PARTITION (k < 30)")
    assert names(client, "w.n") == ["k=1", "k=new"]


def test_a_drop_of_what_is_no_value_of_its_column_is_refused(engine):
    engine.run("CREATE TABLE w.n (a INT) PARTITIONED BY (k INT, m INT) STORED AS ORC")
    with pytest.raises(InvalidArgumentsError, match=r"k of w\.n is int; 'two' is no value of that type"):
        engine.run("ALTER TABLE w.n DROP IF EXISTS PARTITION (k = 'two')")


def test_partitions_of_a_plain_table_go_with_their_files_if_those_are_its_own(engine, client, plain):
    engine.run(f"ALTER TABLE {plain} ADD PARTITION (k='a') PARTITION (k='b')")
    places = {p.name: path_of(p.location) for p in client.catalog.list_partitions(plain)}
    engine.run(f"ALTER TABLE {plain} SET TBLPROPERTIES ('external.table.purge'='false')")
    engine.run(f"ALTER TABLE {plain} DROP PARTITION (k='a')")
    engine.run(f"ALTER TABLE {plain} DROP PARTITION (k='b') PURGE")
    assert names(client, plain) == []
    assert (places["k=a"].is_dir(), places["k=b"].exists()) == (True, False)


def test_a_partition_has_properties_and_a_place(engine, client, tmp_path):
    engine.run(
        "ALTER TABLE w.p ADD PARTITION (k='a');"
        "ALTER TABLE w.p PARTITION (k='a') SET TBLPROPERTIES ('x'='1');"
        "ALTER TABLE w.p PARTITION (k='a') SET SERDEPROPERTIES ('field.delim'=';');"
        f"ALTER TABLE w.p PARTITION (k='a') SET LOCATION 'file:{tmp_path}/elsewhere'"
    )
    assert client.catalog.partition_properties("w.p", "k=a")["x"] == "1"
    assert client.catalog.get_partition("w.p", "k=a").location == f"file:{tmp_path}/elsewhere"


@pytest.mark.parametrize("table", ["w.p", "plain"])
def test_a_partition_that_gets_another_directory_can_be_read_there(engine, client, plain, tmp_path, table):
    """A directory that is not there is a disk that is away: every query of the table would be refused."""
    table = plain if table == "plain" else table
    engine.run(
        f"ALTER TABLE {table} ADD PARTITION (k='a');"
        f"ALTER TABLE {table} PARTITION (k='a') SET LOCATION 'file:{tmp_path}/x/elsewhere/'"
    )
    assert (tmp_path / "x" / "elsewhere").is_dir()
    assert client.show_locks() == []


def test_a_directory_that_no_partition_gets_is_not_made(engine, client, plain, tmp_path):
    engine.run(f"ALTER TABLE {plain} ADD PARTITION (k='a') LOCATION '{tmp_path}/a' PARTITION (k='b')")
    with pytest.raises(InvalidArgumentsError):
        engine.run(f"ALTER TABLE {plain} PARTITION (k='b') SET LOCATION 'file:{tmp_path}/a/inside'")
    assert not (tmp_path / "a" / "inside").exists()


def test_partitions_are_added_where_their_files_lie(engine, client, plain, tmp_path):
    """Nothing is said about rows that nobody has counted: Hive would answer count(*) from it."""
    engine.run(
        f"ALTER TABLE {plain} ADD PARTITION (k='a') LOCATION '{tmp_path}/a' PARTITION (k='b'), "
        f"PARTITION (k='c') LOCATION 'file:{tmp_path}/c/'"
    )
    places = {p.name: p.location for p in client.catalog.list_partitions(plain)}
    home = client.catalog.get_table(plain).location
    assert places == {"k=a": f"file:{tmp_path}/a", "k=b": f"{home}/k=b", "k=c": f"file:{tmp_path}/c"}
    assert (tmp_path / "c").is_dir()
    assert "numRows" not in client.catalog.partition_properties(plain, "k=a")


def test_an_added_partition_keeps_its_directory_to_itself(engine, client, plain, tmp_path):
    """Decision 10, for two partitions of one statement as well."""
    home = client.catalog.get_table(plain).location
    for places, what in (
        ((f"{tmp_path}/x", f"{tmp_path}/x/y"), "would share files with partition k="),
        ((f"{home}/k=z", f"{tmp_path}/x"), "that is the place of k=z"),
        ((home, f"{tmp_path}/x"), "the table's directory"),
        ((client.catalog.get_table("w.t").location, f"{tmp_path}/x"), "would share files with table w.t"),
    ):
        with pytest.raises(InvalidArgumentsError, match=what):
            engine.run(
                f"ALTER TABLE {plain} ADD PARTITION (k='a') LOCATION '{places[0]}' "
                f"PARTITION (k='b') LOCATION '{places[1]}'"
            )
        assert names(client, plain) == []


def test_files_of_somebody_else_do_not_become_a_partition_of_an_acid_table(engine, client, tmp_path):
    (tmp_path / "old").mkdir()
    engine.run(f"ALTER TABLE w.p ADD PARTITION (k='a') LOCATION '{tmp_path}/old'")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "000000_0").write_text("rows")
    with pytest.raises(InvalidArgumentsError, match=r"full is not empty: .* 000000_0, and partition k=b"):
        engine.run(f"ALTER TABLE w.p ADD PARTITION (k='b') LOCATION '{tmp_path}/full'")
    assert names(client) == ["k=a"]


def test_partitions_of_a_plain_table_are_dropped_together_or_not_at_all(engine, client, plain, monkeypatch):
    """The transaction breaks when both were forgotten."""
    engine.run(f"ALTER TABLE {plain} ADD PARTITION (k='a') PARTITION (k='b')")
    forgotten = []

    def forget(connection, table, partitions):
        forgotten.extend(partitions)
        raise NoSuchObjectError("broken")

    monkeypatch.setattr("airflow_hive_acid.metastore.statements.partitions.forget_partitions", forget)
    with pytest.raises(NoSuchObjectError, match="broken"):
        engine.run(f"ALTER TABLE {plain} DROP PARTITION (k >= 'a')")
    assert (forgotten, names(client, plain)) == (["k=a", "k=b"], ["k=a", "k=b"])


def test_touch_changes_nothing_but_the_time_and_the_write_id(engine, client):
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a')")
    before, parted = client.catalog.get_table("w.t"), client.catalog.get_table("w.p")
    engine.run("ALTER TABLE w.t TOUCH; ALTER TABLE w.p TOUCH PARTITION (k='a')")
    after = client.catalog.get_table("w.t")
    assert after.properties["last_modified_by"] == client.user
    assert (after.columns, after.location, after.write_id) == (before.columns, before.location, before.write_id + 1)
    assert client.catalog.get_table("w.p").write_id == parted.write_id + 1
    assert client.catalog.get_partition("w.p", "k=a").write_id == parted.write_id + 1
    assert client.show_locks() == []
    assert client.catalog.partition_properties("w.p", "k=a")["last_modified_by"] == client.user
    with pytest.raises(NoSuchObjectError):
        engine.run("ALTER TABLE w.p TOUCH PARTITION (k='z')")
    assert client.get_valid_write_ids("w.p")["w.p"].high_watermark == parted.write_id + 1


def test_the_format_of_a_plain_table_without_partitions_may_change(engine, client, plain):
    engine.run(f"ALTER TABLE {plain} SET SERDEPROPERTIES ('field.delim'='|')")
    assert client.catalog.get_table(plain).serde_properties["field.delim"] == "|"
    engine.run(f"ALTER TABLE {plain} SET FILEFORMAT PARQUET")
    assert client.catalog.get_table(plain).format == "parquet"
    engine.run(f"ALTER TABLE {plain} SET SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'")
    engine.run(f"ALTER TABLE {plain} ADD PARTITION (k='a')")
    with pytest.raises(InvalidArgumentsError, match="has partitions, which keep their files of format parquet"):
        engine.run(f"ALTER TABLE {plain} SET FILEFORMAT ORC")
    with pytest.raises(InvalidArgumentsError, match=r"'com\.x\.Y' does not read its files; .* read by .*Par"):
        engine.run(f"ALTER TABLE {plain} SET SERDE 'com.x.Y'")


def test_a_format_is_not_changed_beside_a_partition_that_was_added_while_it_waited(engine, client, plain, monkeypatch):
    """
    t1  SET FILEFORMAT: the table has no partitions; it asks for its lock
    t2            ADD PARTITION
    t3  the lock is granted
    """
    lock = client.lock

    def locking(*given, **named):
        client.catalog.add_partitions(plain, ["k=a"])
        return lock(*given, **named)

    monkeypatch.setattr(client, "lock", locking)
    with pytest.raises(InvalidArgumentsError, match="has partitions, which keep their files of format text"):
        engine.run(f"ALTER TABLE {plain} SET FILEFORMAT ORC")
    assert client.catalog.get_table(plain).format == "text"


def test_a_partition_is_stored_as_its_table_is(engine, client, plain):
    """One that Hive stores otherwise is refused by readers and writers, and mended by SET FILEFORMAT or SET SERDE."""
    lazy = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
    engine.run(f"ALTER TABLE {plain} ADD PARTITION (k='a')")
    engine.run(f"ALTER TABLE {plain} PARTITION (k='a') SET SERDE '{lazy}' WITH SERDEPROPERTIES ('field.delim'='|')")
    for clause in ("SET FILEFORMAT ORC", "SET SERDE 'com.x.Y'"):
        with pytest.raises(InvalidArgumentsError, match=r"read in one format here, and that of w\.e is TEXTFILE"):
            engine.run(f"ALTER TABLE {plain} PARTITION (k='a') {clause}")
    (before,) = client.catalog.list_partitions(plain)
    storage = sa.select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.PART_ID == before.id).scalar_subquery()
    foreign = sa.update(SDS).where(SDS.c.SD_ID == storage).values(INPUT_FORMAT="com.x.Input")
    client.database.run(lambda connection: connection.execute(foreign))
    for statement in ("SELECT * FROM w.e", "INSERT INTO w.e PARTITION (k='a') VALUES (1)"):
        with pytest.raises(UnsupportedStatementError, match=r"partition k=a of w\.e is stored as com\.x\.Input"):
            engine.run(statement)
    engine.run(f"ALTER TABLE {plain} PARTITION (k='a') SET FILEFORMAT TEXTFILE")
    assert client.catalog.list_partitions(plain) == [before]
    engine.run("SELECT * FROM w.e")


def test_the_format_of_a_transactional_table_stays(engine, client):
    engine.run("ALTER TABLE w.t SET FILEFORMAT ORC")
    with pytest.raises(InvalidArgumentsError, match="transactional and stored as orc"):
        engine.run("ALTER TABLE w.t SET FILEFORMAT TEXTFILE")
    assert client.catalog.get_table("w.t").format == "orc"


def test_compaction_with_all_its_clauses(engine, client):
    engine.run(
        "ALTER TABLE w.t COMPACT 'rebalance' CLUSTERED INTO 3 BUCKETS ORDER BY a DESC POOL 'night' "
        "WITH OVERWRITE TBLPROPERTIES ('compactor.mapreduce.map.memory.mb'='3072')"
    )
    (request,) = client.compactions.show()
    assert (request.type.name, request.number_of_buckets, request.order_by, request.pool) == (
        "REBALANCE", 3, "ORDER BY a DESC", "night",
    )  # fmt: skip
    assert request.properties == {"compactor.mapreduce.map.memory.mb": "3072"}


def test_concatenate_is_a_major_compaction_as_in_hive(engine, client, fake, plain):
    engine.run("INSERT INTO w.t VALUES (1, 'a'); INSERT INTO w.t VALUES (2, 'b')")
    fake.fail("JobFailedError", "no compaction here")
    with pytest.raises(Exception, match="no compaction here"):
        engine.run("ALTER TABLE w.t CONCATENATE")
    (request,) = client.compactions.show()
    assert (request.resource.table, request.type.name) == ("t", "MAJOR")


def test_concatenate_of_a_plain_table_writes_its_files_anew_under_its_lock(engine, client, fake, plain):
    engine.run("CREATE TABLE w.o (a INT, `b c` STRING) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    locks = []
    fake.meanwhile = lambda spec: locks.extend((row.database, row.table, row.type.name) for row in client.show_locks())
    (result,) = engine.run("ALTER TABLE w.o CONCATENATE")
    assert result.kind == "concatenate"
    step = fake.specs[-1].step
    assert (type(step).__name__, step.overwrite, step.static_partition) == ("Insert", True, ())
    assert locks == [("w", "o", "EXCLUSIVE")]


def test_concatenate_names_one_partition_of_a_plain_table(engine, client, fake):
    engine.run(
        "CREATE TABLE w.o (a INT) PARTITIONED BY (k STRING, n INT) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='false');"
        "ALTER TABLE w.o ADD PARTITION (k='it\\'s', n=1)"
    )
    engine.run("ALTER TABLE w.o PARTITION (n=1, k='it\\'s') CONCATENATE")
    spec = fake.specs[-1]
    assert spec.step.static_partition == (("k", "it's"), ("n", "1"))
    assert [ref.values for ref in spec.views[0].snapshot.partitions] == [("it's", "1")]
    with pytest.raises(InvalidArgumentsError, match="is partitioned but no partition is named"):
        engine.run("ALTER TABLE w.o CONCATENATE")
    with pytest.raises(NoSuchObjectError, match="k=z"):
        engine.run("ALTER TABLE w.o PARTITION (k='z', n=1) CONCATENATE")


@pytest.mark.parametrize(
    ("kind", "stored", "old", "clause"),
    [("INT", ["1"], "h=01", "h='01'"), ("INT", ["1", "2"], "h=01", "h=1"),
     ("DECIMAL(5,2)", ["1.5"], "h=1.50", "h=1.50")],
)  # fmt: skip
def test_concatenate_writes_no_rows_into_a_second_partition_of_their_value(
    engine, client, fake, kind, stored, old, clause
):
    """The rows of ``h=01`` were written into ``h=1``, and read from both."""
    engine.run(
        f"CREATE TABLE w.o (a INT) PARTITIONED BY (h {kind}) STORED AS ORC TBLPROPERTIES ('transactional'='false')"
    )
    for value in stored:
        engine.run(f"ALTER TABLE w.o ADD PARTITION (h={value})")
    called(client, f"h={stored[-1]}", old)
    ran = len(fake.specs)
    with pytest.raises(InvalidArgumentsError, match=f"rows of '{old}' would be written to 'h=1"):
        engine.run(f"ALTER TABLE w.o PARTITION ({clause}) CONCATENATE")
    assert len(fake.specs) == ran


def test_concatenate_refuses_what_hive_refuses(engine, plain):
    engine.run(
        "CREATE TABLE w.b (a INT) CLUSTERED BY (a) INTO 2 BUCKETS STORED AS ORC "
        "TBLPROPERTIES ('transactional'='false'); CREATE EXTERNAL TABLE w.x (a INT) STORED AS ORC"
    )
    for table, why in (
        (plain, "only supported for RCFile and ORCFile"),
        ("w.b", "bucketized"),
        ("w.x", "only be performed on managed"),
    ):
        with pytest.raises(UnsupportedStatementError, match=why):
            engine.run(f"ALTER TABLE {table} CONCATENATE")


# --- SHOW COMPACTIONS and ABORT -------------------------------------------------------------------------------------


@pytest.fixture
def queue(engine):
    engine.run("ALTER TABLE w.p ADD PARTITION (k='a') PARTITION (k='b')")
    engine.run(
        "ALTER TABLE w.t COMPACT 'major' POOL 'night'; ALTER TABLE w.p PARTITION (k='b') COMPACT 'minor';"
        "ALTER TABLE w.p PARTITION (k='a') COMPACT 'major'"
    )


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("", [None, "k=b", "k=a"]),
        ("w.p", ["k=b", "k=a"]),
        ("w.p PARTITION (k='b')", ["k=b"]),
        ("DATABASE w TYPE 'major'", [None, "k=a"]),
        ("DATABASE other", []),
        ("POOL 'night'", [None]),
        ("STATUS 'initiated' ORDER BY cq_partition DESC LIMIT 2", ["k=b", "k=a"]),
        ("ORDER BY tabname, partname", ["k=a", "k=b", None]),
        ("STATE 'succeeded'", []),
        ("COMPACT_ID = 2", ["k=b"]),
        ("COMPACT_ID 9", []),
    ],
)
def test_compactions_are_filtered(engine, queue, filters, expected):
    (result,) = engine.run(f"SHOW COMPACTIONS {filters}")
    assert [row["partname"] for row in result.rows.to_dicts()] == expected


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ("TYPE 'mayor'", "'mayor' is no type of compactions; did you mean 'major'"),
        ("STATUS 'runing'", "'runing' is no status of compactions"),
        ("ORDER BY tabel", "'tabel' is no column of compactions; did you mean 'table'"),
    ],
)
def test_filters_that_name_nothing_are_told(engine, queue, filters, problem):
    with pytest.raises(InvalidArgumentsError, match=problem):
        engine.run(f"SHOW COMPACTIONS {filters}")


def test_compactions_are_aborted_until_they_have_begun(engine, client, queue):
    client.compactions.claim("hms1-7", version="4.1.0")
    (result,) = engine.run("ABORT COMPACTIONS 1 2 99")
    assert [(r["compactionid"], r["status"]) for r in result.rows.to_dicts()] == [
        (1, "Successful"), (2, "Error"), (99, "Error"),
    ]  # fmt: skip
    assert client.compactions.get(1).error == f"cancelled by {client.user}"


@pytest.mark.rule("R4")
def test_a_transaction_is_aborted_after_its_jobs_are_fenced(engine, client, warehouse):
    txn = client.begin({"w.t": "insert"})
    location = client.catalog.get_table("w.t").location
    client.jobs.start(
        job_id="j", txn_id=txn.txn_id, table="w.t", write_id=1, statement=0, kind="insert", table_location=location,
        staging=f"{location}/_tmp_j",
    )  # fmt: skip
    (result,) = engine.run(f"ABORT TRANSACTIONS {txn.txn_id} 1 99999")
    assert [(r["txnid"], r["status"]) for r in result.rows.to_dicts()] == [
        (txn.txn_id, "Successful"), (1, "Error"), (99999, "Error"),
    ]  # fmt: skip
    assert client.jobs.get("j").state is JobState.FENCED
    (row,) = [row for row in client.show_transactions() if row.txn_id == txn.txn_id]
    assert (row.state.name, row.abort_reason) == ("ABORTED", "abort by query command")


def test_locks_of_a_database_and_of_a_partition(engine, other, fake):
    shown = []
    fake.meanwhile = lambda spec: shown.extend(
        other.run("SHOW LOCKS DATABASE w; SHOW LOCKS w.p PARTITION (k='x') EXTENDED; SHOW LOCKS DATABASE default")
    )
    engine.run("INSERT INTO w.p PARTITION (k='x') VALUES (1)")
    assert [[row["partition"] for row in result.rows.to_dicts()] for result in shown] == [["k=x"], ["k=x"], []]


# --- what is refused ------------------------------------------------------------------------------------------------


def test_load_data_is_refused_as_in_hive(engine, plain):
    with pytest.raises(UnsupportedStatementError, match=r"statement is not supported with transactional tables: w\.t"):
        engine.run("LOAD DATA LOCAL INPATH '/x' OVERWRITE INTO TABLE w.t")
    with pytest.raises(UnsupportedStatementError, match=r"plain tables here either: w\.e; CREATE TEMPORARY"):
        engine.run(f"LOAD DATA INPATH '/x' INTO TABLE {plain} PARTITION (k='a')")


@pytest.fixture
def legacy(client, fake, warehouse):
    """An engine with DummyTxnManager."""

    def make(**settings):
        given = {"hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager", **settings}
        return Engine(client, fake, warehouse, settings=Settings({Source.REQUEST: given}), agent_info="legacy")

    return make


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM w.t", "INSERT INTO w.t VALUES (1, 'a')", "DELETE FROM w.t", "TRUNCATE TABLE w.t",
        "DROP TABLE w.t", "ALTER TABLE w.t COMPACT 'major'", "BEGIN; UPDATE w.t SET b = 'x'; COMMIT",
        "CREATE TABLE w.n (a INT) STORED AS ORC", "EXPLAIN SELECT * FROM w.t",
    ],
)  # fmt: skip
def test_dummy_txn_manager_refuses_acid_tables(engine, legacy, client, statement):
    before = len(client.show_transactions(include_committed=True))
    with pytest.raises(UnsupportedStatementError, match="ACID table"), legacy() as refusing:
        refusing.run(statement)
    assert len(client.show_transactions(include_committed=True)) == before


def test_db_txn_manager_needs_concurrency(engine, client, fake, warehouse):
    settings = Settings({Source.REQUEST: {"hive.support.concurrency": "false"}})
    with (
        Engine(client, fake, warehouse, settings=settings) as refusing,
        pytest.raises(Exception, match=r"hive\.support\.concurrency is false"),
    ):
        refusing.run("SELECT * FROM w.t")


def test_a_script_that_does_not_parse_runs_nothing(engine, client):
    with pytest.raises(SqlSyntaxError, match="line 2, column 15"):
        engine.run("ALTER TABLE w.t TOUCH;\nALTER TABLE t ,")
    assert "last_modified_by" not in client.catalog.get_table("w.t").properties
